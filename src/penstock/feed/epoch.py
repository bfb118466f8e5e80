"""One iteration of a loader: the threads that read and gather, and the memory they use.

Readers (`stages`) fetch windows into an arena, `assembly` says which rows the next steps are made of, the arena gathers
them, several steps at once and some of that ahead of the consumer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import Array, TensorSpec
from penstock.feed.arena import Arena, Room, Runs
from penstock.feed.assembly import Assembly
from penstock.feed.budget import budget
from penstock.feed.places import Place
from penstock.feed.route import Fetch, Need, Route
from penstock.feed.settings import Settings
from penstock.feed.source import RowSource
from penstock.feed.stages import Readers, Waiting
from penstock.feed.stats import Stats


class KeptArena:
    """One arena between epochs: memory that was never used before is slow. Two iterators at a time have one each."""

    def __init__(self) -> None:
        self._arena: Arena | None = None

    def take(self, room: Room) -> Arena | None:
        """The arena, where it is large enough."""
        found, self._arena = self._arena, None
        if found is not None and not found.room.holds(room):
            found.close()
            return None
        return found

    def put(self, arena: Arena) -> None:
        """Keep it, in place of any other."""
        self.close()
        self._arena = arena

    def close(self) -> None:
        """Free it."""
        if self._arena is not None:
            self._arena.close()
            self._arena = None


class _Group(NamedTuple):
    """Some steps: this rank's rows in each, and what was gathered for them or will be."""

    sizes: list[int]
    found: Any


class Epoch:
    """What runs while a loader is iterated."""

    def __init__(
        self,
        snapshot: Snapshot,
        specs: tuple[TensorSpec, ...],
        settings: Settings,
        place: Place,
        kept: KeptArena,
        route: Route,
        verified: Array,
        stats: Stats,
    ) -> None:
        costs = place.costs(settings.threads)
        self._settings, self._route, self._kept, self._stats = settings, route, kept, stats
        stats.row_bytes = costs.row
        self._count = route.steps.left(route.t)
        self._rows = -(-route.steps.batch // route.world)
        self._ragged = any(spec.ragged for spec in specs)
        given = budget(route, costs, settings.threads, settings.memory)
        self._together = given.together
        room = Room(given.slots, given.rows, settings.window + 1)
        stats.memory, stats.threads = given.bytes, settings.threads
        self._arena = kept.take(room) or place.arena(room)
        self._source = place.source(RowSource(snapshot, specs, verified if settings.verify else None))
        self._waiting = Waiting()
        self._readers: Readers | None = None
        if not self._arena.begin(route):
            slots = self._arena.room.slots
            self._readers = Readers(
                route.needs(), self._read, self._finish, slots, settings.threads, self._waiting
            )
        self._assembly = Assembly(route, self._readers)
        self._last: Future[Any] | None = None
        self._gatherers = ThreadPoolExecutor(self._arena.threads) if self._arena.threads else None

    def _read(self, reader: int, fetch: Fetch, slot: int) -> None:
        arena, ragged, part = self._arena, None, None
        wanted = arena.wanted(fetch)
        if wanted is not None:
            check = self._source.check(wanted)
            for part in wanted.parts(arena.most_rows):
                ragged = self._source.read(part, arena.views(reader, slot, part), check)
                arena.landed(reader, slot, part)
            if check is not None:
                self._source.confirm(check)
            arena.kept(reader, wanted)
        if self._ragged:
            if ragged is None or part != fetch:
                ragged = self._source.read(fetch, {})
            for name, rows in ragged.items():
                arena.put_ragged(name, slot, fetch.place, rows)

    def _finish(self, reader: int, need: Need, slot: int) -> None:
        self._arena.finish(slot, need)

    def batches(self) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
        """Some steps at a time: this rank's rows in each of them, and the batches."""
        if self._readers is not None:
            self._readers.start()
        under_way: deque[_Group] = deque()
        for first in range(0, self._count, self._together):
            under_way.append(self._begin(first, min(first + self._together, self._count)))
            if len(under_way) > self._arena.ahead:
                yield self._handed_over(under_way.popleft())
        while under_way:
            yield self._handed_over(under_way.popleft())

    def _begin(self, first: int, last: int) -> _Group:
        """Have the rows of some steps gathered: by another thread, or on the device, where all that follows is too."""
        asked = time.perf_counter()
        runs, freed = self._assembly.plan(first, last)
        self._stats.waited += time.perf_counter() - asked
        sizes = [self._rows] * (last - first)
        sizes[-1] = runs.rows - sum(sizes[:-1])
        if self._gatherers is not None:
            self._last = self._gatherers.submit(self._gather, runs, freed, self._last)
            return _Group(sizes, self._last)
        with self._arena.beside():
            whole = self._gather(runs, freed)
            batches = self._finished(whole, sizes)
            self._arena.begun()
        return _Group(sizes, (whole, batches))

    def _gather(self, runs: Runs, freed: list[int], before: Future[Any] | None = None) -> dict[str, Any]:
        try:
            found = self._arena.gather(runs)
        except BaseException as error:
            # The consumer may be waiting for a window whose slot is among those that are not freed now.
            if self._readers is not None:
                self._readers.fail(error)
            raise
        if before is not None:
            # The gather before this one may still need what this one was the last to need.
            wait([before])
        for slot in freed:
            assert self._readers is not None
            self._readers.release(slot)
        return found

    def _finished(self, whole: dict[str, Any], sizes: list[int]) -> list[dict[str, Any]]:
        padded = self._rows if self._settings.last == "pad" else None
        batches = self._arena.cut(whole, sizes, padded)
        transform = self._settings.transform
        return batches if transform is None else [transform(batch) for batch in batches]

    def _handed_over(self, group: _Group) -> tuple[list[int], list[dict[str, Any]]]:
        stats = self._stats
        if isinstance(group.found, Future):
            asked = time.perf_counter()
            whole = group.found.result()
            stats.waited += time.perf_counter() - asked
            batches = self._finished(whole, group.sizes)
        else:
            whole, batches = group.found
        views = self._settings.transform is None and self._settings.last != "pad" and not self._ragged
        self._arena.hand_over([whole] if views else batches)
        stats.bytes_read, stats.readers_waited = self._source.bytes_read, self._waiting.readers
        return group.sizes, batches

    def follow(self, batch: Any) -> None:
        """A batch is taken now."""
        self._arena.follow(batch)

    def close(self, keep: bool) -> None:
        """End the threads and close the files; `keep` the arena for the next epoch."""
        self._stats.ended = time.perf_counter()
        if self._readers is not None:
            self._readers.stop()
        if self._gatherers is not None:
            self._gatherers.shutdown(cancel_futures=True)
        self._source.close()
        if keep:
            self._arena.rest()
            self._kept.put(self._arena)
        else:
            self._arena.close()
