"""One rank's way through the order: which windows it reads, in the order it needs them, and where each row then lies.

Where the world divides the lanes, rank r has the lanes r, r + W, r + 2W, ..., and its k-th row is row k // L of its
lane k % L. Otherwise a step's rows are sorted by lane and cut, and neighbours share a lane. Both are the same to
those who fetch: windows, each needed from some row of the rank on. Pure functions, like `order`; `reading.stages`
fetches, `assembly` says what is gathered.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.dtypes import Array
from penstock.feed.plan.order import Order, Steps

CHUNK = 64
"""Windows are planned so many at a time, while others are read."""


@dataclass(frozen=True)
class Fetch:
    """A run of rows of one block, and where it goes inside its window."""

    block: int
    first: int
    rows: int
    place: int

    def parts(self, most: int) -> Iterator[Fetch]:
        """The same run in parts of at most so many rows.

        >>> [(part.first, part.rows, part.place) for part in Fetch(0, 10, 5, 0).parts(3)]
        [(10, 3, 0), (13, 2, 3)]
        """
        if self.rows <= most:
            yield self
            return
        for start in range(0, self.rows, most):
            rows = min(most, self.rows - start)
            yield Fetch(self.block, self.first + start, rows, self.place + start)

    def holds(self, other: Fetch) -> bool:
        """Whether all rows of the other are rows of this run."""
        last, others = self.first + self.rows, other.first + other.rows
        return self.block == other.block and self.first <= other.first and others <= last


@dataclass(frozen=True, eq=False)
class Need:
    """One window to fetch, and how its rows are permuted."""

    window: int
    """Its number in the rank's `Windows`."""
    rows: int
    keys: Array | None
    """Of the permutation of its rows; None where they stay as they are."""
    fetches: tuple[Fetch, ...]


@dataclass(frozen=True, eq=False)
class RankWindows:
    """The windows of a rank's lanes: lane after lane, and by place inside each. Lanes are numbered as the rank's."""

    lane: Array
    start: Array
    """The lane's first row in it."""
    stop: Array
    keys: Array
    """ROUNDS x windows."""
    number: Array
    """Each one's number among the windows of the order."""
    stride: int
    """More rows than any lane has."""

    def holding(self, lane: Array, row: Array) -> Array:
        """The windows with these rows of these lanes."""
        return np.searchsorted(self.keyed, lane * self.stride + row, "right") - 1

    def first_not_behind(self, lane: Array, row: Array) -> Array:
        """Per lane, the first of its windows that has something left when `row` rows are behind."""
        return np.searchsorted(self._stops, lane * self.stride + row, "right")

    @cached_property
    def keyed(self) -> Array:
        """Numbers that order the windows by lane and by place inside it."""
        return np.asarray(self.lane * self.stride + self.start)

    @cached_property
    def _stops(self) -> Array:
        return np.asarray(self.lane * self.stride + self.stop)

    @property
    def rows(self) -> Array:
        """Rows of each."""
        return np.asarray(self.stop - self.start)


@dataclass(frozen=True)
class Route:
    """A rank's part of an epoch, from row t of the epoch on, in steps of `batch` rows on all ranks."""

    order: Order
    steps: Steps
    rank: int = 0
    world: int = 1
    t: int = 0

    @property
    def even(self) -> bool:
        """Whether every lane has one owner."""
        return self.order.lanes % self.world == 0

    @cached_property
    def lanes(self) -> Array:
        """The lanes this rank reads."""
        count = self.order.lanes
        if self.even:
            return np.arange(self.rank, count, self.world)
        each, more = divmod(self.steps.batch, count)
        short = self.steps.last != "drop" and (self.steps.rows - self.t) % self.steps.batch
        if not each or short:
            # Steps shorter than the lanes are many go round: in time every lane comes to every rank. And a last step
            # that is cut short is shared out anew.
            return np.arange(count)
        low = (self.steps.batch * self.rank // self.world - more) // each
        high = -(-self.steps.batch * (self.rank + 1) // self.world // each)
        return np.arange(max(low - 1, 0), min(high + 1, count))

    @cached_property
    def windows(self) -> RankWindows:
        """All windows of these lanes."""
        windows = self.order.windows
        own = np.full(self.order.lanes, -1)
        own[self.lanes] = np.arange(len(self.lanes))
        number = np.flatnonzero(own[windows.lane] >= 0)
        start = windows.start[number] - self.order.lane_starts[windows.lane[number]]
        stop = start + windows.rows[number]
        return RankWindows(
            own[windows.lane[number]],
            start,
            stop,
            windows.keys[:, number],
            number,
            int(stop.max(initial=0)) + 2,
        )

    def before(self, t: int) -> Array:
        """How many rows of each lane come before row t of the epoch."""
        return np.asarray(np.maximum(-(-(t - self.lanes) // self.order.lanes), 0))

    def needs(self) -> Iterator[Need]:
        """The windows that are not behind row t, the one needed first first."""
        windows, pieces = self.windows, self.order.pieces
        wanted = np.flatnonzero(windows.stop > self.before(self.t)[windows.lane])
        wanted = wanted[np.lexsort((windows.lane[wanted], windows.start[wanted]))]
        firsts = np.searchsorted(pieces.window, np.arange(len(self.order.windows.start) + 1))
        for chunk in range(0, len(wanted), CHUNK):
            yield from self._needs(wanted[chunk : chunk + CHUNK], firsts)

    def _needs(self, some: Array, firsts: Array) -> Iterator[Need]:
        """Some windows; through lists, since single numbers of an array are slow."""
        windows, pieces = self.windows, self.order.pieces
        number = windows.number[some]
        counts = (firsts[number + 1] - firsts[number]).tolist()
        piece = np.concatenate([np.arange(firsts[each], firsts[each + 1]) for each in number])
        places = pieces.start[piece] - np.repeat(self.order.windows.start[number], counts)
        fetches = map(
            Fetch,
            pieces.block[piece].tolist(),
            pieces.first[piece].tolist(),
            pieces.rows[piece].tolist(),
            places.tolist(),
        )
        keys = windows.keys[:, some].T if self.order.shuffle else [None] * len(some)
        for window, rows, key, count in zip(
            some.tolist(), windows.rows[some].tolist(), keys, counts, strict=True
        ):
            yield Need(window, rows, key, tuple(itertools.islice(fetches, count)))

    @cached_property
    def _sorted(self) -> tuple[Array, Array]:
        return np.sort(self.windows.start), np.sort(self.windows.stop)

    def own_rows(self, t: int) -> int:
        """Where lanes have one owner: how many of the rank's rows come before row t."""
        return max(-(-(t - self.rank) // self.world), 0)

    def most_windows(self, steps: int) -> int:
        """The most windows that the rows of so many steps lie in, at any place of the epoch.

        Windows are fetched in the order they are needed, so this many slots are enough to go on.
        """
        count = self.steps.left(self.t)
        firsts = np.arange(0, count, steps, dtype=np.int64)
        begin = self.t + firsts * self.steps.batch
        end = np.minimum(self.t + (firsts + steps) * self.steps.batch, self.steps.rows)
        top, bottom = begin // self.order.lanes, -(-end // self.order.lanes)
        starts, stops = self._sorted
        at_once = np.searchsorted(starts, bottom) - np.searchsorted(stops, top, "right")
        return max(int(at_once.max(initial=1)), 1)
