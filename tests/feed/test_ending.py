"""However an iteration ends, or fails to begin: nothing is left, and nothing is taken from under those who use it."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from left_behind import ended, left_over, threads

import penstock as pk
from penstock.feed import epoch
from penstock.feed.log import Watch
from penstock.feed.memory import mapped
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.reading.source import RowSource
from penstock.feed.reading.stages import Readers, Worker

ROWS = 4_000
WIDE, NARROW = 160, 4
FORKING = Path(__file__).parent / "forking_epoch.py"


@pytest.fixture(autouse=True)
def small_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "LEAST_BUFFER", 0)


def written(path: Path, width: int = WIDE) -> pk.Dataset:
    numbers = np.arange(ROWS * width, dtype=np.float32)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(numbers, width), "y": np.arange(ROWS)})
    return pk.write(table, path, shards=3, block_bytes=width << 11, seed=1)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("width", "owner", "method", "turn"),
    [(WIDE, HostArena, "_taken", 2), (NARROW, RowSource, "_read_direct", 6)],
)
def test_an_interrupt_while_it_closes_takes_nothing_from_under_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, owner: type, method: str, turn: int
) -> None:
    ds = written(tmp_path / "ds", width)
    original, close, halt = getattr(owner, method), RowSource.close, Readers.halt
    turns, busy, closing = itertools.count(), threading.Event(), threading.Event()
    alive: list[list[str]] = []

    def interrupting(self, *arguments):
        if next(turns) == turn:
            busy.set()
            closing.wait(60)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)
        return original(self, *arguments)

    def halting(self) -> None:
        halt(self)
        closing.set()

    def watched(self) -> None:
        alive.append(threads())
        close(self)

    monkeypatch.setattr(owner, method, interrupting)
    monkeypatch.setattr(Readers, "halt", halting)
    monkeypatch.setattr(RowSource, "close", watched)
    monkeypatch.setattr(HostArena, "gather_bytes", 4096)
    iterator = iter(ds.numpy(20, lanes=4, rank=0, world=1))
    next(iterator)
    assert busy.wait(60)
    with pytest.raises(KeyboardInterrupt):
        iterator.close()
    assert alive == [[]]
    assert threads() == []
    assert left_over(ds) == []


def unless_named(name: str, refused: Callable[..., None]) -> Callable[[Worker], None]:
    start = Worker.start
    return lambda thread: refused() if thread.name.endswith(name) else start(thread)


def test_what_fails_to_begin_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = written(tmp_path / "ds")
    loader = ds.numpy(50, lanes=4, rank=0, world=1, log=tmp_path / "log.jsonl")

    def no_room(*_: object) -> None:
        raise MemoryError

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    for nobody in ("leases", "reader-1"):
        with monkeypatch.context() as patched:
            patched.setattr(Worker, "start", unless_named(nobody, no_thread))
            with pytest.raises(RuntimeError, match="new thread"):
                next(iter(loader))
        assert (threads(), left_over(ds)) == ([], [])
    assert loader._place._mapped is not None, "there are maps and leases to leave behind"
    with monkeypatch.context() as patched:
        patched.setattr(epoch, "Assembly", no_room)
        with pytest.raises(MemoryError):
            next(iter(loader))
    assert (threads(), left_over(ds)) == ([], [])
    with monkeypatch.context() as patched:
        patched.setattr(Watch, "__enter__", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            next(iter(loader))
    assert (threads(), left_over(ds)) == ([], [])
    assert sum(len(batch["y"]) for batch in loader) == ROWS
    assert ended()


def test_a_fork_reads_by_itself_and_leaves_the_other_alone(tmp_path: Path) -> None:
    ds = written(tmp_path / "ds")
    done = subprocess.run(
        [sys.executable, str(FORKING), ds.path], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        *("anew", str(ROWS)) * 2,
        "inherited",
        "refused",
        "leased",
        "True",
        "went",
        "on",
        str(ROWS),
    ]


@pytest.mark.parametrize(("width", "held"), [(WIDE, "by a cycle"), (NARROW, "to the last")])
def test_an_interpreter_ends_in_the_middle_of_an_epoch(tmp_path: Path, width: int, held: str) -> None:
    ds = written(tmp_path / "ds", width)
    script = f"""
import penstock as pk
from penstock.feed.memory import mapped
mapped.LEAST_BUFFER = 0
loader = pk.open({ds.path!r}).numpy(20, lanes=4, memory=12 << 20, rank=0, world=1)
iterator = iter(loader)
next(iterator)
if {held!r} == "to the last":
    import os  # outlives the names in our modules
    os.held = iterator, loader
if {held!r} == "by a cycle":
    cycle = {{"iterator": iterator}}
    cycle["itself"] = cycle
    del iterator, cycle, loader
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Interrupting:
    """A number that is counted up at the moment of a Ctrl-C."""

    def __add__(self, other: int) -> int:
        raise KeyboardInterrupt


def test_an_interrupt_while_it_begins_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = written(tmp_path / "ds")
    loader = ds.numpy(50, lanes=4, rank=0, world=1, log=tmp_path / "log.jsonl")
    start = threading.Thread.start

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupted_start(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "penstock-log":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        # What was leased, before the memory of another epoch was freed.
        patched.setattr(epoch.KeptArena, "take", interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(iter(loader))
    assert (threads(), left_over(ds)) == ([], [])
    loader._running = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader))
    loader._running = 0
    assert (threads(), left_over(ds)) == ([], [])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted_start)
        with pytest.raises(KeyboardInterrupt):
            next(iter(loader))
    assert ended()
    assert left_over(ds) == []
    assert sum(len(batch["y"]) for batch in loader) == ROWS
