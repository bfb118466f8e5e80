"""Arrow columns as the arguments of a compiled function: NumPy arrays of the declared kind, converted without loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.wire.rows import Declared

Array = np.ndarray[Any, Any]
FAR = 2.0**63


@dataclass(frozen=True, slots=True)
class Column:
    """An argument's values; what stands in rows that are missing or lossy means nothing."""

    name: str
    declared: Declared
    values: Array
    missing: Array
    lossy: Array
    """Rows whose value does not become the declared type without loss."""

    def value(self, row: int) -> Any:
        """A row's value as the function gets it, or the error that it is none."""
        if self.missing[row]:
            if self.declared.optional:
                return None
            raise TypeError(f"argument {self.name!r} is None, and is declared {self.declared.shown}")
        if self.lossy[row]:
            raise TypeError(f"argument {self.name!r} does not become {self.declared.shown} without loss")
        return self.values[row].item()


def column_of(array: Any, name: str, declared: Declared) -> Column:
    """A column as an argument of a declared type.

    >>> whole = Declared("int", None, "int", False)
    >>> column_of(pa.array([1.0, 2.5, None]), "n", whole).lossy.tolist()
    [False, True, False]
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    of = array.type
    if of == pa.null():
        array = array.cast({"bool": pa.bool_(), "int": pa.int64()}.get(declared.kind, pa.float64()))
        of = array.type
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(of) else pa.scalar(0, of))
    values = array.to_numpy(zero_copy_only=False)
    source = (
        "float" if values.dtype.kind == "f" else "int" if values.dtype.kind in "iu" else values.dtype.kind
    )
    fine = np.zeros(len(values), np.bool_)
    if declared.kind == "bool" and source == "b":
        return Column(name, declared, values, missing, fine)
    if declared.kind == "int" and source in ("int", "b"):
        lossy = values >= np.uint64(1 << 63) if values.dtype == np.uint64 else fine
        return Column(
            name, declared, np.ascontiguousarray(values.astype(np.int64, copy=False)), missing, lossy
        )
    if declared.kind == "int" and source == "float":
        real = values.astype(np.float64)
        inside = (real >= -FAR) & (real < FAR)
        whole = np.where(inside, real, 0.0).astype(np.int64)
        return Column(name, declared, whole, missing, ~(inside & (whole == real)))
    if declared.kind == "float" and source in ("float", "b"):
        return Column(
            name, declared, np.ascontiguousarray(values.astype(np.float64, copy=False)), missing, fine
        )
    if declared.kind == "float" and source == "int":
        real = values.astype(np.float64)
        back = np.where(np.abs(real) < FAR, real, 0.0).astype(np.int64)
        return Column(name, declared, real, missing, (np.abs(real) >= FAR) | (back != values))
    raise TypeError(f"argument {name!r} gets a column of {of}, and is declared {declared.shown}")
