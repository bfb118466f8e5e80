"""One committed version of a dataset, opened: its manifest, its index, and its rows on request.

`open_snapshot` also takes folders that Penstock did not write (`plain`). What users hold is a `Dataset` around this
(`penstock.feed.dataset`); the feed reads blocks in its own order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.dataset import commit
from penstock.dataset.blocks import ArrowBlocks, Blocks, NativeBlocks
from penstock.dataset.index import Index, parse
from penstock.dataset.manifest import Manifest
from penstock.dataset.store import Content, Store, knowing
from penstock.dtypes import DTYPES, TensorSpec
from penstock.errors import CorruptError, SelectionError, listed
from penstock.wire.ragged import Packed, Ragged, joined
from penstock.wire.selection import RaggedColumn


@dataclass(frozen=True)
class Snapshot:
    """A version's rows, as blocks."""

    store: Store
    manifest: Manifest
    index: Index
    blocks: Blocks
    committed: bool = True
    """False for a folder that Penstock did not write: it has no versions and no checksums."""

    def spec(self, name: str) -> TensorSpec:
        """The tensor of that name."""
        for spec in self.manifest.tensors:
            if spec.name == name:
                return spec
        names = [spec.name for spec in self.manifest.tensors]
        raise SelectionError(f"no tensor {name!r} in {self.store.root}; it has {listed(names)}.")

    def read(self, rows: slice, names: Sequence[str] | None, verify: bool) -> dict[str, Any]:
        """Rows by their numbers: arrays, `Ragged` for ragged tensors, lists of text or bytes."""
        specs = [self.spec(name) for name in names] if names is not None else list(self.manifest.tensors)
        if not isinstance(rows, slice):
            raise SelectionError(f"rows={rows!r} is no run of rows: pass a slice, such as slice(0, 10).")
        start, stop, step = rows.indices(self.manifest.rows)
        if step != 1:
            raise SelectionError(f"rows={rows} has the step {step}; only runs of rows can be read.")
        starts = self.index.starts
        first = int(np.searchsorted(starts, start, "right")) - 1
        pieces: dict[str, list[Packed]] = {spec.name: [] for spec in specs}
        for number in range(first, len(self.index)):
            begin = int(starts[number])
            if begin >= stop or start >= stop or not specs:
                break
            found = self.blocks.read(number, list(pieces), verify)
            for name, packed in found.items():
                pieces[name].append(packed[max(start - begin, 0) : stop - begin])
        return {spec.name: self._whole(spec, pieces[spec.name]) for spec in specs}

    def _whole(self, spec: TensorSpec, pieces: Sequence[Packed]) -> Any:
        # With an empty piece, so that no rows have a shape too, and all are copied: they belong to the caller then,
        # not to a mapped file.
        empty = np.empty((0, *spec.shape), DTYPES[spec.dtype].storage)
        whole = joined([Ragged(empty, np.zeros(1, np.int64)) if spec.ragged else empty, *pieces])
        if not isinstance(whole, Ragged) or spec.kind == "ragged":
            return whole
        data, ends = whole.values.tobytes(), whole.offsets.tolist()
        rows = [data[start:stop] for start, stop in pairwise(ends)]
        if spec.kind == "binary":
            return rows
        try:
            return [row.decode("utf-8") for row in rows]
        except UnicodeDecodeError as error:
            raise CorruptError(
                [self.store.root], f"tensor {spec.name!r} holds a text that is no UTF-8 ({error})"
            ) from None


def open_version(store: Store, version: int) -> Snapshot:
    """One version of a Penstock dataset."""
    return open_manifest(store, commit.load(store, version))


def open_manifest(store: Store, manifest: Manifest) -> Snapshot:
    """The rows that a manifest names: of a version, or of one part of a dataset that is still being written."""
    where = store.locate(manifest.index.file)
    index = parse(commit.load_table(store, manifest), manifest, where)
    store = knowing(store, {each.file: Content(each.bytes, each.checksum) for each in manifest.shards})
    return Snapshot(store, manifest, index, _blocks(store, manifest, index))


def parts_of(snapshot: Snapshot) -> list[Snapshot]:
    """Every shard of a version as a snapshot of its own."""
    manifest, index, parts = snapshot.manifest, snapshot.index, []
    edges = np.searchsorted(index.shard, np.arange(len(manifest.shards) + 1)).tolist()
    for shard, (first, last) in zip(manifest.shards, pairwise(edges), strict=True):
        own = slice(first, last)
        part = Index(
            np.zeros(last - first, index.shard.dtype),
            index.rows[own],
            index.offset[own],
            index.length[own],
            index.checksum[own],
            index.buffers[own],
        )
        alone = replace(manifest, shards=(shard,))
        parts.append(
            replace(snapshot, manifest=alone, index=part, blocks=_blocks(snapshot.store, alone, part))
        )
    return parts


def _blocks(store: Store, manifest: Manifest, index: Index) -> Blocks:
    if manifest.storage == "arrow":
        return NativeBlocks(store, manifest, index)
    return ArrowBlocks(
        store,
        manifest.tensors,
        manifest.shards,
        index,
        {spec.name: _request(spec, manifest) for spec in manifest.tensors},
        # bfloat16 lies as the uint16 it is in memory.
        {spec.name: DTYPES[spec.dtype].numpy for spec in manifest.tensors if spec.dtype != "bool"},
    )


def _request(spec: TensorSpec, manifest: Manifest) -> str | list[str] | RaggedColumn:
    columns = list(manifest.stored.get(spec.name, (spec.name,)))
    if columns != [spec.name]:
        return columns
    return RaggedColumn(spec.name) if spec.kind == "ragged" else spec.name
