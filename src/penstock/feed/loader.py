"""`Loader`: an epoch after the other, as batches; made by `Dataset.torch`, `.numpy`, `.jax` and `.tensorflow`.

The description is checked when it is made; threads exist only while somebody iterates (`penstock.feed.epoch`). State is
a few numbers, the same on all ranks: which dataset, seed, epoch, and how many rows of it are behind.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from penstock.dataset import follow_log
from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.errors import DatasetError
from penstock.feed.agreement import agree
from penstock.feed.epoch import Epoch, KeptArena
from penstock.feed.log import TrainingLog, checked_numbers
from penstock.feed.places import Place
from penstock.feed.plan.order import Order, Steps
from penstock.feed.plan.route import Route
from penstock.feed.settings import Settings
from penstock.feed.stats import Stats
from penstock.feed.world import World, find_world, refuse_worker_processes

STATE_FORMAT = 1
TOLD_FROM = 1.2
"""Where ranks together read the data so many times, one of them says so."""
FOLLOWED = "follow-"
"""How the fingerprint of a state begins that was taken while a write was followed."""


class Position(NamedTuple):
    """Where a loader stands: the epoch, and the rows of it that are behind, on all ranks together."""

    epoch: int
    t: int


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
        place: Place,
    ) -> None:
        self.snapshot, self.specs, self.settings = snapshot, specs, settings
        self.stats = Stats()
        self._position = self._next = Position(0, 0)
        self._asked = False
        """Whether an iterator waits to be begun."""
        self._running = 0
        """Iterators that are under way."""
        self._place, self._kept = place, KeptArena()
        self._verified = np.zeros(len(snapshot.index), bool)
        """The blocks whose bytes were checked; once is enough."""
        self._agreed = False
        """Whether ranks were compared."""
        self._finished: int | None = None
        """The epoch that came to its end last."""
        self._log = None if settings.log is None else TrainingLog(settings.log)
        self._told = False
        """Whether it was said that lanes are shared."""
        self._process = os.getpid()

    def __len__(self) -> int:
        """Batches that the next iteration gives; while one waits to be begun, those of a whole epoch.

        Trainers ask for a resumed epoch's length after `iter`, and add what is behind by themselves.
        """
        return self._steps(self.world()).left(0 if self._asked else self._next.t)

    @property
    def batch_sampler(self) -> Any:
        """For Lightning, which tells the epoch to `batch_sampler.sampler.set_epoch` and nowhere else."""
        return SimpleNamespace(sampler=self)

    def set_epoch(self, epoch: int) -> None:
        """Begin with this epoch next; for trainers that say so. One that was entered by `load_state_dict` stays so."""
        if epoch != self._next.epoch:
            self._next = Position(epoch, 0)
            if not self._running:
                self._position = self._next

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, in plain numbers, the same on all ranks."""
        settings = self.settings
        return {
            "format": STATE_FORMAT,
            "fingerprint": self._fingerprint(self._position.epoch),
            "seed": settings.seed,
            "shuffle": settings.shuffle,
            "epoch": self._position.epoch,
            "t": self._position.t,
            "lanes": settings.lanes,
            "window": settings.window,
        }

    def _fingerprint(self, epoch: int) -> str:
        """What tells the dataset that an epoch reads from any other."""
        return self.snapshot.manifest.fingerprint

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a loader of the same dataset stood; lanes and window are taken from it."""
        own = {**self.state_dict(), "fingerprint": self._fingerprint(int(state.get("epoch", 0)))}
        for key in ("format", "fingerprint", "seed", "shuffle"):
            if state.get(key) != own[key]:
                raise DatasetError(
                    f"the state is of another {key}: it says {state.get(key)!r}, and this loader has {own[key]!r}. "
                    + self._remedy(key, str(state.get(key)))
                )
        self.settings = replace(self.settings, lanes=int(state["lanes"]), window=int(state["window"]))
        self._position = self._next = Position(int(state["epoch"]), int(state["t"]))
        self._asked = False

    def _remedy(self, key: str, said: str) -> str:
        """What to do with a state that says something else; of a write that was followed, what became of it."""
        if key != "fingerprint" or not said.startswith(FOLLOWED):
            return "Load it into a loader of the same dataset, seed and shuffle."
        store = self.snapshot.store
        version = follow_log.version_of(store, said.removeprefix(FOLLOWED))
        if version is not None:
            return (
                f"It was taken while version {version} was being written: load it into a loader of "
                f"pk.open({store.root!r}, follow=True, version={version})."
            )
        return (
            f"It was taken while a write was followed that {store.root} has no version of: that write failed or was "
            "killed, and its rows come again, in another order. The weights kept with this state have seen some of "
            "them. Begin anew, with another folder for checkpoints; or keep the weights although these rows come to "
            "them twice, by restoring without the loader."
        )

    def world(self) -> World:
        """This process's rank among all, as said or as found now."""
        return find_world(self.settings.rank, self.settings.world)

    def _steps(self, world: World) -> Steps:
        return Steps(self.snapshot.manifest.rows, self.settings.batch(world.size), self.settings.last)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._asked = True
        return self._epoch()

    def verdict(self) -> str:
        """One sentence about the last iteration: which side bounds, with the arithmetic."""
        return self.stats.verdict()

    def note(self, values: Mapping[str, float]) -> None:
        """Add numbers of your own to the log, at the step that is under way; without `log=` they go nowhere.

        Plain numbers, finite or not. What is noted while an epoch runs is written within a second.

        >>> import pathlib, tempfile
        >>> import pyarrow as pa
        >>> import penstock as pk
        >>> ds = pk.write(pa.table({"a": list(range(10))}), tempfile.mkdtemp())
        >>> log = pathlib.Path(tempfile.mkdtemp(), "log.jsonl")
        >>> loader = ds.numpy(batch_size=5, log=log)
        >>> for batch in loader:
        ...     loader.note({"mean": batch["a"].mean()})
        >>> log.read_text().count('"mean"')
        2
        """
        if self._log is None:
            checked_numbers(values)
        else:
            self._log.note(values)

    def __del__(
        self, ending: Callable[[], bool] = sys.is_finalizing, process: Callable[[], int] = os.getpid
    ) -> None:
        # Where the interpreter ends, and in a fork, nothing is to be freed; one that was never whole has nothing. The
        # functions come as arguments, since a module that ends has no names any more.
        if not ending() and getattr(self, "_process", None) == process():
            self.close()

    def close(self) -> None:
        """Free the memory that is kept for the next epoch, and the cache; the next epoch makes them anew."""
        # An epoch under way gives its arena to the old one, which frees it.
        self._kept.close()
        self._kept = KeptArena()
        self._place.close()

    def _epoch(self) -> Iterator[dict[str, Any]]:
        """One epoch. It begins with its first batch, since trainers call `iter` more often than they read."""
        refuse_worker_processes()
        world = self.world()
        steps = self._steps(world)
        if self.settings.rank is None and not self._agreed:
            agree({**self.state_dict(), "batch": steps.batch, "last": steps.last}, world)
            self._agreed = True
        start, stats = self._next, Stats(began=time.perf_counter())
        logged = self._logged(stats, world, start, steps.left(start.t))
        route = partial(_route, tuple(self.snapshot.index.rows.tolist()), self.settings, world, steps)
        here = route(start)
        self._tell_of_shared_lanes(here)
        epoch = Epoch(
            self.snapshot,
            self.specs,
            self.settings,
            self._place,
            self._kept,
            here,
            self._verified,
            stats,
            # Who goes from one epoch to the next will again: the one after may be begun before this one ends.
            partial(route, Position(start.epoch + 1, 0)) if self._finished == start.epoch - 1 else None,
        )
        # Closed by both: before the log ends, and where not even that could begin. Done once, it does nothing more.
        with closing(epoch), self._under_way(start, stats), logged, closing(epoch):
            after = start.t
            for sizes, batches in epoch.batches():
                batches.reverse()
                for rows in sizes:
                    after += steps.batch
                    # The state at the last batch is the next epoch's beginning: some trainers ask for no more.
                    self._position = Position(start.epoch, after) if steps.left(after) else self._next
                    stats.steps += 1
                    stats.rows += rows
                    epoch.follow(batches[-1])
                    # Popped, so that nothing here keeps a batch alive that its user has let go.
                    yield batches.pop()
        # What was asked for meanwhile (`set_epoch`) comes next; of two iterators, this one tells where it came to.
        self._position = Position(start.epoch + 1, 0) if self._running else self._next
        self._finished = start.epoch

    def _tell_of_shared_lanes(self, route: Route) -> None:
        """Once, by one rank, where reading more than the data may be what bounds."""
        world, lanes = route.world, route.order.lanes
        if self._told or route.rank or route.times_read < TOLD_FROM or not self.settings.shuffle:
            return
        self._told = True
        warnings.warn(
            f"{world} ranks share {lanes} lanes, and together read the data {route.times_read:.2f} times. "
            f"lanes={-(-lanes // world) * world} reads it once, in another order. Where reading does not bound, leave "
            "it.",
            stacklevel=4,
        )

    @contextmanager
    def _under_way(self, start: Position, stats: Stats) -> Iterator[None]:
        """An epoch has begun, and is iterated while the block runs. What cannot begin uses up none."""
        self._next, self._asked = Position(start.epoch + 1, 0), False
        self._position, self.stats = start, stats
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    def _logged(
        self, stats: Stats, world: World, start: Position, steps: int | None
    ) -> AbstractContextManager[Any]:
        """Log an epoch while the block runs, if a log is wanted. `steps`: how many it has left, where that is known."""
        if self._log is None:
            return nullcontext()
        settings, batch = self.settings, self.settings.batch(world.size)
        about = {
            "dataset": self.snapshot.store.root,
            "fingerprint": self._fingerprint(start.epoch),
            "batch_size": batch // world.size,
            "device": settings.device,
            "tensors": [spec.name for spec in self.specs],
            **{
                name: getattr(settings, name)
                for name in ("seed", "shuffle", "last", "lanes", "window", "cache")
            },
        }
        return self._log.watch(stats, world, start.epoch, -(-start.t // batch), steps, about)


def _route(blocks: tuple[int, ...], settings: Settings, world: World, steps: Steps, start: Position) -> Route:
    """A rank's way through an epoch, from where it begins. No method: who holds it does not hold the loader."""
    lanes = settings.lanes if settings.shuffle else 1
    order = Order(blocks, settings.seed, start.epoch, lanes, settings.window, settings.shuffle)
    return Route(order, steps, world.rank, world.size, start.t)
