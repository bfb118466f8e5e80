"""Columns of any type as a function's declared arguments: without loss, or with an error that names both.

A Column does not know its type before Spark has analysed the plan. So each conversion asks for it in the plan itself,
by typeof, which Spark folds to a constant: what is left of it at run time is a cast, and where whole numbers of 64 bits
become floats a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from penstock.backends.spark.columns import spelled
from penstock.expr.types import Type

WHOLE = ("boolean", "tinyint", "smallint", "int", "bigint")
REAL = ("float", "double")
TWO_63 = 2.0**63


def accepted(of: Type) -> tuple[str, ...]:
    """The types of columns that become a declared type; void is that of a bare NULL.

    >>> from penstock.expr.types import STRING, FLOAT64, list_of
    >>> accepted(STRING), accepted(list_of(FLOAT64))[-2:]
    (('string', 'void'), ('array<void>', 'void'))
    """
    if of.kind == "list":
        items = (*WHOLE, "void") if of.item.kind == "int" else accepted(of.item)
        return (*(f"array<{item}>" for item in items), "void")
    if of.kind in ("int", "float"):
        return (*WHOLE, *REAL, "void")
    if of.kind == "timestamp_ntz":
        # What a clock in the session's time zone shows, as Spark's own functions get it.
        return ("timestamp", "timestamp_ntz", "void")
    return (spelled(of), "void")


def converted(column: Column, of: Type) -> Column:
    """The column as the declared type; of meaning only where `fits` holds."""
    if of.kind == "int":
        # cast(...) of a NaN raises, try_cast does not; whether all of it was kept is what `fits` asks.
        return column.try_cast("bigint")
    return column.cast(spelled(of))


def fits(column: Column, of: Type) -> Column:
    """Whether a value becomes the declared type without loss; true of null."""
    seen = F.typeof(column)
    if of.kind == "float":
        return (seen != "bigint") | F.coalesce(_exact(column), column.isNull())
    if of.kind == "list" and of.item.kind == "float":
        every = F.forall(
            column.try_cast("array<bigint>"), lambda item: F.coalesce(_exact(item), item.isNull())
        )
        return (seen != "array<bigint>") | F.coalesce(every, column.isNull())
    if of.kind == "int":
        real = column.try_cast("double")
        same = F.when(real < TWO_63, column.try_cast("bigint").cast("double")) == real
        return ~seen.isin(*REAL) | F.coalesce(same, column.isNull())
    return F.lit(True)


def _exact(column: Column) -> Column:
    """Whether a whole number is a float too."""
    back = F.when(column.cast("double") < TWO_63, column.cast("double").try_cast("bigint"))
    return back == column.try_cast("bigint")


def checked(
    function: str, result: Column, returns: DataType | str, given: Mapping[str, tuple[Column, Type, str]]
) -> Column:
    """The result of a call, or an error where an argument is not what it is declared."""
    wrong: list[tuple[Column, Column]] = []
    for name, (column, of, declared) in given.items():
        known = F.typeof(column).isin(*accepted(of))
        start = f"TypeError: {function}(): argument {name!r} is declared {declared}, and "
        seen = F.concat(F.lit(start + "gets a column of type "), F.typeof(column))
        lost = F.concat(F.lit(start + "this does not become one without loss: "), column.cast("string"))
        wrong.append((~known, seen))
        if of.kind in ("int", "float") or (of.kind == "list" and of.item.kind == "float"):
            wrong.append((~fits(column, of), lost))
    if not wrong:
        return result
    (first, message), *others = wrong
    found = F.when(first, F.raise_error(message).cast(returns))
    for condition, message in others:
        found = found.when(condition, F.raise_error(message).cast(returns))
    return found.otherwise(result)
