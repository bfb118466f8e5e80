"""Which columns cross to the workers and come back for `pk.predict`, and how they cross.

Kept columns are not needed in Python, but come along. Spark writes one list of forty floats faster than forty columns
(it adds up the size of every column after every row), so kept columns of one type cross side by side in a list, and
are taken out of it in the JVM afterwards. Where they make a tensor as they are, they have crossed already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.dtypes import NATURAL
from penstock.errors import SelectionError
from penstock.jobs.selection import Selection
from penstock.scoring.job import ERROR, RETURNED, Kept, Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

NOT_IN_ARROW = {"CalendarIntervalType", "YearMonthIntervalType"}
"""Types that Spark does not take back from Python."""


@dataclass(frozen=True)
class Crossing:
    """The columns of one call, before and after the workers."""

    sent: Sequence[Column]
    kept: Sequence[Kept]
    returned: Sequence[int]
    schema: StructType
    """Of what the workers hand back."""
    shown: Sequence[Column]
    """What the user sees of it."""


def crossing(
    df: DataFrame,
    selection: Selection,
    kept: Mapping[str, str],
    results: Sequence[Result],
    errors: bool,
) -> Crossing:
    """Plan the crossing; `kept` are columns by the names they shall have, and those they have in the DataFrame."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StringType, StructType

    fields = {field.name: field for field in df.schema.fields if field.name in set(kept.values())}
    for name, source in kept.items():
        _refuse(name, fields[source].dataType)
    sent = list(selection.columns)
    types = [field.dataType for field in df.select(*sent).schema.fields]
    places = _shared(selection, types, kept, fields)
    for group in _groups([name for name in kept if name not in places], kept, fields):
        inside = [_named(kept[name]) for name in group]
        alone = len(group) == 1
        own = fields[kept[group[0]]].dataType
        for element, name in enumerate(group):
            places[name] = Kept(name, len(sent), None if alone else element)
        types.append(own if alone else ArrayType(own, containsNull=True))
        sent.append((inside[0] if alone else F.array(*inside)).alias(f"p{len(sent)}"))
    order = tuple(places[name] for name in kept)
    returned = tuple(dict.fromkeys(each.place for each in order))
    schema = StructType()
    for place in returned:
        schema = schema.add(f"{RETURNED}{place}", types[place], nullable=True)
    for result in results:
        schema = schema.add(result.name, _spark_type(result), nullable=True)
    if errors:
        schema = schema.add(ERROR, StringType(), nullable=True)
    shown = [_restored(each, fields[kept[each.name]].metadata) for each in order]
    shown += [_named(field.name) for field in schema.fields[len(returned) :]]
    return Crossing(tuple(sent), order, returned, schema, tuple(shown))


def _shared(
    selection: Selection, types: Sequence[Any], kept: Mapping[str, str], fields: Mapping[str, Any]
) -> dict[str, Kept]:
    """The kept columns that cross as part of a tensor without a cast, and are most of what crosses there."""
    found: dict[str, Kept] = {}
    pieces = [piece for tensor in selection.plan.tensors for piece in tensor.pieces]
    for place, (piece, crossed) in enumerate(zip(pieces, types, strict=True)):
        own = crossed.elementType if piece.packed else crossed
        there = {
            name: Kept(name, place, piece.columns.index(source) if piece.packed else None)
            for name, source in kept.items()
            if name not in found and source in piece.columns and fields[source].dataType == own
        }
        if 2 * len(there) >= len(piece.columns):
            found.update(there)
    return found


def _groups(
    names: Sequence[str], kept: Mapping[str, str], fields: Mapping[str, Any]
) -> Iterator[Sequence[str]]:
    """Columns that cross together: those of one plain type, and each other one by itself."""
    by_type: dict[str, list[str]] = {}
    for name in names:
        own = fields[kept[name]].dataType
        if type(own).__name__ in NATURAL:
            by_type.setdefault(own.simpleString(), []).append(name)
        else:
            yield [name]
    yield from by_type.values()


def _refuse(name: str, spark_type: Any) -> None:
    if type(spark_type).__name__ in NOT_IN_ARROW:
        raise SelectionError(
            f"column {name!r} is of type {spark_type.simpleString()}, which Spark does not take back from Python. "
            "Cast it to a string first, or leave it out of keep."
        )


def _restored(column: Kept, metadata: dict[str, Any]) -> Column:
    from pyspark.sql import functions as F

    found = F.col(f"{RETURNED}{column.place}")
    if column.element is not None:
        found = F.get(found, F.lit(column.element))
    return found.alias(column.name, metadata=metadata) if metadata else found.alias(column.name)


def _named(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def _spark_type(result: Result) -> Any:
    from pyspark.sql.types import (
        ArrayType,
        BooleanType,
        ByteType,
        DoubleType,
        FloatType,
        IntegerType,
        LongType,
        ShortType,
        StringType,
    )

    classes = (
        BooleanType,
        ByteType,
        ShortType,
        IntegerType,
        LongType,
        FloatType,
        DoubleType,
    )
    leaves: dict[str, Any] = {NATURAL[each.__name__]: each() for each in classes}
    found = leaves.get(result.dtype, StringType())
    for _ in range(result.depth):
        found = ArrayType(found, containsNull=True)
    return found
