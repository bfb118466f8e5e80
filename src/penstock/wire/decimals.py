"""Arrow decimals to NumPy: to floats correctly rounded, to integers truncated and checked.

From Spark only integers come here, because the JVM rounds decimals to floats before they cross. Arrow's own cast to
float does not round right: of random decimals of 15 digits it misses the nearest double for one in five.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.dtypes import Array, DType
from penstock.wire.faults import ColumnAt, refuse

EXACT_INTEGER = 1 << 53
"""Every integer up to here is a double."""
EXACT_POWER = 22
"""Every power of ten up to this one is a double."""


def to_floats(values: pa.Array, dtype: DType) -> Array:
    """Decimals without nulls as the nearest float32, where that is the dtype, or as the nearest float64.

    >>> from decimal import Decimal
    >>> from penstock.dtypes import DTYPES
    >>> to_floats(pa.array([Decimal("0.1")]), DTYPES["float64"]).tolist()
    [0.1]
    """
    doubles = _doubles(values)
    return _nearest_float32(values, doubles) if dtype.name == "float32" else doubles


def _doubles(values: pa.Array) -> Array:
    precision, scale = values.type.precision, values.type.scale
    if precision > pa.decimal128(38).precision or not 0 <= scale <= EXACT_POWER:
        return np.array([float(number) for number in values.to_pylist()], np.float64)
    words = _words(values.cast(pa.decimal128(precision, scale)))
    low, high = words[:, 0], words[:, 1]
    # One division of two exact doubles is rounded once, so it is the nearest.
    doubles: Array = low.astype(np.float64) / 10.0**scale
    small = (high == low >> 63) & (low <= EXACT_INTEGER) & (low >= -EXACT_INTEGER)
    large = np.flatnonzero(~small)
    if len(large):
        doubles[large] = [float(number) for number in values.take(pa.array(large)).to_pylist()]
    return doubles


def _words(values: pa.Array) -> Array:
    """The unscaled numbers as two words each, the lower one first."""
    if not len(values):
        return np.empty((0, 2), np.int64)
    words = np.frombuffer(values.buffers()[1], "<i8")
    return words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)


def _nearest_float32(values: pa.Array, doubles: Array) -> Array:
    """Round once more, and look again at each double that lies halfway: the decimal itself may not."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = doubles.astype(np.float32)
        toward = np.where(doubles > nearest, np.inf, -np.inf).astype(np.float32)
        other = np.nextafter(nearest, toward)
        halfway = (nearest.astype(np.float64) + other.astype(np.float64)) / 2 == doubles
    for place in np.flatnonzero(halfway & (doubles != nearest)):
        exact, middle = Fraction(values[int(place)].as_py()), Fraction(float(doubles[place]))
        if exact != middle:
            pair = (nearest[place], other[place])
            nearest[place] = max(pair) if exact > middle else min(pair)
    return nearest


def to_integers(values: pa.Array, dtype: DType, column_at: ColumnAt) -> Array:
    """Whole numbers: truncated for an integer dtype, exact for bool."""
    exact = dtype.kind == "bool"
    options = pc.CastOptions(target_type=pa.int64(), allow_decimal_truncate=not exact)
    try:
        return np.asarray(pc.cast(values, options=options).to_numpy(zero_copy_only=True))
    except pa.ArrowInvalid:
        numbers = np.array(values.to_pylist(), object)
    if exact:
        refuse(numbers, (numbers != 0) & (numbers != 1), dtype.name, column_at, "Only 0 and 1 become bool.")
    info = np.iinfo(np.int64 if exact else dtype.storage)
    whole = [int(number) for number in numbers]
    bad = np.array([not info.min <= number <= info.max for number in whole])
    refuse(numbers, bad, dtype.name, column_at, range_text(info.min, info.max))
    return np.array(whole, info.dtype)


def range_text(low: int, high: int) -> str:
    """What to do about a number out of range."""
    return f"It must be a number between {low} and {high}: clip or filter it first, or name a wider dtype."
