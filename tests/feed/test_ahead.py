"""Reading ahead: the next epoch is begun before this one ends, by who has iterated before, and changes no batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from left_behind import threads
from slow_writes import wait_for

import penstock as pk
import penstock.feed.epoch
from penstock.errors import CorruptError
from penstock.feed.epoch import Epoch, KeptArena
from penstock.feed.loader import Loader
from penstock.feed.memory.arena import Room
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.plan.route import Need, Route
from penstock.feed.reading.source import Straight
from penstock.feed.reading.stages import Readers, Run

ROWS, BATCH = 4000, 100


@pytest.fixture(autouse=True)
def a_gather_for_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one would take all rows there are."""
    monkeypatch.setattr(HostArena, "gather_bytes", BATCH * 8)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    return pk.write(
        pa.table({"a": np.arange(ROWS)}), tmp_path_factory.mktemp("ahead") / "ds", block_bytes=1024
    )


def loader_of(ds: pk.Dataset, **more) -> Loader:
    return ds.numpy(BATCH, lanes=8, rank=0, world=1, **more)


_running: list[Readers] = []
"""Those of the epoch that began last."""


@pytest.fixture(autouse=True)
def readers_that_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    start = Readers.start

    def noted(self: Readers) -> None:
        _running[:] = [self]
        start(self)

    monkeypatch.setattr(Readers, "start", noted)
    yield
    _running.clear()


def slowly(loader: Loader) -> list[list[int]]:
    """An epoch whose end takes long enough for readers to come as far as they can."""
    found, left = [], len(loader)
    for batch in loader:
        found.append(batch["a"].tolist())
        if len(found) == left:
            wait_for(came_to_the_end)
    return found


def came_to_the_end() -> bool:
    """In its last step all slots of an epoch are free, for windows of the next, if readers go on with those."""
    (readers,) = _running
    assert isinstance(readers._finish.__self__, Epoch)
    slots = readers._finish.__self__._arena.room.slots
    return len(readers.ahead) == slots or not any(thread.is_alive() for thread in readers._threads)


def begun(loader: Loader) -> int:
    ahead = loader._kept.ahead
    return 0 if ahead is None else len(ahead.windows)


def test_who_iterates_once_reads_nothing_twice(ds: pk.Dataset) -> None:
    loader = loader_of(ds, verify=False)
    slowly(loader)
    assert begun(loader) == 0
    assert loader.stats.bytes_read == ROWS * 8


def test_the_second_epoch_begins_the_third(ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Epoch, reader: int, runs: Sequence[Run]) -> None:
        raise AssertionError("nothing has to be read for the first batch")

    loader = loader_of(ds)
    slowly(loader)
    slowly(loader)
    there = begun(loader)
    assert there >= 8, "at least a window of every lane"
    assert loader.stats.bytes_read > ROWS * 8
    assert threads() == [], "threads end with their epoch"
    monkeypatch.setattr(Epoch, "_read", refused)
    assert len(next(iter(loader))["a"]) == BATCH, "its first batch is there before anything is read"


def test_the_batches_are_those_of_a_loader_that_reads_nothing_ahead(ds: pk.Dataset) -> None:
    loader = loader_of(ds)
    for epoch in range(5):
        fresh = loader_of(ds)
        fresh.set_epoch(epoch)
        assert slowly(loader) == slowly(fresh)


def test_what_was_read_is_dropped_where_another_epoch_comes(ds: pk.Dataset) -> None:
    loader, fresh = loader_of(ds), loader_of(ds)
    slowly(loader)
    slowly(loader)
    assert begun(loader)
    for each in (loader, fresh):
        each.set_epoch(7)
    assert slowly(loader) == slowly(fresh)
    state = {**loader.state_dict(), "epoch": 3, "t": 5 * BATCH}
    for each in (loader, fresh):
        each.load_state_dict(state)
    assert slowly(loader) == slowly(fresh)


def test_who_goes_back_to_the_same_epoch_reads_nothing_twice(ds: pk.Dataset) -> None:
    """As for evaluation: what would be read ahead is never asked for."""
    loader = loader_of(ds, verify=False)
    for _ in range(3):
        loader.set_epoch(0)
        slowly(loader)
        assert begun(loader) == 0
        assert loader.stats.bytes_read == ROWS * 8


def test_an_arena_comes_with_what_lies_in_it(ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another iterator may end, in another thread, between a look at what was read ahead and the taking."""
    loader, other, fresh = loader_of(ds), loader_of(ds, seed=1), loader_of(ds)
    other._place = loader._place
    for each in (loader, other):
        slowly(each)
        slowly(each)
        assert begun(each)
    plan, take = penstock.feed.epoch.budget, KeptArena.take
    taken: list[object] = []

    def told(kept: KeptArena, *given: object) -> object:
        taken.append(take(kept, *given))
        return taken[-1]

    def exchanged(*given: object) -> object:
        found, windows = other._kept.take(Room(0, 0, 0), None, anything)
        if found is not None:
            loader._kept.put(found, windows)
        return plan(*given)

    monkeypatch.setattr(KeptArena, "take", told)
    monkeypatch.setattr(penstock.feed.epoch, "budget", exchanged)
    fresh.set_epoch(2)
    ours = slowly(loader)
    assert begun(other) == 0, "it was exchanged"
    (found, found_again) = taken
    assert found[1] is not None
    assert found_again == found, "and used"
    assert ours == slowly(fresh)


def anything(arena: object) -> bool:
    return True


class Memory:
    """As an arena, closed or not."""

    def __init__(self, *room: int) -> None:
        self.room, self.closed = Room(*room), False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("most", "taken"),
    [(None, True), (Room(9, 100, 2), True), (Room(7, 100, 2), False), (Room(9, 99, 2), False)],
)
def test_who_says_how_much_memory_there_is_gets_no_larger_arena(most: Room | None, taken: bool) -> None:
    kept, arena = KeptArena(), Memory(8, 100, 2)
    kept.put(arena)
    assert kept.take(Room(4, 50, 1), most, anything) == (arena if taken else None, None)
    assert arena.closed is not taken
    assert kept.take(Room(0, 0, 0), None, anything) == (None, None)


def test_all_bytes_are_counted_also_those_that_came_last(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, fill = [], Straight.fill

    def slow(self: Straight, view: memoryview, offset: int) -> None:
        time.sleep(0.01)
        fill(self, view, offset)
        read.append(len(view))

    monkeypatch.setattr(Straight, "fill", slow)
    loader, told = loader_of(ds, verify=False), 0
    for _ in range(4):
        slowly(loader)
        told += loader.stats.bytes_read
    assert told == sum(read) > 4 * ROWS * 8


def test_an_epoch_that_ends_with_a_wait_for_what_is_being_read_counts_it(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, halt, begun_ahead, closing = Readers._take, Readers.halt, threading.Event(), threading.Event()

    def late(self: Readers) -> object:
        runs = take(self)
        if runs and runs[0][0].ahead:
            begun_ahead.set()
            assert closing.wait(60)
            time.sleep(0.5)
        return runs

    def halting(self: Readers) -> None:
        halt(self)
        closing.set()

    loader = loader_of(ds)
    slowly(loader)
    monkeypatch.setattr(Readers, "_take", late)
    monkeypatch.setattr(Readers, "halt", halting)
    waited = None
    for step, _ in enumerate(loader, 1):
        if step == ROWS // BATCH:
            assert begun_ahead.wait(60)
            waited = loader.stats.waited
    assert waited is not None
    assert loader.stats.waited - waited > 0.49


def test_closing_drops_it(ds: pk.Dataset) -> None:
    loader = loader_of(ds)
    slowly(loader)
    slowly(loader)
    assert begun(loader)
    loader.close()
    assert begun(loader) == 0
    fresh = loader_of(ds)
    fresh.set_epoch(2)
    assert slowly(loader) == slowly(fresh)


def test_an_epoch_that_is_left_early_leaves_nothing(ds: pk.Dataset) -> None:
    loader = loader_of(ds)
    slowly(loader)
    for number, _ in enumerate(loader):
        if number == ROWS // BATCH - 2:
            break
    assert begun(loader) == 0


def test_a_cache_is_not_read_ahead(ds: pk.Dataset) -> None:
    loader = loader_of(ds, cache="host")
    for _ in range(3):
        slowly(loader)
    assert begun(loader) == 0
    assert loader.stats.bytes_read == 0


def test_what_goes_wrong_ahead_is_told_by_the_epoch_it_belongs_to(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the one that is under way, whose rows are all right."""
    read, take, loader = Epoch._read, Readers._take, loader_of(ds)
    taken = threading.local()
    slowly(loader)

    def noted(self: Readers) -> object:
        runs = take(self)
        taken.ahead = bool(runs) and runs[0][0].ahead
        return runs

    def failing(self: Epoch, reader: int, runs: Sequence[Run]) -> None:
        # Not by what the epoch knows: another reader may have begun the next one since this run was taken.
        if self._route.order.epoch == 2 or taken.ahead:
            raise CorruptError(["a shard"], "it is made to fail")
        read(self, reader, runs)

    monkeypatch.setattr(Readers, "_take", noted)
    monkeypatch.setattr(Epoch, "_read", failing)
    assert len(slowly(loader)) == ROWS // BATCH
    assert begun(loader) == 0
    with pytest.raises(CorruptError, match="made to fail"):
        slowly(loader)


def test_an_epoch_that_cannot_be_worked_out_ahead_is_left_to_itself(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs, loader = Route.needs, loader_of(ds)
    slowly(loader)

    def failing(self: Route) -> Iterator[Need]:
        if self.order.epoch == 2:
            raise MemoryError("it is made to fail")
        return needs(self)

    monkeypatch.setattr(Route, "needs", failing)
    assert len(slowly(loader)) == ROWS // BATCH
    assert begun(loader) == 0
    with pytest.raises(MemoryError, match="made to fail"):
        slowly(loader)


def test_a_larger_arena_of_before_is_counted_as_large_as_it_is(ds: pk.Dataset) -> None:
    loader = loader_of(ds)
    slowly(loader)
    before = loader.stats.memory
    loader.load_state_dict({**loader.state_dict(), "lanes": 1})
    slowly(loader)
    ((arena, _),) = loader._kept._held
    slots = arena.room.slots * arena.room.rows * 16
    assert slots < loader.stats.memory <= before
    fresh = ds.numpy(BATCH, lanes=1, rank=0, world=1)
    slowly(fresh)
    assert fresh.stats.memory < slots


def test_an_arena_that_comes_late_is_freed() -> None:
    """Of an epoch that was under way when its loader was closed."""
    kept, arena = KeptArena(), Memory(8, 100, 2)
    kept.close()
    kept.put(arena)
    assert arena.closed


def test_windows_that_fit_no_slot_are_left(tmp_path: Path) -> None:
    """Blocks of very different sizes: an epoch's largest window may be larger than any of the last one's."""
    rows = pa.table({"a": np.arange(3000)})
    for start, stop, block in ((0, 40, 1024), (40, 2900, 16_384), (2900, 3000, 1024)):
        ds = pk.write(
            rows.slice(start, stop - start), tmp_path / "ds", block_bytes=block, shuffle=False, mode="append"
        )
    loader = ds.numpy(50, lanes=3, rank=0, world=1, last="short")
    for _ in range(8):
        assert sorted(row for batch in slowly(loader) for row in batch) == list(range(3000))
