"""Methods of lists. A null list gives null, and a list with a null in it has no sum, mean, greatest or least."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.expr.words.base import Words

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

    def normalize(self) -> Expression:
        """Divided by its Euclidean length; a list of zeros stays as it is."""
        return self._call("normalize")

    def one_hot(self, size: int) -> Expression:
        """Zeros, and 1 at the place a whole number says; of a list of them, 1 at each. Null where one is outside.

        >>> from penstock.expr.build import col
        >>> col("weekday").one_hot(7)
        col('weekday').one_hot(7)
        """
        return self._call("one_hot", params={"size": size})
