"""An epoch over a dataset that is still being written: part after part in the order of the log, permuted inside each.

Row t of the epoch is row t of all parts laid end to end, and inside a part the order is that of any epoch
(`plan.order`), over the part's own blocks. Rank r of W has the rows with t % W == r. So what a rank does in a step
follows from the log alone, and the step can begin when the log covers it (`following`).

Windows have memory of their own here, since how large the next part's are is not known; rows are gathered by NumPy.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.errors import DatasetError
from penstock.feed.ending import Ending
from penstock.feed.follow.following import Following
from penstock.feed.memory.arena import turn_of
from penstock.feed.memory.ragged_slots import no_rows
from penstock.feed.plan.order import Order, Steps
from penstock.feed.plan.route import Need, Route
from penstock.feed.reading.source import RowSource
from penstock.feed.reading.stages import THREADS
from penstock.feed.settings import Settings
from penstock.feed.stats import Work
from penstock.feed.world import World
from penstock.wire.ragged import Packed, joined, take


@dataclass(frozen=True)
class Window:
    """Rows that were read, and the order they are handed out in."""

    tensors: dict[str, Packed]
    order: Array


@dataclass(eq=False)
class Leg:
    """One part on a rank's way through the epoch."""

    start: int
    """The number of its first row in the epoch."""
    route: Route
    source: RowSource
    needs: Iterator[Need]
    reading: dict[int, Future[Window]] = field(default_factory=dict)
    """By the window's number, from when it is asked for until its last row is behind."""

    @property
    def stop(self) -> int:
        """The number of the first row after it."""
        return self.start + self.route.order.rows

    def places(self, t: Array) -> tuple[Array, Array]:
        """The windows of rows of the epoch that lie in this part, and the rows' places in their windows."""
        lanes, windows = self.route.order.lanes, self.route.windows
        lane, row = (t - self.start) % lanes, (t - self.start) // lanes
        found = windows.holding((lane - self.route.rank) // self.route.world, row)
        return found, row - windows.start[found]

    def forget(self, t: int) -> None:
        """Let go of windows that have nothing left at row t of the epoch."""
        route = self.route
        for number in list(self.reading):
            lane = int(route.lanes[route.windows.lane[number]])
            last = self.start + (int(route.windows.stop[number]) - 1) * route.order.lanes + lane
            if last < t:
                # Nobody may read from files that are about to be closed; it is known until nobody does.
                wait([self.reading[number]])
                del self.reading[number]

    def wait(self) -> None:
        """Return when no read is under way."""
        # Those that a closed pool has cancelled never tell that they are done.
        wait([each for each in self.reading.values() if not each.cancelled()])


def lanes_of(blocks: int, wanted: int) -> int:
    """Lanes of a part: those wanted, where it has as many blocks; else a power of two, which most worlds divide.

    >>> lanes_of(100, 64), lanes_of(12, 64), lanes_of(1, 64)
    (64, 8, 1)
    """
    return wanted if blocks >= wanted else 1 << (max(blocks, 1).bit_length() - 1)


def part_route(
    blocks: tuple[int, ...], number: int, start: int, t: int, settings: Settings, world: World
) -> Route:
    """A rank's way through one part that begins at row `start` of the epoch, from row t of the epoch on.

    Where the world divides the lanes, each has one owner; else as many ranks share a lane as there must.
    """
    lanes = lanes_of(len(blocks), settings.lanes) if settings.shuffle else 1
    order = Order(blocks, settings.seed, number, lanes, settings.window, settings.shuffle)
    groups = math.gcd(world.size, lanes)
    own = (world.rank - start) % groups
    return Route(order, Steps(order.rows, 1, "short"), own, groups, max(t - start, 0))


class FollowedEpoch:
    """What runs while a loader follows a write: threads that read windows ahead, and the gather."""

    def __init__(
        self,
        following: Following,
        specs: tuple[TensorSpec, ...],
        settings: Settings,
        world: World,
        t: int,
        work: Work,
    ) -> None:
        """`work`: told of what the threads do."""
        self._following, self._specs, self._settings, self._world = following, specs, settings, world
        self._t, self._batch, self._work = t, settings.batch(world.size), work
        self._legs: deque[Leg] = deque()
        """Parts that have rows left."""
        self._known = self._start = 0
        self._pool = ThreadPoolExecutor(settings.threads, thread_name_prefix=f"{THREADS}-follower")
        self._ending = Ending()
        self.bytes_read, self.writer_waited = 0, 0.0

    def steps(self) -> Iterator[dict[str, Packed]]:
        """The rows of each step on this rank, from row t of the epoch on."""
        while True:
            self._ending.check_process()
            asked = time.perf_counter()
            there = self._following.cover(self._t + self._batch)
            self.writer_waited += time.perf_counter() - asked
            rows = min(self._batch, there - self._t)
            if rows <= 0 or (rows < self._batch and self._settings.last == "drop"):
                return
            self._following.glance()
            self._take_legs()
            first = self._t + (self._world.rank - self._t) % self._world.size
            try:
                found = self._gather(np.arange(first, self._t + rows, self._world.size))
            except DatasetError as error:
                raise self._following.telling(error) from None
            self._t += self._batch
            self._forget()
            yield found

    def _take_legs(self) -> None:
        """Enter the parts that have become known; those that are behind are left out."""
        parts = self._following.parts
        while self._known < len(parts):
            part, start = parts[self._known], self._start
            self._known, self._start = self._known + 1, start + part.manifest.rows
            if self._start > self._t:
                self._legs.append(self._leg(part, start, self._known))

    def _leg(self, part: Snapshot, start: int, number: int) -> Leg:
        settings, verified = self._settings, np.zeros(len(part.index), bool)
        route = part_route(tuple(part.index.rows.tolist()), number, start, self._t, settings, self._world)
        source = RowSource(part, self._specs, verified if settings.verify else None)
        return Leg(start, route, source, route.needs())

    def _gather(self, own: Array) -> dict[str, Packed]:
        """The rows of these numbers in the epoch, out of their windows."""
        chosen: list[tuple[Leg, int, Array, Array]] = []
        for leg in self._legs:
            inside = np.flatnonzero((own >= leg.start) & (own < leg.stop))
            if not len(inside):
                continue
            windows, places = leg.places(own[inside])
            for number in np.unique(windows).tolist():
                mine = windows == number
                chosen.append((leg, number, inside[mine], places[mine]))
        self._read({(leg, number) for leg, number, _, _ in chosen})
        found: dict[str, Packed] = {}
        taken = [(where, leg.reading[number].result(), places) for leg, number, where, places in chosen]
        back = np.empty(len(own), np.int64)
        if taken:
            back[np.concatenate([where for where, _, _ in taken])] = np.arange(len(own))
        for spec in self._specs:
            if spec.ragged:
                pieces = [
                    take(window.tensors[spec.name], window.order[places]) for _, window, places in taken
                ]
                found[spec.name] = take(joined([no_rows(spec), *pieces]), back)
                continue
            rows = np.empty((len(own), *spec.shape), DTYPES[spec.dtype].storage)
            for where, window, places in taken:
                rows[where] = window.tensors[spec.name][window.order[places]]  # type: ignore[index]
            found[spec.name] = rows
        return found

    def _read(self, wanted: set[tuple[Leg, int]]) -> None:
        """Have these windows read, and some that are needed after them, in the order of need."""
        missing = {(leg, number) for leg, number in wanted if number not in leg.reading}
        # One of every lane is open at a time, and a step may need more.
        most = max(len(self._legs[0].route.lanes), len(wanted)) + 2 * self._settings.threads
        there = sum(len(leg.reading) for leg in self._legs)
        for leg in self._legs:
            while missing or there < most:
                need = next(leg.needs, None)
                if need is None:
                    break
                leg.reading[need.window] = self._pool.submit(self._window, leg, need)
                missing.discard((leg, need.window))
                there += 1

    def _window(self, leg: Leg, need: Need) -> Window:
        with self._work:
            return self._read_window(leg, need)

    def _read_window(self, leg: Leg, need: Need) -> Window:
        tensors: dict[str, Any] = {
            spec.name: np.empty((need.rows, *spec.shape), DTYPES[spec.dtype].storage)
            for spec in self._specs
            if not spec.ragged
        }
        memory = {name: memoryview(array.reshape(-1).view(np.uint8).data) for name, array in tensors.items()}
        sizes = {spec.name: spec.row_bytes for spec in self._specs}
        ragged: dict[str, list[Packed]] = {spec.name: [] for spec in self._specs if spec.ragged}
        for fetch in need.fetches:
            first, last = fetch.place, fetch.place + fetch.rows
            views = {name: view[first * sizes[name] : last * sizes[name]] for name, view in memory.items()}
            check = leg.source.check(fetch)
            for name, rows in leg.source.read(fetch, views, check).items():
                ragged[name].append(rows)
            if check is not None:
                leg.source.confirm(check)
        return Window(tensors | {name: joined(rows) for name, rows in ragged.items()}, turn_of(need))

    def _forget(self) -> None:
        for leg in self._legs:
            leg.forget(self._t)
        while self._legs and self._legs[0].stop <= self._t:
            self._legs[0].wait()
            self._close_first()

    def _close_first(self) -> None:
        # In this order, so that whoever ends the epoch finds what was not closed.
        self._legs[0].source.close()
        self.bytes_read += self._legs.popleft().source.bytes_read

    def close(self) -> None:
        """End the threads and close the files."""
        self._ending.run(self._wait, self._free)

    def _wait(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for leg in self._legs:
            leg.wait()
        self._pool.shutdown()

    def _free(self) -> None:
        while self._legs:
            self._close_first()
