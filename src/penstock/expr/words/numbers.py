"""Operators, mathematics, comparison, nulls and casts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import ExpressionError
from penstock.expr.ops.base import a_number
from penstock.expr.ops.learned import STATISTICS
from penstock.expr.words.base import Words

if TYPE_CHECKING:
    from penstock.expr.nodes import Expression


class Numbers(Words):
    """What numbers, truth values and nulls can do."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __add__(self, other: object) -> Expression:
        return self._call("add", other)

    def __radd__(self, other: object) -> Expression:
        return self._turned("add", other)

    def __sub__(self, other: object) -> Expression:
        return self._call("subtract", other)

    def __rsub__(self, other: object) -> Expression:
        return self._turned("subtract", other)

    def __mul__(self, other: object) -> Expression:
        return self._call("multiply", other)

    def __rmul__(self, other: object) -> Expression:
        return self._turned("multiply", other)

    def __truediv__(self, other: object) -> Expression:
        return self._call("divide", other)

    def __rtruediv__(self, other: object) -> Expression:
        return self._turned("divide", other)

    def __pow__(self, other: object) -> Expression:
        return self._call("pow", other)

    def __rpow__(self, other: object) -> Expression:
        return self._turned("pow", other)

    def __lt__(self, other: object) -> Expression:
        return self._call("lt", other)

    def __le__(self, other: object) -> Expression:
        return self._call("le", other)

    def __gt__(self, other: object) -> Expression:
        return self._call("gt", other)

    def __ge__(self, other: object) -> Expression:
        return self._call("ge", other)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]  # a comparison of every row
        return self._call("eq", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]  # a comparison of every row
        return self._call("ne", other)

    def __and__(self, other: object) -> Expression:
        return self._call("and", other)

    def __rand__(self, other: object) -> Expression:
        return self._turned("and", other)

    def __or__(self, other: object) -> Expression:
        return self._call("or", other)

    def __ror__(self, other: object) -> Expression:
        return self._turned("or", other)

    def __invert__(self) -> Expression:
        return self._call("not")

    def __neg__(self) -> Expression:
        return self._call("negate")

    def __abs__(self) -> Expression:
        return self._call("abs")

    def abs(self) -> Expression:
        """The absolute value."""
        return self._call("abs")

    def sign(self) -> Expression:
        """-1, 1, or the zero or nan it was."""
        return self._call("sign")

    def round(self) -> Expression:
        """To the nearest whole number, halves to the even one: 0.5 becomes 0, 1.5 becomes 2."""
        return self._call("round")

    def floor(self) -> Expression:
        """The greatest whole number that is not above, as float64."""
        return self._call("floor")

    def ceil(self) -> Expression:
        """The least whole number that is not below, as float64."""
        return self._call("ceil")

    def sqrt(self) -> Expression:
        """The square root; nan below zero."""
        return self._call("sqrt")

    def log(self) -> Expression:
        """The natural logarithm; -inf of zero, nan below."""
        return self._call("log")

    def log1p(self) -> Expression:
        """log(1 + x), exact near zero: what counts and prices usually want."""
        return self._call("log1p")

    def log10(self) -> Expression:
        """The decimal logarithm; -inf of zero, nan below."""
        return self._call("log10")

    def exp(self) -> Expression:
        """e to the power of this; inf where it overflows."""
        return self._call("exp")

    def expm1(self) -> Expression:
        """exp(x) - 1, exact near zero."""
        return self._call("expm1")

    def sin(self) -> Expression:
        """The sine, of radians."""
        return self._call("sin")

    def cos(self) -> Expression:
        """The cosine, of radians."""
        return self._call("cos")

    def tanh(self) -> Expression:
        """The hyperbolic tangent."""
        return self._call("tanh")

    def clip(self, low: float, high: float) -> Expression:
        """`low` where it is below, `high` where it is above; nan and null stay.

        >>> from penstock.expr.build import col
        >>> col("price").log1p().clip(-3, 3)
        col('price').log1p().clip(-3, 3)
        """
        return self._call("clip", params={"low": low, "high": high})

    def bucketize(self, edges: Sequence[float]) -> Expression:
        """The number of the bucket between edges: how many edges are not above. nan belongs to none, and gives null.

        >>> from penstock.expr.build import col
        >>> col("age").bucketize([18, 30, 65])  # 0 below 18, 1 from 18 on, 3 from 65 on
        col('age').bucketize((18, 30, 65))
        """
        return self._call("bucketize", params={"edges": tuple(edges)})

    def is_null(self) -> Expression:
        """Whether there is no value; nan is one."""
        return self._call("is_null")

    def is_nan(self) -> Expression:
        """Whether it is nan; false of null."""
        return self._call("is_nan")

    def nan_as_null(self) -> Expression:
        """Null where it is nan, as in data that came through pandas; then `fill` fills both.

        >>> from penstock.expr.build import col
        >>> col("age").nan_as_null().fill("median")
        col('age').nan_as_null().fill('median')
        """
        return self._call("nan_as_null")

    def fill(self, value: bool | int | float | str) -> Expression:
        """The value where it is null; in a list, where an element is null. The type stays where it can hold the
        value.

        "mean", "median" and "mode" are learned from the column when a recipe is fitted. (To fill a text with one of
        these three words, write `coalesce`.)

        >>> from penstock.expr.build import col
        >>> col("age").fill(0), col("age").fill("median")
        (col('age').fill(0), col('age').fill('median'))
        """
        if isinstance(value, str) and value in STATISTICS:
            return self._call("fill_learned", params={"statistic": value})
        return self._call("fill", params={"value": value})

    def cast(self, to: str) -> Expression:
        """As another type: bool, int8 to int64, float16 to float64, string. In a list, each element.

        What does not fit becomes null: a text that is no number, nan as an integer or a bool, 300 as int8. Floats
        are cut towards zero to become integers, and rounded to the nearest, halves to even, to become narrower
        floats. Texts are read in plain decimal notation ("-1.5e3", "nan", "inf") without spaces; "true" and "false"
        for bool. Floats do not become texts, because every engine writes them differently.

        >>> from penstock.expr.build import col
        >>> col("clicked").cast("float32")
        col('clicked').cast('float32')
        """
        return self._call("cast", params={"to": to})

    def cyclic(self, period: float) -> Expression:
        """Two numbers for a value on a circle, its sine and cosine: hour 23 lies beside hour 0.

        >>> from penstock.expr.build import col
        >>> col("at").hour("UTC").cyclic(24).args[0]
        (col('at').hour('UTC') * 0.2617993877991494).sin()
        """
        if a_number(period) is not None or not 0 < period < math.inf:
            raise ExpressionError(f"cyclic(): period is {period!r}, and must be a number above zero.")
        angle = self * (2 * math.pi / period)
        return angle.sin()._call("stack", angle.cos(), params={"dtype": "float64"})

    def hash(self, buckets: int) -> Expression:
        """A bucket from 0 to `buckets` - 1, by Spark's xxhash64 with seed 42; of a list, a bucket for each element.

        A null has a bucket as well: the one of the seed, 42 % `buckets`. A column's type is part of the hash: the
        same number as int32 and as int64 falls into different buckets. `penstock.expr.build.cross` takes several
        together.

        >>> from penstock.expr.build import col
        >>> col("city").lower().hash(1000)
        col('city').lower().hash(1000)
        """
        return self._call("hash", params={"buckets": buckets})
