"""Operations that learn: what each asks of the data, and the plain expression it becomes with the answer.

One `Learner` for each row of `penstock.expr.ops.learned`. To fit is partial evaluation: what was learned becomes
constants of the tree, and nothing else is left of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import FitError
from penstock.expr.check import columns_of
from penstock.expr.nodes import Call, Expression
from penstock.expr.ops.lists import LONGEST
from penstock.expr.statistics import (
    Answer,
    Counted,
    Counts,
    Mode,
    Presence,
    Quantiles,
    Request,
    Summarized,
    Summary,
)
from penstock.expr.types import Type, int_range
from penstock.expr.vocabulary import Vocabulary
from penstock.expr.words.learned import SMOOTHING

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Learner:
    """One operation: its requests, and its plain form."""

    asks: Callable[[tuple[Expression, ...], Params], tuple[Request, ...]]
    becomes: Callable[[Learned], Expression]


@dataclass(frozen=True, eq=False)
class Learned:
    """What an operation becomes its plain form from: its arguments, already plain, and the answers."""

    node: Call
    args: tuple[Expression, ...]
    types: tuple[Type, ...]
    answers: tuple[Answer, ...]

    @property
    def params(self) -> dict[str, Any]:
        """Those of the operation."""
        return dict(self.node.params)

    def error(self, what: str, remedy: str, of: int = 0) -> FitError:
        """Something about the data of an argument that nothing can be learned from."""
        columns = ", ".join(repr(name) for name in columns_of(self.args[of]))
        return FitError(
            f"{self.node!r}: {what}, so there is nothing to learn from column {columns}. {remedy}"
        )

    def finite(self, **numbers: float) -> None:
        """Refuse constants that would make every row nan."""
        for name, number in numbers.items():
            if not math.isfinite(number):
                raise self.error(f"its {name} is {number!r}", "Clip the column first: .clip(low, high).")

    def summary(self) -> Summarized:
        """The moments (of `Presence` only the counts), of a column that has values."""
        found = self.answers[0]
        assert isinstance(found, Summarized)
        if not found.count:
            raise self._nothing(found.rows, found.nulls, found.not_finite)
        return found

    def quantiles(self) -> tuple[float, ...]:
        """The quantiles, of a column that has values."""
        self.summary()
        found = self.answers[1]
        assert isinstance(found, tuple)
        return found

    def counted(self) -> Counted:
        """The vocabulary, of a column that has values."""
        found = self.answers[0]
        assert isinstance(found, Counted)
        if not found.distinct:
            raise self._nothing(found.rows, found.nulls, 0)
        return found

    def _nothing(self, rows: int, nulls: int, not_finite: int) -> FitError:
        if not rows:
            return self.error("there are no rows", "Fit on a DataFrame that has some.")
        seen = (
            f"all {rows} rows are null"
            if not not_finite
            else f"{nulls} rows are null and {not_finite} not finite"
        )
        return self.error(seen, "Fill it with a value before, .fill(0), or leave it out.")


def _summary(args: tuple[Expression, ...], params: Params) -> tuple[Request, ...]:
    return (Summary(args[0]),)


def _with_quantiles(at: Callable[[Params], tuple[float, ...]]) -> Any:
    return lambda args, params: (Presence(args[0]), Quantiles(args[0], at(params)))


def _counts(args: tuple[Expression, ...], params: Params) -> tuple[Request, ...]:
    label = args[1] if len(args) > 1 else None
    return (Counts(args[0], label, params.get("min_count", 1), params.get("max_size")),)


def _fill_asks(args: tuple[Expression, ...], params: Params) -> tuple[Request, ...]:
    statistic = params["statistic"]
    if statistic == "mode":
        return (Mode(args[0]),)
    return (Summary(args[0]),) if statistic == "mean" else (Presence(args[0]), Quantiles(args[0], (0.5,)))


def _fill(learned: Learned) -> Expression:
    x, of, statistic = learned.args[0], learned.types[0], learned.params["statistic"]
    if statistic == "mode":
        value: Any = learned.answers[0]
        if value is None:
            raise learned.error("it has no value at all", "Fill it with a value: .fill(0).")
        return (
            x.fill(value)
            if of.kind != "string" or value not in ("mean", "median", "mode")
            else _filled(x, value)
        )
    if statistic == "mean":
        mean = learned.summary().mean
        assert mean is not None
        learned.finite(mean=mean)
        return x.cast("float64").fill(mean)
    median = learned.quantiles()[0]
    if of.kind != "int":
        return x.fill(median)
    # Quantiles are float64: the greatest numbers of 64 bits round to one that is none of them.
    low, high = int_range(of)
    return x.fill(min(max(int(median), low), high))


def _filled(x: Expression, value: str) -> Expression:
    """A text that is one of the words `fill` takes for a statistic."""
    return x._call("fill", params={"value": value})


def _scaled(learned: Learned, middle: float, spread: float) -> Expression:
    """Less the middle, divided by the spread; a column that does not spread becomes 0 where it always was."""
    learned.finite(middle=middle, spread=spread)
    return (learned.args[0] - middle) / (spread or 1.0)


def _standardize(learned: Learned) -> Expression:
    found, ddof = learned.summary(), learned.params.get("ddof", 0)
    assert found.mean is not None
    assert found.variance is not None
    count = found.count
    variance = 0.0 if found.low == found.high or count <= ddof else found.variance * (count / (count - ddof))
    # A column that is always the same has exactly that as its mean, whatever rounding made of the sum.
    middle = found.low if found.low == found.high and found.low is not None else found.mean
    return _scaled(learned, middle, math.sqrt(variance))


def _minmax(learned: Learned) -> Expression:
    found = learned.summary()
    assert found.low is not None
    assert found.high is not None
    return _scaled(learned, found.low, found.high - found.low)


def _robust(learned: Learned) -> Expression:
    low, middle, high = learned.quantiles()
    return _scaled(learned, middle, high - low)


def _quantile_bins(learned: Learned) -> Expression:
    return learned.args[0].bucketize(sorted(set(learned.quantiles())))


def _winsorize(learned: Learned) -> Expression:
    low, high = learned.quantiles()
    return learned.args[0].cast("float64").clip(low, high)


def _key(learned: Learned) -> Expression:
    """The argument as vocabularies know it."""
    of = learned.types[0]
    leaf = of.item if of.kind == "list" else of
    return learned.args[0].cast("int64") if leaf.kind == "bool" else learned.args[0]


def _index(learned: Learned) -> Expression:
    return _key(learned).index_in(Vocabulary(learned.counted().keys), learned.params.get("oov", 1))


def _one_hot(learned: Learned) -> Expression:
    keys = Vocabulary(learned.counted().keys)
    if not len(keys):
        raise learned.error("no value is frequent enough", "Lower min_count.")
    if len(keys) >= LONGEST:
        columns = ", ".join(repr(name) for name in columns_of(learned.args[0]))
        raise FitError(
            f"{learned.node!r}: column {columns} has {len(keys):,} different values, and a one-hot list has at most "
            f"{LONGEST - 1:,} places. Keep the most frequent ones, .one_hot(max_size=...), or number them: .index()."
        )
    # Places: null, unseen, then the keys. The first two have none of the columns, so they are turned to the end.
    numbers = Vocabulary(keys.array, [float(place) for place in range(len(keys))])
    place = _key(learned).look_up(numbers, len(keys), len(keys)).cast("int64")
    return place.one_hot(len(keys) + 1).pad(len(keys), 0.0)


def _target_mean(learned: Learned) -> Expression:
    found, smoothing = learned.counted(), float(learned.params.get("smoothing", SMOOTHING))
    if not found.total_labelled:
        raise learned.error("its label is null in every row", "Give a label that has values.", of=1)
    prior = found.total_sum / found.total_labelled

    def drawn(total: float, count: int) -> float:
        return (total + smoothing * prior) / (count + smoothing) if count + smoothing else prior

    means = [drawn(*pair) for pair in zip(found.sums.to_pylist(), found.labelled.to_pylist(), strict=True)]
    null = drawn(found.null_sum, found.null_labelled)
    if (odd := next((mean for mean in (prior, null, *means) if not math.isfinite(mean)), None)) is not None:
        remedy = "Leave out values of the label that are no numbers, .nan_as_null(), and clip it: .clip(low, high)."
        raise learned.error(f"a mean of its label is {odd!r}", remedy, of=1)
    return _key(learned).look_up(Vocabulary(found.keys, means), prior, null)


def _count_encode(learned: Learned) -> Expression:
    found = learned.counted()
    return _key(learned).look_up(Vocabulary(found.keys, found.counts.to_pylist()), 0.0, float(found.nulls))


LEARNERS: dict[str, Learner] = {
    "fill_learned": Learner(_fill_asks, _fill),
    "standardize": Learner(_summary, _standardize),
    "minmax": Learner(_summary, _minmax),
    "robust": Learner(_with_quantiles(lambda params: (0.25, 0.5, 0.75)), _robust),
    "quantile_bins": Learner(
        _with_quantiles(lambda params: tuple(i / params["bins"] for i in range(1, params["bins"]))),
        _quantile_bins,
    ),
    "winsorize": Learner(_with_quantiles(lambda params: (params["low"], params["high"])), _winsorize),
    "index": Learner(_counts, _index),
    "one_hot_learned": Learner(_counts, _one_hot),
    "target_mean": Learner(_counts, _target_mean),
    "count_encode": Learner(_counts, _count_encode),
}
