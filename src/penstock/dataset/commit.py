"""Versions of a dataset: which there are, how a new one is published, and what no version needs any more.

A version is there when its manifest is, and a manifest is created exclusively and last. So a reader sees the old
version or the new one, two writers cannot both take a number, and a crash leaves only files that no manifest names.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from penstock.dataset import index
from penstock.dataset.heartbeat import alive
from penstock.dataset.manifest import IndexFile, Manifest, Shard, parse_manifest
from penstock.dataset.store import Store
from penstock.dtypes import TensorSpec
from penstock.errors import (
    CorruptError,
    DatasetError,
    DatasetExists,
    DatasetMissing,
    ManifestError,
    StorageError,
)

META, SHARDS = "_penstock", "shards"
MANIFEST_NAME = r"_penstock/v(\d{6,})\.json"


@dataclass(frozen=True)
class Draft:
    """What a finished write wants to publish."""

    name: str
    """Of this write; every file of it carries it."""
    tensors: tuple[TensorSpec, ...]
    shards: tuple[Shard, ...]
    blocks: Sequence[pa.Table]
    """The index of each shard."""
    storage: str = "arrow"
    compression: str | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    writer: Mapping[str, str] = field(default_factory=dict)
    recipe: Mapping[str, bytes] = field(default_factory=dict)
    """The files of the recipe the rows came through, by name, its JSON first."""


def manifest_name(version: int) -> str:
    """Where a version's manifest stands.

    >>> manifest_name(1)
    '_penstock/v000001.json'
    """
    return f"{META}/v{version:06d}.json"


def versions(store: Store) -> list[int]:
    """The committed versions, oldest first."""
    names = {entry.name for entry in store.entries(META)}
    found = [int(match[1]) for name in names if (match := re.fullmatch(MANIFEST_NAME, name, re.ASCII))]
    return sorted(version for version in found if manifest_name(version) in names)


def load(store: Store, version: int) -> Manifest:
    """The manifest of one version."""
    name = manifest_name(version)
    try:
        data = store.read(name)
    except FileNotFoundError:
        there = versions(store)
        raise DatasetMissing(
            f"{store.root} has no version {version}; "
            + (f"it has {', '.join(map(str, there))}." if there else "it is no Penstock dataset.")
        ) from None
    manifest = parse_manifest(data, store.locate(name))
    if manifest.version != version:
        raise ManifestError(store.locate(name), f"it says that it is version {manifest.version}")
    return manifest


def load_table(store: Store, manifest: Manifest) -> pa.Table:
    """The index of a version as a table, its checksum checked."""
    where = store.locate(manifest.index.file)
    try:
        data = store.read(manifest.index.file)
    except FileNotFoundError:
        raise CorruptError([f"the index {where}"], "the file is not there") from None
    return index.read_table(data, manifest, where)


def publish(store: Store, draft: Draft, mode: str) -> Manifest:
    """Make a draft the next version; in one step, or not at all.

    `mode`: "error" wants to be the first version; "overwrite" replaces what is there then, "append" adds to it.
    When another writer takes the number first, "error" fails and the others take the next one.
    """
    for name, content in draft.recipe.items():
        store.put(_recipe_file(draft.name, name), content)
    while True:
        there = versions(store)
        if there and mode == "error":
            raise DatasetExists(store.root, f"a dataset (version {there[-1]})")
        base = load(store, there[-1]) if there and mode == "append" else None
        version = there[-1] + 1 if there else 1
        table = index.renumbered(_tables(store, base, draft))
        data = index.to_bytes(table)
        # Under a name of this write: two writers that reach for one number must not share a file.
        file = index.file_for(f"{META}/v{version:06d}-{draft.name}.arrow", data)
        manifest = _manifest(draft, base, version, file)
        store.put(file.file, data)
        if _created(store, manifest):
            return manifest
        store.delete([file.file])


def _recipe_file(write: str, name: str) -> str:
    """Where a file of a recipe stands; under a name of the write's own, as everything it makes."""
    return f"{META}/{write}-{name}"


def _created(store: Store, manifest: Manifest) -> bool:
    """Whether the manifest is there now. Where the answer was lost on its way, what is there tells."""
    name, data = manifest_name(manifest.version), manifest.to_json().encode()
    try:
        if store.create(name, data):
            return True
    except StorageError:
        if not _holds(store, name, data):
            raise
        return True
    # A client that hears nothing asks again, and is then told that the name is taken: by itself.
    return _holds(store, name, data)


def _holds(store: Store, name: str, data: bytes) -> bool:
    try:
        return store.read(name) == data
    except FileNotFoundError:
        return False


def files_of(store: Store, name: str) -> set[str]:
    """The files that a write of this name has committed; none where it did not come so far."""
    found = (re.fullmatch(rf"{META}/v(\d+)-{name}\.arrow", entry.name) for entry in store.entries(META))
    there = versions(store)
    mine = [load(store, int(match[1])) for match in found if match and int(match[1]) in there]
    return {file for manifest in mine for file in files_named(manifest)}


def files_named(manifest: Manifest) -> set[str]:
    """All files that a version needs beside its manifest."""
    return {manifest.index.file, *(shard.file for shard in manifest.shards), *manifest.recipe}


def _tables(store: Store, base: Manifest | None, draft: Draft) -> list[pa.Table]:
    if base is None:
        return list(draft.blocks)
    old = load_table(store, base)
    edges = accumulate((shard.blocks for shard in base.shards), initial=0)
    return [old.slice(start, stop - start) for start, stop in pairwise(edges)] + list(draft.blocks)


def _manifest(draft: Draft, base: Manifest | None, version: int, file: IndexFile) -> Manifest:
    if base is not None:
        check_appendable(base, draft)
    return Manifest(
        version=version,
        tensors=base.tensors if base is not None and base.shards else draft.tensors,
        shards=(base.shards if base is not None else ()) + draft.shards,
        index=file,
        storage=draft.storage,
        compression=draft.compression,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        columns=draft.columns,
        stored=draft.stored,
        # What was appended to is no longer what one source gave: nothing may be reused from it.
        source=draft.source if base is None else {**draft.source, "identity": None},
        options=draft.options,
        writer=draft.writer,
        recipe=tuple(_recipe_file(draft.name, name) for name in draft.recipe),
    )


def check_appendable(base: Manifest, draft: Draft) -> None:
    """Refuse rows that do not fit what is there."""

    # Where there are no rows, nothing has told how long lists are.
    shaped = bool(base.shards and draft.shards)

    def layout(of: Manifest | Draft) -> dict[str, object]:
        specs = of.tensors if shaped else [replace(spec, shape=()) for spec in of.tensors]
        return {
            "tensors": [str(spec) for spec in specs],
            "format": of.storage,
            "compression": of.compression,
            "columns of the files": {name: list(columns) for name, columns in of.stored.items()},
            "recipe": of.options.get("recipe"),
        }

    old, new = layout(base), layout(draft)
    differs = "; ".join(f"{key}: there {old[key]}, here {new[key]}" for key in old if old[key] != new[key])
    if differs:
        raise DatasetError(
            f"the rows cannot be appended to version {base.version}: {differs}. Write them as that version has them, "
            'or pass mode="overwrite" for a new version of its own.'
        )


def vacuum(store: Store, keep: int, older_than: float) -> list[str]:
    """Delete what the newest `keep` versions do not name, if it is older than so many seconds; the names deleted.

    Only files of Penstock's own folders are looked at. The age protects a training that still reads the version before,
    and a write that is under way; one that lasts longer shows that it lives (`heartbeat`).
    """
    if keep < 1:
        raise DatasetError(f"keep={keep}: at least the newest version stays.")
    if not older_than >= 0:
        raise DatasetError(f"older_than={older_than}: seconds that have passed, so 0 or more.")
    before = time.time() - older_than
    # Listed before the manifests are: what a write adds after this moment is not looked at.
    entries = [*store.entries(META), *store.entries(SHARDS)]
    young = {entry.name for entry in entries if entry.modified > before}
    there = versions(store)
    needed: set[str] = set()
    for version in there:
        # A manifest too young to go needs its shards, however old they are.
        if version in there[-keep:] or manifest_name(version) in young:
            needed |= {manifest_name(version)} | files_named(load(store, version))
    writing = alive({entry.name: entry.modified for entry in entries}, before)
    gone = [
        entry.name
        for entry in entries
        if entry.name not in needed
        and entry.modified <= before
        and not any(name in entry.name for name in writing)
    ]
    # Manifests first: a version must never be there without its shards.
    gone.sort(key=lambda name: (re.fullmatch(MANIFEST_NAME, name) is None, name))
    store.delete(gone)
    return gone
