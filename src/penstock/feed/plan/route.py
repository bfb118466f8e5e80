"""One rank's way through the order: which windows it reads, in the order it needs them, and where each row then lies.

Where the world divides the lanes, rank r has the lanes r, r + W, r + 2W, ..., and its k-th row is row k // L of its
lane k % L. Otherwise a step's rows are sorted by lane and cut, and neighbours share a lane (`shares`). Both are the
same to those who fetch: windows, each needed from some row of the rank on. Pure functions, like `order`;
`reading.stages` fetches, `assembly` says what is gathered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.dtypes import Array
from penstock.feed.plan.order import Order, Steps
from penstock.feed.plan.shares import Slices, period, rows_before

CHUNK = 64
"""Windows are planned so many at a time, while others are read."""
MOST_STEPS = 1 << 16
"""Where lanes are shared, so many steps are looked at one by one for the windows they need. Of more, windows are taken
to have rows of every step that comes round."""


MOST_RUNS = 16
"""So many runs of a window are read by themselves; of more, each would be small beside what it costs to ask for it."""


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

    @property
    def times_read(self) -> float:
        """How often all ranks together read the data: lanes that a cut goes through are read on both sides of it.

        >>> order = Order((1000,) * 640, seed=0, epoch=0)
        >>> [Route(order, Steps(order.rows, 64 * world), 0, world).times_read for world in (8, 24, 128)]
        [1.0, 1.25, 2.0]
        """
        lanes = self.order.lanes
        return 1.0 if self.even else 1 + (self.world - math.gcd(self.world, lanes)) / lanes

    @cached_property
    def lanes(self) -> Array:
        """The lanes this rank reads, at least one."""
        count = self.order.lanes
        if self.even:
            return np.arange(self.rank, count, self.world)
        lanes = np.concatenate([lane for some in self._telling for lane in (some.first_lane, some.last_lane)])
        return np.arange(lanes.min(), lanes.max() + 1) if len(lanes) else np.arange(1)

    @property
    def _telling(self) -> tuple[Slices, Slices]:
        """What tells all lanes that it has rows of: the steps until all comes round, and the last, perhaps short."""
        count = self.steps.left(self.t)
        first = min(period(self.steps.batch, self.order.lanes), count)
        return self.slices(0, first), self.slices(max(count - 1, 0), count)

    def slices(self, first_step: int, last_step: int) -> Slices:
        """Where lanes are shared: what the rank has of some steps, counted from row t."""
        steps, lanes = self.steps, self.order.lanes
        return Slices.of(steps, first_step, last_step, self.rank, self.world, lanes, self.t)

    @cached_property
    def windows(self) -> RankWindows:
        """All windows of these lanes; where lanes are shared, those that hold rows of this rank."""
        windows = self.order.windows
        own = np.full(self.order.lanes, -1)
        own[self.lanes] = np.arange(len(self.lanes))
        found = self._windows(np.flatnonzero(own[windows.lane] >= 0), own)
        return found if self.even else self._windows(found.number[self._holds_own(found)], own)

    def _windows(self, number: Array, own: Array) -> RankWindows:
        """The windows of the order with these numbers, by the rank's numbers of their lanes."""
        windows = self.order.windows
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

    def _holds_own(self, windows: RankWindows) -> Array:
        """Whether any row of a window is this rank's; for windows smaller than a few steps' rows perhaps too often."""
        count = self.steps.left(self.t)
        changes = np.zeros(len(windows.start) + 1, np.int64)
        repeated, last = self._telling
        for some in [self.slices(0, count)] if count <= MOST_STEPS else [last]:
            share = some.share()
            lane = share.lane - int(self.lanes[0])
            ends = windows.holding(lane, share.row), windows.holding(lane, share.row + share.rows - 1) + 1
            changes += np.bincount(ends[0], minlength=len(changes))
            changes -= np.bincount(ends[1], minlength=len(changes))
        found = np.asarray(np.cumsum(changes)[:-1] > 0)
        if count > MOST_STEPS:
            found |= np.isin(windows.lane, repeated.share().lane - self.lanes[0])
        return found

    def before(self, t: int) -> Array:
        """How many rows of each lane come before row t of the epoch."""
        return rows_before(np.asarray(t), self.lanes, self.order.lanes)

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

    def only_own(self, need: Need) -> Need:
        """Of a window whose rows stay as they are, the runs that are this rank's; all of it where there are many."""
        if self.even or need.keys is not None:
            return need
        start, batch = int(self.windows.start[need.window]), self.steps.batch
        first, last = ((place - self.t) // batch for place in (start, start + need.rows - 1))
        if last - first >= MOST_RUNS:
            return need
        share = self.slices(max(first, 0), min(last + 1, self.steps.left(self.t))).share()
        fetches = []
        for fetch in need.fetches:
            # Without a shuffle there is one lane, so that a row's place in it is its number in the epoch.
            low = np.maximum(share.row - start, fetch.place)
            high = np.minimum(share.row + share.rows - start, fetch.place + fetch.rows)
            for begin, end in zip(low.tolist(), high.tolist(), strict=True):
                if begin < end:
                    inside = fetch.first + begin - fetch.place
                    fetches.append(Fetch(fetch.block, inside, end - begin, begin))
        return replace(need, fetches=tuple(fetches)) if fetches else need

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
