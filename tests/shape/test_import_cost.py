"""Importing Penstock is cheap: heavy libraries load only when something that needs them is called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ["pyspark", "torch", "tensorflow", "jax", "pandas", "rich", "typer"]


@pytest.mark.parametrize(
    "statement",
    ["import penstock", "import penstock; penstock.TensorSpec", "import penstock; dir(penstock)"],
)
def test_nothing_heavy_is_loaded_by(statement: str, tmp_path: Path) -> None:
    script = (
        f"import json, sys\n{statement}\nprint(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [], f"`{statement}` loads these"
    assert done.stderr == "", "an import says nothing"
