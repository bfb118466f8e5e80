"""One rank's way through the order: which windows it reads, in the order it needs them, and where each row then lies.

Where the world divides the lanes, rank r has the lanes r, r + W, r + 2W, ..., and its k-th row is row k // L of its
lane k % L. Otherwise a step's rows are sorted by lane and cut, and neighbours share a lane. Both are the same to
those who fetch: windows, each needed from some row of the rank on. Pure functions, like `order`; `stages` fetches,
`loader` gathers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.dtypes import Array
from penstock.feed.order import Order, Steps, strays

CHUNK = 512
"""Windows are planned so many at a time, while others are read."""


@dataclass(frozen=True)
class Fetch:
    """A run of rows of one block, and where it goes inside its window."""

    block: int
    first: int
    rows: int
    place: int


@dataclass(frozen=True, eq=False)
class Need:
    """One window: its lane (as the rank counts them), the lane's rows it holds, and how they are permuted."""

    lane: int
    start: int
    rows: int
    keys: Array | None
    """Of the permutation of its rows; None where they stay as they are."""
    strays: Array | None
    """See `order.strays`."""
    fetches: tuple[Fetch, ...]

    @property
    def stop(self) -> int:
        """The lane's first row after it."""
        return self.start + self.rows


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
        if not each or self.steps.rows % self.steps.batch:
            # Steps shorter than the lanes are many go round: in time every lane comes to every rank.
            return np.arange(count)
        low = (self.steps.batch * self.rank // self.world - more) // each
        high = -(-self.steps.batch * (self.rank + 1) // self.world // each)
        return np.arange(max(low - 1, 0), min(high + 1, count))

    @cached_property
    def lane_rows(self) -> Array:
        """Rows of each of them."""
        return np.asarray(np.diff(self.order.lane_starts)[self.lanes])

    def before(self, t: int) -> Array:
        """How many rows of each lane come before row t of the epoch."""
        return np.asarray(np.maximum(-(-(t - self.lanes) // self.order.lanes), 0))

    def needs(self) -> Iterator[Need]:
        """The windows that are not behind row t, the one needed first first."""
        windows, pieces = self.order.windows, self.order.pieces
        number = np.full(self.order.lanes, -1)
        number[self.lanes] = np.arange(len(self.lanes))
        lane = number[windows.lane]
        start = windows.start - self.order.lane_starts[windows.lane]
        behind = np.append(self.before(self.t), 0)[lane]
        wanted = np.flatnonzero((lane >= 0) & (start + windows.rows > behind))
        wanted = wanted[np.lexsort((lane[wanted], start[wanted]))]
        firsts = np.searchsorted(pieces.window, np.arange(len(windows.start) + 1))
        for chunk in range(0, len(wanted), CHUNK):
            some = wanted[chunk : chunk + CHUNK]
            stray = strays(windows.rows[some], windows.keys[:, some]) if self.order.shuffle else None
            for place, window in enumerate(some.tolist()):
                yield Need(
                    int(lane[window]),
                    int(start[window]),
                    int(windows.rows[window]),
                    windows.keys[:, window] if self.order.shuffle else None,
                    stray[place] if stray is not None else None,
                    tuple(
                        Fetch(
                            int(pieces.block[piece]),
                            int(pieces.first[piece]),
                            int(pieces.rows[piece]),
                            int(pieces.start[piece] - windows.start[window]),
                        )
                        for piece in range(int(firsts[window]), int(firsts[window + 1]))
                    ),
                )

    def own_rows(self, t: int) -> int:
        """Where lanes have one owner: how many of the rank's rows come before row t."""
        return max(-(-(t - self.rank) // self.world), 0)

    def windows_at_once(self, steps: int) -> int:
        """At most so many windows of one lane hold the rows of so many steps."""
        windows = self.order.windows
        if not len(windows.start):
            return 1
        span = -(-steps * self.steps.batch // self.order.lanes) + 1
        stops = windows.start + windows.rows
        reach = np.searchsorted(windows.start, stops - 1 + span)
        return int((reach - np.arange(len(stops))).max())
