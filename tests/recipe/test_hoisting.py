"""The pass that is saved: moments of filled columns, out of those of the columns themselves."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as pk
from penstock.expr.statistics import Summary
from penstock.recipe.hoisting import hoisted
from penstock.recipe.sources import ArrowSource

col = pk.col
NUMBERS = st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, 0.0]))
CHAINS = {
    "bare": lambda x: x,
    "log1p": lambda x: x.log1p(),
    "scaled": lambda x: (2 - x / 7).clip(-3, 3),
}


def is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


class Counting(ArrowSource):
    """Counts the passes over the data."""

    passes = 0

    def gather(self, requests):
        Counting.passes += 1
        return super().gather(requests)


@pytest.mark.parametrize("statistic", ["mean", "median", "mode"])
@pytest.mark.parametrize("chain", list(CHAINS))
@given(values=st.lists(NUMBERS, min_size=1, max_size=30).filter(lambda some: any(map(is_finite, some))))
def test_the_moments_are_those_of_the_filled_column(
    statistic: str, chain: str, values: list[float | None]
) -> None:
    table = pa.table({"x": pa.array(values, pa.float64())})
    filled = CHAINS[chain](col("x").fill(statistic))
    fitted = pk.Recipe(t=filled).fit(table)
    direct = np.array(fitted.arrow(table)["t"].to_pylist(), float)
    finite = direct[np.isfinite(direct)]
    if not len(finite):
        return
    [fact] = [one for one in pk.Recipe(t=filled.minmax()).fit(table).facts if "minmax" in one["operation"]]
    assert fact["low"] == pytest.approx(finite.min(), abs=1e-12)
    assert fact["high"] == pytest.approx(finite.max(), abs=1e-12)
    assert fact["mean"] == pytest.approx(finite.mean(), rel=1e-9, abs=1e-9)
    assert fact["deviation"] == pytest.approx(finite.std(), rel=1e-6, abs=1e-6)
    assert (fact["rows"], fact["nulls"]) == (len(values), 0)
    assert fact["not_finite"] == len(values) - len(finite)


def test_one_pass_instead_of_two(monkeypatch) -> None:
    monkeypatch.setattr("penstock.recipe.recipe.ArrowSource", Counting)
    table = pa.table({"x": [1.0, None, 5.0], "c": ["a", "b", None]})
    Counting.passes = 0
    pk.Recipe(t=col("x").fill("median").log1p().standardize()).fit(table)
    assert Counting.passes == 1
    pk.Recipe(t=col("x").fill("mean").minmax(), c=col("c").index()).fit(table)
    assert Counting.passes == 3


@pytest.mark.parametrize(
    "tree",
    [
        col("x").standardize(),
        col("x").fill(0),
        col("x").fill("mean") + col("y"),
        col("x").fill("mean").fill(3),
        col("x").fill("mean").is_null(),
        pk.when(col("x").fill("mean") > 0, 1).otherwise(2),
    ],
)
def test_what_cannot_be_asked_early(tree) -> None:
    assert hoisted(tree) is None


def test_what_is_asked_early() -> None:
    found = hoisted((1 - col("x").fill("median")).log1p())
    assert found is not None
    assert isinstance(found.bare, Summary)
    assert repr(found.bare.of) == "(1 - col('x')).log1p()"
