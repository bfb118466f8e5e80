"""However an epoch that follows a write ends, or fails to begin: as `test_ending` has it for any other."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from left_behind import ended, left_over
from slow_writes import Writing, numbered, total

import penstock as pk
from penstock.dataset import local
from penstock.feed.follow.epoch import FollowedEpoch
from penstock.feed.log import Watch
from penstock.feed.plan.route import Fetch
from penstock.feed.reading.source import RowSource

PARTS = 6


@pytest.fixture
def ds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pk.Dataset:
    """Written to be followed; its first epoch goes through the parts, also now that they are all there."""
    monkeypatch.setattr(local, "FOLLOWED_BYTES", 1)
    return Writing(tmp_path / "ds", numbered(PARTS), tensors={"id": "id"}).join()


def followed(ds: pk.Dataset, **options: Any) -> Any:
    return pk.open(ds.path, follow=True).numpy(20, lanes=4, last="short", rank=0, world=1, **options)


def test_the_measure_sees_files_of_an_epoch_under_way(ds: pk.Dataset) -> None:
    iterator = iter(followed(ds))
    next(iterator)
    assert left_over(ds)
    iterator.close()
    assert ended()
    assert left_over(ds) == []


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_while_it_closes_takes_nothing_from_under_its_threads(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, close, wait = RowSource.read, RowSource.close, FollowedEpoch._wait
    busy, closing, turns = threading.Event(), threading.Event(), itertools.count()
    lock, under_way, at_close = threading.Lock(), [0], []

    def reading(self: RowSource, fetch: Fetch, views: Mapping[str, memoryview], *more: Any) -> Any:
        with lock:
            under_way[0] += 1
            turn = next(turns)
        # The first batch needs two windows, of two reads at most; more are read ahead.
        if turn == 4:
            busy.set()
            closing.wait(60)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)  # in which the one that closes would go on, had it given up
        found = read(self, fetch, views, *more)
        with lock:
            under_way[0] -= 1
        return found

    def waiting(self: FollowedEpoch) -> None:
        closing.set()
        wait(self)

    def watched(self: RowSource) -> None:
        at_close.append(under_way[0])
        close(self)

    monkeypatch.setattr(RowSource, "read", reading)
    monkeypatch.setattr(RowSource, "close", watched)
    monkeypatch.setattr(FollowedEpoch, "_wait", waiting)
    iterator = iter(followed(ds))
    next(iterator)
    assert busy.wait(60)
    with pytest.raises(KeyboardInterrupt):
        iterator.close()
    assert at_close
    assert set(at_close) == {0}
    assert ended()
    assert left_over(ds) == []


@pytest.mark.parametrize("closes", [1, 2])
def test_an_interrupt_while_a_part_is_closed_leaves_no_file(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch, closes: int
) -> None:
    close, calls = RowSource.close, []

    def interrupted(self: RowSource) -> None:
        calls.append(self)
        if len(calls) == closes:
            raise KeyboardInterrupt
        close(self)

    monkeypatch.setattr(RowSource, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        for _ in followed(ds):
            pass
    assert calls[closes - 1] in calls[closes:], "who ends the epoch closes it again"
    assert ended()
    assert left_over(ds) == []


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_in_the_loop_leaves_nothing(ds: pk.Dataset, error: type[BaseException]) -> None:
    def transform(batch: dict[str, Any]) -> dict[str, Any]:
        raise error

    with pytest.raises(error):
        next(iter(followed(ds, transform=transform)))
    assert ended()
    assert left_over(ds) == []


def test_what_fails_to_begin_leaves_nothing(
    ds: pk.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = followed(ds, log=tmp_path / "log.jsonl")

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Watch, "__enter__", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            next(iter(loader))
    assert ended()
    assert left_over(ds) == []
    assert len(loader) == -(-total(PARTS) // 20), "no iteration counts as under way"
    assert np.array_equal(np.sort(np.concatenate([batch["id"] for batch in loader])), np.arange(total(PARTS)))


FORKING = """
import os, signal, sys, time
import penstock as pk
from penstock.errors import DatasetError
from penstock.feed.reading.source import RowSource

read, parent = RowSource.read, os.getpid()
def slowly(*arguments):
    time.sleep(0.01)
    return read(*arguments)
RowSource.read = slowly
iterator = iter(pk.open(sys.argv[1], follow=True).numpy(20, lanes=4, last="short", rank=0, world=1))
rows = len(next(iterator)["id"])
process = os.fork()
if process == 0:
    signal.alarm(60)
    try:
        next(iterator)
    except DatasetError as error:
        print("refused" if str(parent) in str(error) else error, flush=True)
    del iterator
    print("dropped", flush=True)
    os._exit(0)
_, status = os.waitpid(process, 0)
print("status", status, "rows", rows + sum(len(batch["id"]) for batch in iterator))
"""


@pytest.mark.parametrize("going_on", [True, False])
def test_a_fork_refuses_to_go_on_and_drops_it_at_once(ds: pk.Dataset, going_on: bool) -> None:
    script = FORKING if going_on else FORKING.replace("        next(iterator)\n", "        pass\n")
    done = subprocess.run(
        [sys.executable, "-c", script, ds.path], capture_output=True, text=True, timeout=100, check=False
    )
    told = (["refused"] if going_on else []) + ["dropped", "status", "0", "rows", str(total(PARTS))]
    assert done.stdout.split() == told, done.stderr


@pytest.mark.parametrize("held", ["by a cycle", "to the last"])
def test_an_interpreter_ends_in_the_middle_of_an_epoch(ds: pk.Dataset, held: str) -> None:
    script = f"""
import penstock as pk
loader = pk.open({ds.path!r}, follow=True).numpy(20, lanes=4, rank=0, world=1)
iterator = iter(loader)
next(iterator)
if {held!r} == "to the last":
    import os  # outlives the names in our modules
    os.held = iterator, loader
else:
    cycle = {{"iterator": iterator}}
    cycle["itself"] = cycle
    del iterator, cycle, loader
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


def test_a_fork_while_somebody_looks_at_the_log_follows_by_itself(ds: pk.Dataset) -> None:
    script = """
import os, signal, sys
import penstock as pk
from forking_epoch import held

opened = pk.open(sys.argv[1], follow=True)
following = opened._following
# As who looks leaves it half way: parts that are not counted yet.
following.end, following.rows = None, 0
with held(following._lock):
    process = os.fork()
if process == 0:
    signal.alarm(30)
    print(following.rows == sum(part.manifest.rows for part in following.parts), flush=True)
    loader = opened.numpy(20, lanes=4, last="short", rank=0, world=1)
    print(sum(len(batch["id"]) for batch in loader), flush=True)
    os._exit(0)
print("status", os.waitpid(process, 0)[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, ds.path],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"},
        check=False,
    )
    assert done.stdout.split() == ["True", str(total(PARTS)), "status", "0"], done.stderr
