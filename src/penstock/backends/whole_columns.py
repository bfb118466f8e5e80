"""Whole columns as Arrow holds them: how it spells a type, and a user's function on them.

Spark's workers run `called`, so that this stands on pyarrow and NumPy alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dtypes import DTYPES
from penstock.expr.types import Type


def arrow_type(of: Type) -> Any:
    """How Arrow spells a type."""
    if of.kind == "list":
        item = arrow_type(of.item)
        return pa.list_(item) if of.length is None else pa.list_(item, of.length)
    if of.kind == "string":
        return pa.string()
    if of.kind == "date":
        return pa.date32()
    if of.kind in ("timestamp", "timestamp_ntz"):
        return pa.timestamp("us", "UTC" if of.kind == "timestamp" else None)
    return pa.from_numpy_dtype(DTYPES[str(of)].storage)


def called(function: Any, numpy: bool, name: str, wanted: Any, arrays: tuple[Any, ...]) -> Any:
    """The function's result for some rows as an Arrow array of the type wanted."""
    given = [array.to_numpy(zero_copy_only=False) for array in arrays] if numpy else arrays
    found = function(*given)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    try:
        if not isinstance(found, pa.Array):
            rows = list(found) if isinstance(found, np.ndarray) and found.ndim > 1 else found
            found = pa.array(rows, wanted)
        elif found.type != wanted:
            found = found.cast(wanted)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"the batch function {name} returned what is no {wanted}: {error}") from None
    rows = len(arrays[0])
    if len(found) != rows:
        raise ValueError(
            f"the batch function {name} returned {len(found)} values for {rows} rows; one each is wanted"
        )
    return found


def whole(column: Any) -> Any:
    """A column of a table as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
