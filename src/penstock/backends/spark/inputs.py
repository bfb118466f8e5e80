"""Columns brought to the types a recipe was fitted on; what does not fit fails the job, with the column's name.

Arrow looks at all values before it computes. Spark sees them only while it runs, so the check stands in the plan.
"""

from __future__ import annotations

from pyspark.sql import Column

from penstock.backends.spark.columns import long, named, spelled
from penstock.backends.spark.functions import F
from penstock.expr.types import FLOAT64, INT64, Type

EXACT = 1 << 53
"""Up to here float64 holds every whole number."""


def as_fitted(name: str, seen: Type, wanted: Type) -> Column:
    """A column of a type that goes into the fitted one."""
    x = named(name)
    if wanted.kind != "list":
        return _value(name, x, seen, wanted)
    if seen.kind == "vector":
        x = vector_as_list(x)
    elif seen.item != wanted.item:
        x = F.transform(x, lambda item: _value(name, item, seen.item, wanted.item))
    return x if wanted.length is None else _of_length(name, x, wanted)


def vector_as_list(x: Column) -> Column:
    """A vector of MLlib, dense or sparse, as the list of all its elements."""
    from pyspark.ml.functions import vector_to_array

    return F.when(x.isNotNull(), vector_to_array(x))  # which refuses nulls


def _value(name: str, x: Column, seen: Type, wanted: Type) -> Column:
    if (seen, wanted) != (INT64, FLOAT64):
        return x.cast(spelled(wanted))
    fits = x.isNull() | x.between(long(-EXACT), long(EXACT))
    said = f"column {name!r} is {seen}, and was {wanted} when the recipe was fitted, which has no exact "
    return F.when(fits, x.cast("double")).otherwise(_failed(said, x, ". Fit the recipe anew.", wanted))


def _of_length(name: str, x: Column, wanted: Type) -> Column:
    fits = x.isNull() | (F.size(x) == wanted.length)
    said = f"column {name!r} was {wanted} when the recipe was fitted, and a row has a list of "
    return F.when(fits, x).otherwise(_failed(said, F.size(x), f". Give {wanted.length} elements.", wanted))


def _failed(before: str, value: Column, after: str, of: Type) -> Column:
    said = F.concat(F.lit(f"penstock.errors.ExpressionError: {before}"), value.cast("string"), F.lit(after))
    return F.raise_error(said).cast(spelled(of))
