"""What stands for a null, as the user said it and as the tensor's dtype can hold it.

`penstock.wire.selection` asks for each column's fill while it plans; `penstock.wire.pack` puts it in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.dtypes import DType
from penstock.errors import SelectionError, listed
from penstock.wire.plan import Fill

Value = bool | int | float | str | bytes
Nulls = str | bool | int | float | Mapping[str, Value]
"""What users pass: "error", "nan", a number for all columns, or a value per column."""

TEXT_VALUES: dict[str, type] = {"string": str, "binary": bytes}


@dataclass(frozen=True)
class NullPolicy:
    """What stands for a null, per column; nothing means nulls are refused.

    A value for all columns is a number, and does not reach texts and bytes: those need a value of their own.
    """

    everywhere: bool | int | float | None
    per_column: Mapping[str, Value]

    @staticmethod
    def of(nulls: Nulls, columns: Sequence[str]) -> NullPolicy:
        """Check what the user passed as `nulls`."""
        if isinstance(nulls, Mapping):
            unknown = [str(name) for name in nulls if name not in columns]
            if unknown:
                raise SelectionError(f"nulls names columns {listed(unknown)} that no tensor uses.")
            return NullPolicy(None, nulls)
        if nulls == "error":
            return NullPolicy(None, {})
        if nulls == "nan":
            return NullPolicy(math.nan, {})
        if isinstance(nulls, bool | int | float):
            return NullPolicy(nulls, {})
        raise SelectionError(
            f'nulls={nulls!r} is not understood: pass "error", "nan", a number, or a mapping of columns to numbers.'
        )

    def fill(self, column: str, dtype: DType, kind: str = "fixed") -> Fill:
        """The value for nulls of this column, checked against the tensor's dtype and kind; None refuses them.

        >>> from penstock.dtypes import DTYPES
        >>> NullPolicy.of({"city": "?"}, ["city"]).fill("city", DTYPES["uint8"], "string")
        b'?'
        """
        if kind in TEXT_VALUES:
            return self._text(column, kind)
        value = self.per_column.get(column, self.everywhere)
        if value is None:
            return None
        if isinstance(value, str | bytes) or not _representable(value, dtype):
            shown = "NaN" if isinstance(value, float) and math.isnan(value) else repr(value)
            raise SelectionError(
                f"nulls of column {column!r} cannot become {shown} in a tensor of {dtype.name}. Choose a value that "
                f"{dtype.name} holds, or another dtype."
            )
        return value

    def _text(self, column: str, kind: str) -> bytes | None:
        value = self.per_column.get(column)
        if value is None:
            return None
        wanted = TEXT_VALUES[kind]
        if not isinstance(value, wanted):
            raise SelectionError(
                f"nulls of column {column!r} cannot become {value!r}, because it holds a {kind} per row. Give a "
                f"{wanted.__name__}: nulls={{{column!r}: {wanted()!r}}}."
            )
        return value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[arg-type]


def _representable(value: bool | int | float, dtype: DType) -> bool:
    if dtype.is_float:
        return not isinstance(value, int) or abs(value) <= 1 << dtype.exact_bits
    if isinstance(value, float) and (not math.isfinite(value) or value != int(value)):
        return False
    whole = int(value)
    if dtype.kind == "bool":
        return whole in (0, 1)
    low = -(1 << dtype.exact_bits) if dtype.kind == "int" else 0
    return low <= whole < (1 << dtype.exact_bits)
