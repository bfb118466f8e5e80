"""Arrow values to a tensor's dtype, in NumPy, without a silent change.

Rounding a number to a narrower float is allowed here: only a dtype that the user named asks for it. What never
passes: an integer that overflows, NaN or infinity to an integer, and anything but 0 and 1 to bool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.dtypes import Array, DType
from penstock.wire.faults import BadValue, Fault

ColumnAt = Callable[[int], str]
"""The user's column that the value at a flat position belongs to."""


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
        _refuse(array, (array != 0) & (array != 1), dtype, column_at, "Only 0 and 1 become bool.")
    elif dtype.kind in ("int", "uint"):
        _check_integer_range(array, dtype, column_at)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype.storage)


def fill_in_storage(value: bool | int | float, dtype: DType) -> Any:
    """A fill value as it lies in the tensor's memory."""
    with np.errstate(over="ignore"):
        if dtype.name == "bfloat16":
            return _to_bfloat16(np.array([value], np.float32))[0]
        return dtype.storage.type(value)


def _as_numpy(values: pa.Array, dtype: DType, column_at: ColumnAt) -> Array:
    kind = values.type
    if pa.types.is_boolean(kind):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    if pa.types.is_date32(kind):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        values = values.view(pa.int64())
    elif pa.types.is_decimal(kind):
        return _decimal_as_numpy(values, dtype, column_at)
    return np.asarray(values.to_numpy(zero_copy_only=True))


def _decimal_as_numpy(values: pa.Array, dtype: DType, column_at: ColumnAt) -> Array:
    """Whole numbers: truncated for an integer dtype, exact for bool."""
    assert not dtype.is_float, "decimals become floats in the JVM, which rounds them right"
    exact = dtype.kind == "bool"
    options = pc.CastOptions(target_type=pa.int64(), allow_decimal_truncate=not exact)
    try:
        return np.asarray(pc.cast(values, options=options).to_numpy(zero_copy_only=True))
    except pa.ArrowInvalid:
        numbers = np.array(values.to_pylist(), object)
    if exact:
        _refuse(numbers, (numbers != 0) & (numbers != 1), dtype, column_at, "Only 0 and 1 become bool.")
    info = np.iinfo(np.int64 if exact else dtype.storage)
    whole = [int(number) for number in numbers]
    bad = np.array([not info.min <= number <= info.max for number in whole])
    _refuse(numbers, bad, dtype, column_at, _range_text(info.min, info.max))
    return np.array(whole, info.dtype)


def _check_integer_range(array: Array, dtype: DType, column_at: ColumnAt) -> None:
    if array.dtype.kind == "b" or array.size == 0:
        return
    info = np.iinfo(dtype.storage)
    remedy = _range_text(info.min, info.max)
    if array.dtype.kind == "f":
        # Truncation comes first, so -0.5 fits an unsigned dtype and -128.9 int8. Both bounds are powers of two, exact
        # in every float; the upper one is exclusive because the largest integers are not. NaN fails both comparisons.
        whole = np.trunc(array)
        fits = (whole >= float(info.min)) & (whole < float(info.max) + 1)
        if not fits.all():
            _refuse(array, ~fits, dtype, column_at, remedy)
        return
    if int(array.min()) < info.min or int(array.max()) > info.max:
        source = np.iinfo(array.dtype)
        bad = np.zeros(array.shape, bool)
        if info.min > source.min:
            bad |= array < info.min
        if info.max < source.max:
            bad |= array > info.max
        _refuse(array, bad, dtype, column_at, remedy)


def _range_text(low: int, high: int) -> str:
    return f"It must be a number between {low} and {high}: clip or filter it in Spark, or name a wider dtype."


def _refuse(array: Array, bad: Array, dtype: DType, column_at: ColumnAt, remedy: str) -> None:
    if not bad.any():
        return
    first = int(np.flatnonzero(bad)[0])
    value = str(array[first])
    raise BadValue(Fault("cast", column_at(first), value=value, dtype=dtype.name, remedy=remedy))


def _to_bfloat16(array: Array) -> Array:
    """The upper half of float32, rounded to nearest, ties to even; NaN stays NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        bits = array.astype(np.float32).view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    if nan.any():
        rounded[nan] = 0x7FC0
    return rounded
