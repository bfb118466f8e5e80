"""What the GPU computes, computed here by torch on the CPU: the rows that runs of windows stand for."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from rows_of_steps import rows_of_route

from penstock.feed.cuda.windows import DeviceWindows
from penstock.feed.memory.arena import Orders, Room, turn_of
from penstock.feed.memory.native_loops import native_loops
from penstock.feed.plan.assembly import Assembly
from penstock.feed.plan.order import LAST, Order, Steps
from penstock.feed.plan.route import Route
from penstock.feed.reading.stages import Ready

blocks = st.lists(st.integers(0, 60), min_size=1, max_size=12).map(tuple)
CPU = torch.device("cpu")


@st.composite
def routes(draw) -> Route:
    shuffle = draw(st.booleans())
    lanes = draw(st.integers(1, 12)) if shuffle else 1
    world = draw(st.integers(1, 9))
    order = Order(draw(blocks), draw(st.integers(0, 9)), 0, lanes, draw(st.integers(1, 3)), shuffle)
    steps = Steps(order.rows, world * draw(st.integers(1, 9)), draw(st.sampled_from(LAST)))
    # Any row: a state may come from a world with another batch size.
    t = draw(st.integers(0, order.rows))
    return Route(order, steps, draw(st.integers(0, world - 1)), world, t)


def expected(route: Route, first: int, last: int) -> list[int]:
    """Numbers of rows in the files, by the order alone."""
    starts = np.concatenate([[0], np.cumsum(route.order.blocks)])
    found, rows = route.order.locate(rows_of_route(route, first, last))
    return (starts[found] + rows).tolist()


def room(route: Route) -> Room:
    rows = int(route.windows.rows.max(initial=1))
    return Room(max(len(route.windows.start), 1), rows, route.order.window + 1)


class AllAtOnce:
    """Readers that have every window ready, in slots of another order."""

    def __init__(self, route: Route) -> None:
        count = len(route.windows.start)
        self._ready = iter([Ready(need, count - 1 - need.window) for need in route.needs()])

    def next(self) -> Ready:
        return next(self._ready)


@given(routes(), st.integers(1, 4))
def test_resident_windows_are_the_order(route, together) -> None:
    table = DeviceWindows(route, CPU, None, 0, np.concatenate([[0], np.cumsum(route.order.blocks)]))
    assembly = Assembly(route, None)
    count = route.steps.left(route.t)
    for first in range(0, count, together):
        last = min(first + together, count)
        runs, freed = assembly.plan(first, last)
        assert freed == []
        assert table.index(runs).tolist() == expected(route, first, last)


@given(routes(), st.integers(1, 4))
def test_windows_in_slots_are_the_order_on_the_host_and_on_the_device(route, together) -> None:
    size, native = room(route), native_loops([])
    table, host = DeviceWindows(route, CPU, None, size.rows, None), Orders(size.slots, size.rows)
    lies_at = np.zeros(size.slots * size.rows, np.int64)
    starts, slots = np.concatenate([[0], np.cumsum(route.order.blocks)]), len(route.windows.start)
    for need in route.needs():
        first = (slots - 1 - need.window) * size.rows
        for fetch in need.fetches:
            at = first + fetch.place
            lies_at[at : at + fetch.rows] = np.arange(fetch.rows) + starts[fetch.block] + fetch.first
        bases = np.array([int(starts[fetch.block]) + fetch.first for fetch in need.fetches])
        host.lay(slots - 1 - need.window, need, turn_of(need), bases)
    assembly = Assembly(route, AllAtOnce(route))
    count, freed = route.steps.left(route.t), []
    for first in range(0, count, together):
        last = min(first + together, count)
        runs, done = assembly.plan(first, last)
        freed += done
        assert lies_at[table.index(runs).numpy()].tolist() == expected(route, first, last)
        assert host.index(runs).tolist() == expected(route, first, last)
        assert host.index(runs, native).tolist() == expected(route, first, last)
    assert len(set(freed)) == len(freed)
    if count and route.steps.last != "drop":
        assert len(freed) == len(list(route.needs()))


@given(routes(), st.integers(1, 4))
def test_so_many_slots_are_enough(route, together) -> None:
    """A reader that fetches in the order of need, into as few slots as `most_windows` says, never starves a gather."""
    free, needs = list(range(route.most_windows(together))), route.needs()

    class Few:
        def next(self) -> Ready:
            assert free, "the gather waits for a window that has no slot to lie in"
            return Ready(next(needs), free.pop())

    assembly, count = Assembly(route, Few()), route.steps.left(route.t)
    for first in range(0, count, together):
        runs, done = assembly.plan(first, min(first + together, count))
        assert runs.rows == len(expected(route, first, min(first + together, count)))
        free += done
