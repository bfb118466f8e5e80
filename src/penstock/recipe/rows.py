"""Rows as serving gets them: a table, columns by name, or a dictionary for each row; all become one pyarrow Table.

Values out of a request have no type of their own. Arrow finds one in them, and only then `columns` holds it against the
fitted type: asked for that type at once, Arrow would cut 3.7 to 3 and take a time without a zone as UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

from penstock.backends import engine
from penstock.errors import ExpressionError
from penstock.expr.check import no_column, two_columns
from penstock.expr.types import Type

WAYS = "Give a pyarrow Table, a dictionary of lists, or a list with a dictionary for each row."


def check_names(names: Sequence[str], inputs: Mapping[str, Type]) -> None:
    """Refuse rows in which a column that is read is missing, or is there twice."""
    counts = Counter(names)
    for name in inputs:
        if not counts[name]:
            raise ExpressionError(no_column(name, counts))
        if counts[name] > 1:
            raise ExpressionError(two_columns(name))


def as_table(rows: Any, inputs: Mapping[str, Type]) -> Any:
    """Rows as a pyarrow Table or RecordBatch that has the input columns, in the types they came in."""
    import pyarrow as pa

    if isinstance(rows, list | tuple):
        rows = _by_name(rows, inputs)
    if isinstance(rows, Mapping):
        return _table(rows, inputs)
    if not isinstance(rows, pa.Table | pa.RecordBatch):
        try:
            rows = pa.table(rows)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ExpressionError(
                f"no rows can be read out of {type(rows).__name__}: {error}. {WAYS}"
            ) from None
    check_names(rows.schema.names, inputs)
    return rows


def _by_name(rows: Sequence[Any], inputs: Mapping[str, Type]) -> dict[str, Any]:
    """The columns of rows that are dictionaries."""
    import pyarrow as pa

    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ExpressionError(f"row {place} is {_short(row)}, and should be a dictionary. {WAYS}")
        for name in inputs:
            if name not in row:
                raise ExpressionError(f"row {place}: {no_column(name, row)} A null is given as None.")
    return {name: [row[name] for row in rows] for name in inputs} if inputs else {"": pa.nulls(len(rows))}


def _table(columns: Mapping[str, Any], inputs: Mapping[str, Type]) -> Any:
    import pyarrow as pa

    check_names(list(columns), inputs)
    if not columns:
        raise ExpressionError(f"no columns were given, so the number of rows is not known. {WAYS}")
    if not inputs:  # it reads none of them, but makes as many rows as they have
        name = next(iter(columns))
        return pa.table({name: pa.nulls(len(_several(name, columns[name])))})
    arrays = {name: _array(name, columns[name], of) for name, of in inputs.items()}
    first = next(iter(arrays))
    for name, array in arrays.items():
        if len(array) != len(arrays[first]):
            raise ExpressionError(
                f"column {name!r} has {len(array)} rows, and column {first!r} has {len(arrays[first])}. Give every "
                "column one value for each row."
            )
    return pa.table(arrays)


def _several(name: str, values: Any) -> Any:
    """Values for several rows, or an error that says how to give one."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if type(values).__module__.split(".")[0] == "torch":
        raise ExpressionError(
            f"column {name!r} is a tensor of torch. Give values.numpy(), or call torch(columns), which takes tensors."
        )
    if isinstance(values, Iterator):
        return list(values)
    shape = getattr(values, "shape", (0,))
    if isinstance(values, str | bytes | Mapping | Set) or not hasattr(values, "__len__") or not shape:
        raise ExpressionError(
            f"column {name!r} is given as {_short(values)}, and should be a list with a value for each row: "
            f"{{{name!r}: [...]}}. A single row may be given as [{{{name!r}: ...}}]."
        )
    if len(shape) > 2:
        raise ExpressionError(
            f"column {name!r} has the shape {tuple(shape)}. Flatten what is in a row into one list."
        )
    return list(values) if len(shape) == 2 else values


def _array(name: str, given: Any, wanted: Type) -> Any:
    import pyarrow as pa

    values = _several(name, given)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    leaf = wanted.item if wanted.kind == "list" else wanted
    plain = isinstance(values, list | tuple)
    if plain and leaf.kind == "timestamp":
        _check_zones(name, values)
    try:
        found = pa.array(values)
        kind = found.type.value_type if pa.types.is_list(found.type) else found.type
        # Nothing but nulls has no type; and whole numbers in Python often come as floats, where some are missing.
        if pa.types.is_null(kind) or (plain and pa.types.is_floating(kind) and leaf.kind == "int"):
            target = engine("arrow").arrow_type(wanted)
            found = pa.array(values, target) if pa.types.is_null(kind) else found.cast(target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ExpressionError(
            f"column {name!r} was {wanted} when the recipe was fitted, and these values are not: {error}. "
            "Give values that are."
        ) from None
    return found


def _check_zones(name: str, values: Sequence[Any]) -> None:
    """A time without a zone among others that have one would be taken as UTC."""
    for value in values:
        if isinstance(value, datetime) and value.tzinfo is None:
            raise ExpressionError(
                f"column {name!r} was timestamp when the recipe was fitted, and {_short(value)} has no zone. Say which "
                "one it is in: value.replace(tzinfo=datetime.UTC)."
            )


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
