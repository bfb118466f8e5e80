"""The same transfers on classic local Spark, on a local cluster and over Spark Connect; and Ctrl-C in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def environment(tmp_path):
    """Workers find a `penstock` that cannot be imported; a folder of temporary files of the test's own."""
    poison = tmp_path / "poison"
    poison.mkdir()
    (poison / "penstock.py").write_text("raise ImportError('executors have no penstock')")
    # Worker processes put the variable's folders first; the script's own process takes penstock from elsewhere.
    return {**os.environ, "TMPDIR": str(tmp_path), "POISON": str(poison)}


def run(environment, *arguments: str) -> str:
    # The script starts with penstock imported, and only then does its environment point at the poison.
    start = (
        "import os, sys, runpy, penstock, penstock.jobs.tensors, penstock.jobs.session\n"
        "os.environ['PYTHONPATH'] = os.environ.pop('POISON')\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", start, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("master", "local[2]"), marks=pytest.mark.long),
        ("master", "local-cluster[2,1,1024]"),
        pytest.param(("master", "local-cluster[2,1,1024]", "blobs"), marks=pytest.mark.long),
        ("remote", "local[2]"),
        pytest.param(("remote", "local[2]", "blobs"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_the_same_everywhere(environment, arguments):
    assert "all well" in run(environment, str(HERE / "everywhere.py"), *arguments)


@pytest.mark.parametrize("kind", ["classic", pytest.param("connect", marks=pytest.mark.long)])
def test_ctrl_c_cancels_the_job_and_leaves_nothing(environment, kind):
    process = subprocess.Popen(
        [sys.executable, str(HERE / "interrupted.py"), kind],
        env={name: value for name, value in environment.items() if name != "POISON"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n", process.stderr.read() if process.stderr else ""
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, out + err[-4000:]
        assert out.startswith("interrupted\n")
        assert "all well" in out
        assert time.monotonic() - began < 55, "the job ran to its end instead of being cancelled"
    finally:
        process.kill()
        process.wait()
