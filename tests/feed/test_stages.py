"""Readers that take several runs of rows at a time: in the order of need, no more than is fair, of one epoch."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from penstock.errors import CorruptError
from penstock.feed.plan.route import Fetch, Need
from penstock.feed.reading.stages import Readers, Run
from penstock.feed.stats import Work


def needs(first: int, count: int, fetches: int = 1) -> Iterator[Need]:
    """Windows, each of so many runs of a block of its own."""
    for window in range(first, first + count):
        yield Need(window, fetches, None, tuple(Fetch(window, run, 1, run) for run in range(fetches)))


class Told:
    """Reads nothing, and writes down what was asked for together."""

    def __init__(self) -> None:
        self.together: list[list[int]] = []
        self.finished: list[int] = []
        self.fails: set[int] = set()
        self.go_on = threading.Event()
        self.go_on.set()

    def read(self, reader: int, runs: Sequence[Run]) -> None:
        assert self.go_on.wait(20)
        self.together.append([run.fetch.block for run in runs])
        for run in runs:
            if run.fetch.block in self.fails:
                raise CorruptError([f"block {run.fetch.block}"], "it is made to fail")

    def finish(self, reader: int, need: Need, slot: int) -> None:
        self.finished.append(need.window)


def readers(told: Told, slots: int, threads: int, at_once: int, own: Iterator[Need], ahead=()) -> Readers:
    return Readers(own, told.read, told.finish, slots, threads, Work(), (), ahead, at_once)


def all_of(found: Readers, count: int) -> list[int]:
    """The windows in the order they became ready; their slots are given back."""
    windows = []
    found.start()
    try:
        for _ in range(count):
            ready = found.next()
            windows.append(ready.need.window)
            found.release(ready.slot)
    finally:
        found.halt()
        found.wait()
    return windows


def test_one_reader_takes_as_many_as_it_may() -> None:
    told = Told()
    assert all_of(readers(told, 12, 1, 3, needs(0, 12)), 12) == list(range(12))
    assert told.together == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


def test_no_more_than_slots_are_free_for() -> None:
    told = Told()
    found = readers(told, 4, 2, 8, needs(0, 20))
    assert sorted(all_of(found, 20)) == list(range(20))
    assert all(len(each) <= 2 for each in told.together), "of 4 slots, 2 are the other reader's"
    assert max(map(len, told.together)) == 2


def test_with_fewer_slots_than_readers_each_takes_one() -> None:
    told = Told()
    assert sorted(all_of(readers(told, 2, 4, 8, needs(0, 30)), 30)) == list(range(30))
    assert all(len(each) == 1 for each in told.together)


def test_a_window_in_several_runs_is_ready_once_all_are_read() -> None:
    told = Told()
    assert sorted(all_of(readers(told, 8, 2, 4, needs(0, 10, fetches=3)), 10)) == list(range(10))
    assert sorted(told.finished) == list(range(10))
    assert sorted(block for each in told.together for block in each) == sorted([*range(10)] * 3)


@pytest.mark.parametrize("at_once", [1, 3])
def test_what_fails_of_the_next_epoch_takes_nothing_along(at_once: int) -> None:
    """Windows of two epochs are never read together, so this one's come although the next one's do not."""
    told = Told()
    told.fails = {100}
    found = readers(told, 12, 1, at_once, needs(0, 4), needs(100, 4))
    found.start()
    found.wait()
    assert [found.next().need.window for _ in range(4)] == [0, 1, 2, 3]
    assert found._done.empty(), "no error either"
    assert found.ahead == []
    assert told.together == {1: [[0], [1], [2], [3], [100]], 3: [[0, 1, 2], [3], [100, 101, 102]]}[at_once]


def test_what_is_read_of_the_next_epoch_is_kept_in_its_slots() -> None:
    told = Told()
    told.go_on.clear()
    found = readers(told, 12, 1, 3, needs(0, 4), needs(100, 2))
    found.start()
    told.go_on.set()
    found.wait()
    assert [found.next().need.window for _ in range(4)] == [0, 1, 2, 3]
    assert [ready.need.window for ready in found.ahead] == [100, 101]
    assert len({ready.slot for ready in found.ahead}) == 2
    assert told.together == [[0, 1, 2], [3], [100, 101]]


def test_an_error_reaches_who_waits() -> None:
    told = Told()
    told.fails = {5}
    with pytest.raises(CorruptError, match="block 5"):
        all_of(readers(told, 12, 2, 4, needs(0, 20)), 20)


def test_halting_wakes_who_waits_for_a_slot() -> None:
    told = Told()
    found = readers(told, 2, 3, 4, needs(0, 20))
    found.start()
    assert {found.next().need.window for _ in range(2)} == {0, 1}
    found.halt()
    for thread in found._threads:
        thread.join(20)
        assert not thread.is_alive()
