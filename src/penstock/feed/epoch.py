"""One iteration of a loader: the threads that read and gather, and the memory they use.

Readers (`reading.stages`) fetch windows into an arena, `plan.assembly` says which rows the next steps are made of,
the arena gathers them, several steps at once and some of that ahead of the consumer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import Array, TensorSpec
from penstock.feed.ending import Ending
from penstock.feed.memory.arena import Arena, OpenRun, Room, Runs
from penstock.feed.memory.cache import Source
from penstock.feed.places import Place
from penstock.feed.plan.assembly import Assembly
from penstock.feed.plan.budget import budget
from penstock.feed.plan.route import Fetch, Need, Route
from penstock.feed.reading.source import RowSource
from penstock.feed.reading.stages import THREADS, Readers, Ready, Run
from penstock.feed.settings import Settings
from penstock.feed.stats import Stats
from penstock.feed.transforming import Finisher, Group
from penstock.feed.world import ranks_here


class Ahead(NamedTuple):
    """What readers came to of the next epoch, in the slots of the arena that is kept."""

    route: Route
    windows: list[Ready]


class KeptArena:
    """One arena between epochs: memory that was never used before is slow. Two iterators at a time have one each."""

    def __init__(self) -> None:
        self._held: deque[tuple[Arena, Ahead | None]] = deque()
        """What is put in and taken out in one piece, since iterators may end in other threads; one, as a rule."""
        self._over = False

    @property
    def ahead(self) -> Ahead | None:
        """What was read ahead into the arena, which somebody else may take before."""
        for _, ahead in list(self._held):
            return ahead
        return None

    def take(
        self, least: Room, most: Room | None, serves: Callable[[Arena], bool]
    ) -> tuple[Arena | None, Ahead | None]:
        """The arena, and what was read ahead into it; where it serves, is large enough, and not too large."""
        try:
            arena, ahead = self._held.pop()
        except IndexError:
            return None, None
        if serves(arena) and arena.room.holds(least) and (most is None or most.holds(arena.room)):
            return arena, ahead
        arena.close()
        return None, None

    def put(self, arena: Arena, ahead: Ahead | None = None) -> None:
        """Keep it, in place of any other; free it, where nobody will ask any more."""
        self._free()
        self._held.append((arena, ahead))
        if self._over:  # asked last, since another thread may say so meanwhile
            self._free()

    def close(self) -> None:
        """Free it, and whatever is put in from now on by epochs that are still under way."""
        self._over = True
        self._free()

    def _free(self) -> None:
        while self._held:
            try:
                self._held.pop()[0].close()
            except IndexError:  # somebody else was quicker
                return


class _Group(NamedTuple):
    """Some steps: this rank's rows in each, and what was gathered for them or will be."""

    sizes: list[int]
    gathering: Future[None] | None
    """Where another thread gathers."""
    found: list[Any]
    """What was gathered, once it is there."""


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
        following: Callable[[], Route] | None = None,
    ) -> None:
        """`following`: the next epoch's route, where that is likely to come; it is begun before this one ends."""
        costs, hint = place.costs(settings.threads), kept.ahead
        if hint is not None and hint.route == route:
            route = hint.route  # what takes long to work out has been
        self._following, self._next_route = following, route
        self._settings, self._route, self._kept, self._stats = settings, route, kept, stats
        # What is to be checked is read step by step, and there is nothing to gain by several at a time.
        checked = not settings.verify or verified.sum() * 2 > len(verified)
        stats.row_bytes, self._at_once = costs.row, costs.at_once if checked else 1
        self._count = route.steps.left(route.t)
        self._rows = -(-route.steps.batch // route.world)
        self._ragged = any(spec.ragged for spec in specs)
        given = budget(route, costs, settings.threads, settings.memory)
        self._together = given.together
        enough, room = (Room(slots, given.rows, settings.window + 1) for slots in (given.enough, given.slots))
        stats.threads = given.readers
        self._readers: Readers | None = None
        self._under_way: deque[_Group] = deque()
        """Begun, and not handed over."""
        self._whole, self._ending = False, Ending()
        source = RowSource(snapshot, specs, verified if settings.verify else None)
        self._source: Source = source
        stats.wait()
        try:
            rows, ranks = (route.steps.rows - route.t) // route.world, ranks_here(route.world)
            # At once, since it closes what has begun: who is interrupted while memory is freed leaves nothing open.
            self._source, in_place = place.begin(source, rows, ranks)
            serves = partial(place.serves, in_place=in_place)
            # A larger one than would be made serves too, but for who says how much memory there is.
            arena, ahead = kept.take(enough, None if settings.memory is None else room, serves)
            self._arena = arena or place.arena(room, in_place)
            stats.memory = given.bytes_with(self._arena.room.slots, self._arena.room.rows)
            there = ahead.windows if ahead is not None and ahead.route == route else []
            self._prepare(given.readers, there)
        except BaseException:
            self._source.close()
            raise
        finally:
            stats.go_on()

    def _prepare(self, threads: int, there: list[Ready]) -> None:
        """All that has to be there before the threads start. `there`: windows that lie in slots."""
        route, arena = self._route, self._arena
        try:
            if not arena.begin(route):
                slots, work, ahead = arena.room.slots, self._stats.readers, self._needs_ahead()
                self._readers = Readers(
                    self._needs(route),
                    self._read,
                    self._finish,
                    slots,
                    threads,
                    work,
                    there,
                    ahead,
                    self._at_once,
                )
            self._assembly = Assembly(route, self._readers)
            self._gatherers = _pool(arena.threads) if arena.threads else None
        except BaseException:
            arena.close()
            raise

    def _needs(self, route: Route) -> Iterator[Need]:
        """What is to be read; looked at as late as it is asked for, since blocks are found right meanwhile."""
        for need in route.needs():
            runs = all(self._source.reads_runs(fetch.block) for fetch in need.fetches)
            yield route.only_own(need) if runs else need

    def _needs_ahead(self) -> Iterator[Need]:
        """What the next epoch needs; worked out when somebody asks, by a reader that has nothing else to do."""
        if self._following is None or not self._arena.lasting:
            return
        try:
            route = self._following()
            if int(route.windows.rows.max(initial=0)) <= self._arena.room.rows:
                self._next_route = route
                yield from self._needs(route)
        except Exception:
            # The epoch it belongs to works it out anew, and meets what went wrong; the rows of this one are all right.
            return

    def _read(self, reader: int, runs: Sequence[Run]) -> None:
        arena = self._arena
        found: list[OpenRun] = []
        for slot, fetch in runs:
            wanted = arena.wanted(fetch)
            # Runs of one block want all of it for a cache.
            if wanted is not None and any(wanted == other.fetch for other in found):
                continue
            straight = None if wanted is None else self._source.straight(wanted)
            if wanted is None or straight is None:
                self._read_parts(reader, slot, fetch, wanted)
            else:
                found.append(OpenRun(slot, wanted, straight))
        if found:
            arena.bring(reader, found)
        for _, wanted, _ in found:
            arena.kept(reader, wanted)

    def _read_parts(self, reader: int, slot: int, fetch: Fetch, wanted: Fetch | None) -> None:
        """A run that passes through the arena's views, or is there but for its ragged tensors."""
        arena, ragged, part = self._arena, None, None
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

    def batches(self) -> Iterator[Group]:
        """Some steps at a time, or one where something is done to each: this rank's rows in them, and the batches."""
        if self._readers is not None:
            self._readers.start()
        groups = self._gathered()
        if self._settings.finishes:
            groups = Finisher(self._settings, self._stats, self._arena).steps(groups)
        yield from groups
        self._whole = True

    def _gathered(self) -> Iterator[Group]:
        for first in range(0, self._count, self._together):
            self._under_way.append(self._begin(first, min(first + self._together, self._count)))
            if len(self._under_way) > self._arena.ahead:
                yield self._handed_over()
        while self._under_way:
            yield self._handed_over()

    def _begin(self, first: int, last: int) -> _Group:
        """Have the rows of some steps gathered: by another thread, or on the device, where all that follows is too."""
        self._ending.check_process()
        stats, read = self._stats, self._stats.readers.any_seconds
        stats.wait()
        runs, freed = self._assembly.plan(first, last)
        waited = stats.go_on()
        # Where nobody reads meanwhile, readers wait for memory that a gather still holds.
        stats.gather_waited += max(waited - (stats.readers.any_seconds - read), 0.0)
        sizes = [self._rows] * (last - first)
        sizes[-1] = runs.rows - sum(sizes[:-1])
        if self._gatherers is not None:
            before, found = self._under_way[-1].gathering if self._under_way else None, list[Any]()
            return _Group(sizes, self._gatherers.submit(self._gather, runs, freed, found, before), found)
        whole: list[dict[str, Any]] = []
        with self._arena.beside():
            self._gather(runs, freed, whole)
            batches = self._cut(whole[0], sizes)
            if not self._settings.finishes:
                self._arena.begun()
        return _Group(sizes, None, [(whole.pop(), batches)])

    def _gather(
        self, runs: Runs, freed: list[int], found: list[Any], before: Future[None] | None = None
    ) -> None:
        """Into a list, and not a result: a thread that waits for a processor would hold its last one meanwhile."""
        try:
            found.append(self._arena.gather(runs))
        except BaseException as error:
            # The consumer may be waiting for a window whose slot is among those that are not freed now.
            if self._readers is not None:
                self._readers.fail(error)
            raise
        finally:
            # The gather before this one may still need what this one, or the next, was the last to need.
            if before is not None:
                wait([before])
        for slot in freed:
            assert self._readers is not None
            self._arena.freed(slot)
            self._readers.release(slot)

    def _cut(self, whole: dict[str, Any], sizes: list[int]) -> list[dict[str, Any]]:
        return self._arena.cut(whole, sizes, self._rows if self._settings.last == "pad" else None)

    def _handed_over(self) -> Group:
        self._ending.check_process()
        stats, group = self._stats, self._under_way[0]
        if group.gathering is not None:
            stats.wait()
            group.gathering.result()
            stats.gather_waited += stats.go_on()
            whole = group.found.pop()
            batches = self._cut(whole, group.sizes)
        else:
            whole, batches = group.found.pop()
        # Only now, since who closes the epoch meanwhile waits for it; not later, since what is held is not used again.
        self._under_way.popleft()
        # Who finishes each step hands it over as well: what was gathered never leaves the gathering stream then.
        if not self._settings.finishes:
            views = self._settings.last != "pad" and not self._ragged
            self._arena.hand_over([whole] if views else batches)
        stats.bytes_read = self._source.bytes_read
        return group.sizes, batches

    def follow(self, batch: Any) -> None:
        """A batch is taken now."""
        self._arena.follow(batch)

    def close(self) -> None:
        """End the threads and close the files; where all was handed out, the arena is kept for the next epoch."""
        self._ending.run(self._wait, self._free)

    def _wait(self) -> None:
        if not self._whole:
            self._stop_counting()
        elif self._stats.asked is None:
            self._stats.wait()  # for what is being read ahead: a read that has begun is not broken off
        if self._readers is not None:
            self._readers.halt()
            self._readers.wait()
        self._stop_counting()
        if self._gatherers is not None:
            self._gatherers.shutdown(wait=False, cancel_futures=True)
            # Those that were cancelled before they began never tell that they are done.
            gathering = [each.gathering for each in self._under_way if each.gathering is not None]
            wait([each for each in gathering if not each.cancelled()])
            self._gatherers.shutdown()

    def _stop_counting(self) -> None:
        if self._stats.ended is None:
            self._stats.go_on()
            self._stats.ended = time.perf_counter()

    def _free(self) -> None:
        self._stats.bytes_read = self._source.bytes_read
        try:
            self._source.close()
        finally:
            ahead = [] if self._readers is None else self._readers.ahead
            # They know the epoch: only the collector would free what it holds, and memory is not to wait for that.
            self._readers = None
            del self._assembly
            kept = False
            try:
                if self._whole:
                    self._arena.rest()
                    self._kept.put(self._arena, Ahead(self._next_route, ahead) if ahead else None)
                    kept = True
            finally:
                if not kept:
                    self._arena.close()


def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=f"{THREADS}-gatherer")
