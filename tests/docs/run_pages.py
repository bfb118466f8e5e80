"""Run by test_pages.py: some pages of the documentation in one process, so that they share one Spark session.

    run_pages.py RESULTS MEMORY PAGE...

MEMORY is the heap of the session that pages find; with "none" they start their own. Each page is a script of its
own: a fresh `__main__`, a fresh folder to work in, its blocks one after the other. What each printed, and what
went wrong, goes to RESULTS, one JSON object a line. A page that fails ends there; the others run.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import traceback
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pages import DOCS, Block, Page, read_page

import penstock as pk

SHELL_SECONDS = 120


def run_page(page: Page, folder: Path) -> list[dict[str, object]]:
    """The page's blocks, as far as they ran."""
    # Functions are lifted from their source, which has to lie in a file.
    script = folder / f"{Path(page.name).stem.replace('-', '_')}.py"
    script.write_text(page.script, encoding="utf-8")
    work = folder / "work"
    work.mkdir()
    os.chdir(work)
    main = types.ModuleType("__main__")
    main.__file__ = str(script)
    sys.modules["__main__"] = main
    found: list[dict[str, object]] = []
    for place, block in enumerate(page.blocks):
        if not block.runs:
            continue
        output, error = run_python(block, script, main) if block.language == "python" else run_shell(block)
        found.append({"page": page.name, "place": place, "output": output, "error": error})
        if error is not None:
            break
    return found


def run_python(block: Block, script: Path, main: types.ModuleType) -> tuple[str, str | None]:
    code = compile("\n" * (block.line - 1) + block.code, script, "exec")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, main.__dict__)
    except BaseException:
        return printed.getvalue(), traceback.format_exc()
    return printed.getvalue(), None


def run_shell(block: Block) -> tuple[str, str | None]:
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        env={**os.environ, "PATH": programs, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=SHELL_SECONDS,
        check=False,
    )
    return done.stdout, None if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr}"


def main(results: Path, memory: str, names: list[str]) -> None:
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="penstock-docs-") as root, results.open("w") as told:
        os.chdir(root)  # the JVM's own folder as well
        if memory != "none":
            pk.session(cores=2, memory=memory)
        for number, name in enumerate(names):
            folder = Path(root, str(number))
            folder.mkdir()
            page = read_page(name, (DOCS / name).read_text(encoding="utf-8"))
            for each in run_page(page, folder):
                print(json.dumps(each), file=told, flush=True)
            os.chdir(root)
            os.environ.clear()
            os.environ.update(environment)
        os.chdir("/")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2], sys.argv[3:])
