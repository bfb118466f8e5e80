"""Columns that come back: held against the types they had when the recipe was fitted.

A column may have become wider or narrower since (a JSON request has int64 where the table had int32): values are
brought to the fitted type if all of them fit, because a hash sees the type. Anything else is an error that says what
changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.backends import engine
from penstock.errors import ExpressionError
from penstock.expr.check import no_column
from penstock.expr.types import Type


def arrow_columns(rows: Any, inputs: Mapping[str, Type]) -> Any:
    """The input columns of some rows as a pyarrow Table of the fitted types."""
    import pyarrow as pa

    if isinstance(rows, Mapping):
        _check_names(list(rows), inputs)
        rows = pa.table({name: _array(name, rows[name], inputs[name]) for name in inputs})
    elif not isinstance(rows, pa.Table | pa.RecordBatch):
        rows = pa.table(rows)
    _check_names(rows.schema.names, inputs)
    arrow = engine("arrow")
    arrays = []
    for name, wanted in inputs.items():
        column = rows.column(name)
        if pa.types.is_null(column.type):
            column = pa.nulls(len(column), arrow.arrow_type(wanted))
        elif (seen := arrow.type_of(name, column.type)) != wanted:
            column = _cast(name, column, seen, wanted)
        arrays.append(column)
    return pa.Table.from_arrays(arrays, names=list(inputs))


def _array(name: str, values: Any, wanted: Type) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray) or hasattr(values, "dtype"):
        return values
    try:
        return pa.array(values, engine("arrow").arrow_type(wanted))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ExpressionError(
            f"column {name!r} was {wanted} when the recipe was fitted, and these values are not: {error}"
        ) from None


def _cast(name: str, column: Any, seen: Type, wanted: Type) -> Any:
    import pyarrow as pa

    if not _goes(seen, wanted):
        raise ExpressionError(_changed(name, seen, wanted))
    try:
        return column.cast(engine("arrow").arrow_type(wanted))
    except pa.ArrowInvalid as error:
        raise ExpressionError(f"{_changed(name, seen, wanted)} Some values do not fit: {error}") from None


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
    _check_names(df.columns, inputs)
    for name in keep:
        if name not in df.columns:
            raise ExpressionError(no_column(name, dict.fromkeys(df.columns)))
        if name in tensors:
            raise ExpressionError(f"the column {name!r} cannot be kept beside a tensor of the same name.")
    spark = engine("spark")
    seen = spark.schema_of(df.schema, list(inputs))
    wider = {}
    for name, wanted in inputs.items():
        if _plain(seen[name]) == _plain(wanted):
            continue
        if not _widens(seen[name], wanted):
            raise ExpressionError(_changed(name, seen[name], wanted))
        wider[name] = spark.named(name).cast(spark.spelled(wanted))
    return df.withColumns(wider) if wider else df


def _plain(of: Type) -> Type:
    """Spark's lists have no length."""
    return Type("list", 0, of.item, None) if of.kind == "list" else of


def _widens(seen: Type, wanted: Type) -> bool:
    if seen.kind == "list" and wanted.kind == "list":
        return _widens(seen.item, wanted.item)
    if seen.kind == wanted.kind:
        return seen.bits <= wanted.bits
    return seen.kind == "int" and wanted.kind == "float" and wanted.bits == 64


def _check_names(names: Sequence[str], inputs: Mapping[str, Type]) -> None:
    for name in inputs:
        if name not in names:
            raise ExpressionError(no_column(name, dict.fromkeys(names)))


def _changed(name: str, seen: Type, wanted: Type) -> str:
    if seen.kind == "vector":
        return f"column {name!r} holds vectors of MLlib. Give it as an array: vector_to_array({name!r})."
    return (
        f"column {name!r} is {seen}, and was {wanted} when the recipe was fitted. Cast it back, or fit the recipe "
        "anew."
    )
