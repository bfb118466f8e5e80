"""Which write, or which version, a training gets that opens a path with `follow=True`.

A killed writer leaves a log without an end and a sign of life that is seconds old, so neither tells that it lives. It
promises that a write is joined only when it has shown life since we came: it began, or its heart beat. Where one may
live, that is waited for; else there is the newest version, or a write to wait for. `following` does the rest.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress

from penstock.dataset import commit, follow_log
from penstock.dataset.heartbeat import PREFIX
from penstock.dataset.snapshot import Snapshot, open_version
from penstock.dataset.store import Store
from penstock.errors import DatasetError, FollowError, SelectionError, listed
from penstock.feed.follow.following import POLL_SECONDS, Following, beat_of
from penstock.feed.world import find_world
from penstock.progress import notice

TOLD_SECONDS = 5.0
"""After which somebody should know that no write has begun: it may be another path that is written."""
DOUBTED_BEATS = 3
"""So many beats are waited for where a version came after the write began, or its sign of life looks old: as a rule it
was killed."""
SKEW_SECONDS = 3600.0
"""A sign that looks older is old. Below, the reader's clock and the storage's may differ by as much, and the heart of a
write that lives is heard."""


def find(store: Store, timeout: float, version: int | None = None) -> Following | Snapshot:
    """The write under way at a path, waited for; else the newest version, as one that was followed if it was.

    `version`: this one and no other; while it is not there, older ones do not count, and the next write is waited for.
    """
    began, warned, watch = time.monotonic(), False, Watch(store)
    _refuse_foreign(store)
    while True:
        living, doubtful = watch.look()
        # Only now: a write that ended before the look has its version.
        there = commit.versions(store)
        newest = there[-1] if there else 0
        if version is not None and version <= newest:
            return _followed(store, version, timeout)
        if living is not None and version in (None, newest + 1):
            return Following(store, living, timeout)
        waited = time.monotonic() - began
        if there and version is None and (not doubtful or waited > timeout):
            _tell(store, newest)
            return _followed(store, newest, timeout)
        if waited > timeout:
            raise FollowError(
                store.root,
                f"no write has begun there for {timeout:g} s{_reason(store, doubtful)}",
                "Start pk.write(..., follow=True), or pass a larger timeout to pk.open.",
            )
        if waited > TOLD_SECONDS and not warned:
            warnings.warn(
                f"{store.root}: pk.open(follow=True) waits for pk.write(..., follow=True), and no write has begun "
                f"there for {waited:.0f} s{_reason(store, doubtful)}. Check the path; waiting until {timeout:g} s have "
                "passed.",
                stacklevel=3,
            )
            warned = True
        time.sleep(POLL_SECONDS)


class Watch:
    """The writes under way at a path, and whether each has shown life since it was first looked at."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._came: dict[str, float] | None = None
        """When hearts had last beaten at the first look, by the storage's clock."""
        self._since = time.monotonic()

    def look(self) -> tuple[str | None, bool]:
        """The write that began last and lives; else whether one may live that has not shown it yet."""
        entries = {entry.name: entry.modified for entry in self._store.entries(commit.META)}
        beats = {
            name: entries[f"{PREFIX}{name}"] for name in _open_writes(entries) if f"{PREFIX}{name}" in entries
        }
        if self._came is None:
            self._came = beats
            return None, any(self._may_live(name, beat, entries) for name, beat in beats.items())
        for name, beat in beats.items():
            if self._came.get(name) != beat:
                return name, False
            # An older one is not taken while this one may live: ranks that look at other moments would differ.
            if self._may_live(name, beat, entries):
                return None, True
        return None, False

    def _may_live(self, name: str, beat: float, entries: Mapping[str, float]) -> bool:
        repeated = _committed_last(entries) > entries[follow_log.begin_name(name)]
        seconds, lost = beat_of(self._store, name), follow_log.LOST_BEATS
        age, watched = time.time() - beat, time.monotonic() - self._since
        if age >= max(lost * seconds, SKEW_SECONDS):
            return False
        return watched < (DOUBTED_BEATS if repeated or age >= lost * seconds else lost) * seconds


def _refuse_foreign(store: Store) -> None:
    """Raise where no write can begin, as `penstock.dataset.writing.check_path` would."""
    if commit.versions(store):
        return
    own = (f"{commit.META}/", f"{commit.SHARDS}/")
    foreign = [entry.name for entry in store.entries() if not entry.name.startswith(own)]
    if foreign:
        raise FollowError(
            store.root,
            f"it holds files that are no Penstock dataset ({listed(foreign, 3)}), and no write will begin there",
            "Open plain Parquet or Arrow files without follow=True, or give the path that is written to.",
        )


def _followed(store: Store, version: int, timeout: float) -> Following | Snapshot:
    manifest = commit.load(store, version)
    name = re.fullmatch(rf"{commit.META}/v\d+-([0-9a-z]+)\.arrow", manifest.index.file)
    if not manifest.options.get("follow") or name is None:
        return open_version(store, version)
    return Following(store, name[1], timeout, version)


def _tell(store: Store, version: int) -> None:
    """Say that nothing is followed: who meant a write that begins in a moment would train on old rows unawares."""
    with suppress(SelectionError):  # a loader may yet be told its rank
        if find_world().rank != 0:
            return
    notice(
        f"{store.root}: no write is under way, so pk.open(follow=True) takes version {version}, of "
        f"{commit.load(store, version).created}. To wait for the next write instead, pass version={version + 1}."
    )


def _begun(entries: Mapping[str, float]) -> Iterator[str]:
    """The writes that have logs, the one that began last first."""
    found = ((modified, re.fullmatch(follow_log.BEGIN_NAME, name)) for name, modified in entries.items())
    yield from (name for _, name in sorted(((when, each[1]) for when, each in found if each), reverse=True))


def _open_writes(entries: Mapping[str, float]) -> list[str]:
    """Of those, the ones that have neither ended nor become a version."""
    versions = (re.fullmatch(rf"{commit.META}/v(\d+)-([0-9a-z]+)\.arrow", name) for name in entries)
    ended = {each[2] for each in versions if each and commit.manifest_name(int(each[1])) in entries}
    return [
        name for name in _begun(entries) if name not in ended and follow_log.end_name(name) not in entries
    ]


def _committed_last(entries: Mapping[str, float]) -> float:
    """When the newest version came; before all time where there is none."""
    return max(
        (when for name, when in entries.items() if re.fullmatch(commit.MANIFEST_NAME, name)),
        default=float("-inf"),
    )


def _reason(store: Store, doubtful: bool) -> str:
    """What became of the last write there, for a message."""
    if doubtful:
        return "; one that began before shows no life"
    entries = {entry.name: entry.modified for entry in store.entries(commit.META)}
    for name in _begun(entries):
        if name in _open_writes(entries):
            return "; the last one ended without a word"
        try:
            end = follow_log.read_end(store, name)
        except DatasetError:
            return ""
        return f"; the last one failed: {end.reason}" if end is not None and end.version is None else ""
    return ""
