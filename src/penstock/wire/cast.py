"""Arrow values to a tensor's dtype, in NumPy, without a silent change.

Rounding a number to a narrower float is allowed here: only a dtype that the user named asks for it. What never
passes: an integer that overflows, NaN or infinity to an integer, and anything but 0 and 1 to bool. Dates and times are
read by `ticks`, decimals by `decimals`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dtypes import Array, DType
from penstock.wire.decimals import range_text, to_floats, to_integers
from penstock.wire.faults import ColumnAt, refuse
from penstock.wire.ticks import to_ticks


def to_dtype(values: pa.Array, dtype: DType, column_at: ColumnAt) -> Array:
    """Values without nulls as a flat array in the dtype's storage; zero-copy where the bytes already fit.

    >>> from penstock.dtypes import DTYPES
    >>> to_dtype(pa.array([1, 2]), DTYPES["float32"], lambda i: "n")
    array([1., 2.], dtype=float32)
    """
    array = _as_numpy(values, dtype, column_at)
    if dtype.name == "bfloat16":
        return _to_bfloat16(array)
    if array.dtype == dtype.storage:
        return array
    if dtype.kind == "bool":
        refuse(array, (array != 0) & (array != 1), dtype.name, column_at, "Only 0 and 1 become bool.")
    elif dtype.kind in ("int", "uint"):
        _check_integer_range(array, dtype, column_at)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype.storage)


def fill_in_storage(value: bool | int | float | bytes, dtype: DType) -> Any:
    """A number that stands for a null, as it lies in the tensor's memory."""
    assert not isinstance(value, bytes), "texts are filled before they become bytes"
    with np.errstate(over="ignore"):
        if dtype.name == "bfloat16":
            return _to_bfloat16(np.array([value], np.float32))[0]
        return dtype.storage.type(value)


def _as_numpy(values: pa.Array, dtype: DType, column_at: ColumnAt) -> Array:
    kind = values.type
    if pa.types.is_boolean(kind):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(kind):
        return to_floats(values, dtype) if dtype.is_float else to_integers(values, dtype, column_at)
    if pa.types.is_temporal(kind):
        return to_ticks(values, column_at)
    return np.asarray(values.to_numpy(zero_copy_only=True))


def _check_integer_range(array: Array, dtype: DType, column_at: ColumnAt) -> None:
    if array.dtype.kind == "b" or array.size == 0:
        return
    info = np.iinfo(dtype.storage)
    remedy = range_text(info.min, info.max)
    if array.dtype.kind == "f":
        # Truncation comes first, so -0.5 fits an unsigned dtype and -128.9 int8. Both bounds are powers of two, exact
        # in every float; the upper one is exclusive because the largest integers are not. NaN fails both comparisons.
        whole = np.trunc(array)
        fits = (whole >= float(info.min)) & (whole < float(info.max) + 1)
        if not fits.all():
            refuse(array, ~fits, dtype.name, column_at, remedy)
        return
    if int(array.min()) < info.min or int(array.max()) > info.max:
        source = np.iinfo(array.dtype)
        bad = np.zeros(array.shape, bool)
        if info.min > source.min:
            bad |= array < info.min
        if info.max < source.max:
            bad |= array > info.max
        refuse(array, bad, dtype.name, column_at, remedy)


def _to_bfloat16(array: Array) -> Array:
    """The upper half of float32, rounded to nearest, ties to even; NaN stays NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        bits = array.astype(np.float32).view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    if nan.any():
        rounded[nan] = 0x7FC0
    return rounded
