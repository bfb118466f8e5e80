"""What can be asked of data while a recipe is fitted: requests, and the answers to them. Nothing is computed here.

An engine's `gather(data, requests)` answers all requests of one kind together: `Summary`, `Presence`, `Quantiles` and
`Mode` in one aggregate, and all `Counts` in one job. `penstock.recipe.learning` says which operation asks for what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.expr.nodes import Constant, Expression

QUANTILE_ACCURACY = 10_000
"""A quantile's rank is wrong by at most one in so many."""


@dataclass(frozen=True, eq=False)
class Summary:
    """The moments and extremes of a number."""

    of: Expression

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells requests apart."""
        return ("summary", self.of.key())


@dataclass(frozen=True, eq=False)
class Presence:
    """How many values of a number there are to learn from: a `Summary` without moments and extremes, and cheaper."""

    of: Expression

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells requests apart."""
        return ("presence", self.of.key())


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Values at shares of the rows: of an element of the data each, not between two."""

    of: Expression
    at: tuple[float, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells requests apart."""
        return ("quantiles", self.of.key(), self.at)


@dataclass(frozen=True, eq=False)
class Mode:
    """The most frequent value; of several the least."""

    of: Expression

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells requests apart."""
        return ("mode", self.of.key())


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each value occurs (of a list: each element), and the sum of a label among its rows."""

    of: Expression
    label: Expression | None = None
    min_count: int = 1
    max_size: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells requests apart."""
        label = None if self.label is None else self.label.key()
        return ("counts", self.of.key(), label, self.min_count, self.max_size)


Request = Summary | Presence | Quantiles | Mode | Counts


@dataclass(frozen=True)
class Summarized:
    """The answer to `Summary` and `Presence`. Moments and extremes are those of finite values; None without any."""

    rows: int
    nulls: int
    not_finite: int
    mean: float | None = None
    variance: float | None = None
    """Of the population."""
    low: float | None = None
    high: float | None = None

    @property
    def count(self) -> int:
        """How many values there were to learn from."""
        return self.rows - self.nulls - self.not_finite


@dataclass(frozen=True)
class Counted:
    """The answer to `Counts`: the keys that were kept, the most frequent first, equally frequent ones by value."""

    keys: Any
    """An Arrow array of texts or of int64."""
    counts: Any
    """An Arrow array, of int64."""
    sums: Any
    """An Arrow array: the sum of the label among these rows, where it is not null."""
    labelled: Any
    """An Arrow array: in how many of these rows it is not null."""
    rows: int
    """All values, nulls included."""
    nulls: int
    null_sum: float
    null_labelled: int
    distinct: int
    """Of all values, those that were left out included."""
    total_sum: float
    total_labelled: int


Answer = Summarized | tuple[float, ...] | Counted | Constant
Answers = dict[tuple[Any, ...], Answer]
"""By the requests' keys."""
