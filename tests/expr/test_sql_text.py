"""Expressions as SQL: the text means what the Columns mean, and shared pieces are computed once."""

from __future__ import annotations

import math

import pytest
from pyspark.sql import functions as F

from penstock.backends.base import compile
from penstock.backends.spark import NAME, TABLE
from penstock.backends.spark.functions import F as written_f
from penstock.backends.spark.functions import written
from penstock.backends.spark.sql_functions import define, sql_functions
from penstock.backends.spark.sql_pieces import pieces
from penstock.backends.spark.sql_text import quoted, sql_of, string
from penstock.expr.build import col, when
from penstock.expr.types import FLOAT64, INT64

TEXTS = [
    "",
    "plain",
    "it's",
    'say "x"',
    "back\\slash",
    "new\nline",
    "ä€😀",
    "${spark.app.name}",
    "%_",
    "`",
    "--",
    "/* */",
]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_come_through_the_parser_as_they_are(spark, text: str) -> None:
    assert spark.sql(f"SELECT {string(text)} AS t").collect()[0].t == text


@pytest.mark.parametrize("value", [0, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_whole_numbers(spark, value: int) -> None:
    with written():
        text = sql_of(written_f.lit(value))
    row = spark.sql(f"SELECT {text} AS n").schema, spark.sql(f"SELECT {text} AS n").collect()[0].n
    assert row[1] == value
    assert row[0]["n"].dataType.simpleString() == ("int" if abs(value + 0.5) < 2**31 else "bigint")


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1e-320, 1.7976931348623157e308, math.inf, -math.inf, math.nan, 0.1]
)
def test_floats(spark, value: float) -> None:
    with written():
        text = sql_of(written_f.lit(value))
    assert repr(spark.sql(f"SELECT {text} AS x").collect()[0].x) == repr(value)


def test_names_whatever_letters_they_have(spark) -> None:
    df = spark.range(1).select(F.col("id").alias("a`b c"))
    assert df.selectExpr(quoted("a`b c")).collect()[0][0] == 0


def test_lambdas_of_one_and_of_two(spark) -> None:
    with written():
        one = sql_of(written_f.transform("a", lambda x: x + 1))
        two = sql_of(written_f.aggregate("a", written_f.lit(0).cast("bigint"), lambda x, y: x + y))
    df = spark.sql("SELECT array(1L, 2L) AS a")
    assert tuple(df.selectExpr(one, two).collect()[0]) == ([2, 3], 3)


def doubled(times: int):
    tree = col("x")
    for _ in range(times):
        tree = when(tree > 1.0, tree / 2.0).otherwise(tree + tree)
    return tree


def test_pieces_are_written_once() -> None:
    cut = pieces(compile(NAME, TABLE, {"value": doubled(12)}, {"x": FLOAT64}))
    assert sum(map(len, cut.texts.values())) < 10_000 < 10**8 < cut.written


def test_a_function_of_many_pieces_gives_the_same(spark) -> None:
    tree = doubled(6)
    name = define(spark, sql_functions(tree, {"x": FLOAT64}))
    df = spark.range(20).select((F.col("id") / 4).alias("x"))
    want = []
    for x in (n / 4 for n in range(20)):
        for _ in range(6):
            x = x / 2.0 if x > 1.0 else x + x
        want.append(x)
    assert [row[0] for row in df.select(F.call_function(name, "x")).collect()] == want
    kept = df.withColumn("y", F.call_function(name, "x")).filter("y > 1").drop("y")
    assert kept.count() == sum(value > 1 for value in want)


def test_a_filter_does_not_write_pieces_out(spark) -> None:
    """Spark moves filters below projections, and would write every piece where it is used."""
    name = define(spark, sql_functions(doubled(9), {"x": FLOAT64}))
    df = spark.range(20).select((F.col("id") / 4).alias("x"))
    for filtered in (
        df.filter(F.call_function(name, "x") > 1),
        df.withColumn("y", F.call_function(name, "x")).filter("y > 1").drop("y"),
    ):
        plan = filtered._jdf.queryExecution().optimizedPlan().toString()
        assert len(plan) < 100_000


def test_other_filters_still_go_down(spark, tmp_path) -> None:
    name = define(spark, sql_functions(doubled(9), {"x": FLOAT64}))
    spark.range(10).select("id", (F.col("id") / 4).alias("x")).write.parquet(str(tmp_path / "p"))
    df = spark.read.parquet(str(tmp_path / "p")).withColumn("y", F.call_function(name, "x")).filter("id = 3")
    assert (
        "PushedFilters: [IsNotNull(id), EqualTo(id,3)]" in df._jdf.queryExecution().executedPlan().toString()
    )


def test_equal_expressions_share_a_function() -> None:
    one, other = (sql_functions(col("a") + 1, {"a": INT64})[-1].name for _ in range(2))
    assert one == other != sql_functions(col("a") + 2, {"a": INT64})[-1].name
