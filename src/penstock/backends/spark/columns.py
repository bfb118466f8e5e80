"""Spark Columns of a type: how types are spelled, constants, and the few forms the kernels share.

Whole numbers keep their column's width, computed ones are bigint; floating-point arithmetic is on double. A form
may use its argument several times; `penstock.backends.spark` keeps trees from growing by that.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql import Column

from penstock.backends.spark.functions import F
from penstock.dtypes import DTYPES
from penstock.expr.types import FLOAT64, Type

NAN, INF = float("nan"), float("inf")


def spelled(of: Type) -> str:
    """How Spark SQL spells a type. It has no float16: those values are held as float."""
    if of.kind == "list":
        return f"array<{spelled(of.item)}>"
    if of.kind in ("bool", "int", "float"):
        return DTYPES[str(of)].spark or "float"
    if of.kind == "vector":
        return "void"  # SQL has no name for them, and void becomes the type of what it stands beside
    return of.kind


def named(name: str) -> Column:
    """A column by its name, whatever characters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def constant(value: Any, of: Type) -> Column:
    """A constant of exactly this type."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        micros = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        return F.timestamp_micros(F.lit(micros).cast("bigint"))
    if isinstance(value, date):
        return F.lit(value.isoformat()).cast(spelled(of))
    if of.kind == "float" and value is not None:
        value = float(value)
    return F.lit(value).cast(spelled(of))


def double(column: Column, of: Type) -> Column:
    """A number as double."""
    return column if of == FLOAT64 else column.cast("double")


def as_type(column: Column, source: Type, target: Type) -> Column:
    """A value as the type that it and others have in common; never one that it might not fit."""
    return column if spelled(source) == spelled(target) else column.cast(spelled(target))


def long(number: int) -> Column:
    """A whole number as bigint."""
    return F.lit(number).cast("bigint")


def no_nulls(x: Column) -> Column:
    """Whether a list holds no null; null, or true, of null. Without a lambda, which SQL functions do not take."""
    return F.size(F.array_compact(x)) == F.size(x)


def bind(value: Column, body: Any) -> Column:
    """`body(value)`, with the value computed once however often the body uses it.

    A one-element array is the only let-expression Spark has; its lambda is interpreted, so this is for bodies that
    are lambdas themselves.
    """
    return F.element_at(F.transform(F.array(value), body), 1)
