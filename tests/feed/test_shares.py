"""Worlds that do not divide the lanes: what a rank has is told by runs, and of windows it reads those it needs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_of_steps import rows_of_rank, rows_of_route

from penstock.feed.plan import route as route_module
from penstock.feed.plan.assembly import Assembly
from penstock.feed.plan.budget import Costs, budget
from penstock.feed.plan.order import LAST, Order, Steps
from penstock.feed.plan.route import Route
from penstock.feed.plan.shares import Slices, period
from penstock.feed.reading.stages import Ready

blocks = st.lists(st.integers(0, 60), min_size=1, max_size=12).map(tuple)
lasts = st.sampled_from(LAST)


@given(
    st.integers(0, 700),
    st.integers(1, 90),
    lasts,
    st.integers(1, 40),
    st.integers(2, 12),
    st.integers(0, 700),
)
def test_runs_are_the_rows_of_the_definition(rows, batch, last, lanes, world, start) -> None:
    steps, start = Steps(rows, batch, last), min(start, rows)
    for step in range(steps.left(start)):
        for rank in range(world):
            share = Slices.of(steps, step, step + 1, rank, world, lanes, start).share()
            found = [
                (row + more) * lanes + lane
                for lane, row, count in zip(share.lane, share.row, share.rows, strict=True)
                for more in range(count)
            ]
            by_lane = np.arange(start + step * batch, min(start + (step + 1) * batch, rows))
            by_lane = by_lane[np.argsort(by_lane % lanes, kind="stable")]
            expected = by_lane[len(by_lane) * rank // world : len(by_lane) * (rank + 1) // world]
            assert found == expected.tolist()
            assert len(np.unique(share.lane)) == len(share.lane), "one run of a lane in a step"


@given(st.integers(1, 60), st.integers(1, 40), st.integers(2, 9), st.integers(0, 50))
def test_slices_come_round(each, lanes, world, start) -> None:
    batch = each * world
    turn = period(batch, lanes)
    steps = Steps(start + 3 * turn * batch, batch)
    for rank in range(world):
        first, second = (
            Slices.of(steps, begin, begin + turn, rank, world, lanes, start) for begin in (0, turn)
        )
        assert np.array_equal(first.first_lane, second.first_lane)
        assert np.array_equal(first.last_lane, second.last_lane)
        assert np.array_equal(first.share().rows, second.share().rows)


@st.composite
def shared(draw) -> Route:
    shuffle = draw(st.booleans())
    lanes, world = draw(st.integers(1, 12)) if shuffle else 1, draw(st.integers(2, 15))
    order = Order(draw(blocks), 3, 0, lanes, draw(st.integers(1, 3)), shuffle)
    steps = Steps(order.rows, world * draw(st.integers(1, 9)), draw(lasts))
    return Route(order, steps, draw(st.integers(0, world - 1)), world, draw(st.integers(0, order.rows)))


def windows_of_rows(route: Route) -> set[int]:
    """The windows of the order that hold the rank's rows, row by row."""
    t = rows_of_route(route, 0, route.steps.left(route.t))
    place = route.order.lane_starts[t % route.order.lanes] + t // route.order.lanes
    return set((np.searchsorted(route.order.windows.start, place, "right") - 1).tolist())


@given(shared())
def test_windows_that_hold_none_of_its_rows_are_not_read(route) -> None:
    if route.even:
        return
    held = set(route.windows.number.tolist())
    assert held == windows_of_rows(route)
    assert {int(route.windows.number[need.window]) for need in route.needs()} == held


@given(shared())
def test_of_very_many_steps_no_window_is_left_out(route) -> None:
    if route.even:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(route_module, "MOST_STEPS", 0)
        assert windows_of_rows(route) <= set(route.windows.number.tolist())


@pytest.mark.parametrize(
    ("world", "last", "most"),
    [
        (3, "drop", 1.04),
        (6, "short", 1.1),
        (12, "pad", 1.2),
        (24, "drop", 1.26),
        (48, "drop", 1.51),
        (128, "drop", 2.01),
    ],
)
def test_lanes_are_read_twice_only_where_they_are_cut(world, last, most) -> None:
    """A cut through a lane has it read by both neighbours; before, a whole lane more was read on either side."""
    order = Order((1000,) * 1000, 0, 0)
    routes = [Route(order, Steps(order.rows, 64 * world, last), rank, world) for rank in range(world)]
    read = sum(int(route.windows.rows.sum()) for route in routes) / order.rows
    assert read <= most
    if last == "drop":
        assert read == pytest.approx(routes[0].times_read, rel=0.02)


def test_a_step_takes_a_run_of_each_lane_and_no_look_at_each_row() -> None:
    order = Order((104_857,) * 100, 0, 0)
    route = Route(order, Steps(order.rows, 24 * 65_536), 7, 24)

    class Everything:
        def __init__(self) -> None:
            self._ready = iter([Ready(need, need.window) for need in route.needs()])

        def next(self) -> Ready:
            return next(self._ready)

    runs, _ = Assembly(route, Everything()).plan(0, 4)
    assert runs.rows == 4 * 65_536
    assert len(runs.lengths) <= 4 * 2 * len(route.lanes)


@given(shared())
def test_without_a_shuffle_a_rank_reads_its_rows_alone(route) -> None:
    if route.even or route.order.shuffle:
        return
    starts, t = (
        np.concatenate([[0], np.cumsum(route.order.blocks)]),
        rows_of_route(route, 0, route.steps.left(route.t)),
    )
    found: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(route_module, "MOST_RUNS", 1000)
        for need in route.needs():
            own = route.only_own(need)
            assert (own.window, own.rows) == (need.window, need.rows)
            for fetch in own.fetches:
                whole = next(each for each in need.fetches if each.holds(fetch))
                assert fetch.place - whole.place == fetch.first - whole.first, (
                    "it lies where it would have lain"
                )
                found += range(
                    starts[fetch.block] + fetch.first, starts[fetch.block] + fetch.first + fetch.rows
                )
    assert found == t.tolist()


def test_without_a_shuffle_a_gather_is_of_many_steps() -> None:
    order = Order((104_857,) * 100, 0, 0, 1, shuffle=False)
    route = Route(order, Steps(order.rows, 8 * 8192), 3, 8)
    costs = Costs(row=160, beside=8, gather=32 << 20, gathers=4, staged=0)
    assert budget(route, costs, 4, None).together == 16


def test_of_many_small_runs_the_window_is_read() -> None:
    order = Order((1000,) * 3, 0, 0, 1, shuffle=False)
    few, many = (Route(order, Steps(3000, batch), 1, 2) for batch in (100, 10))
    assert [len(few.only_own(need).fetches) for need in few.needs()] == [10, 10, 10]
    # The first window is a small one, so that lanes do not ask for their next blocks all at once.
    assert [many.only_own(need) is need for need in many.needs()] == [False, True, True, True]


def test_the_definition_gives_a_lane_one_owner_or_cuts_by_lane() -> None:
    steps = Steps(rows=12, batch=6)
    assert rows_of_rank(steps, 0, 1, 2, lanes=4).tolist() == [1, 3, 5]
    assert rows_of_rank(steps, 0, 1, 3, lanes=4).tolist() == [1, 5]
