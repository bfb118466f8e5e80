"""The words that begin an expression: `col`, `lit`, `when`, and those that join several.

Each returns a tree (`penstock.expr.nodes`); nothing is computed. What can be done with one afterwards are its
operators and methods, in `penstock.expr.words`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ExpressionError
from penstock.expr.nodes import Column, Expression, call, lift, literal
from penstock.expr.types import parse_type


def col(name: str) -> Expression:
    """A column.

    >>> (col("price") / 100).log1p()
    (col('price') / 100).log1p()
    """
    return Column(name)


def lit(value: object, type: str | None = None) -> Expression:
    """A constant; plain values beside an expression become one by themselves. A null needs its type.

    >>> lit(1.5) * col("a"), lit(None, "float64")
    (1.5 * col('a'), lit(None, 'float64'))
    """
    return literal(value, None if type is None else parse_type(type))


@dataclass(frozen=True, slots=True)
class When:
    """Conditions with their values, still without what holds otherwise."""

    pairs: tuple[Expression, ...]

    def when(self, condition: Expression, value: object) -> When:
        """Another condition, asked where none before was true."""
        return When((*self.pairs, lift(condition), lift(value)))

    def otherwise(self, value: object) -> Expression:
        """The finished expression, with the value for rows where no condition is true."""
        return call("when", *self.pairs, value)


def when(condition: Expression, value: object) -> When:
    """A choice: the value of the first condition that is true; null conditions are not.

    >>> when(col("age") < 18, 0.5).when(col("age") > 65, 0.7).otherwise(1.0)
    when(col('age') < 18, 0.5).when(col('age') > 65, 0.7).otherwise(1.0)
    """
    return When((lift(condition), lift(value)))


def stack(*parts: object, dtype: str = "float64") -> Expression:
    """One list of fixed length out of numbers and of lists of fixed length, one after the other.

    >>> stack(col("a"), col("b").log1p(), dtype="float32")
    stack(col('a'), col('b').log1p(), dtype='float32')
    """
    return call("stack", *parts, params={"dtype": dtype})


@dataclass(frozen=True, slots=True)
class Cross:
    """Several values taken as one, which `hash` brings into buckets."""

    parts: tuple[Expression, ...]

    def hash(self, buckets: int) -> Expression:
        """A bucket for the values together, by Spark's xxhash64 over all of them in turn."""
        return call("hash", *self.parts, params={"buckets": buckets})


def cross(*parts: object) -> Cross:
    """Several values taken together, to be hashed: a bucket for each combination.

    >>> cross(col("city"), col("hour")).hash(10_000)
    cross(col('city'), col('hour')).hash(10000)
    """
    if len(parts) < 2:
        raise ExpressionError(f"cross() takes two or more expressions, and got {len(parts)}.")
    return Cross(tuple(lift(part) for part in parts))


def minimum(*parts: object) -> Expression:
    """The least of several; null if one is null, else nan if one is nan.

    >>> minimum(col("a"), col("b"), 10)
    minimum(col('a'), col('b'), 10)
    """
    return call("minimum", *parts)


def maximum(*parts: object) -> Expression:
    """The greatest of several; null if one is null, else nan if one is nan.

    >>> maximum(col("a"), 0)
    maximum(col('a'), 0)
    """
    return call("maximum", *parts)


def coalesce(*parts: object) -> Expression:
    """The first of several that is not null.

    >>> coalesce(col("price"), col("list_price"), 0.0)
    coalesce(col('price'), col('list_price'), 0.0)
    """
    return call("coalesce", *parts)
