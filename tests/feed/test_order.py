"""The order of an epoch, as properties: each holds for any blocks, lanes, windows, ranks and batch sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_of_steps import rows_of_rank

from penstock.dataset.hashing import hashed
from penstock.feed.plan.order import LAST, ROUNDS, Order, Steps, grid, permutation, scramble, scrambled_grid

blocks = st.lists(st.integers(0, 40), min_size=1, max_size=25).map(tuple)
seeds = st.integers(-(2**70), 2**70)
epochs = st.integers(0, 1000)
lanes = st.integers(1, 40)
windows = st.integers(1, 5)


def everything(order: Order) -> list[tuple[int, int]]:
    found, rows = order.locate(np.arange(order.rows))
    return list(zip(found.tolist(), rows.tolist(), strict=True))


@given(blocks, seeds, epochs, lanes, windows)
def test_every_row_comes_exactly_once(blocks, seed, epoch, lanes, window) -> None:
    order = Order(blocks, seed, epoch, lanes, window)
    expected = [(block, row) for block, rows in enumerate(blocks) for row in range(rows)]
    assert sorted(everything(order)) == expected


@given(blocks, windows)
def test_without_shuffle_it_is_the_order_of_the_files(blocks, window) -> None:
    expected = [(block, row) for block, rows in enumerate(blocks) for row in range(rows)]
    assert everything(Order(blocks, 0, 0, 1, window, shuffle=False)) == expected


@given(blocks, seeds, lanes, windows, st.integers(1, 7), st.integers(1, 12), st.sampled_from(LAST))
def test_ranks_share_each_step_and_the_steps_share_the_epoch(
    blocks, seed, lanes, window, world, each, last
) -> None:
    rows = sum(blocks)
    steps = Steps(rows, each * world, last)
    seen: list[int] = []
    for step in range(steps.count):
        parts = [rows_of_rank(steps, step, rank, world, lanes) for rank in range(world)]
        whole = np.sort(np.concatenate(parts))
        assert whole.tolist() == list(range(len(seen), len(seen) + len(whole))), (
            "a step is a run of the order"
        )
        seen += whole.tolist()
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        if last == "drop" or step < steps.count - 1:
            assert sizes == [each] * world
    assert len(seen) == (rows // (each * world) * each * world if last == "drop" else rows)


@given(blocks, seeds, epochs, lanes, windows, st.integers(0, 500), st.integers(1, 50))
def test_the_order_can_be_entered_anywhere(blocks, seed, epoch, lanes, window, start, count) -> None:
    order = Order(blocks, seed, epoch, lanes, window)
    start = min(start, order.rows)
    part = np.arange(start, min(start + count, order.rows))
    found, rows = order.locate(part)
    whole = everything(order)[start : start + count]
    assert list(zip(found.tolist(), rows.tolist(), strict=True)) == whole


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 9))
def test_a_lane_has_one_owner_where_the_world_divides_the_lanes(world, share, each) -> None:
    lanes = world * share
    steps = Steps(lanes * each * 7 + 3, each * world, "short")
    owners: dict[int, set[int]] = {}
    for step in range(steps.count):
        for rank in range(world):
            for lane in np.unique(rows_of_rank(steps, step, rank, world, lanes) % lanes).tolist():
                owners.setdefault(lane, set()).add(rank)
    assert all(len(ranks) == 1 for ranks in owners.values())


@given(blocks, seeds, epochs, lanes, windows)
def test_windows_hold_whole_runs_of_at_most_so_many_blocks(blocks, seed, epoch, lanes, window) -> None:
    order = Order(blocks, seed, epoch, lanes, window)
    pieces, found = order.pieces, order.windows
    assert found.rows.sum() == order.rows
    if order.rows:
        assert found.rows.min() >= 1
        assert np.bincount(pieces.window).max() <= window + 1
        assert (pieces.first + pieces.rows <= np.array(blocks)[pieces.block]).all()
        assert (np.searchsorted(order.lane_starts, found.start, "right") - 1 == found.lane).all()
        ends = found.start + found.rows
        assert (ends <= order.lane_starts[found.lane + 1]).all(), "a window stays inside its lane"


def test_seeds_and_epochs_are_a_tuple_and_not_a_sum() -> None:
    blocks = (50,) * 20
    a, b = Order(blocks, 1, 2, 8), Order(blocks, 2, 1, 8)
    assert everything(a) != everything(b)
    assert hashed(1, 2) != hashed(2, 1)
    assert hashed(0) != hashed(0, 0)


def test_orders_of_different_seeds_and_epochs_are_uncorrelated() -> None:
    blocks, rows = (100,) * 100, 10_000
    places = []
    for seed, epoch in ((0, 0), (0, 1), (1, 0), (1, 1), (2**40, 0)):
        found, inside = Order(blocks, seed, epoch, 16, 2).locate(np.arange(rows))
        place = np.empty(rows)
        place[found * 100 + inside] = np.arange(rows)
        places.append(place)
    correlation = np.corrcoef([*places, np.arange(rows)])
    off_diagonal = correlation[~np.eye(len(correlation), dtype=bool)]
    # Blocks move as a whole, so there are about 100 independent places: 0.1 is one standard deviation.
    assert np.abs(off_diagonal).max() < 0.4
    inside_a, inside_b = places[0] % 16, places[1] % 16
    assert abs(np.corrcoef(inside_a, inside_b)[0, 1]) < 0.4


round_keys = st.lists(st.integers(0, 2**32 - 1), min_size=ROUNDS, max_size=ROUNDS).map(
    lambda keys: np.array(keys)
)


@given(st.integers(1, 3000), round_keys)
@settings(max_examples=100)
def test_a_permutation_is_one_and_the_same_in_torch(rows, keys) -> None:
    ours = permutation(rows, keys)
    assert np.array_equal(np.sort(ours), np.arange(rows))
    a, b = (int(side[0]) for side in grid(np.array([rows])))
    assert 0 <= a * b - rows < max(a, b)
    theirs = scramble(torch.arange(a * b), a, b, keys.tolist())
    assert np.array_equal(theirs.numpy(), scramble(np.arange(a * b), a, b, keys))
    # The permutation that states on disk stand for, step by step.
    walked = scramble(np.arange(rows), a, b, keys)
    while (walked >= rows).any():
        walked = np.where(walked >= rows, scramble(walked, a, b, keys), walked)
    assert np.array_equal(ours, walked)


@given(st.integers(1, 400), st.integers(1, 400), round_keys)
def test_cells_that_are_looked_up_are_those_that_are_computed(a, b, keys) -> None:
    assert np.array_equal(scrambled_grid(a, b, keys), scramble(np.arange(a * b), a, b, keys))


@pytest.mark.parametrize("rows", [1, 2, 3, 16_383, 16_384, 104_857, 3_000_001])
def test_large_windows_are_permuted_as_they_always_were(rows) -> None:
    keys = np.random.default_rng(rows).integers(0, 2**32, ROUNDS)
    a, b = (int(side[0]) for side in grid(np.array([rows])))
    assert np.array_equal(scrambled_grid(a, b, keys), scramble(np.arange(a * b), a, b, keys))


def test_the_order_of_states_that_were_saved_stays() -> None:
    """Written down once: states on disk mean this order."""
    keys = np.array([0, 1, 2**31, 2**32 - 1, 12345, 987654321])
    assert permutation(12, keys).tolist() == [8, 3, 4, 1, 2, 9, 6, 7, 0, 10, 11, 5]
    found = permutation(100_000, keys)
    assert int((found * np.arange(100_000) % 1_000_003).sum()) == 49_937_539_504


@pytest.mark.parametrize("rows", [2, 30, 64])
def test_permutations_are_uniform(rows) -> None:
    """Every row is equally likely at every place, and every pair of rows at neighbouring places: chi-squares."""
    random, count = np.random.default_rng(rows), 6000
    places, pairs = np.zeros((rows, rows)), np.zeros((rows, rows))
    for _ in range(count):
        found = permutation(rows, random.integers(0, 2**32, ROUNDS))
        places[np.arange(rows), found] += 1
        pairs[found[:-1], found[1:]] += 1
    expected = count / rows
    freedom = (rows - 1) ** 2
    statistic = ((places - expected) ** 2 / expected).sum()
    assert abs(statistic - freedom) < 6 * np.sqrt(2 * freedom) + 10
    apart = ~np.eye(rows, dtype=bool)
    expected = count * (rows - 1) / (rows * (rows - 1))
    statistic = ((pairs[apart] - expected) ** 2 / expected).sum()
    freedom = rows * (rows - 1)
    assert abs(statistic - freedom) < 6 * np.sqrt(2 * freedom) + 10


def test_memory_grows_with_blocks_and_not_with_rows() -> None:
    order = Order((1 << 40,) * 50, 3, 1, 64, 2)
    assert order.rows == 50 << 40
    assert len(order.pieces.block) < 50 + 64 + 64
    assert order.windows.rows.sum() == order.rows


@pytest.mark.parametrize(("lanes", "window"), [(0, 1), (1, 0), (-1, 1)])
def test_nonsense_is_refused(lanes, window) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Order((1,), 0, 0, lanes, window)
