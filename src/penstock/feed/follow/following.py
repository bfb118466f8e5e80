"""A write that is under way, as a training sees it: the parts that are there, and waiting for those that come.

All that ranks know of it is its log on shared storage (`penstock.dataset.follow_log`), so they need not speak to each
other: a part has one number, and one place in the epoch. After the write the version itself tells the same order: its
shards are the parts. `joining` chooses the write, `epoch` reads the parts, `penstock.feed.dataset` hands this to
users.
"""

from __future__ import annotations

import threading
import time
import warnings
from functools import cached_property

from penstock.dataset import commit, follow_log
from penstock.dataset.follow_log import End
from penstock.dataset.forks import in_forks
from penstock.dataset.heartbeat import PREFIX
from penstock.dataset.snapshot import Snapshot, open_manifest, open_version, parts_of
from penstock.dataset.store import Store
from penstock.errors import DatasetError, FollowError, StillWriting

POLL_SECONDS, GLANCE_SECONDS = 0.1, 1.0
WARNING_SHARE = 0.25
"""Of the timeout, after which a write that does not get on is warned of."""
LATE_BEATS = 3
"""A heart that is silent for so long is told of; for `LOST_BEATS`, it has stopped."""
WRITE_AGAIN = "Nothing was committed: write it again, then train again."


class Following:
    """The parts of one write, in the order of its log; safe in many threads."""

    def __init__(self, store: Store, name: str, timeout: float, version: int | None = None) -> None:
        """`version`: what the write became, where it has ended."""
        self.store, self.name, self.timeout = store, name, timeout
        self.parts: list[Snapshot] = []
        self.rows = 0
        self.end: End | None = None
        self._lock = threading.Lock()
        self._heard: tuple[float | None, float] | None = None
        """The heartbeat's own time when it was last looked at, and when a new one was first seen, by our clock."""
        self._checked = self._looked = 0.0
        in_forks(self)
        if version is not None:
            self._finish(End(version))

    def forked(self) -> None:
        """Who looked just now is the other process's, and may have come half way: what is there is counted anew."""
        self._lock = threading.Lock()
        if self.end is None:
            self.rows = sum(part.manifest.rows for part in self.parts)

    def cover(self, rows: int) -> int:
        """Wait until the parts have so many rows, or there are no more to come; the rows there are."""
        since, warned, seen = time.monotonic(), False, self.rows
        while self.rows < rows and self.end is None:
            self.look()
            if self.rows >= rows or self.end is not None:
                break
            self._check_heart()
            now = time.monotonic()
            if self.rows > seen:
                since, warned, seen = now, False, self.rows
            if now - since > self.timeout:
                raise self._stalled()
            if now - since > self.timeout * WARNING_SHARE and not warned:
                warnings.warn(
                    f"{self.store.root}: no part has landed for {now - since:.0f} s, after {len(self.parts)} parts of "
                    f"{self.rows:,} rows. {self._silence or 'The writer lives'}; waiting until {self.timeout:g} s have "
                    "passed.",
                    stacklevel=2,
                )
                warned = True
            time.sleep(POLL_SECONDS)
        return self.rows

    def _stalled(self) -> FollowError:
        """What is known at the end of the timeout, which may be too short to tell a slow writer from a dead one."""
        landed = (
            f"no part has landed for {self.timeout:g} s, after {len(self.parts)} parts of {self.rows:,} rows"
        )
        if self._silence:
            return FollowError(
                self.store.root,
                f"{landed}. {self._silence}, and should beat every {self._beat:g} s",
                f"See whether the writer still runs. If not: {WRITE_AGAIN}",
            )
        return FollowError(
            self.store.root,
            f"{landed}, though the writer lives",
            "See what holds the write up; or pass a larger timeout to pk.open.",
        )

    @property
    def _silence(self) -> str:
        """How long the writer's heart has been silent, in words; empty where it beats."""
        silent = 0.0 if self._heard is None else time.monotonic() - self._heard[1]
        return (
            f"The writer's heart has not beaten for {silent:.0f} s"
            if silent > LATE_BEATS * self._beat
            else ""
        )

    def glance(self) -> None:
        """Look, unless that was done a moment ago: what has landed can be read ahead, and a failure be told early."""
        if self.end is None and time.monotonic() - self._looked > GLANCE_SECONDS:
            self.look()

    def look(self) -> None:
        """Take in what the log tells now; raises what the writer failed with."""
        with self._lock:
            self._looked = time.monotonic()
            if self.end is None:
                # The end is asked for first: parts that come before it are then there.
                end = follow_log.read_end(self.store, self.name)
                if end is not None and end.version is None:
                    raise FollowError(self.store.root, f"its write failed: {end.reason}", WRITE_AGAIN)
                self._take_parts()
                if end is not None:
                    self._finish(end)

    def _take_parts(self) -> None:
        while True:
            manifest = follow_log.read_part(self.store, self.name, len(self.parts) + 1)
            if manifest is None:
                return
            self.parts.append(open_manifest(self.store, manifest))
            self.rows += manifest.rows

    def _finish(self, end: End) -> None:
        """The version is there. Where the log has been swept, its shards tell the same."""
        assert end.version is not None
        self._committed = open_version(self.store, end.version)
        whole, mine = self._committed.manifest.shards, [part.manifest.shards[0] for part in self.parts]
        if mine != list(whole[: len(mine)]):
            raise FollowError(
                self.store.root,
                f"version {end.version} has other shards than the log of its write",
                WRITE_AGAIN,
            )
        self.parts += parts_of(self._committed)[len(mine) :]
        self.rows, self.end = self._committed.manifest.rows, end

    def _check_heart(self) -> None:
        """Raise for a writer whose heart has stopped, unless it came as far as the commit."""
        now, beat = time.monotonic(), self._beat
        if self._heard is not None and now - self._checked < beat:
            return
        self._checked = now
        seen = heart(self.store, self.name)
        if self._heard is None or seen != self._heard[0]:
            self._heard = (seen, now)
            return
        silent = now - self._heard[1]
        if silent <= follow_log.LOST_BEATS * beat:
            return
        version = follow_log.version_of(self.store, self.name)
        with self._lock:
            if version is not None and self.end is None:
                self._take_parts()
                self._finish(End(version))
        if version is None:
            raise FollowError(
                self.store.root,
                f"its writer has ended without a word: its heartbeat stopped {silent:.0f} s ago, and should come every "
                f"{beat:g} s",
                WRITE_AGAIN,
            )

    @cached_property
    def _beat(self) -> float:
        return beat_of(self.store, self.name)

    def sample(self) -> Snapshot:
        """Something that has the dataset's tensors: its first part, waited for; or the version, if it has none."""
        self.cover(1)
        return self.parts[0] if self.parts else self.committed("its tensors")

    def committed(self, what: str) -> Snapshot:
        """The version that the write became; `what` was asked for, if it has not ended yet."""
        self.look()
        if self.end is None:
            raise StillWriting(self.store.root, what)
        return self._committed

    def telling(self, error: DatasetError) -> DatasetError:
        """Why shards cannot be read: a write that fails takes its files away. Else the error itself."""
        try:
            self.look()
        except FollowError as reason:
            return reason
        return error


def heart(store: Store, name: str) -> float | None:
    """When the heart of a write last beat, by the storage's clock; None where there is no sign of it."""
    signs = {entry.name: entry.modified for entry in store.entries(commit.META)}
    return signs.get(f"{PREFIX}{name}")


def beat_of(store: Store, name: str) -> float:
    """How often the heart of a write beats; as usual where its log has been swept."""
    try:
        return follow_log.read_beat(store, name)
    except FileNotFoundError:
        return follow_log.BEAT_SECONDS
