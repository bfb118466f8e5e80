"""Windows to batches: keeps track of where every lane stands, and says which rows several steps are made of.

The consumer's half of an epoch. It asks `reading.stages` for windows as it needs them and tells which slots are free
once the rows are gathered. Only arithmetic on a few numbers per lane; the rows themselves are the arena's work.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from penstock.dtypes import Array
from penstock.feed.memory.arena import Runs
from penstock.feed.plan.route import Route
from penstock.feed.plan.shares import laid_out
from penstock.feed.reading.stages import Ready


class ReadyWindows(Protocol):
    """Whoever fetches windows."""

    def next(self) -> Ready:
        """The next window that has become ready, in whatever order."""


class Assembly:
    """Says which rows of which slots a rank's steps are, in their order."""

    def __init__(self, route: Route, readers: ReadyWindows | None) -> None:
        """Without readers every window is there already."""
        self._route, self._readers = route, readers
        self._slots = (
            np.arange(len(route.windows.start)) if readers is None else np.full(len(route.windows.start), -1)
        )
        """The slot of each of the rank's windows, while it lies in one."""
        self._numbers = np.arange(len(route.lanes))
        self._first = route.windows.first_not_behind(self._numbers, route.before(route.t))
        """Per lane, its first window that is not behind."""

    def plan(self, first_step: int, last_step: int) -> tuple[Runs, list[int]]:
        """The rows of some steps on this rank, one after the other, and the slots that are free after them.

        Waits until they are all there.
        """
        route, steps = self._route, self._route.steps
        start = route.t + first_step * steps.batch
        stop = min(route.t + last_step * steps.batch, steps.rows)
        if route.even:
            first, last = route.own_rows(start), route.own_rows(stop)
            windows, offsets, lengths, low, high = self._even_runs(first, last)
            lanes, t = len(route.lanes), windows[:0]
        else:
            windows, offsets, lengths, t = self._shared_runs(first_step, last_step)
            first, lanes, low, high = 0, 1, 0, int(lengths.sum())
        self._wait_for(windows)
        runs = Runs(windows, self._slots[windows], offsets, lengths, lanes, low, high, first, t)
        return runs, self._behind(stop) if self._readers is not None else []

    def _even_runs(self, first: int, last: int) -> tuple[Array, Array, Array, int, int]:
        """The rank's rows from `first` to `last`: the same run of every lane, but for the ends, which are filled up."""
        lanes, held = len(self._route.lanes), self._route.windows
        if first == last:
            none = np.zeros(0, np.int64)
            return none, none, none, 0, 0
        top, bottom = first // lanes, -(-last // lanes)
        begins = np.maximum(-(-(first - self._numbers) // lanes), 0)
        ends = np.maximum(-(-(last - self._numbers) // lanes), 0)
        low = held.holding(self._numbers, begins)
        counts = np.where(ends > begins, held.holding(self._numbers, ends - 1) - low + 1, 0) + 2
        lane, place = laid_out(counts)
        # Of each lane the first and the last run only fill up: rows of the top and the bottom that are not asked for.
        inner = (place > 0) & (place < counts[lane] - 1)
        windows = np.where(inner, low[lane] + place - 1, -1)
        starts = np.maximum(held.start[windows], begins[lane])
        lengths = np.where(
            inner,
            np.minimum(held.stop[windows], ends[lane]) - starts,
            np.where(place == 0, begins[lane] - top, bottom - ends[lane]),
        )
        offsets = np.where(inner, starts - held.start[windows], 0)
        kept = lengths > 0
        skipped = first - top * lanes
        return windows[kept], offsets[kept], lengths[kept], skipped, skipped + last - first

    def _shared_runs(self, first_step: int, last_step: int) -> tuple[Array, Array, Array, Array]:
        """The rank's rows in some steps, run after run; also the number of each run's first row in the epoch."""
        route, held, lanes = self._route, self._route.windows, self._route.order.lanes
        share = route.slices(first_step, last_step).share()
        lane, stop = share.lane - int(route.lanes[0]), share.row + share.rows
        low = held.holding(lane, share.row)
        counts = held.holding(lane, stop - 1) - low + 1
        run, place = laid_out(counts)
        windows = low[run] + place
        starts = np.maximum(held.start[windows], share.row[run])
        lengths = np.minimum(held.stop[windows], stop[run]) - starts
        return windows, starts - held.start[windows], lengths, starts * lanes + share.lane[run]

    def _wait_for(self, windows: Array) -> None:
        left = set(windows[(windows >= 0) & (self._slots[windows] < 0)].tolist())
        while left and self._readers is not None:
            ready = self._readers.next()
            self._slots[ready.need.window] = ready.slot
            left.discard(ready.need.window)

    def _behind(self, t: int) -> list[int]:
        """The slots of windows that have nothing left when t rows of the epoch are behind.

        Where lanes are shared this holds too: whatever of a lane comes before the next step is behind this rank,
        whoever took it. Windows that were never asked for are waited for, since their slots must come back.
        """
        now = self._route.windows.first_not_behind(self._numbers, self._route.before(t))
        if (now == self._first).all():
            return []
        ranges = zip(self._first.tolist(), now.tolist(), strict=True)
        passed = np.concatenate([np.arange(old, new) for old, new in ranges if new > old])
        self._wait_for(passed)
        slots: list[int] = self._slots[passed].tolist()
        self._slots[passed] = -1
        self._first = now
        return slots
