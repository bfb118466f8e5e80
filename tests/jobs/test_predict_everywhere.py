"""The same scoring on a local cluster and over Spark Connect, with executors that cannot import Penstock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("predict_everywhere.py")

START = """\
import os, sys, runpy, penstock, penstock.jobs.predict, penstock.jobs.tensors, penstock.jobs.session
os.environ['PYTHONPATH'] = os.environ.pop('POISON')
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
"""
"""The script starts with penstock imported, and only then does its environment point at the poison."""


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("kind", "where"),
    [
        pytest.param("master", "local-cluster[2,1,1024]", id="cluster", marks=pytest.mark.long),
        pytest.param("remote", "local[2]", id="connect"),
    ],
)
def test_the_same_everywhere(tmp_path, kind, where):
    poison = tmp_path / "poison"
    poison.mkdir()
    (poison / "penstock.py").write_text("raise ImportError('executors have no penstock')")
    done = subprocess.run(
        [sys.executable, "-c", START, str(SCRIPT), kind, where],
        env={**os.environ, "TMPDIR": str(tmp_path), "POISON": str(poison)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "all well" in done.stdout
