"""Run by test_examples.py: examples one after the other in one process, so that they share one JVM.

    run_examples.py RESULTS EXAMPLE=ROWS...

Each is a script of its own, with a fresh `__main__`. What it printed, what went wrong and what it left in the folder it
ran in goes to RESULTS, one JSON object a line.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import runpy
import sys
import traceback
from pathlib import Path


def run(path: Path, rows: str) -> dict[str, object]:
    printed, error, before = io.StringIO(), None, set(os.listdir())
    sys.argv = [str(path), "--rows", rows]
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(path), run_name="__main__")
    except BaseException:
        error = traceback.format_exc()
    left = sorted(set(os.listdir()) - before - {"spark-warehouse"})
    return {"example": path.stem, "printed": printed.getvalue(), "error": error, "left": left}


def main() -> None:
    results, *wanted = sys.argv[1:]
    # What comes with CUDA's torch: imported after TensorFlow, it ends the process.
    with contextlib.suppress(ImportError):
        importlib.import_module("triton")
    with open(results, "w", encoding="utf-8") as out:
        for each in wanted:
            path, rows = each.split("=")
            print(json.dumps(run(Path(path), rows)), file=out, flush=True)


if __name__ == "__main__":
    main()
