"""The README stays short, its code runs, and its map is the tree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

LINES = 150


@pytest.fixture(scope="module")
def readme(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


def test_it_is_short(readme: str) -> None:
    assert len(readme.splitlines()) <= LINES


def python_blocks(markdown: str) -> list[str]:
    """The blocks fenced as python; one fenced as `python no-run` is left out."""
    found = re.findall(r"^```python([^\n]*)\n(.*?)^```\s*$", markdown, flags=re.MULTILINE | re.DOTALL)
    return [code for info, code in found if "no-run" not in info.split()]


def test_its_code_runs(readme: str, tmp_path: Path) -> None:
    blocks = python_blocks(readme)
    assert blocks, "the README shows no Python"
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=tmp_path, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr


def map_paths(markdown: str) -> list[str]:
    """The paths of the fenced block under `## Map`: a line is `path  description`; an indented one lies
    inside the folder above it. Folders end in a slash."""
    block = re.search(r"^## Map\s*\n.*?^```[^\n]*\n(.*?)^```", markdown, flags=re.MULTILINE | re.DOTALL)
    if block is None:
        return []
    paths: list[str] = []
    folders: list[tuple[int, str]] = []
    for line in block[1].splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        while folders and folders[-1][0] >= indent:
            folders.pop()
        path = (folders[-1][1] if folders else "") + re.split(r"\s{2,}", line.strip())[0]
        if path.endswith("/"):
            folders.append((indent, path))
        paths.append(path)
    return paths


def expected_paths(files: list[PurePosixPath]) -> tuple[set[str], set[str]]:
    """What a map must list, the tops of the tree and of src/penstock, and what it may: anything that exists."""
    package = PurePosixPath("src/penstock")
    existing = {str(path) for path in files}
    existing |= {f"{folder}/" for path in files for folder in path.parents if str(folder) != "."}
    must = {path for path in existing if path.rstrip("/").count("/") == 0 and not path.startswith(".")}
    must |= {
        path for path in existing if PurePosixPath(path).parent == package and path.endswith((".py", "/"))
    }
    return must - {"src/"}, existing


def test_its_map_is_the_tree(readme: str, files: list[PurePosixPath]) -> None:
    listed = map_paths(readme)
    must, may = expected_paths(files)
    assert listed, "the README has no fenced block under `## Map`"
    assert sorted(set(listed)) == sorted(listed), "a path is listed twice"
    assert sorted(must - set(listed)) == [], "the map leaves these out"
    assert sorted(set(listed) - may) == [], "the map lists these, which do not exist"


def test_the_map_is_read() -> None:
    text = (
        "## Map\n\nText.\n\n```\na.md  one\nsrc/p/  two\n  b.py  is\n  c/    four\n    d.py\ne/  five\n```\n"
    )
    assert map_paths(text) == ["a.md", "src/p/", "src/p/b.py", "src/p/c/", "src/p/c/d.py", "e/"]
    must, may = expected_paths(
        [
            PurePosixPath(p)
            for p in ("a.md", ".ci/run", "src/penstock/b.py", "src/penstock/c/d.py", "src/penstock/py.typed")
        ]
    )
    assert must == {"a.md", "src/penstock/b.py", "src/penstock/c/"}
    assert {".ci/", "src/penstock/", "src/penstock/c/d.py"} <= may


def test_the_blocks_are_read() -> None:
    text = "```python\na = 1\n```\n\n```python no-run\nb\n```\n\n```\nc\n```\n\n```python\nd = 2\n```\n"
    assert python_blocks(text) == ["a = 1\n", "d = 2\n"]
