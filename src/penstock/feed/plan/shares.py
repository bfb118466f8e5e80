"""What a rank has of some steps where the world does not divide the lanes: runs of rows, never row by row.

A step's rows are sorted by lane, and cut into equal slices. So of every lane in its slice a rank has one run of rows:
all that the step has of the lane, but for the first and the last. `route` asks in which windows such runs lie,
`assembly` which of their rows come next. Pure functions, like `order`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.dtypes import Array
from penstock.feed.plan.order import Steps


@dataclass(frozen=True, eq=False)
class Share:
    """Runs of rows in the order of steps, and by lane inside a step."""

    lane: Array
    row: Array
    """The run's first row in its lane."""
    rows: Array


@dataclass(frozen=True, eq=False)
class Slices:
    """What is cut out of each of some steps for a rank, from a place in the first lane to a place in the last.

    >>> found = Slices.of(Steps(rows=12, batch=6), 0, 2, rank=1, world=3, lanes=4)
    >>> found.first_lane, found.last_lane
    (array([1, 2]), array([1, 2]))
    """

    begin: Array
    """The number of the step's first row in the epoch."""
    end: Array
    lanes: int
    first_lane: Array
    first_place: Array
    """Of the first row among the step's rows of its lane."""
    last_lane: Array
    last_place: Array

    @classmethod
    def of(
        cls, steps: Steps, first: int, last: int, rank: int, world: int, lanes: int, start: int = 0
    ) -> Slices:
        """Of the steps from `first` to `last`, which are counted from row `start`; those that have nothing for the rank
        are left out."""
        begin = start + steps.batch * np.arange(first, last, dtype=np.int64)
        rows = np.clip(steps.rows - begin, 0, steps.batch)
        low, high = rows * rank // world, rows * (rank + 1) // world
        there = high > low
        begin, rows, low, high = begin[there], rows[there], low[there], high[there]
        first_lane, first_place = _located(low, begin, rows, lanes)
        last_lane, last_place = _located(high - 1, begin, rows, lanes)
        return cls(begin, begin + rows, lanes, first_lane, first_place, last_lane, last_place)

    def share(self) -> Share:
        """The runs."""
        counts = self.last_lane - self.first_lane + 1
        step, place = laid_out(counts)
        lane = self.first_lane[step] + place
        before = rows_before(self.begin[step], lane, self.lanes)
        row = before + np.where(place == 0, self.first_place[step], 0)
        stop = np.where(
            place == counts[step] - 1,
            before + self.last_place[step] + 1,
            rows_before(self.end[step], lane, self.lanes),
        )
        kept = stop > row
        return Share(lane[kept], row[kept], (stop - row)[kept])


def laid_out(counts: Array) -> tuple[Array, Array]:
    """Of groups with so many items each, laid end to end: the group of every item, and its place in the group.

    >>> laid_out(np.array([2, 0, 3]))
    (array([0, 0, 2, 2, 2]), array([0, 1, 0, 1, 2]))
    """
    group = np.repeat(np.arange(len(counts)), counts)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)


def rows_before(t: Array, lane: Array, lanes: int) -> Array:
    """How many rows of a lane come before row t of the epoch.

    >>> rows_before(np.array([5]), np.arange(3), 3)
    array([2, 2, 1])
    """
    return np.asarray((t - lane + lanes - 1) // lanes)


def period(batch: int, lanes: int) -> int:
    """After so many steps a rank's slices are cut at the same places again.

    >>> period(24, 64), period(100, 64), period(7, 64)
    (8, 16, 64)
    """
    return lanes // math.gcd(batch, lanes)


def _located(place: Array, begin: Array, rows: Array, lanes: int) -> tuple[Array, Array]:
    """The lane of the row at a place among a step's rows sorted by lane, and its place among the step's of that lane.

    Every lane has as many rows of the step, and some have one more: `more` lanes from where the step begins, on from
    lane 0 behind the last. So there are four stretches of lanes with equally many rows each, the second and the fourth
    of them with fewer.
    """
    each, more = rows // lanes, rows % lanes
    head = begin % lanes
    round_again, tail = np.maximum(head + more - lanes, 0), np.minimum(head + more, lanes)
    first = round_again * (each + 1)
    second = first + (head - round_again) * each
    third = second + (tail - head) * (each + 1)
    some = np.maximum(each, 1)  # where it is 0, no row falls into these stretches
    lane = np.where(
        place < first,
        place // (each + 1),
        np.where(
            place < second,
            round_again + (place - first) // some,
            np.where(place < third, head + (place - second) // (each + 1), tail + (place - third) // some),
        ),
    )
    lanes_before = np.minimum(lane, round_again) + np.clip(lane - head, 0, tail - head)
    return lane, place - lane * each - lanes_before
