"""`Loader`: an epoch after the other, as batches; made by `Dataset.torch`, `.numpy`, `.jax` and `.tensorflow`.

The description is checked when it is made; threads and memory exist only while somebody iterates. State is a few
numbers, the same on all ranks: which dataset, seed, epoch, and how many rows of it are behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.errors import DatasetError, SelectionError, humane_bytes
from penstock.feed.arena import Arena
from penstock.feed.assembly import Assembly
from penstock.feed.order import LAST, Order, Steps
from penstock.feed.route import Route
from penstock.feed.source import RowSource
from penstock.feed.stages import Readers, Waiting
from penstock.feed.world import World, agree, find_world, refuse_worker_processes

STATE_FORMAT = 1
BOUND_SHARE = 0.05
"""A consumer that waits less of its time is what bounds."""
Transform = Callable[[dict[str, Any]], dict[str, Any]]
"""A function of a batch, applied to each."""
MakeArena = Callable[[tuple[TensorSpec, ...], int, int], Arena]
"""Tensors, slots, rows of a slot -> the arena."""


@dataclass(frozen=True)
class Settings:
    """What a loader is asked to do; checked when made."""

    batch_size: int | None
    shuffle: bool = True
    seed: int = 0
    global_batch_size: int | None = None
    last: str = "drop"
    rank: int | None = None
    world: int | None = None
    lanes: int = 64
    window: int = 1
    memory: int | None = None
    threads: int = 2
    verify: bool = True
    transform: Transform | None = None

    def __post_init__(self) -> None:
        if (self.batch_size is None) == (self.global_batch_size is None):
            raise SelectionError(
                "pass batch_size (rows per rank) or global_batch_size (of all ranks), one of them."
            )
        for name in ("batch_size", "global_batch_size", "lanes", "window", "threads", "memory"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise SelectionError(f"{name}={value!r}: a whole number of at least 1 is wanted.")
        if self.last not in LAST:
            raise SelectionError(f"last={self.last!r}: choose one of {', '.join(map(repr, LAST))}.")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise SelectionError(f"seed={self.seed!r}: a whole number is wanted.")

    def batch(self, world: int) -> int:
        """Rows of a step on all ranks together."""
        if self.global_batch_size is None:
            assert self.batch_size is not None
            return self.batch_size * world
        if self.global_batch_size % world:
            raise SelectionError(
                f"global_batch_size={self.global_batch_size} cannot be shared out to {world} ranks evenly. Choose a "
                f"multiple, such as {-(-self.global_batch_size // world) * world}."
            )
        return self.global_batch_size


@dataclass
class Stats:
    """What an iteration has done so far."""

    rows: int = 0
    bytes: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    """Seconds in which the consumer waited for a batch."""
    readers_waited: float = 0.0
    """Seconds in which readers, added up, waited for memory to become free."""
    memory: int = 0

    threads: int = 0

    def verdict(self) -> str:
        """Which side bounds.

        >>> print(Stats(rows=10, bytes=10**9, seconds=10.0, waited=0.1, threads=4).verdict())
        the consumer bounds: it waited 0.1 s of 10.0 s (1%), and took 0.10 GB/s; a faster feed would change nothing.
        """
        if not self.seconds:
            return "nothing was read yet."
        share = self.waited / self.seconds
        rate = self.bytes / self.seconds / 1e9
        if share < BOUND_SHARE:
            return (
                f"the consumer bounds: it waited {self.waited:.1f} s of {self.seconds:.1f} s ({share:.0%}), and took "
                f"{rate:.2f} GB/s; a faster feed would change nothing."
            )
        idle = self.readers_waited / (self.threads * self.seconds) if self.threads else 0.0
        if idle > 0.5:
            return (
                f"the gather bounds: the consumer waited {share:.0%} of {self.seconds:.1f} s at {rate:.2f} GB/s, while "
                f"{self.threads} readers had nothing to do {idle:.0%} of it; larger batches, or fewer tensors, help."
            )
        return (
            f"reading bounds: the consumer waited {share:.0%} of {self.seconds:.1f} s at {rate:.2f} GB/s, and "
            f"{self.threads} readers were busy {1 - idle:.0%} of it; faster storage, or more ranks, would help."
        )

    @property
    def rows_per_second(self) -> float:
        """Rows handed out per second."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes handed out per second."""
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Position:
    """Where a loader stands: the epoch, and the rows of it that are behind, on all ranks together."""

    epoch: int = 0
    t: int = 0


class Loader:
    """Batches of a dataset, epoch after epoch; made by `Dataset.torch` and its siblings.

    Each `for` loop is one epoch, in an order of its own; leaving a loop early ends the epoch. `state_dict` may be taken
    at any step, and `load_state_dict` goes on there, on any number of ranks.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> import penstock as pk
    >>> ds = pk.write(pa.table({"a": list(range(10))}), tempfile.mkdtemp())
    >>> loader = ds.numpy(batch_size=4)
    >>> [len(batch["a"]) for batch in loader], len(loader), loader.state_dict()["epoch"]
    ([4, 4], 2, 1)
    """

    def __init__(
        self,
        snapshot: Snapshot,
        specs: tuple[TensorSpec, ...],
        settings: Settings,
        make_arena: MakeArena,
        gather_bytes: int,
    ) -> None:
        self.snapshot, self.specs, self.settings = snapshot, specs, settings
        self.make_arena, self.gather_bytes = make_arena, gather_bytes
        self.position = Position()
        self.stats = Stats()
        self.verified = np.zeros(len(snapshot.index), bool)
        """The blocks whose bytes were checked; once is enough."""
        self._next = Position()
        self._agreed = False

    def __len__(self) -> int:
        """Batches that the next iteration gives."""
        return self._steps(self.world()).left(self._next.t)

    def set_epoch(self, epoch: int) -> None:
        """Begin with this epoch next; for trainers that say so. One that was entered by `load_state_dict` stays so."""
        if epoch != self._next.epoch:
            self._next = Position(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, in plain numbers, the same on all ranks."""
        settings = self.settings
        return {
            "format": STATE_FORMAT,
            "fingerprint": self.snapshot.manifest.fingerprint,
            "seed": settings.seed,
            "shuffle": settings.shuffle,
            "epoch": self.position.epoch,
            "t": self.position.t,
            "lanes": settings.lanes,
            "window": settings.window,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a loader of the same dataset stood; lanes and window are taken from it."""
        own = self.state_dict()
        for key in ("format", "fingerprint", "seed", "shuffle"):
            if state.get(key) != own[key]:
                raise DatasetError(
                    f"the state is of another {key}: it says {state.get(key)!r}, and this loader has {own[key]!r}. "
                    "Load it into a loader of the same dataset, seed and shuffle."
                )
        self.settings = replace(self.settings, lanes=int(state["lanes"]), window=int(state["window"]))
        self.position = self._next = Position(int(state["epoch"]), int(state["t"]))

    def world(self) -> World:
        """This process's rank among all, as said or as found now."""
        return find_world(self.settings.rank, self.settings.world)

    def _steps(self, world: World) -> Steps:
        return Steps(self.snapshot.manifest.rows, self.settings.batch(world.size), self.settings.last)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        refuse_worker_processes()
        world = self.world()
        steps = self._steps(world)
        if self.settings.rank is None and not self._agreed:
            agree({**self.state_dict(), "batch": steps.batch, "last": steps.last}, world)
            self._agreed = True
        start, self._next = self._next, Position(self._next.epoch + 1)
        self.position, self.stats = start, Stats()
        return _epoch(self, world, steps, start)

    def verdict(self) -> str:
        """One sentence about the last iteration: which side bounds, with the arithmetic."""
        return self.stats.verdict()


def _epoch(loader: Loader, world: World, steps: Steps, start: Position) -> Iterator[dict[str, Any]]:
    """One epoch from a position on; its end is the next epoch's beginning."""
    settings = loader.settings
    blocks = tuple(loader.snapshot.index.rows.tolist())
    lanes = settings.lanes if settings.shuffle else 1
    order = Order(blocks, settings.seed, start.epoch, lanes, settings.window, settings.shuffle)
    route = Route(order, steps, world.rank, world.size, start.t)
    run = _Run(loader, route, start.epoch, steps.left(start.t))
    try:
        yield from run.batches()
    finally:
        run.close()
    loader.position = Position(start.epoch + 1)


class _Run:
    """The threads and the memory of one iteration."""

    def __init__(self, loader: Loader, route: Route, epoch: int, count: int) -> None:
        self._loader, self._route, self._epoch, self._count = loader, route, epoch, count
        settings, specs = loader.settings, loader.specs
        self._row_bytes = max(sum(spec.row_bytes for spec in specs), 1)
        self._rows = -(-route.steps.batch // route.world)
        self._together = self._steps_together()
        capacity = int(route.order.windows.rows.max(initial=1))
        slots = len(route.lanes) * (route.windows_at_once(self._together) + 1)
        slots = min(slots, len(route.order.windows.start)) or 1
        self._memory = slots * capacity * self._row_bytes
        self._check_memory(slots, capacity)
        self._source = RowSource(loader.snapshot, specs, loader.verified if settings.verify else None)
        self._arena = loader.make_arena(specs, slots, capacity)
        self._waiting = Waiting()
        self._readers = Readers(
            route.needs(), self._read, self._finish, slots, settings.threads, self._waiting
        )
        self._assembly = Assembly(route, self._readers, self._arena, capacity)

    def _steps_together(self) -> int:
        """As many steps as fit the gather, as long as lanes need few windows for it."""
        most = max(self._loader.gather_bytes // (self._row_bytes * self._rows), 1)
        together = 1
        while together * 2 <= most and self._route.windows_at_once(together * 2) <= 4:
            together *= 2
        return together

    def _check_memory(self, slots: int, capacity: int) -> None:
        limit = self._loader.settings.memory
        if limit is not None and self._memory > limit:
            settings = self._loader.settings
            raise SelectionError(
                f"the loader needs {humane_bytes(self._memory)} on each rank ({slots} windows of {capacity:,} rows, "
                f"from lanes={settings.lanes} and window={settings.window}), and memory={humane_bytes(limit)}. Pass "
                "fewer lanes or a smaller window, use more ranks, or write the dataset with smaller block_bytes. "
                "(A smaller memory never changes the order.)"
            )

    def _read(self, reader: int, fetch: Any, slot: int) -> None:
        views = self._arena.views(reader, slot, fetch.place, fetch.rows)
        ragged = self._source.read(fetch.block, fetch.first, fetch.rows, views)
        for name, rows in ragged.items():
            self._arena.put_ragged(name, slot, fetch.place, rows)
        self._arena.landed(reader, slot, fetch.place, fetch.rows)

    def _finish(self, reader: int, need: Any, slot: int) -> None:
        self._arena.finish(slot, need)

    def batches(self) -> Iterator[dict[str, Any]]:
        loader, batch = self._loader, self._route.steps.batch
        start, rows = self._route.t, self._route.steps.rows
        began = time.perf_counter()
        with self._readers:
            for first, last, whole in self._gathered():
                at = 0
                for step in range(first, last):
                    size = self._size(step)
                    if step == first:
                        self._arena.hand_over(whole)
                    found = self._arena.cut(whole, at, at + size)
                    at += size
                    loader.position = Position(self._epoch, min(start + (step + 1) * batch, rows))
                    self._count_in(size, began)
                    yield self._finished(found, size)

    def _gathered(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Several steps' rows at a time, the next ones under way before these are handed out."""
        ahead: list[tuple[int, int, dict[str, Any]]] = []
        for first in range(0, self._count, self._together):
            last = min(first + self._together, self._count)
            asked = time.perf_counter()
            ahead.append((first, last, self._assembly.gather(first, last)))
            self._loader.stats.waited += time.perf_counter() - asked
            if len(ahead) > self._arena.ahead:
                yield ahead.pop(0)
        yield from ahead

    def _size(self, step: int) -> int:
        """This rank's rows of a step."""
        route = self._route
        start = route.t + step * route.steps.batch
        stop = min(start + route.steps.batch, route.steps.rows)
        if route.even:
            return route.own_rows(stop) - route.own_rows(start)
        rows = stop - start
        return rows * (route.rank + 1) // route.world - rows * route.rank // route.world

    def _finished(self, found: dict[str, Any], size: int) -> dict[str, Any]:
        settings = self._loader.settings
        if settings.last == "pad":
            found = self._arena.padded(found, size, self._rows)
        return settings.transform(found) if settings.transform is not None else found

    def _count_in(self, size: int, began: float) -> None:
        stats = self._loader.stats
        stats.rows += size
        stats.bytes += size * self._row_bytes
        stats.bytes_read = self._source.bytes_read
        stats.seconds = time.perf_counter() - began
        stats.readers_waited = self._waiting.readers
        stats.memory = self._memory
        stats.threads = self._loader.settings.threads

    def close(self) -> None:
        """End the threads, close the files, free the memory; more than once is fine."""
        self._readers.stop()
        self._source.close()
        self._arena.close()
