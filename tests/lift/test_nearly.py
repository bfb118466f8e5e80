"""Functions that libraries compute a last digit apart: exact where a whole number hangs on it, and named elsewhere."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

import penstock as pk
from penstock.lifted import lift


def levels(n: int) -> int:
    return math.ceil(math.log2(n))


def digits(n: int) -> int:
    return math.floor(math.log10(n)) + 1


def root(x: float) -> float:
    return math.sqrt(x) + math.fmod(x, 3.0)


def entropy(p: float) -> float:
    return -p * math.log(p) if p > 0 else math.exp(p) ** 0.5


def test_whole_logarithms_are_exact_on_spark(spark: Any) -> None:
    powers = [2**exponent for exponent in range(63)] + [10**exponent for exponent in range(19)]
    near = [value + off for value in powers for off in (-1, 1) if 0 < value + off < 2**50]
    df = spark.createDataFrame(pa.table({"n": powers + near}))
    found = df.select("n", pk.udf(levels)("n").alias("levels"), pk.udf(digits)("n").alias("digits")).toArrow()
    wrong = [
        (n, got, many)
        for n, got, many in zip(*(column.to_pylist() for column in found.columns), strict=True)
        if (got, many) != (levels(n), digits(n))
    ]
    assert wrong == []


def test_a_plan_names_what_may_differ_in_the_last_digit() -> None:
    assert lift(root).near == ()
    assert lift(entropy).near == ("**", "exp", "log")
    plan = pk.udf(entropy).plan
    assert plan.near == ("**", "exp", "log")
    assert "last digit may differ: **, exp, log" in str(plan)
    assert "last digit" not in str(pk.udf(root).plan)
