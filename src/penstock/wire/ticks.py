"""Dates and times of every Arrow unit as whole numbers of the one unit that tensors have.

Dates are days since 1970-01-01, timestamps and durations microseconds, times of day nanoseconds; `penstock.dtypes` says
so for Spark and for Arrow. What came from Spark is in these units already and is not copied.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.dtypes import Array
from penstock.wire.faults import ColumnAt, refuse

NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
DAY_IN_MILLISECONDS = 86_400_000


def to_ticks(values: pa.Array, column_at: ColumnAt) -> Array:
    """Dates or times without nulls, in the tensors' unit; what would lose a part or overflow is refused.

    >>> to_ticks(pa.array([1, 2], pa.timestamp("s")), lambda i: "at").tolist()
    [1000000, 2000000]
    """
    kind = values.type
    if pa.types.is_date32(kind):
        return np.asarray(values.view(pa.int32()))
    if pa.types.is_time32(kind):
        ticks = np.asarray(values.view(pa.int32())).astype(np.int64)
    else:
        ticks = np.asarray(values.view(pa.int64()))
    if pa.types.is_date64(kind):
        shown = ticks.view("datetime64[ms]")
        return _divided(ticks, DAY_IN_MILLISECONDS, shown, "days", column_at)
    target = "ns" if pa.types.is_time(kind) else "us"
    shown = ticks.view(f"{'datetime64' if pa.types.is_timestamp(kind) else 'timedelta64'}[{kind.unit}]")
    here, there = NANOSECONDS[kind.unit], NANOSECONDS[target]
    if here == there:
        return ticks
    if here < there:
        return _divided(ticks, there // here, shown, "microseconds", column_at)
    factor = here // there
    limit = np.iinfo(np.int64).max // factor
    bad = (ticks > limit) | (ticks < -limit)
    refuse(
        shown, bad, f"an int64 of {target}", column_at, "Filter it out first: it is far from any real date."
    )
    return ticks * factor


def _divided(ticks: Array, divisor: int, shown: Array, unit: str, column_at: ColumnAt) -> Array:
    whole, rest = np.divmod(ticks, divisor)
    refuse(shown, rest != 0, f"whole {unit}", column_at, "Round it first, or cast it to a number.")
    return whole
