"""What a row takes in memory: as it lies in windows and gathers, and what it is filled up to where that is asked for.

`plan.budget` counts in these, and so do caches. `Stats.bytes` counts rows as they lie: zeros that fill them up tell
nothing about a feed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.dataset.index import OFFSET_BYTES
from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import DTYPES, TensorSpec
from penstock.feed.reading.source import buffer_places

LENGTH_BYTES = DTYPES["int32"].bytes


def row_bytes(snapshot: Snapshot, specs: Sequence[TensorSpec]) -> int:
    """Bytes of a row of these tensors; of ragged ones the mean, and where each row begins.

    The index of Arrow shards tells what each tensor is unpacked to. Of Parquet and plain files only the bytes stored
    are known, of all tensors together: too little where they are compressed well, too much where few are chosen.
    """
    fixed = sum(spec.row_bytes for spec in specs if not spec.ragged)
    ragged = [spec for spec in specs if spec.ragged]
    return max(fixed + OFFSET_BYTES * len(ragged) + _mean_values(snapshot, ragged), 1)


def _mean_values(snapshot: Snapshot, ragged: Sequence[TensorSpec]) -> int:
    """Bytes of a row's values, rounded up."""
    rows, buffers = snapshot.manifest.rows, snapshot.index.buffers
    if not ragged or not rows:
        return 0
    if not buffers.size:
        return -(-snapshot.manifest.bytes // rows)
    places = buffer_places(snapshot)
    return -(-sum(int(buffers["raw"][:, places[spec.name] + 1].sum()) for spec in ragged) // rows)


def filled_bytes(specs: Sequence[TensorSpec], lengths: Mapping[str, int]) -> int:
    """Bytes of a row of the ragged tensors that are filled up to these lengths, and of what says how long it was.

    >>> filled_bytes(
    ...     [TensorSpec("tokens", "int32", (), "ragged"), TensorSpec("x", "float32")], {"tokens": 100}
    ... )
    404
    """
    filled = [spec for spec in specs if spec.name in lengths]
    return int(
        np.sum([lengths[spec.name] * spec.row_bytes + LENGTH_BYTES for spec in filled], dtype=np.int64)
    )
