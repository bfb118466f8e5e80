"""Arithmetic, mathematics, comparison and logic as Spark expressions, with the guards that make them IEEE's.

Spark with ANSI raises on division by zero, gives NULL for log(0), takes NaN for the greatest number and for equal
to itself, and skips nulls in least and greatest. Nothing here can raise, whatever the row, so nothing depends on
the order in which Spark evaluates. Conditions are CASE WHEN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from pyspark.sql import Column

from penstock.backends.base import Kernel, Site, Unknown
from penstock.backends.spark.columns import INF, NAN, as_type, constant, double, long, spelled
from penstock.backends.spark.functions import F
from penstock.expr.types import FLOAT64


def of_reals(function: Callable[..., Column]) -> Kernel:
    """A kernel that computes in double."""
    return lambda site, *args: function(*(double(arg, of) for arg, of in zip(args, site.types, strict=True)))


def _divide(site: Site, left: Column, right: Column) -> Column:
    a, b = double(left, site.types[0]), double(right, site.types[1])
    known = site.constants[1]
    if known is not Unknown and known:  # neither null nor zero
        return a / b
    # pow(b, -1) is the infinity with the sign of the zero. It is looked at where the division gives null only.
    return F.coalesce(F.try_divide(a, b), a * F.pow(b, F.lit(-1.0)))


def _logarithm(function: Callable[[Column], Column], shift: float) -> Callable[[Column], Column]:
    """Spark's logarithms are NULL from their pole down. sqrt is 0 at 0 and NaN below: this is -inf and NaN."""
    return lambda x: F.coalesce(function(x), F.sqrt(x + F.lit(shift) if shift else x) - F.lit(INF))


def _pow(site: Site, left: Column, right: Column) -> Column:
    a, b = double(left, site.types[0]), double(right, site.types[1])
    known = site.constants[1]
    if known is not Unknown and known is not None and math.isfinite(known):
        return F.pow(a, b)
    # Java says NaN where C says 1: of 1 to any power, and of -1 to an infinite one.
    return (
        F.when(b.isNotNull() & (a == 1.0), F.lit(1.0))
        .when((a == -1.0) & (F.abs(b) == INF), F.lit(1.0))
        .otherwise(F.pow(a, b))
    )


def _floor(x: Column) -> Column:
    """Spark's floor is a bigint, which overflows and has no -0.0."""
    near = F.rint(x)
    return near - F.when(near > x, F.lit(1.0)).otherwise(F.lit(0.0))


def _may_be_nan(site: Site, place: int) -> bool:
    known = site.constants[place]
    if site.types[place].kind != "float":
        return False
    return known is Unknown or (isinstance(known, float) and math.isnan(known))


def _sides(site: Site, left: Column, right: Column) -> tuple[Column, Column]:
    if {side.kind for side in site.types} == {"int", "float"}:
        return double(left, site.types[0]), double(right, site.types[1])
    return left, right


def _eq(site: Site, left: Column, right: Column) -> Column:
    a, b = _sides(site, left, right)
    if not (_may_be_nan(site, 0) and _may_be_nan(site, 1)):
        return a == b
    return F.when(F.isnan(a) & F.isnan(b), F.lit(False)).otherwise(a == b)


def _ne(site: Site, left: Column, right: Column) -> Column:
    a, b = _sides(site, left, right)
    if not (_may_be_nan(site, 0) and _may_be_nan(site, 1)):
        return a != b
    return F.when(F.isnan(a) & F.isnan(b), F.lit(True)).otherwise(a != b)


def _below(strict: bool) -> Callable[[Site, Column, Column], Column]:
    """left < right. For Spark NaN is above everything, so only a NaN on the right needs a guard.

    Nothing is greater than NaN for it, so `a > b` is then false, and null where a is null. Beside a constant the guard
    is shorter, which counts: Spark writes a condition's branches out for each time that it is used.
    """

    def kernel(site: Site, left: Column, right: Column) -> Column:
        a, b = _sides(site, left, right)
        found = a < b if strict else a <= b
        if not _may_be_nan(site, 1):
            return found
        if site.constants[0] not in (Unknown, None):
            return found & (b <= INF)
        return F.when(F.isnan(b), a > b).otherwise(found)

    return kernel


def _turned(kernel: Callable[[Site, Column, Column], Column]) -> Kernel:
    def turned(site: Site, left: Column, right: Column) -> Column:
        other = Site(site.op, site.types[::-1], site.type, site.params, site.constants[::-1])
        return kernel(other, right, left)

    return turned


def _extreme(function: Callable[..., Column], least: bool) -> Kernel:
    def kernel(site: Site, *args: Column) -> Column:
        values = [as_type(arg, of, site.type) for arg, of in zip(args, site.types, strict=True)]
        if len(values) == 1:
            return values[0]
        null = reduce(operator.or_, [value.isNull() for value in values])
        found = F.when(null, F.lit(None).cast(spelled(site.type)))
        if least and site.type.kind == "float":  # greatest gives NaN by itself
            found = found.when(reduce(operator.or_, [F.isnan(v) for v in values]), constant(NAN, site.type))
        return found.otherwise(function(*values))

    return kernel


def _clip(site: Site, x: Column) -> Column:
    low, high = (constant(site.params[side], site.type) for side in ("low", "high"))
    value = as_type(x, site.types[0], site.type)
    if site.type.kind == "int":
        return F.when(value < low, low).when(value > high, high).otherwise(value)
    # -NaN is NaN, and never the smaller one: this keeps it without asking for it.
    return F.when(value < low, low).when(-value < -high, high).otherwise(value)


def _bucketize(site: Site, x: Column) -> Column:
    value = double(x, site.types[0])
    edges = [float(edge) for edge in site.params["edges"]]
    found = F.when(value.isNull() | F.isnan(value), F.lit(None).cast("bigint"))
    for place, edge in enumerate(edges):
        found = found.when(value < edge, long(place))
    return found.otherwise(long(len(edges)))


def _when(site: Site, *args: Column) -> Column:
    def value(place: int) -> Column:
        return as_type(args[place], site.types[place], site.type)

    found: Any = F
    for place in range(0, len(args) - 1, 2):
        found = found.when(args[place], value(place + 1))
    done: Column = found.otherwise(value(len(args) - 1))
    return done


def _coalesce(site: Site, *args: Column) -> Column:
    return F.coalesce(*(as_type(arg, of, site.type) for arg, of in zip(args, site.types, strict=True)))


def _fill(site: Site, x: Column) -> Column:
    value = as_type(x, site.types[0], site.type)
    if site.type.kind == "list":
        return F.transform(
            value, lambda item: F.coalesce(item, constant(site.params["value"], site.type.item))
        )
    return F.coalesce(value, constant(site.params["value"], site.type))


def _is_nan(site: Site, x: Column) -> Column:
    # A whole number becomes a double here, or Spark would complain.
    return F.isnan(double(x, site.types[0])) if site.types[0] != FLOAT64 else F.isnan(x)


KERNELS: dict[str, Kernel] = {
    "add": of_reals(lambda a, b: a + b),
    "subtract": of_reals(lambda a, b: a - b),
    "multiply": of_reals(lambda a, b: a * b),
    "divide": _divide,
    "negate": of_reals(lambda x: -x),
    "abs": of_reals(F.abs),
    "sign": of_reals(F.signum),
    "round": of_reals(F.rint),
    "floor": of_reals(_floor),
    "ceil": of_reals(lambda x: -_floor(-x)),
    "sqrt": of_reals(F.sqrt),
    "log": of_reals(_logarithm(F.log, 0.0)),
    "log1p": of_reals(_logarithm(F.log1p, 1.0)),
    "log10": of_reals(_logarithm(F.log10, 0.0)),
    "exp": of_reals(F.exp),
    "expm1": of_reals(F.expm1),
    "sin": of_reals(F.sin),
    "cos": of_reals(F.cos),
    "tanh": of_reals(F.tanh),
    "pow": _pow,
    "minimum": _extreme(F.least, least=True),
    "maximum": _extreme(F.greatest, least=False),
    "clip": _clip,
    "bucketize": _bucketize,
    "nan_as_null": lambda site, x: F.when(~F.isnan(double(x, site.types[0])), double(x, site.types[0])),
    "eq": _eq,
    "ne": _ne,
    "lt": _below(strict=True),
    "le": _below(strict=False),
    "gt": _turned(_below(strict=True)),
    "ge": _turned(_below(strict=False)),
    "and": lambda site, a, b: a & b,
    "or": lambda site, a, b: a | b,
    "not": lambda site, x: ~x,
    "when": _when,
    "is_null": lambda site, x: x.isNull(),
    "is_nan": _is_nan,
    "coalesce": _coalesce,
    "fill": _fill,
}
