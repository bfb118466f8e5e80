"""The stand-in for a GPU notices what is in no order, and nothing else; and copies no sooner than it has to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from host_calls import HostCalls

SIZE = 64


class Machine:
    """Pinned memory, memory on the device, and two streams: one copies, the other computes."""

    def __init__(self) -> None:
        self.calls = HostCalls()
        self.copying, self.computing = self.calls.stream(), self.calls.stream()
        self.pinned: Any = self.calls.pinned(SIZE)
        self.there: Any = torch.zeros(8, SIZE // 8, dtype=torch.uint8)
        self.copied, self.computed = self.calls.event(), self.calls.event()
        self.calls.enter()
        self.calls.settle()

    def copy(self, at: int = 0, size: int = SIZE) -> None:
        self.calls.copier(self.there.reshape(-1), self.pinned, self.copying)(at, at, size)
        self.calls.record(self.copied, self.copying)

    def rows(self, *rows: int) -> Any:
        with self.calls.on(self.computing):
            found = self.there.index_select(0, torch.tensor(rows))
        self.calls.record(self.computed, self.computing)
        return found


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_what_waits_is_in_order(machine: Machine) -> None:
    machine.pinned.fill_(1)
    machine.copy()
    machine.calls.wait(machine.computing, machine.copied)
    assert machine.rows(1, 7).tolist() == [[1] * 8] * 2
    machine.calls.wait(machine.copying, machine.computed)
    machine.calls.synchronize(machine.copied)
    machine.pinned.fill_(2)
    machine.copy()
    machine.calls.wait(machine.computing, machine.copied)
    assert machine.rows(1, 7).tolist() == [[2] * 8] * 2
    assert machine.calls.races == []


def test_a_copy_is_done_when_somebody_waits_for_it_and_not_before(machine: Machine) -> None:
    machine.pinned.fill_(1)
    machine.copy()
    machine.pinned.fill_(2)
    assert not machine.there.any()
    machine.calls.synchronize(machine.copied)
    assert (machine.there == 2).all(), "what was written over too early goes over"
    assert machine.calls.races == [
        "the host wrote pinned memory of 64 bytes before it knew that a copy was over"
    ]


def reads_before_the_copy(machine: Machine) -> None:
    machine.copy()
    machine.rows(3)


def overwrites_what_is_read(machine: Machine) -> None:
    machine.rows(3)
    machine.copy()


def overwrites_pinned_memory(machine: Machine) -> None:
    machine.copy()
    machine.copy()


def reads_a_row_too_many(machine: Machine) -> None:
    machine.rows(0, 3, 7)
    machine.copy(at=56, size=8)


def frees_pinned_memory(machine: Machine) -> None:
    machine.copy()
    machine.pinned = None


def frees_what_another_stream_reads(machine: Machine) -> None:
    found = machine.rows(3)
    machine.calls.wait(machine.calls.default, machine.computed)
    machine.calls.use(found)
    del found


def calls_from_a_thread_without_a_device(machine: Machine) -> None:
    machine.calls._own.entered = False
    machine.calls.record(machine.copied, machine.copying)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            reads_before_the_copy,
            "index_select reads device memory of 64 bytes on stream 2, and a copy writes",
        ),
        (
            overwrites_what_is_read,
            "a copy writes device memory of 64 bytes on stream 1, and torch's index_sel",
        ),
        (
            overwrites_pinned_memory,
            "the host writes pinned memory of 64 bytes, and a copy reads, on stream 1",
        ),
        (
            reads_a_row_too_many,
            "a copy writes device memory of 64 bytes on stream 1, and torch's index_select",
        ),
        (frees_pinned_memory, "pinned memory of 64 bytes is given out again, and a copy reads, on stream 1"),
        (
            frees_what_another_stream_reads,
            "device memory of 8 bytes is given out again, and torch's clone rea",
        ),
        (calls_from_a_thread_without_a_device, "record in a thread that has no device, MainThread"),
    ],
)
def test_what_is_in_no_order_is_told(machine: Machine, wrong: Callable[[Machine], None], told: str) -> None:
    wrong(machine)
    assert told in machine.calls.races[0]


def test_other_rows_than_are_read_may_be_overwritten(machine: Machine) -> None:
    machine.rows(0, 3, 6)
    machine.copy(at=56, size=8)
    assert machine.calls.races == []


def test_memory_whose_user_is_known_may_be_freed(machine: Machine) -> None:
    found = machine.rows(3)
    machine.calls.wait(machine.calls.default, machine.computed)
    machine.calls.use(found)
    machine.calls.uses(machine.calls.default, found)
    del found
    sent = machine.calls.sent(machine.pinned.numpy(), "uint8")
    machine.pinned = None
    assert machine.calls.races == []
    assert len(sent) == SIZE


@pytest.mark.parametrize(("again", "wrong"), [(True, False), (False, True)])
def test_the_same_bytes_may_come_twice_where_that_is_said(machine: Machine, again: bool, wrong: bool) -> None:
    """Who reads them waits for one of the two."""
    machine.calls.twice = again
    machine.copy()
    machine.calls.wait(machine.computing, machine.copied)
    first, machine.pinned = machine.pinned, machine.calls.pinned(SIZE)
    machine.copying = machine.calls.stream()
    machine.copy()
    assert bool(machine.calls.races) == wrong
    if again:
        machine.rows(1)
        assert machine.calls.races == []
    assert len(first) == SIZE


def test_other_bytes_come_in_order_though_the_same_may_come_twice(machine: Machine) -> None:
    machine.calls.twice = True
    machine.copy()
    first, machine.pinned = machine.pinned, machine.calls.pinned(SIZE)
    machine.pinned.fill_(1)
    machine.copying = machine.calls.stream()
    machine.copy()
    assert machine.calls.races
    assert len(first) == SIZE
