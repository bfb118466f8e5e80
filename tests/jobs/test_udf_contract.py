"""What `pk.udf` and `pk.with_columns` promise in every tier: arguments in place, types kept, Columns anywhere."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

import penstock as pk
from penstock.errors import ExpressionError, NotLifted


def one(df, column):
    return [row[0] for row in df.select(column).collect()]


def half(x: float) -> float:
    return x / 2


def whole(x: float) -> int:
    return sum([x for _ in str(x)[:1]])  # a comprehension: it stays in Python


def doubled(n: int) -> int:
    while n < 2**40:
        n = n * 2
    return n


def large(n: int):
    return sum([8589934594 for _ in str(n)[:1]])


def known(x: float | None) -> float:
    return 0.0 if x is None else x


class TestArguments:
    def test_columns_reach_the_arguments_they_are_for(self, spark) -> None:
        def told(a: str = "A", b: str = "B", *, c: str = "C") -> str:
            return json.dumps([a, b, c])

        made = pk.udf(told)
        assert made.plan.tier == "arrow"
        df = spark.sql("SELECT 's' AS s")
        found = df.select(made("s"), made("s", c="s"), made(b="s"), made(c="s"), made()).collect()[0]
        assert [json.loads(each) for each in found] == [
            ["s", "B", "C"],
            ["s", "B", "s"],
            ["A", "s", "C"],
            ["A", "B", "s"],
            ["A", "B", "C"],
        ]

    def test_arguments_that_differ_in_case(self, spark) -> None:
        def less(a: float, A: float) -> float:
            return a - A

        df = spark.sql("SELECT 5D AS x, 2D AS y")
        assert one(df, pk.udf(less)("x", "y")) == [3.0]
        assert one(df, pk.udf(less)(F.col("x") + F.rand() * 0, "y")) == [3.0]
        with pytest.raises(ExpressionError, match="differ in case alone"):
            pk.udf(less).register("less", spark)

    def test_a_bare_null(self, spark) -> None:
        assert one(spark.range(1), pk.udf(known)(F.lit(None))) == [0.0]
        with pytest.raises(Exception, match="argument 'x' is None, and is declared float"):
            one(spark.range(1), pk.udf(half)(F.lit(None)))

    def test_whole_numbers_in_lists_of_floats(self, spark) -> None:
        def total(values: list[float]) -> float:
            return sum(values)

        assert one(spark.sql("SELECT array(1L, 9007199254740992L) AS v"), pk.udf(total)("v")) == [2.0**53]
        with pytest.raises(Exception, match="does not become one without loss"):
            one(spark.sql("SELECT array(9007199254740993L) AS v"), pk.udf(total)("v"))

    def test_what_is_no_column(self, spark) -> None:
        with pytest.raises(ExpressionError, match=r"half\(\) takes columns of Spark's, and got 3"):
            pk.udf(half)(3)  # type: ignore[arg-type]
        with pytest.raises(ExpressionError, match="an expression of Penstock's"):
            pk.udf(half)(pk.col("x"))  # type: ignore[arg-type]
        df = spark.sql("SELECT date'2024-01-01' AS d")
        with pytest.raises(
            ExpressionError, match="argument 'x' is declared float, and gets the column 'd' of type date"
        ):
            pk.with_columns(df, y=(half, "d"))


class TestReturns:
    def test_the_annotation_says_it(self, spark) -> None:
        def untyped(x) -> float:
            return x * 2.0

        def exact(d: Decimal) -> float:
            return float(d)

        df = spark.sql("SELECT 1D AS x, 1.5BD AS d")
        made = [pk.udf(untyped)("x"), pk.udf(exact)("d"), pk.udf(half).asNondeterministic()("x")]
        found = df.select(*made)
        assert [field.dataType for field in found.schema] == [DoubleType()] * 3
        assert tuple(found.collect()[0]) == (2.0, 1.5, 0.5)
        assert df.select(pk.udf(lambda x: x)("x")).schema[0].dataType == StringType()

    def test_an_annotation_that_no_column_type_follows_from(self, spark) -> None:
        def table(x: float) -> dict:
            return {"x": x}

        with pytest.raises(ExpressionError, match=r"table\(\) is declared to return dict.*returnType="):
            pk.udf(table)("x")
        found = one(spark.sql("SELECT 1D AS x"), pk.udf(table, "map<string,double>")("x"))
        assert found == [{"x": 1.0}]

    def test_types_that_have_no_spelling(self, spark) -> None:
        declared = StructType([StructField("my col", DoubleType())])
        found = one(spark.sql("SELECT 1D AS x"), pk.udf(lambda x: (x,), declared)("x"))
        assert found[0]["my col"] == 1.0

    @pytest.mark.parametrize("ansi", ["true", "false"])
    @pytest.mark.parametrize("function", [large, doubled])
    def test_a_result_too_large_raises_in_every_mode(self, spark, function, ansi) -> None:
        assert pk.udf(function, "int").plan.tier != "native"
        before = spark.conf.get("spark.sql.ansi.enabled")
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            with pytest.raises(
                Exception, match="OverflowError: the function returned a whole number that int32"
            ):
                one(spark.range(1, 2), pk.udf(function, "int")("id"))
        finally:
            spark.conf.set("spark.sql.ansi.enabled", before)

    def test_a_time_with_a_zone(self, spark) -> None:
        def zoned(t: datetime) -> datetime:
            return next(map(lambda one: one.replace(tzinfo=timezone(timedelta(hours=2))), [t]))

        def listed(t: datetime) -> list[datetime]:
            return [*map(lambda one: one.replace(tzinfo=timezone(timedelta(hours=2))), [t])]

        df = spark.sql("SELECT timestamp_ntz'2024-01-01 12:00:00' AS t")
        for function in (zoned, listed):
            with pytest.raises(Exception, match="a time with a zone"):
                one(df, pk.udf(function)("t"))
        instant = df.select(pk.udf(zoned, "timestamp")("t").alias("t")).selectExpr("unix_seconds(t)")
        assert instant.collect()[0][0] == 1704103200


class TestAnywhere:
    """A short function is a plain Column, and works where Spark's own UDFs do."""

    def test_around_aggregates(self, spark) -> None:
        df, made = spark.range(5), pk.udf(half)
        assert df.agg(made(F.sum("id"))).collect()[0][0] == 5.0
        assert df.groupBy().agg(made(F.max("id"))).collect()[0][0] == 2.0
        groups = df.groupBy((F.col("id") % 2).alias("k")).agg(made(F.max("id")).alias("m")).orderBy("k")
        assert one(groups, "m") == [2.0, 1.5]

    def test_in_sorts_windows_and_partitions(self, spark) -> None:
        df, made = spark.range(4).coalesce(1), pk.udf(half)
        assert one(df.orderBy(made("id").desc()), "id") == [3, 2, 1, 0]
        assert one(df.sortWithinPartitions(made("id").desc()), "id") == [3, 2, 1, 0]
        window = Window.partitionBy(F.col("id") % 2)
        assert sorted(one(df, F.sum(made("id")).over(window))) == [1.0, 1.0, 2.0, 2.0]
        assert df.repartition(2, made("id")).count() == 4

    def test_in_another_session(self, spark) -> None:
        def far(x: float) -> float:
            for _ in range(2):
                x = (x * x + 1.0) % (abs(x) + 0.5)
            return x

        assert pk.udf(far).plan.tier == "native"
        df = spark.newSession().range(2)
        assert one(df, pk.udf(half)("id")) == [0.0, 0.5]
        assert one(pk.with_columns(df, y=(far, "id")), "y") == [
            far(0.0),
            far(1.0),
        ]  # too long to be a plain Column

    def test_a_random_argument_is_drawn_once(self, spark) -> None:
        def nothing(x: float) -> float:
            return (x if x > 0.5 else -x) + (-x if x > 0.5 else x)

        assert set(one(spark.range(300), pk.udf(nothing)(F.rand(1)))) == {0.0}

    def test_functions_of_functions_do_not_grow(self, spark) -> None:
        made = pk.udf(half)
        column = made("id")
        for _ in range(9):
            column = made(column)
        assert one(spark.range(1024, 1025), column) == [1.0]


class TestSql:
    def test_arguments_and_results_are_converted_without_loss(self, spark) -> None:
        assert (pk.udf(whole).plan.tier, pk.udf(doubled).plan.tier) == ("arrow", "compiled")
        pk.udf(whole).register("whole_of", spark)
        pk.udf(doubled).register("doubled_of", spark)
        found = spark.sql(
            "SELECT whole_of(2), whole_of(x => 2D), doubled_of(id), doubled_of(2D) FROM range(1, 2)"
        )
        assert tuple(found.collect()[0]) == (2, 2, 2**40, 2**40)
        for call, error in {
            "whole_of(1.5D)": "1.5, which does not become int without loss",
            "whole_of('5')": "argument 'x' is declared float, and gets a column of type string",
            "whole_of(9007199254740993L)": "without loss: 9007199254740993",
            "doubled_of(2.5D)": "without loss: 2.5",
            "doubled_of(NULL)": "argument 'n' is None",
        }.items():
            with pytest.raises(Exception, match=error):
                spark.sql(f"SELECT {call}").collect()

    def test_a_name_takes_another_kind_of_function(self, spark) -> None:
        for function, want in ((whole, 4), (half, 2.0), (doubled, 2**40), (half, 2.0)):
            pk.udf(function).register("changing", spark)
            assert spark.sql("SELECT changing(4)").collect()[0][0] == want

    def test_names_of_the_users_own_are_left_alone(self, spark) -> None:
        def graded(x: float) -> float:
            y = x * 3.0 + 1.0
            return y / (y + 1.0) + y

        spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION graded_1(x INT) RETURNS INT RETURN x")
        pk.udf(graded).register("graded", spark)
        assert spark.sql("SELECT graded(1), graded_1(7)").collect()[0] == (graded(1.0), 7)

    def test_defaults(self, spark) -> None:
        def scaled(x: float, factor: float = 3.0, unit: str | None = None) -> float:
            return x * factor if unit is None else x

        pk.udf(scaled).register("scaled", spark)
        found = spark.sql("SELECT scaled(2), scaled(2, 4), scaled(2, 4, 'm'), scaled(2, unit => 'm')")
        assert tuple(found.collect()[0]) == (6.0, 8.0, 2.0, 2.0)


class TestWithColumns:
    def test_everything_sees_the_dataframe_as_given(self, spark) -> None:
        df = spark.sql("SELECT 1D AS x, 2 AS k")
        found = pk.with_columns(df, x=pk.col("x") * 10, y=(lambda x: x + 1, "x"), z=pk.col("x") + 1)
        assert found.columns == ["x", "k", "y", "z"]
        assert tuple(found.collect()[0]) == (10.0, 2, 2.0, 2.0)

    def test_names_that_spark_takes_for_the_same(self, spark) -> None:
        df = spark.sql("SELECT 1D AS x, 2 AS k, 3 AS k")
        found = pk.with_columns(df, X=pk.col("x") + 1, y=(lambda x: x + 1, "x"))
        assert found.columns == ["X", "k", "k", "y"]
        assert tuple(found.collect()[0]) == (2.0, 2, 3, 2.0)
        with pytest.raises(ExpressionError, match="q, Q"):
            pk.with_columns(df, q=pk.col("x"), Q=pk.col("x"))

    def test_types_that_only_python_knows(self, spark) -> None:
        df = spark.sql(
            "SELECT 1.5BD AS d, named_struct('a', 1) AS s, map('k', 2) AS m, X'01' AS b, null AS v"
        )
        found = pk.with_columns(
            df,
            d=(pk.udf(lambda d: float(d), "double"), "d"),
            s=(pk.udf(lambda s: s.a, "int"), "s"),
            m=(pk.udf(lambda m: m["k"], "int"), "m"),
            b=(pk.udf(lambda b: len(b), "int"), "b"),
            v=(pk.udf(lambda v: v is None, "boolean"), "v"),
        )
        assert tuple(found.collect()[0]) == (1.5, 1, 2, 1, True)

    def test_strict_waits_for_the_types(self, spark) -> None:
        df = spark.sql("SELECT 1D AS x")
        assert pk.with_columns(df, y=(pk.udf(lambda x: x + 1, strict=True), "x")).collect()[0].y == 2.0
        plain = pk.udf(lambda x: sorted([x])[0], "double", strict=True)
        with pytest.raises(NotLifted, match="sorted"):
            pk.with_columns(df, y=(plain, "x"))
        with pytest.raises(NotLifted, match="no annotation"):
            plain("x")


def test_it_is_named_like_the_function() -> None:
    def documented(x: float) -> float:
        """What it is."""
        return x

    made = pk.udf(documented)
    assert (made.__name__, made.__doc__, made.__module__) == ("documented", "What it is.", __name__)
    assert made.__wrapped__ is documented


def test_explain_knows_that_it_is_called_for_every_row(spark) -> None:
    told = str(pk.explain(spark.range(1).select(pk.udf(whole)("id"))))
    assert "whole (penstock.udf) is called once for every row" in " ".join(told.split())
