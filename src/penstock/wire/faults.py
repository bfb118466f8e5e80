"""A bad value, found on an executor, told to the driver as plain data.

A Python exception inside a Spark task is retried four times and then arrives wrapped in a JVM stack trace. A fault
travels with the data instead, and the driver raises the error the user should see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from penstock.dtypes import Array
from penstock.errors import CastError, DataError, RaggedError

ColumnAt = Callable[[int], str]
"""The user's column that the value at a flat position belongs to."""


@dataclass(frozen=True)
class Fault:
    """What was wrong: `kind` is cast, ragged or unknown-length."""

    kind: str
    column: str
    value: str = ""
    dtype: str = ""
    remedy: str = ""
    expected: int = 0
    seen: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values."""
        return asdict(self)

    def to_error(self) -> DataError:
        """The exception for the user.

        >>> Fault("cast", "age", value="300", dtype="int8", remedy="Clip it.").to_error()
        CastError("column 'age' holds 300, which does not fit int8. Clip it.")
        """
        if self.kind == "cast":
            return CastError(self.column, self.value, self.dtype, self.remedy)
        if self.kind == "ragged":
            return RaggedError(self.column, self.expected, self.seen)
        return DataError(
            f"column {self.column!r} holds no list that could tell its length, only nulls. {self.remedy}"
        )


class BadValue(Exception):
    """Carries a fault up to where the batch loop reports it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def refuse(array: Array, bad: Array, dtype: str, column_at: ColumnAt, remedy: str) -> None:
    """Stop at the first bad value, if there is one; `dtype` is what it does not fit."""
    if not bad.any():
        return
    first = int(np.flatnonzero(bad)[0])
    raise BadValue(Fault("cast", column_at(first), value=str(array[first]), dtype=dtype, remedy=remedy))
