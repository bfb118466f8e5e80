"""The same writes on classic local Spark, on a local cluster, over Spark Connect, and to an object store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("write_everywhere.py")

START = """\
import os, sys, runpy, penstock, penstock.jobs.write, penstock.jobs.tensors, penstock.jobs.session
os.environ['PYTHONPATH'] = os.environ.pop('POISON')
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
"""
"""The script starts with penstock imported, and only then does its environment point at the poison."""


@pytest.fixture
def run(tmp_path):
    """Run the script with workers that find a `penstock` which cannot be imported."""

    def call(*arguments: str) -> str:
        poison = tmp_path / "poison"
        poison.mkdir()
        (poison / "penstock.py").write_text("raise ImportError('executors have no penstock')")
        done = subprocess.run(
            [sys.executable, "-c", START, str(SCRIPT), *arguments],
            env={**os.environ, "TMPDIR": str(tmp_path), "POISON": str(poison)},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        return done.stdout + done.stderr

    return call


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("kind", "where"),
    [
        # The other tests of `pk.write` run on a local session already, where executors can import penstock.
        pytest.param("master", "local[2]", marks=pytest.mark.long, id="classic"),
        pytest.param("master", "local-cluster[2,1,1024]", id="cluster"),
        pytest.param("remote", "local[2]", id="connect"),
    ],
)
def test_the_same_everywhere(run, tmp_path, kind, where):
    out = run(kind, where, str(tmp_path / "root"))
    assert "all well" in out
    assert "version 1, was reused" in out


@pytest.mark.timeout(240)
def test_on_an_object_store(run, s3_bucket):
    # The executors have the store's address and credentials from their environment, as they would have anywhere.
    assert "all well" in run("master", "local[2]", f"s3://{s3_bucket}/some/folder")
