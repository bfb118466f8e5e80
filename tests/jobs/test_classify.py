"""`pk.classify`, and what `pk.explain` says of functions that are at hand."""

from __future__ import annotations

import pandas as pd
import pytest
from pyspark.sql import functions as F

import penstock as pk
from penstock.errors import ExpressionError


def grade(score: float) -> str:
    return "good" if score >= 0.5 else "poor"


def letters(text: str) -> int:
    return len([each for each in text if each.isalpha()])


def steps(n: int) -> int:
    count = 0
    while n > 1:
        n, count = n // 2, count + 1
    return count


@pk.batch(returns="float64")
def halved(values):
    return values / 2


def test_functions() -> None:
    assert pk.classify(grade).kind == "native"
    assert pk.classify(pk.udf(grade)).kind == "native"
    assert pk.classify(pk.lift(grade)).kind == "native"
    assert pk.classify(steps).kind == "arrow batch"
    found = pk.classify(letters)
    assert found.kind == "row"
    assert "comprehension" in found.reason
    assert str(found).startswith("row: letters() is called for every row")


def test_what_was_lifted_with_types_of_its_own() -> None:
    assert pk.classify(pk.lift(lambda x: x + 1, {"x": "int64"})).kind == "native"
    assert pk.classify(pk.lift(steps)).kind == "arrow batch"
    found = pk.classify(pk.lift(lambda x: x.nothing, {"x": "int64"}))
    assert found.kind == "row"
    assert "nothing" in found.reason


def test_expressions() -> None:
    assert pk.classify(pk.col("a").log1p() + 1).kind == "native"
    found = pk.classify(halved(pk.col("a")) + 1)
    assert found.kind == "arrow batch"
    assert "halved()" in found.reason


def test_functions_of_sparks(spark) -> None:
    def mean(values: pd.Series) -> pd.Series:
        return values

    mean.__annotations__ = {"values": pd.Series, "return": pd.Series}
    assert pk.classify(F.pandas_udf(mean, "double")).kind == "arrow batch"
    plain = pk.classify(F.udf(grade, "string", useArrow=False))
    assert plain.kind == "row"
    assert "pickled rows" in plain.reason
    assert "penstock.udf" in plain.advice


def test_what_is_neither() -> None:
    with pytest.raises(ExpressionError, match="got 3"):
        pk.classify(3)  # type: ignore[arg-type]


def test_explain_tells_what_would_become_of_a_function(spark) -> None:
    df = spark.range(3).select(F.udf(grade, "string")(F.col("id") / 2), F.udf(letters, "int")(F.lit("a")))
    found = pk.explain(df, functions={"grade": grade, "letters": F.udf(letters, "int")})
    advice = " ".join(finding.advice for finding in found.findings if finding.kind == "boundary")
    assert "@penstock.udf makes grade a native expression, and no row crosses: when(" in advice
    assert "@penstock.udf does not lift letters as it is written" in advice
    assert "penstock.udf" not in " ".join(each.advice for each in pk.explain(df, functions={}).findings)
