"""What a dataset is on storage: where it lies, who wrote it and how, how even its shards are, and its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.feed.dataset import Dataset

MOST_SHARDS = 40
"""More are put together, neighbours with neighbours."""
MOST_BLOCKS = 48
"""Of a shard, or of several that were put together."""


def dataset_facts(ds: Dataset) -> dict[str, Any]:
    """Where it lies, how much it is, who wrote it."""
    snapshot = ds.snapshot
    manifest = snapshot.manifest
    return {
        "path": ds.path,
        "version": ds.version,
        "versions": ds.versions(),
        "format": manifest.storage if snapshot.committed else _suffixes([shard.file for shard in ds.shards]),
        "compression": manifest.compression,
        "plain": not snapshot.committed,
        "rows": ds.rows,
        "bytes": ds.bytes,
        "row_bytes": ds.bytes / ds.rows if ds.rows else None,
        "shards": len(ds.shards),
        "blocks": len(snapshot.index),
        "fingerprint": ds.fingerprint,
        "written": manifest.created or None,
        "writer": dict(manifest.writer),
        "options": {name: value for name, value in ds.options.items() if value is not None},
    }


def _suffixes(files: Sequence[str]) -> str:
    return ", ".join(sorted({file.rpartition(".")[2] for file in files}))


def shard_facts(ds: Dataset) -> dict[str, Any]:
    """How even the shards are, and the blocks of each: rows, bytes, and how many stand for one."""
    rows, index = [shard.rows for shard in ds.shards], ds.snapshot.index
    mean = sum(rows) / len(rows) if rows else 0.0
    edges = np.searchsorted(index.shard, np.arange(len(rows) + 1)).tolist()
    known = bool(index.length.any())  # of other people's files only their rows are known
    groups = []
    for first, last in cut(len(rows), MOST_SHARDS):
        blocks = []
        for begin, end in cut(edges[last] - edges[first], MOST_BLOCKS):
            own = slice(edges[first] + begin, edges[first] + end)
            size = int(index.length[own].sum()) if known else None
            blocks.append({"rows": int(index.rows[own].sum()), "bytes": size, "blocks": end - begin})
        groups.append(
            {
                "first": first,
                "last": last - 1,
                "file": ds.shards[first].file,
                "rows": sum(rows[first:last]),
                "least": min(rows[first:last]),
                "most": max(rows[first:last]),
                "bytes": sum(shard.bytes for shard in ds.shards[first:last]),
                "blocks": blocks,
            }
        )
    return {
        "count": len(rows),
        "rows": [min(rows), max(rows)] if rows else None,
        "unevenness": (max(rows) - min(rows)) / mean if mean else 0.0,
        "groups": groups,
    }


def cut(count: int, most: int) -> list[tuple[int, int]]:
    """So many things in a row, in at most so many runs of equal length, but for the last.

    >>> cut(3, 8), cut(5, 2)
    ([(0, 1), (1, 2), (2, 3)], [(0, 3), (3, 5)])
    """
    each = max(-(-count // most), 1)
    return [(first, min(first + each, count)) for first in range(0, count, each)]
