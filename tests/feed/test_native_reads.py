"""The reader's loop that numba compiles, over functions of the test's own in place of the driver's."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import host_calls
import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import CorruptError
from penstock.feed.cuda import calls as cuda_calls
from penstock.feed.cuda.arena import AT_ONCE
from penstock.feed.cuda.native_reads import FAILED, Functions, compiled, native_bring
from penstock.feed.cuda.pieces import Segment, pieces
from penstock.feed.loader import Loader
from penstock.feed.loaders import chosen_specs, shaping
from penstock.feed.places import CudaPlace
from penstock.feed.settings import Settings

CODE, NUMBER = ctypes.c_int, ctypes.c_uint64


class Driver:
    """What the loop calls: copies at once, and writes down in which order it was asked."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.fails: str | None = None
        self._wait = ctypes.CFUNCTYPE(CODE, NUMBER)(lambda event: self._tell("wait", event))
        self._copy = ctypes.CFUNCTYPE(CODE, NUMBER, NUMBER, NUMBER, NUMBER)(self._copied)
        self._record = ctypes.CFUNCTYPE(CODE, NUMBER, NUMBER)(
            lambda event, stream: self._tell("record", event)
        )
        of = cuda_calls._address
        self.functions = Functions(
            of(ctypes.CDLL(None).pread), of(self._wait), of(self._copy), of(self._record)
        )

    def _tell(self, name: str, number: int) -> int:
        self.told.append((name, number))
        return int(self.fails == name)

    def _copied(self, target: int, source: int, size: int, stream: int) -> int:
        ctypes.memmove(target, source, size)
        return self._tell("copy", size)


@pytest.fixture(scope="module")
def driver() -> Driver:
    return Driver()


@pytest.fixture(autouse=True)
def nothing_told(driver: Driver) -> None:
    driver.told.clear()
    driver.fails = None


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "bytes").write_bytes(bytes(range(256)) * 4)
    opened = os.open(tmp_path / "bytes", os.O_RDONLY)
    yield opened
    os.close(opened)


def test_pieces_are_read_by_turns_and_copied(driver: Driver, file: int) -> None:
    loop = compiled(driver.functions)
    assert loop is not None
    buffers, found = np.zeros((2, 64), np.uint8), np.zeros(300, np.uint8)
    addresses = [int(each.ctypes.data) for each in buffers]
    bring = native_bring(loop, [int(found.ctypes.data)], addresses, [71, 72], 5)
    wanted = [(file, piece) for piece in pieces([Segment(10, 150, 100)], 64)]
    assert bring(0, wanted) == 1, "three pieces after the first buffer end at the second"
    assert bytes(found[100:250]) == (bytes(range(256)) * 4)[10:160]
    assert [name for name, _ in driver.told] == ["wait", "copy", "record"] * 3
    assert [number for name, number in driver.told if name == "wait"] == [72, 71, 72]
    assert [number for name, number in driver.told if name == "record"] == [72, 71, 72]


def test_pieces_of_several_files(driver: Driver, file: int, tmp_path: Path) -> None:
    loop = compiled(driver.functions)
    assert loop is not None
    (tmp_path / "other").write_bytes(bytes(100))
    memory, found = np.zeros(64, np.uint8), np.ones(300, np.uint8)
    bring = native_bring(loop, [int(found.ctypes.data)], [int(memory.ctypes.data)], [1], 0)
    with (tmp_path / "other").open("rb") as other:
        (one,), (two,) = pieces([Segment(10, 50, 0)], 64), pieces([Segment(20, 60, 100)], 64)
        assert bring(0, [(other.fileno(), one), (file, two)]) == 0
    assert bytes(found[:50]) == bytes(50)
    assert bytes(found[100:160]) == bytes(range(20, 80))
    assert found[50:100].all()
    assert found[160:].all()


@pytest.mark.parametrize("what", ["wait", "copy", "record", "read", "end"])
def test_whatever_fails_ends_it(driver: Driver, file: int, what: str) -> None:
    driver.fails = what
    loop = compiled(driver.functions)
    assert loop is not None
    memory = np.zeros(4096, np.uint8)
    bring = native_bring(loop, [int(memory.ctypes.data)], [int(memory.ctypes.data)], [1], 0)
    offset = 1000 if what == "end" else 0
    read = -1 if what == "read" else file
    assert bring(0, [(read, piece) for piece in pieces([Segment(offset, 100, 2000)], 64)]) == FAILED


def test_it_is_compiled_once_and_without_numba_not_at_all(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiled(driver.functions) is compiled(driver.functions)
    monkeypatch.setitem(sys.modules, "numba", None)
    assert compiled(driver.functions._replace(read=1)) is None


def test_other_threads_run_meanwhile(file: int, tmp_path: Path) -> None:
    """A reader that waits in the loop does not hold the interpreter's lock: another thread lets it go on."""
    let = threading.Event()
    wait = ctypes.CFUNCTYPE(CODE, NUMBER)(lambda event: int(not let.wait(20)))
    quiet = ctypes.CFUNCTYPE(CODE, NUMBER, NUMBER)(lambda event, stream: 0)
    copy = ctypes.CFUNCTYPE(CODE, NUMBER, NUMBER, NUMBER, NUMBER)(lambda *_: 0)
    of = cuda_calls._address
    loop = compiled(Functions(of(ctypes.CDLL(None).pread), of(wait), of(copy), of(quiet)))
    assert loop is not None
    memory = np.zeros(128, np.uint8)
    bring = native_bring(loop, [0], [int(memory.ctypes.data)], [1], 0)
    found: list[int] = []
    (piece,) = pieces([Segment(0, 64, 0)], 64)
    reader = threading.Thread(target=lambda: found.append(bring(0, [(file, piece)])))
    reader.start()
    let.set()
    reader.join(20)
    assert found == [0]


class NativeCalls(host_calls.HostCalls):
    """The host's calls, which the compiled loop asks by numbers and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[int] = []
        """Pieces of each call."""
        self._events: list[Any] = []
        self._wait = ctypes.CFUNCTYPE(CODE, NUMBER)(lambda event: self._done(self.synchronize, event))
        self._copy = ctypes.CFUNCTYPE(CODE, NUMBER, NUMBER, NUMBER, NUMBER)(self._copied)
        self._record = ctypes.CFUNCTYPE(CODE, NUMBER, NUMBER)(
            lambda event, stream: self._done(self.record, event, stream)
        )

    def _done(self, call: Any, event: int, *stream: int) -> int:
        call(self._events[event], *stream)
        return 0

    def _copied(self, target: int, source: int, size: int, stream: int) -> int:
        to, out_of = self.memory.at(target), self.memory.at(source)
        assert to is not None
        assert out_of is not None
        self.copy(to, target - to.address, out_of, source - out_of.address, size, stream)
        return 0

    def bringer(self, targets, sources, events, stream):
        of = cuda_calls._address
        loop = compiled(
            Functions(of(ctypes.CDLL(None).pread), of(self._wait), of(self._copy), of(self._record))
        )
        assert loop is not None
        numbers = range(len(self._events), len(self._events) + len(events))
        self._events += events
        addresses = [[each.data_ptr() for each in tensors] for tensors in (targets, sources)]
        for each in (*targets, *sources):
            self.memory.of(each, self.current())
        inner = native_bring(loop, *addresses, list(numbers), stream)

        def bring(turn, parts):
            self.together.append(len(parts))
            return inner(turn, parts)

        return bring


def test_a_loader_reads_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = NativeCalls()
    with calls.instead_of_cuda(monkeypatch):
        read_by(calls, tmp_path)


def read_by(calls: NativeCalls, tmp_path: Path) -> None:
    rows = {"a": np.arange(3000), "b": np.arange(3000, dtype=np.float32)}
    ds = pk.write(pa.table(rows), tmp_path / "ds", block_bytes=2048, shards=1)
    specs, settings = chosen_specs(ds.snapshot, None), Settings(100, rank=0, world=1, lanes=4)
    place = CudaPlace(ds.snapshot, specs, None, shaping(specs, settings), host_calls.CPU)
    loader, host = Loader(ds.snapshot, specs, settings, place), ds.numpy(100, rank=0, world=1, lanes=4)
    for _ in range(3):
        for ours, theirs in zip(loader, host, strict=True):
            assert all(np.array_equal(ours[name].numpy(), theirs[name]) for name in rows)
    assert sum(calls.together) > 2 * len(ds.snapshot.index), "from the second epoch on, when all is checked"
    assert 1 < max(calls.together) <= AT_ONCE
    shard = tmp_path / "ds" / ds.shards[0].file
    os.truncate(shard, shard.stat().st_size // 2)
    # Of the first epoch after it some windows were read before; it may be the next that meets it.
    with pytest.raises(CorruptError, match=shard.name):
        list(itertools.chain(loader, loader))
