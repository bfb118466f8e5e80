"""Windows to batches: keeps track of where every lane stands, and gathers several steps' rows at once.

The consumer's half of an epoch. It asks `stages` for windows as it needs them, hands places to the arena, and gives
slots back when the last row of their window is gathered. No thread of its own; `loader` decides where it runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.dtypes import Array
from penstock.feed.arena import Arena, Runs
from penstock.feed.route import Route
from penstock.feed.stages import Readers, Ready


class Assembly:
    """Gathers a rank's rows, in their order."""

    def __init__(self, route: Route, readers: Readers, arena: Arena, capacity: int) -> None:
        self._route, self._readers, self._arena, self._capacity = route, readers, arena, capacity
        self._resident: list[list[Ready]] = [[] for _ in route.lanes]

    def gather(self, first_step: int, last_step: int) -> dict[str, Any]:
        """The rows of some steps on this rank, one after the other."""
        route, steps = self._route, self._route.steps
        start = route.t + first_step * steps.batch
        stop = min(route.t + last_step * steps.batch, steps.rows)
        if route.even:
            runs, done = self._even_runs(route.own_rows(start), route.own_rows(stop))
        else:
            runs, done = self._uneven_runs(first_step, last_step)
        found = self._arena.gather(runs)
        self._release(done)
        return found

    def _even_runs(self, first: int, last: int) -> tuple[Runs, Array]:
        """The rank's rows from `first` to `last`: the same run of every lane, but for the ends."""
        lanes = len(self._route.lanes)
        top, bottom = first // lanes, -(-last // lanes)
        starts: list[int] = []
        lengths: list[int] = []
        windows: list[Ready | None] = []
        numbers = np.arange(lanes)
        begins = np.maximum(-(-(first - numbers) // lanes), 0)
        ends = np.maximum(-(-(last - numbers) // lanes), 0)
        for lane, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            if begin > top:
                starts.append(0)
                lengths.append(begin - top)
                windows.append(None)
            at = begin
            while at < end:
                window = self._window(lane, at)
                count = min(end, window.need.stop) - at
                starts.append(window.slot * self._capacity + at - window.need.start)
                lengths.append(count)
                windows.append(window)
                at += count
            if end < bottom:
                starts.append(0)
                lengths.append(bottom - end)
                windows.append(None)
        low = first - top * lanes
        runs = Runs(np.array(starts), np.array(lengths), lanes, low, low + last - first, windows)
        return runs, ends

    def _uneven_runs(self, first_step: int, last_step: int) -> tuple[Runs, Array]:
        """Rows of lanes that neighbours share, one by one."""
        route, order = self._route, self._route.order
        t = np.concatenate(
            [
                route.steps.of_rank(step, route.rank, route.world, order.lanes, route.t)
                for step in range(first_step, last_step)
            ]
        )
        lane = t % order.lanes - int(route.lanes[0])
        offset = t // order.lanes
        windows: list[Ready | None] = []
        places = np.empty(len(t), np.int64)
        for number in np.unique(lane).tolist():
            chosen = np.flatnonzero(lane == number)
            wanted = offset[chosen]
            at = 0
            while at < len(wanted):
                window = self._window(number, int(wanted[at]))
                upto = int(np.searchsorted(wanted, window.need.stop))
                places[chosen[at:upto]] = window.slot * self._capacity + wanted[at:upto] - window.need.start
                windows.append(window)
                at = upto
        # Whatever of a lane comes before the next step is behind this rank, whoever took it.
        next_t = min(route.t + last_step * route.steps.batch, route.steps.rows)
        return Runs(places, places, 0, 0, len(t), windows), route.before(next_t)

    def _window(self, lane: int, row: int) -> Ready:
        """The window that holds this row of the lane, once it is there."""
        while True:
            for window in self._resident[lane]:
                if window.need.start <= row < window.need.stop:
                    return window
            ready = self._readers.next()
            self._resident[ready.need.lane].append(ready)

    def _release(self, done: Array) -> None:
        """Give back the windows that lie behind the lanes' rows."""
        for lane, row in enumerate(done.tolist()):
            behind = [window for window in self._resident[lane] if window.need.stop <= row]
            if behind:
                self._resident[lane] = [window for window in self._resident[lane] if window.need.stop > row]
                for window in behind:
                    self._readers.release(window.slot)
