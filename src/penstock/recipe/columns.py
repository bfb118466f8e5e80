"""Columns that come back: held against the types they had when the recipe was fitted.

A column may have become wider or narrower since (a JSON request has int64 where the table had int32): values are
brought to the fitted type if all of them fit, because a hash sees the type. Anything else is an error that says what
changed. Spark does not look at values before it runs, so there only wider types are taken, and a value or a list that
does not fit fails the job (`penstock.backends.spark.inputs`). `rows` says in which forms they may be given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.backends import engine
from penstock.errors import ExpressionError
from penstock.expr.check import no_column
from penstock.expr.types import FLOAT64, Type, list_of
from penstock.recipe.rows import as_table, check_names


def arrow_columns(rows: Any, inputs: Mapping[str, Type]) -> Any:
    """The input columns of some rows as a pyarrow Table of the fitted types."""
    import pyarrow as pa

    inputs = {name: _in_arrow(of) for name, of in inputs.items()}
    table = as_table(rows, inputs)
    if not inputs:
        return table  # for the number of rows
    arrow = engine("arrow")
    arrays = []
    for name, wanted in inputs.items():
        column = table.column(name)
        if pa.types.is_null(column.type):
            column = pa.nulls(len(column), arrow.arrow_type(wanted))
        elif (seen := arrow.type_of(name, column.type)) != wanted:
            column = _cast(name, column, seen, wanted)
        arrays.append(column)
    return pa.Table.from_arrays(arrays, names=list(inputs))


def _in_arrow(of: Type) -> Type:
    """Vectors of MLlib come as lists where there is no MLlib."""
    return list_of(FLOAT64) if of.kind == "vector" else of


def _cast(name: str, column: Any, seen: Type, wanted: Type) -> Any:
    import pyarrow as pa

    if not _goes(seen, wanted):
        raise ExpressionError(_changed(name, seen, wanted))
    try:
        found = column.cast(engine("arrow").arrow_type(wanted))
    except pa.ArrowException as error:
        raise ExpressionError(f"{_changed(name, seen, wanted)} Some values do not fit: {error}") from None
    if (lost := _overflowed(column, found, wanted)) is not None:
        raise ExpressionError(
            f"{_changed(name, seen, wanted)} Some values do not fit: {lost!r} would be infinite."
        )
    return found


def _overflowed(before: Any, after: Any, wanted: Type) -> Any:
    """A finite number that a narrower type made infinite, if there is one: Arrow says nothing of it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    leaf = wanted.item if wanted.kind == "list" else wanted
    if leaf.kind != "float" or leaf == FLOAT64:
        return None
    if wanted.kind == "list":
        before, after = pc.list_flatten(before), pc.list_flatten(after)
    before, after = before.cast(pa.float64()), after.cast(pa.float64())
    lost = before.filter(pc.and_(pc.is_inf(after), pc.is_finite(before)))
    return lost[0].as_py() if len(lost) else None


def _goes(seen: Type, wanted: Type) -> bool:
    """Whether values of one type may be taken as another, if each fits."""
    if seen.kind == "list" and wanted.kind == "list":
        lengths = wanted.length is None or seen.length in (None, wanted.length)
        return lengths and (seen.item == wanted.item or _goes(seen.item, wanted.item))
    if seen.kind == "int":
        return wanted.is_number
    return seen.kind == "float" and wanted.kind == "float"


def spark_columns(df: Any, inputs: Mapping[str, Type], keep: Sequence[str], tensors: Sequence[str]) -> Any:
    """A DataFrame whose input columns have the fitted types."""
    check_names(df.columns, inputs)
    for name in keep:
        if name not in df.columns:
            raise ExpressionError(no_column(name, dict.fromkeys(df.columns)))
        if name in tensors:
            raise ExpressionError(f"the column {name!r} cannot be kept beside a tensor of the same name.")
    seen = engine("spark").schema_of(df.schema, list(inputs))
    changed = {name: wanted for name, wanted in inputs.items() if seen[name] != wanted}
    if not changed:
        return df
    from penstock.backends.spark.inputs import as_fitted

    for name, wanted in changed.items():
        if not _widens(seen[name], wanted):
            raise ExpressionError(_changed(name, seen[name], wanted))
    return df.withColumns({name: as_fitted(name, seen[name], wanted) for name, wanted in changed.items()})


def _widens(seen: Type, wanted: Type) -> bool:
    if seen.kind == "vector":
        return wanted.kind == "list" and wanted.item == FLOAT64
    if seen.kind == "list" and wanted.kind == "list":
        return _widens(seen.item, wanted.item)
    if seen.kind == wanted.kind:
        return seen.bits <= wanted.bits
    return seen.kind == "int" and wanted.kind == "float" and wanted.bits == 64


def _changed(name: str, seen: Type, wanted: Type) -> str:
    said = f"column {name!r} is {seen}, and was {wanted} when the recipe was fitted."
    if (seen.kind, wanted.kind) == ("timestamp_ntz", "timestamp"):
        return f"{said} Its times have no zone: say which one they are in, and give instants."
    return f"{said} Cast it back, or fit the recipe anew."
