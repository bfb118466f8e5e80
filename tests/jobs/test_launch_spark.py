"""The same function as ranks on Spark's executors: on a local cluster, over Connect, and under TorchDistributor."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import LaunchError
from penstock.jobs import launch_alarm, launch_spark
from penstock.jobs.launch_alarm import Alarm, AlarmHub
from penstock.jobs.launch_channel import Channel, Listener
from penstock.jobs.launch_ends import End, Report, outcome

SCRIPT = Path(__file__).parent / "launch_everywhere.py"
START = (
    "import os, sys, runpy, penstock, penstock.jobs.launch, penstock.jobs.session\n"
    # Executors inherit the path, and find a penstock that cannot be imported; this process has it already.
    "os.environ['PYTHONPATH'] = os.environ.pop('POISON')\n"
    "sys.argv = sys.argv[1:]\n"
    "sys.path.insert(0, os.path.dirname(sys.argv[0]))\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')\n"
)


@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    "arguments",
    [
        ("master", "local-cluster[2,1,1024]", "briefly"),
        pytest.param(("master", "local-cluster[2,1,1024]", "distributor"), marks=pytest.mark.long),
        ("remote", "local[2]"),
        pytest.param(("remote", "local[2]", "distributor"), marks=pytest.mark.long),
        pytest.param(("remote", "local[2]", "unreachable"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_the_same_function_on_executors(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    poison = tmp_path / "poison"
    poison.mkdir()
    (poison / "penstock.py").write_text("raise ImportError('executors have no penstock')")
    pk.write(pa.table({"id": np.arange(500)}), tmp_path / "ds", shards=3, block_bytes=1024)
    kind, where, *more = arguments
    done = subprocess.run(
        [sys.executable, "-c", START, str(SCRIPT), kind, where, str(tmp_path / "ds"), str(tmp_path), *more],
        env={**os.environ, "TMPDIR": str(tmp_path), "POISON": str(poison)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert "all well" in done.stdout
    for rank in range(2):
        assert f"[rank {rank}] rank {rank} is done" in done.stdout
        if not {"unreachable", "briefly"} & set(more):
            assert f"[rank {rank}]   File" in done.stderr, "where it stood when time was up"


def test_which_rank_failed_first_is_told_by_one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1's machine is 100 seconds ahead of rank 0's, and it failed 50 seconds before rank 0 did."""
    here, clock = threading.current_thread(), time.time

    def two_machines() -> float:
        return clock() + (100.0 if threading.current_thread() is here else 0.0)

    monkeypatch.setattr(launch_alarm, "time", SimpleNamespace(time=two_machines))
    hub = AlarmHub(2)
    with hub, Alarm(1, "127.0.0.1", hub.port, hub.token) as alarm:
        assert 60 < alarm.ahead < 140, "no closer than the answer came"
        alarm.done()
    ends = [
        End(0, 1, 1005.5, Report(1005.0, 1, what="RuntimeError: connection closed")),
        End(1, 1, 1055.5, Report(1055.0, 1, what="ValueError: bad weights")),
    ]
    assert str(outcome(ends)).startswith("rank 0 failed")
    assert str(outcome([ends[0], ends[1].earlier(alarm.ahead)])).startswith("rank 1 failed: ValueError")
    monkeypatch.undo()
    hub = AlarmHub(2)
    with hub, Alarm(1, "127.0.0.1", hub.port, hub.token) as alarm:
        assert alarm.ahead == 0, "one machine's clock is not put right"
        alarm.done()


def test_lines_that_cannot_be_shown_do_not_hold_ranks_up() -> None:
    """A rank writes more than the socket holds, and the driver's output is closed: it goes on, and is heard again."""
    shown: list[str] = []

    def show(rank: int, error: bool, line: str) -> None:
        if line.startswith("x"):
            raise BrokenPipeError(32, "Broken pipe")
        shown.append(line)

    listener = Listener(show, None)
    with listener as door:
        channel = Channel(door, 0)

        def print_much() -> None:
            for _ in range(3000):
                channel.show(0, False, "x" * 1000)
            channel.show(0, False, "done")

        printing = threading.Thread(target=print_much, daemon=True)
        printing.start()
        printing.join(30)
        stuck = printing.is_alive()
        deadline = time.monotonic() + 30
        while not (stuck or shown) and time.monotonic() < deadline:
            time.sleep(0.01)
        kept = channel.close()
    assert not stuck
    assert (shown, kept) == (["done"], [])


def test_an_answer_comes_although_its_lines_cannot_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(launch_spark, "show", closed)
    end = End(0, 0, 1.0, Report(1.0, result=b"answer"))
    assert launch_spark._ends(pickle.dumps({"end": end.to_dict(), "lines": [(False, "line")]})) == [end]


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({0}, "the ranks still ran, and all were stopped"),
        (set(), r"no rank had been heard of.* did not start 3 tasks at once.* pass fewer workers"),
    ],
)
def test_time_that_is_up_says_whether_ranks_were_there(seen: set[int], said: str) -> None:
    running, listener = SimpleNamespace(wait=lambda seconds: True), SimpleNamespace(seen=seen)
    with pytest.raises(LaunchError, match=said) as raised:
        launch_spark._watch(running, listener, 3, deadline=time.monotonic() - 1, timeout=5)
    assert raised.value.exit_code == 124


def test_a_killed_task_leaves_no_file(tmp_path: Path) -> None:
    script = (
        "import io, os, signal, subprocess, sys, zipfile\n"
        "from penstock.jobs.launch_task import _importable\n"
        "packed = io.BytesIO()\n"
        "with zipfile.ZipFile(packed, 'w') as archive: archive.writestr('sent.py', 'print(6 * 7)')\n"
        "with _importable(packed.getvalue()) as path:\n"
        "    code = f'import sys; sys.path.insert(0, {path!r}); import sent'\n"
        "    subprocess.run([sys.executable, '-c', code], check=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "42\n", done.stderr
    if sys.platform == "linux":
        assert list(tmp_path.iterdir()) == []
