"""Methods of lists. A null list gives null, and a list with a null in it has no sum, mean, greatest or least."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ExpressionError
from penstock.expr.words.base import Words
from penstock.expr.words.learned import counted

if TYPE_CHECKING:
    from penstock.expr.nodes import Expression


class Lists(Words):
    """What lists can do."""

    __slots__ = ()

    def element(self, index: int) -> Expression:
        """The element at a place, counted from 0; null where the list ends before."""
        return self._call("element", params={"index": index})

    def list_length(self) -> Expression:
        """How many elements it has."""
        return self._call("list_length")

    def list_sum(self) -> Expression:
        """The sum; 0 of an empty list."""
        return self._call("list_sum")

    def list_mean(self) -> Expression:
        """The mean; null of an empty list."""
        return self._call("list_mean")

    def list_max(self) -> Expression:
        """The greatest; nan with a nan in it, null of an empty list."""
        return self._call("list_max")

    def list_min(self) -> Expression:
        """The least; nan with a nan in it, null of an empty list."""
        return self._call("list_min")

    def pad(self, length: int, value: bool | int | float | str) -> Expression:
        """A list of exactly so many elements: cut, or filled up at its end with the value. Nulls in it stay.

        >>> from penstock.expr.build import col
        >>> col("tokens").pad(128, 0)
        col('tokens').pad(128, 0)
        """
        return self._call("pad", params={"length": length, "value": value})

    def normalize(self, p: float = 2) -> Expression:
        """Divided by its Euclidean length; a list of zeros stays as it is.

        With another `p` by that norm: 1 for the sum of absolute values, infinity for the greatest of them (which passes
        nan over).

        >>> from penstock.expr.build import col
        >>> col("v").normalize(), col("v").normalize(1)
        (col('v').normalize(), col('v').normalize(1))
        """
        return self._call("normalize", params={} if p == 2 else {"p": p})

    def one_hot(
        self, size: int | None = None, *, min_count: int = 1, max_size: int | None = None
    ) -> Expression:
        """Zeros, and 1 at the place a whole number says; of a list of them, 1 at each. Null where one is outside.

        Without a size the values themselves are learned when a recipe is fitted, also of texts: the most frequent
        comes first, values seen less than `min_count` times are left out, and so are those beyond `max_size`. Values
        that are not known, and nulls, have only zeros.

        >>> from penstock.expr.build import col
        >>> col("weekday").one_hot(7), col("city").one_hot(max_size=100)
        (col('weekday').one_hot(7), col('city').one_hot(max_size=100))
        """
        if size is None:
            return self._call("one_hot_learned", params=counted(min_count, max_size))
        if min_count != 1 or max_size is not None:
            raise ExpressionError(
                "one_hot(): min_count and max_size are for values that are learned, without a size."
            )
        return self._call("one_hot", params={"size": size})
