"""Ctrl-C while the demo runs, at several stages: no process, no file, no Spark is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

# Where tests run in the background, a shell has had Ctrl-C ignored.
MAIN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from penstock.cli import main; main()"
SECONDS = 90
"""For the JVM to end after its driver."""
LOGGED = re.compile(
    r"^\d\d/\d\d/\d\d \S+ (?:WARN|ERROR) .*\n(?:(?:java|scala|org\.apache\.spark|Caused by)\b.*\n|\t.*\n)*",
    re.MULTILINE,
)
"""What Spark itself logs where a task ends just after the interrupted JVM took down what waits for results."""


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if is_alive(each)]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it ended between the two
        return False


def as_users_run_it() -> dict[str, str]:
    """Without what makes Spark quicker in tests: when a stage is interrupted is counted in seconds."""
    return {name: value for name, value in os.environ.items() if name != "SPARK_SUBMIT_OPTS"}


def eventually_empty(found) -> bool:
    deadline = time.monotonic() + SECONDS
    while found() and time.monotonic() < deadline:
        time.sleep(0.1)
    return not found()


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("stage", "later"),
    [
        (1, 1.0),  # while Spark starts
        (4, 2.0),
        *(
            pytest.param(*each, marks=LONG)
            for each in ((2, 2.0), (5, 3.0), (6, 3.0), (7, 3.0), (7, 8.0), (9, 2.0), (10, 0.2))
        ),
    ],
)
@pytest.mark.timeout(600)
def test_nothing_is_left(tmp_path: Path, stage: int, later: float) -> None:
    places = [tmp_path / name for name in ("temporary", "spark", "cache")]
    for place in places:
        place.mkdir()
    temporary, spark, cache = map(str, places)
    process = subprocess.Popen(
        [sys.executable, "-uc", MAIN, "demo", "--rows", "5000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**as_users_run_it(), "TMPDIR": temporary, "SPARK_LOCAL_DIRS": spark, "XDG_CACHE_HOME": cache},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        while not process.stdout.readline().startswith(f"{stage}. "):
            assert process.poll() is None, process.communicate()
        time.sleep(later)
        started = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of the foreground
        output, errors = process.communicate(timeout=150)
        told = [line for line in LOGGED.sub("", errors).splitlines() if "] step " not in line]
        assert (process.returncode, told) == (130, ["Interrupted."]), output[-2000:]
        assert eventually_empty(lambda: alive(started))
        assert eventually_empty(lambda: [path for place in places[:2] for path in place.iterdir()])
        assert list(cache_of(places[2])) == []
    finally:
        process.kill()
        process.wait()


def cache_of(folder: Path) -> list[Path]:
    """What the demo keeps in the cache; the script that starts Java lies there too."""
    return list(folder.glob("penstock/demo/*"))
