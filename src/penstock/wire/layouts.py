"""Arrow's several layouts of one thing, brought to the one that `pack` reads.

Dictionaries, run ends and extension types are undone first (`decoded`). Lists of every layout then answer `flatten`
alike, so that only where rows begin is left to find (`row_offsets`); texts and bytes become one buffer with offsets.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.dtypes import Array
from penstock.wire.ragged import Ragged


def decoded(column: pa.Array) -> pa.Array:
    """The values themselves, where a column holds them by another way.

    >>> decoded(pa.array(["a", "b", "a"]).dictionary_encode()).type
    DataType(string)
    """
    while True:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        elif pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        elif pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        else:
            return column


def row_offsets(column: pa.Array) -> Array:
    """Where each list begins in `column.flatten()`, and the end; a null list is empty there.

    >>> row_offsets(pa.array([[1, 2], None, [3]])).tolist()
    [0, 2, 2, 3]
    """
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def as_bytes(column: pa.Array, fill: bytes) -> Ragged:
    """Strings or bytes, one row each, as one stretch of bytes; nulls as `fill`.

    >>> as_bytes(pa.array(["ab", None, "c"]), b"?").values.tobytes()
    b'ab?c'
    """
    large = column.cast(pa.large_binary())
    if large.null_count:
        # Filling rebuilds the values, so that bytes which may lie under a null are gone as well.
        large = pc.fill_null(large, pa.scalar(fill, pa.large_binary()))
    _, starts, stretch = large.buffers()
    if not len(large) or stretch is None:
        return Ragged(np.empty(0, np.uint8), np.zeros(len(large) + 1, np.int64))
    offsets = np.frombuffer(starts, np.int64)[large.offset : large.offset + len(large) + 1]
    values = np.frombuffer(stretch, np.uint8)[offsets[0] : offsets[-1]]
    return Ragged(values, offsets - offsets[0])
