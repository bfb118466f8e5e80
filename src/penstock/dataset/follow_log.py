"""The log of a write that others follow: which parts are there, in which order, and how the write ended.

    _penstock/follow-NAME/begin.json     a write has begun, and how often its heart beats
    _penstock/follow-NAME/000001.json    its first part: a manifest of one shard
    _penstock/follow-NAME/000001.arrow   the index of that shard
    _penstock/follow-NAME/end.json       the version it became, or why it failed

Only the driver of the write adds to it (`follow_write`). Every file is created exclusively, whole or not at all, and
after what it names, so a reader needs no lock: number n + 1 is there or it is not. A part is written and read as a
manifest is, with all its checks. `penstock.feed.follow.following` waits for what comes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from penstock.dataset import commit
from penstock.dataset.manifest import Manifest, parse_manifest
from penstock.dataset.store import Store
from penstock.errors import ManifestError

FORMAT = "penstock-follow"
BEAT_SECONDS = 2.0
"""How often the heart of a write beats that others follow."""
LOST_BEATS = 15
"""So many beats in a row are not missed by a process that lives."""
BEGIN_NAME = rf"{commit.META}/follow-([0-9a-z]+)/begin\.json"


def folder(name: str) -> str:
    """Where the log of a write stands.

    >>> folder("ab12")
    '_penstock/follow-ab12'
    """
    return f"{commit.META}/follow-{name}"


def begin_name(name: str) -> str:
    """The file that tells of the write."""
    return f"{folder(name)}/begin.json"


def end_name(name: str) -> str:
    """The file that tells how it ended."""
    return f"{folder(name)}/end.json"


def part_name(name: str, number: int) -> str:
    """The file of one part, counted from 1; its index stands beside it.

    >>> part_name("ab12", 7)
    '_penstock/follow-ab12/000007.json'
    """
    return f"{folder(name)}/{number:06d}.json"


@dataclass(frozen=True)
class End:
    """How a write ended: as this version, or for this reason as none."""

    version: int | None
    reason: str = ""


def begin_bytes(beat: float) -> bytes:
    """What `begin.json` holds."""
    return json.dumps({"format": FORMAT, "beat": beat}).encode()


def end_bytes(end: End) -> bytes:
    """What `end.json` holds."""
    return json.dumps({"format": FORMAT, "version": end.version, "reason": end.reason}).encode()


def read_beat(store: Store, name: str) -> float:
    """How often the heart of a write beats, in seconds."""
    where = begin_name(name)
    beat = _read(store, where).get("beat")
    if not isinstance(beat, int | float) or isinstance(beat, bool) or not 0 < beat < 3600:
        raise ManifestError(store.locate(where), f"it says that a heart beats every {beat!r:.100} seconds")
    return float(beat)


def read_end(store: Store, name: str) -> End | None:
    """How the write ended; None while it goes on."""
    where = end_name(name)
    try:
        found = _read(store, where)
    except FileNotFoundError:
        return None
    version, reason = found.get("version"), found.get("reason")
    whole = isinstance(version, int) and not isinstance(version, bool) and version >= 1
    if not isinstance(reason, str) or not (version is None or whole):
        raise ManifestError(store.locate(where), f"it says version {version!r:.100}, reason {reason!r:.100}")
    return End(version, reason)


def read_part(store: Store, name: str, number: int) -> Manifest | None:
    """One part as a manifest of its shard; None where it is not there yet."""
    where = part_name(name, number)
    try:
        data = store.read(where)
    except FileNotFoundError:
        return None
    manifest = parse_manifest(data, store.locate(where))
    if manifest.version != number or len(manifest.shards) != 1:
        raise ManifestError(
            store.locate(where),
            f"it says that it is part {manifest.version}, of {len(manifest.shards)} shards",
        )
    return manifest


def version_of(store: Store, name: str) -> int | None:
    """The version that a write of this name has committed; None where it has not."""
    found = (
        re.fullmatch(rf"{commit.META}/v(\d+)-{name}\.arrow", each.name) for each in store.entries(commit.META)
    )
    there = commit.versions(store)
    return next((int(match[1]) for match in found if match and int(match[1]) in there), None)


def _read(store: Store, where: str) -> dict[str, Any]:
    data = store.read(where)
    try:
        found = json.loads(data)
    except ValueError as error:
        raise ManifestError(store.locate(where), f"it is not JSON ({error!s:.200})") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ManifestError(store.locate(where), f"it is not of the format {FORMAT!r}")
    return found
