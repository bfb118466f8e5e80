"""`FollowLoader`: a `Loader` whose first epoch follows a write (`epoch`); from the second on it is like any other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.errors import StillWriting
from penstock.feed.agreement import agree
from penstock.feed.follow.epoch import FollowedEpoch
from penstock.feed.follow.following import Following
from penstock.feed.loader import FOLLOWED, Loader, Position
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.memory.row_sizes import row_bytes
from penstock.feed.places import Place
from penstock.feed.settings import Settings
from penstock.feed.stats import Stats
from penstock.feed.transforming import finished
from penstock.feed.world import refuse_worker_processes


class FollowLoader(Loader):
    """Batches of a dataset that is being written; made by `Dataset.torch` and its siblings of one that is followed."""

    def __init__(
        self,
        following: Following,
        specs: tuple[TensorSpec, ...],
        settings: Settings,
        place: Callable[[Snapshot], Place],
        host: HostArena,
        move: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """`place` makes later epochs' batches. `host` shapes those of the first, `move` brings them to the device."""
        sample = following.sample()
        super().__init__(sample, specs, settings, place(sample))
        self._following, self._make_place, self._host, self._move = following, place, host, move
        self._settled = False

    def __len__(self) -> int:
        """Batches of an epoch; the first has no length that is known."""
        # Once begun, the next epoch is the second; until it ends, a trainer asks about the one it is in.
        if self._next.epoch == 0 or (self._running and self._position.epoch == 0):
            self._following.look()
            raise StillWriting(
                self._following.store.root,
                "how many batches the first epoch has",
                ended=self._following.end is not None,
            )
        self._settle()
        return super().__len__()

    def _fingerprint(self, epoch: int) -> str:
        """In the first epoch the write stands for the rows it will have written."""
        if epoch == 0:
            return f"{FOLLOWED}{self._following.name}"
        self._settle()
        return super()._fingerprint(epoch)

    def _settle(self) -> None:
        """Go over to the version that the write became."""
        if not self._settled:
            self.snapshot = self._following.committed("its fingerprint")
            self._place = self._make_place(self.snapshot)
            self._verified = np.zeros(len(self.snapshot.index), bool)
            self._settled = True

    def _epoch(self) -> Iterator[dict[str, Any]]:
        if self._next.epoch == 0:
            yield from self._followed()
        else:
            # Who left the first epoch early may come before the write has ended.
            self._following.cover(sys.maxsize)
            self._settle()
            yield from super()._epoch()

    def _followed(self) -> Iterator[dict[str, Any]]:
        refuse_worker_processes()
        world, settings = self.world(), self.settings
        batch = settings.batch(world.size)
        if settings.rank is None and not self._agreed:
            agree({**self.state_dict(), "batch": batch, "last": settings.last}, world)
            self._agreed = True
        start, stats = self._next, Stats(began=time.perf_counter(), threads=settings.threads)
        stats.row_bytes = row_bytes(self.snapshot, self.specs)
        logged = self._logged(stats, world, start, None)
        epoch = FollowedEpoch(self._following, self.specs, settings, world, start.t, stats.readers)
        padded = batch // world.size if settings.last == "pad" else None
        # Later epochs are made on the device itself.
        finishing = settings if self._move is None else replace(settings, place=self._move)
        # As in any other epoch: closed before the log ends, and where not even that could begin.
        with closing(epoch), self._under_way(start, stats), logged:
            after = start.t
            try:
                stats.wait()
                for rows in epoch.steps():
                    count = len(next(iter(rows.values())))
                    made = self._host.cut(dict(rows), [count], padded)[0]
                    stats.go_on()
                    made = finished(made, finishing, stats)
                    after += batch
                    # Only the end of the write tells which step is the last, so it has a state of its own.
                    self._position = Position(0, after)
                    stats.steps, stats.rows = stats.steps + 1, stats.rows + count
                    stats.bytes_read, stats.writer_waited = epoch.bytes_read, epoch.writer_waited
                    yield made
                    stats.wait()
            finally:
                stats.go_on()
                stats.ended = time.perf_counter()
                epoch.close()
                stats.bytes_read, stats.writer_waited = epoch.bytes_read, epoch.writer_waited
        self._position = Position(1, 0) if self._running else self._next
