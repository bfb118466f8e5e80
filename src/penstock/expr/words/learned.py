"""Methods that learn from data when a recipe is fitted, and lookups in a vocabulary that is known already.

What is learned, is learned from values that are there: nulls are skipped, and by all but the vocabularies so are nan
and infinities. A column without a single value is an error when the recipe is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.expr.vocabulary import Vocabulary
from penstock.expr.words.base import Words

if TYPE_CHECKING:
    from penstock.expr.nodes import Expression

SMOOTHING = 20.0


def counted(min_count: int, max_size: int | None) -> dict[str, Any]:
    """The parameters of a learned vocabulary that differ from the usual."""
    found = {"min_count": min_count} if min_count != 1 else {}
    return found if max_size is None else {**found, "max_size": max_size}


class Learned(Words):
    """What has to see the data first."""

    __slots__ = ()

    def standardize(self, ddof: int = 0) -> Expression:
        """Less the mean, divided by the standard deviation; 0 where the column was always the same.

        >>> from penstock.expr.build import col
        >>> col("price").fill("median").log1p().standardize()
        col('price').fill('median').log1p().standardize()
        """
        return self._call("standardize", params={"ddof": ddof} if ddof else {})

    def minmax(self) -> Expression:
        """0 at the least value seen and 1 at the greatest; values beyond go beyond. 0 where all were the same."""
        return self._call("minmax")

    def robust(self) -> Expression:
        """Less the median, divided by the distance between the quartiles (by 1 where that is 0)."""
        return self._call("robust")

    def quantile_bins(self, bins: int) -> Expression:
        """The number of the bin, of bins that hold about equally many rows; fewer where values repeat. nan gives null.

        >>> from penstock.expr.build import col
        >>> col("age").quantile_bins(10).one_hot(10)
        col('age').quantile_bins(10).one_hot(10)
        """
        return self._call("quantile_bins", params={"bins": bins})

    def winsorize(self, low: float, high: float) -> Expression:
        """Clipped at two quantiles, so that rare extremes count no more than these.

        >>> from penstock.expr.build import col
        >>> col("fare").winsorize(0.01, 0.99)
        col('fare').winsorize(0.01, 0.99)
        """
        return self._call("winsorize", params={"low": low, "high": high})

    def index(self, *, min_count: int = 1, max_size: int | None = None, oov: int = 1) -> Expression:
        """A whole number for each value: the row of an embedding.

        0 is null. 1 to `oov` are values that were not seen, or less than `min_count` times, or that are not among the
        `max_size` most frequent; with `oov` above 1 they are spread by their hash, with 0 they are null. Then come the
        values, the most frequent first, equally frequent ones by value. Of a list, each element has its number; there
        Spark looks up among at most 50,000 values (give `max_size`, or use `hash`), and refuses a transform with more
        before it runs. Single values have no such limit.

        >>> from penstock.expr.build import col
        >>> col("city").index(min_count=10), col("words").split(" ").index(max_size=50_000)
        (col('city').index(min_count=10), col('words').split(' ').index(max_size=50000))
        """
        params = counted(min_count, max_size)
        return self._call("index", params=params if oov == 1 else {**params, "oov": oov})

    def target_mean(
        self,
        label: Expression,
        smoothing: float = SMOOTHING,
        *,
        min_count: int = 1,
        max_size: int | None = None,
    ) -> Expression:
        """The mean of the label among rows of the same value, as if `smoothing` rows more had had the mean of all.

        Values that were not seen have the mean of all; null counts as a value. Fit it on rows that are not trained on,
        or the label leaks.

        >>> from penstock.expr.build import col
        >>> col("city").target_mean(col("clicked"))
        col('city').target_mean(col('clicked'))
        """
        params = counted(min_count, max_size)
        if smoothing != SMOOTHING:
            params["smoothing"] = smoothing
        return self._call("target_mean", label, params=params)

    def count_encode(self) -> Expression:
        """How often the value was seen when the recipe was fitted, as float64; null counts as a value."""
        return self._call("count_encode")

    def index_in(self, keys: Vocabulary | Sequence[str] | Sequence[int], oov: int = 1) -> Expression:
        """As `index`, with a vocabulary that is known already.

        >>> from penstock.expr.build import col
        >>> col("size").index_in(["S", "M", "L"])
        col('size').index_in(Vocabulary(['S', 'M', 'L']), 1)
        """
        found = keys if isinstance(keys, Vocabulary) else Vocabulary(keys)
        return self._call("index_in", params={"keys": found, "oov": oov})

    def look_up(self, keys: Vocabulary, unseen: float, null: float) -> Expression:
        """The number a vocabulary has for the value; others for values that it does not have, and for null.

        >>> from penstock.expr.build import col
        >>> col("size").look_up(Vocabulary(["S", "L"], [36, 42]), 39, 0)
        col('size').look_up(Vocabulary(['S', 'L'], [36.0, 42.0]), 39, 0)
        """
        return self._call("look_up", params={"keys": keys, "unseen": unseen, "null": null})

    def demand(self, message: str) -> Expression:
        """The value as it is; where it is null, computing it fails with the message. Recipes put it before tensors."""
        return self._call("demand", params={"message": message})
