"""Rows gathered out of maps: the same batches, nothing left behind, and no process is ended by a file that changed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from left_behind import ended, left_over, open_files, shard_paths
from slow_writes import wait_for

import penstock as pk
from penstock.errors import CorruptError, StorageError
from penstock.feed.loader import Loader
from penstock.feed.memory import leases, mapped, native_loops
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.memory.leases import Leases
from penstock.feed.memory.mapped import MappedRows
from penstock.feed.reading import limits

WIDTH, ROWS = 160, 6_000
"""Rows of 640 bytes, which divide no page."""
BLOCK = 512 << 10


def table(rows: int = ROWS) -> pa.Table:
    numbers = np.arange(rows * WIDTH, dtype=np.float32)
    return pa.table({"x": pa.FixedSizeListArray.from_arrays(numbers, WIDTH), "y": np.arange(rows)})


@pytest.fixture
def ds(tmp_path: Path) -> pk.Dataset:
    return pk.write(table(), tmp_path / "ds", shards=3, block_bytes=BLOCK, seed=1)


@pytest.fixture(autouse=True)
def small_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "LEAST_BUFFER", 0)


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What every loader that was made since found out: whether it can map its dataset."""
    found: list[bool] = []
    over = MappedRows.over

    def watched(*given: object) -> MappedRows | None:
        rows = over(*given)
        found.append(rows is not None)
        return rows

    monkeypatch.setattr(MappedRows, "over", staticmethod(watched))
    return found


def batches(loader) -> list[dict[str, np.ndarray]]:
    return [{name: np.asarray(rows).copy() for name, rows in batch.items()} for batch in loader]


def same(left: list, right: list) -> bool:
    return len(left) == len(right) and all(
        np.array_equal(a[name], b[name]) for a, b in zip(left, right, strict=True) for name in a
    )


@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_batches_are_those_that_are_read(
    ds: pk.Dataset, maps: list[bool], monkeypatch: pytest.MonkeyPatch, world: int, framework: str
) -> None:
    def epochs(rank: int) -> list:
        loader = getattr(ds, framework)(32, seed=5, rank=rank, world=world, lanes=8, last="short")
        return batches(loader) + batches(loader)

    by_map = [epochs(rank) for rank in range(world)]
    assert maps == [True] * world
    monkeypatch.setattr(mapped, "WIDE", 1 << 30)
    by_reading = [epochs(rank) for rank in range(world)]
    assert maps == [True] * world + [False] * world
    assert all(same(*pair) for pair in zip(by_map, by_reading, strict=True))
    seen = np.concatenate([batch["y"] for rank in by_map for batch in rank])
    assert np.array_equal(np.sort(seen), np.repeat(np.arange(ROWS), 2))


def test_tensors_behind_ragged_ones_are_found(tmp_path: Path, maps: list[bool]) -> None:
    lists = pa.array([[number] * (number % 3) for number in range(ROWS)], pa.list_(pa.int64()))
    data = pa.table({"tokens": lists, **{name: table()[name] for name in ("y", "x")}})
    ds = pk.write(
        data, tmp_path / "ds", {"tokens": pk.ragged("tokens"), "y": "y", "x": "x"}, block_bytes=BLOCK
    )
    for batch in ds.numpy(100, tensors=["x", "y"]):
        assert np.array_equal(batch["x"][:, 0], batch["y"] * WIDTH)
    assert maps == [True]
    next(iter(ds.numpy(100)))
    assert maps == [True, False]


def test_where_it_does_not_pay_or_cannot_be_rows_are_read(tmp_path: Path, maps: list[bool]) -> None:
    narrow = pk.write(pa.table({"y": np.arange(1000)}), tmp_path / "narrow")
    compressed = pk.write(table(1000), tmp_path / "zstd", compression="zstd")
    unaligned = pk.write(table(1000), tmp_path / "small", block_bytes=4096)
    many = pk.write(pa.table({**{f"x{place}": np.arange(1000) for place in range(80)}, "y": np.arange(1000)}),
                    tmp_path / "many")  # fmt: skip
    for each in (narrow, compressed, unaligned, many):
        assert sum(len(batch["y"]) for batch in each.numpy(100)) == 1000
    assert maps == [False] * 4


@pytest.fixture
def narrow(tmp_path: Path) -> pk.Dataset:
    table = pa.table({"y": np.arange(ROWS), "z": np.arange(ROWS) % 7 == 0})
    return pk.write(table, tmp_path / "narrow", shards=3, block_bytes=8 << 10)


def test_narrow_rows_are_mapped_once_machine_code_gathers_them(
    narrow: pk.Dataset, maps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_loops, "PAYS_FROM", 2 * ROWS * 9)
    loader, fresh = narrow.numpy(50, seed=3, lanes=4), narrow.numpy(50, seed=3, lanes=4)
    first = batches(loader)
    assert maps == [False]
    assert isinstance(held_arena(loader), HostArena)
    assert held_arena(loader).in_place is None
    second = batches(loader)
    assert maps == [False, True]
    assert held_arena(loader).in_place is not None
    third = batches(loader)
    assert maps == [False, True], "it is known"
    monkeypatch.setattr(native_loops, "PAYS_FROM", 1 << 60)
    assert all(same(epoch, batches(fresh)) for epoch in (first, second, third))
    assert maps == [False, True, False]
    assert left_over(narrow) == []


def test_an_arena_of_rows_that_are_read_is_not_used_for_mapped_ones(
    narrow: pk.Dataset, maps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another iterator may have begun before there was a map, and end after."""
    monkeypatch.setattr(native_loops, "PAYS_FROM", 2 * ROWS * 9)
    loader, fresh = narrow.numpy(50, seed=3, lanes=4), narrow.numpy(50, seed=3, lanes=4)
    early, late = iter(loader), iter(loader)
    next(early)
    next(late)
    assert maps == [False, True]
    late.close()
    for _ in early:
        pass
    assert held_arena(loader).in_place is None
    loader.set_epoch(1)
    fresh.set_epoch(1)
    found = batches(loader)
    monkeypatch.setattr(native_loops, "PAYS_FROM", 1 << 60)
    assert same(found, batches(fresh))


def held_arena(loader: Loader) -> HostArena:
    ((arena, _),) = loader._kept._held
    return arena


def test_few_files_may_be_open(tmp_path: Path, maps: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "most_open_files", lambda: 4)
    monkeypatch.setattr(limits, "most_open_files", lambda: 4)
    ds = pk.write(table(), tmp_path / "ds", shards=9, block_bytes=BLOCK)
    loader = ds.numpy(100)
    most = 0
    for _ in range(2):
        seen = []
        for batch in loader:
            seen.append(batch["y"].copy())
            most = max(most, len(left_over(ds)))
        assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(ROWS))
    assert maps == [False]
    assert most <= 4 + loader.settings.threads, "four that stay open, and those that are being read"


def test_maps_are_counted_over_all_loaders(
    ds: pk.Dataset, maps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_MAPS", 3 * len(ds.shards))  # there are two tensors
    first, second = ds.numpy(100), ds.numpy(100)
    iterator = iter(first)
    next(iterator)
    assert sum(len(batch["y"]) for batch in second) == ROWS
    assert maps == [True, False]
    iterator.close()
    assert limits.MAPS._count == 0


def test_an_interrupt_while_it_is_mapped_leaves_nothing(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, interrupted = MappedRows._map, []

    def interrupting(self: MappedRows) -> None:
        original(self)
        if not interrupted:
            interrupted.append(self)
            raise KeyboardInterrupt

    loader = ds.numpy(100)
    assert sum(len(batch["y"]) for batch in loader) == ROWS
    assert loader._place._mapped is not None
    monkeypatch.setattr(MappedRows, "_map", interrupting)
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader))
    assert interrupted
    ended()
    assert left_over(ds) == []
    assert (limits.MAPS._count, limits.FILES._count) == (0, 0)
    assert sum(len(batch["y"]) for batch in loader) == ROWS


def test_without_leases_rows_are_read(
    ds: pk.Dataset, maps: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    soon = tmp_path / "lease-break-time"
    soon.write_text("1\n")
    monkeypatch.setattr(leases, "BREAK_TIME", soon)
    assert sum(len(batch["y"]) for batch in ds.numpy(100)) == ROWS
    # Somebody writes to a shard: no lease is given.
    monkeypatch.undo()
    with (Path(ds.path) / ds.shards[0].file).open("r+b"):
        assert sum(len(batch["y"]) for batch in ds.numpy(100)) == ROWS
    assert maps == [False]


def test_nothing_is_left_behind(ds: pk.Dataset) -> None:
    loader = ds.numpy(50, lanes=4)
    first, second = iter(loader), iter(loader)
    next(first)
    assert left_over(ds) == shard_paths(ds)
    next(second)
    first.close()
    assert left_over(ds) == shard_paths(ds)
    assert same([next(second)], [next(second)]) is False
    second.close()
    assert left_over(ds) == []
    batches(loader)
    assert left_over(ds) == []


@pytest.mark.parametrize(
    ("owner", "method", "thread"),
    [(HostArena, "_taken", "gatherer"), (MappedRows, "check", "reader"), (Leases, "_is_away", "leases")],
)
def test_an_iterator_that_is_collected_in_a_thread_of_its_own(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, thread: str
) -> None:
    dropped, collected = threading.Event(), threading.Event()
    original = getattr(owner, method)

    def iterate_and_drop() -> None:
        holder: dict[str, object] = {"iterator": iter(ds.numpy(10, lanes=4, memory=6 << 20))}
        holder["itself"] = holder
        for _ in range(40):
            next(holder["iterator"])

    def collecting(self, *arguments):
        if not collected.is_set() and thread in threading.current_thread().name and dropped.wait(0.2):
            collected.set()
            gc.collect()
        return original(self, *arguments)

    monkeypatch.setattr(owner, method, collecting)
    gc.disable()
    try:
        # Where this thread had no processor for a moment, the others have done all their work before it is dropped.
        for _ in range(20):
            dropped.clear()
            iterate_and_drop()
            dropped.set()
            if collected.wait(1):
                break
            gc.collect()
        assert collected.is_set()
        assert ended()
    finally:
        gc.enable()
    assert left_over(ds) == []


@pytest.mark.parametrize("gone", [False, True])
def test_a_map_that_cannot_be_had_again_is_read(ds: pk.Dataset, maps: list[bool], gone: bool) -> None:
    loader = ds.numpy(50, lanes=4)
    batches(loader)
    path = Path(shard_paths(ds)[1])
    if gone:
        path.unlink()
        with pytest.raises(CorruptError, match=path.name):
            batches(loader)
    else:
        with path.open("r+b"):
            second = batches(loader)
        assert sum(len(batch["y"]) for batch in second) == ROWS
    assert maps == [True]
    assert left_over(ds) == []


def test_a_process_that_was_forked_holds_no_lease(ds: pk.Dataset) -> None:
    iterator = iter(ds.numpy(50, lanes=4))
    next(iterator)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE,
        pass_fds=[file for file, path in open_files().items() if path in shard_paths(ds)],
    ) as child:  # fmt: skip
        iterator.close()
        began = time.monotonic()
        for path in shard_paths(ds):
            with open(path, "r+b"):
                pass
        assert time.monotonic() - began < 20, "let in by the system, not by us"
        child.stdin.close()


def consume(loader: Iterable[object], act: Callable[[], None]) -> None:
    """An epoch, with something done after some steps of it."""
    for number, _ in enumerate(loader):
        if number == 3:
            act()


def test_a_shard_that_is_touched_is_no_trouble(ds: pk.Dataset, maps: list[bool]) -> None:
    expected = batches(ds.numpy(50, seed=2, lanes=4))
    found, waited = [], []
    for batch in ds.numpy(50, seed=2, lanes=4, memory=6 << 20):
        found.append({name: rows.copy() for name, rows in batch.items()})
        if len(found) % 40 == 1:
            began = time.monotonic()
            for path in shard_paths(ds):
                with open(path, "r+b"):
                    pass
            waited.append(time.monotonic() - began)
    assert maps == [True, True]
    assert same(found, expected)
    assert max(waited) < 30, "they were let in by the system, not by us"


def test_a_shard_that_is_cut_is_an_error_that_names_it(ds: pk.Dataset, maps: list[bool]) -> None:
    loader = ds.numpy(10, lanes=4, memory=6 << 20)
    path = shard_paths(ds)[1]
    began = time.monotonic()
    with pytest.raises(CorruptError, match=os.path.basename(path)):
        consume(loader, lambda: os.truncate(path, 4096))
    assert maps == [True]
    assert time.monotonic() - began < 30
    assert left_over(ds) == []


def test_a_shard_that_stays_open_for_writing_is_an_error_that_names_it(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "PATIENCE_SECONDS", 0.5)
    path, opened, done = shard_paths(ds)[1], threading.Event(), threading.Event()

    def keeps_it_open() -> None:
        with open(path, "r+b"):
            opened.set()
            done.wait(60)

    writer = threading.Thread(target=keeps_it_open)

    def start() -> None:
        writer.start()
        opened.wait(60)

    with pytest.raises(StorageError, match="somebody has it open for writing"):
        consume(ds.numpy(10, lanes=4, memory=6 << 20), start)
    done.set()
    writer.join()
    assert left_over(ds) == []


def test_a_shard_that_is_cut_while_the_watcher_has_no_processor(
    ds: pk.Dataset, maps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LOOK_SECONDS", 3600)
    monkeypatch.setattr(leases, "STALE_SECONDS", 0.0)
    path = shard_paths(ds)[1]
    writer = threading.Thread(target=os.truncate, args=(path, 4096))
    loader = ds.numpy(10, lanes=4, memory=8 << 20)

    def start() -> None:
        writer.start()
        # Else the epoch may be over before it has come so far. Rows that are gathered ahead may have let it in already.
        wait_for(lambda: not writer.is_alive() or loader._place._mapped.leases._is_away(1))

    with pytest.raises(CorruptError, match=os.path.basename(path)):
        consume(loader, start)
    writer.join()
    assert maps == [True]
    assert left_over(ds) == []


def test_a_lease_that_cannot_be_asked_about_ends_no_watch(ds: pk.Dataset) -> None:
    """Who needs that shard is told, and those who want to write to the others are let in as before."""
    held = Leases(ds.path, ds.shards)
    try:
        for pipe in os.pipe():
            os.dup2(pipe, held.files[0])  # a pipe has no lease to give up
            os.close(pipe)
        time.sleep(3 * leases.LOOK_SECONDS)
        began = time.monotonic()
        with open(shard_paths(ds)[1], "r+b"):
            pass
        assert time.monotonic() - began < 20, "let in by the system, not by us"
        with pytest.raises(StorageError, match=os.path.basename(shard_paths(ds)[0])), held.held([0]):
            pass
        with held.held([1, 2]):
            pass
    finally:
        held.close()


def test_on_file_systems_that_others_write_to_rows_are_read(
    ds: pk.Dataset, maps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "FILE_SYSTEMS", frozenset({0x65735546}))  # FUSE
    assert sum(len(batch["y"]) for batch in ds.numpy(100)) == ROWS
    assert maps == [False]
    assert left_over(ds) == []


def test_maps_begin_where_large_pages_do(
    ds: pk.Dataset, maps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def begins() -> list[int]:
        rows = MappedRows.over(ds.snapshot, ds.snapshot.manifest.tensors, False)
        assert rows is not None
        rows.open()
        found = [region.base + start for region in rows._regions.values() for start in region.starts.tolist()]
        rows.close()
        return found

    assert all(place % mapped.LARGE == 0 for place in begins())
    large = batches(ds.numpy(50, seed=2, lanes=4))
    # Rows of a length that has no small multiple in common with them.
    monkeypatch.setattr(mapped, "MOST_ADDRESSES", 0)
    assert any(place % mapped.LARGE for place in begins())
    assert same(batches(ds.numpy(50, seed=2, lanes=4)), large)
    assert all(maps)
    assert left_over(ds) == []
