"""`pk.udf` and `pk.with_columns`: the same values in every tier, declared types kept, plans that tell the truth."""

from __future__ import annotations

import math
from datetime import date, datetime

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType

import penstock as pk
from penstock.errors import ExpressionError, NotLifted
from penstock.jobs.udf import Udf


def speed(km: float, minutes: float | None) -> float:
    if minutes is None or minutes <= 0:
        return 0.0
    return min(km / minutes * 60, 200.0)


def halvings(n: int) -> int:
    count = 0
    while n > 1:
        n //= 2
        count += 1
    return count


def digits(text: str) -> int:
    return len([letter for letter in text if letter in "0123456789"])


def one(df, column):
    return [row[0] for row in df.select(column).collect()]


def boundaries(df) -> int:
    """How often rows go to Python functions; rows made from Python objects come from there anyway."""
    return sum(bool(each.functions) for each in pk.explain(df).boundaries)


class TestTiers:
    def test_a_lifted_function_does_not_leave_the_jvm(self, spark) -> None:
        df = spark.createDataFrame([(30.0, 20), (5.0, None), (900.0, 1)], "km double, minutes int")
        found = df.select(pk.udf(speed)("km", "minutes"))
        assert pk.udf(speed).plan.tier == "native"
        assert boundaries(found) == 0
        assert [row[0] for row in found.collect()] == [90.0, 0.0, 200.0]

    def test_a_loop_is_compiled(self, spark) -> None:
        made = pk.udf(halvings)
        assert made.plan.tier == "compiled"
        assert "while" in str(made.plan)
        assert one(spark.range(6), made("id")) == [halvings(n) for n in range(6)]

    def test_the_rest_runs_as_it_is_over_arrow(self, spark) -> None:
        made = pk.udf(digits)
        assert made.plan.tier == "arrow"
        assert any("comprehension" in reason for reason in made.plan.reasons)
        df = spark.createDataFrame([("a1b22",), ("",)], "text string")
        assert one(df, made("text")) == [3, 0]
        assert boundaries(df.select(made("text"))) == 1

    def test_strict_refuses_what_only_python_can_run(self) -> None:
        with pytest.raises(NotLifted, match=r"digits\(\).*comprehension"):
            pk.udf(digits, strict=True)
        assert pk.udf(speed, strict=True).plan.tier == "native"

    def test_a_function_without_annotations_is_sparks_own(self, spark) -> None:
        df = spark.createDataFrame([([1, 2], ("x", 3))], "a array<int>, s struct<k: string, n: int>")
        made = pk.udf(lambda a, s: f"{a} {s.k} {s.n}")
        assert made.plan.tier == "arrow"
        assert one(df, made("a", "s")) == ["[1, 2] x 3"]

    def test_builtins_that_tell_no_signature(self, spark) -> None:
        """As with Spark's own: how many columns they take is seen when they are called."""
        df = spark.createDataFrame([(1, 2.0)], "a int, b double")
        found = df.select(
            pk.udf(str)("a"),
            pk.udf(max, "int")("a", "a"),
            pk.udf(math.log, "double")("b"),
            pk.udf(int, "int")("b"),
        )
        assert tuple(found.collect()[0]) == ("1", 1, math.log(2.0), 2)
        assert pk.with_columns(df, c=(pk.udf(max, "int"), "a", "a")).collect()[0].c == 1
        with pytest.raises(NotLifted):
            pk.udf(max, "int", strict=True)

    def test_nondeterministic_stays_in_python(self, spark) -> None:
        made = pk.udf(speed, "double").asNondeterministic()
        assert made.plan.tier == "arrow"
        df = spark.createDataFrame([(30.0, 20.0)], "km double, minutes double").select(made("km", "minutes"))
        assert boundaries(df) == 1
        assert df.collect()[0][0] == 90.0


class TestAsADropIn:
    def test_every_way_to_write_it(self, spark) -> None:
        @pk.udf
        def plain(x: int) -> int:
            return x + 1

        @pk.udf("double")
        def named(x: int):
            return x / 2

        @pk.udf(returnType=DoubleType())
        def by_keyword(x: int):
            return x / 2

        by_call = pk.udf(lambda x: str(x), "string")
        df = spark.range(2, 3)
        found = df.select(plain("id"), named(df.id), by_keyword(x=F.col("id")), by_call("id")).collect()[0]
        assert tuple(found) == (3, 1.0, 1.0, "2")

    def test_without_a_return_type_it_is_a_text(self, spark) -> None:
        def shout(text: str):
            return text.upper()

        def twice(n: int):
            return 2 * n

        df = spark.createDataFrame([("a", 2)], "t string, n int")
        assert pk.udf(shout).plan.tier == "native"
        assert pk.udf(twice).plan.tier == "arrow"
        assert "-> int" in pk.udf(twice).plan.advice[0]
        assert tuple(df.select(pk.udf(shout)("t"), pk.udf(twice)("n")).collect()[0]) == ("A", "4")

    def test_the_column_is_named_like_sparks(self, spark) -> None:
        assert spark.range(1).select(pk.udf(halvings)("id")).columns == ["halvings(id)"]

    def test_defaults_stand_for_columns_left_out(self, spark) -> None:
        def scaled(x: float, factor: float = 3.0, shift=1) -> float:
            return x * factor + shift

        df = spark.createDataFrame([(2.0, 10.0)], "x double, f double")
        made = pk.udf(scaled)
        assert tuple(df.select(made("x"), made("x", "f"), made("x", factor="f")).collect()[0]) == (
            7.0,
            21.0,
            21.0,
        )
        with pytest.raises(ExpressionError, match="'shift' has no annotation"):
            made("x", "f", "f")
        with pytest.raises(ExpressionError, match="missing a required argument"):
            made()

    def test_in_filters_groups_joins_and_nested(self, spark) -> None:
        left = spark.range(8)
        made = pk.udf(halvings)
        half = pk.udf(lambda_halved)
        assert one(left.filter(half("id") > 2.5), "id") == [6, 7]
        sums = left.groupBy(half("id") > 2).agg(F.sum(half("id")).alias("sum")).orderBy("sum")
        assert one(sums, "sum") == [5.0, 9.0]
        assert one(left.select(half(half("id")).alias("q")), "q") == [n / 4 for n in range(8)]
        joined = left.alias("l").join(left.alias("r"), half("l.id") == F.col("r.id").cast("double"))
        assert joined.count() == 4
        assert one(left.filter(made("id") == 2), "id") == [4, 5, 6, 7]

    def test_for_sql(self, spark) -> None:
        pk.udf(speed).register("speed_of", spark)
        pk.udf(digits).register("digits_of", spark)
        row = spark.sql("SELECT speed_of(30, 20), digits_of('a1'), speed_of(1, NULL)").collect()[0]
        assert tuple(row) == (90.0, 1, 0.0)
        pk.udf(lambda_halved).register("speed_of", spark)
        assert spark.sql("SELECT speed_of(3)").collect()[0][0] == 1.5
        spark.udf.register("by_spark", pk.udf(digits, "bigint"))
        assert spark.sql("SELECT by_spark('22')").collect()[0][0] == 2


def lambda_halved(n: float) -> float:
    return n / 2


class TestDeclaredTypes:
    @pytest.mark.parametrize(
        ("value", "of", "error"),
        [
            (2**53 + 1, "bigint", "does not become one without loss: 9007199254740993"),
            ("1", "string", "argument 'x' is declared float, and gets a column of type string"),
            (None, "double", "argument 'x' is None, and is declared float"),
        ],
    )
    @pytest.mark.parametrize("tier", ["native", "compiled", "arrow"])
    def test_an_argument_that_does_not_fit(self, spark, tier, value, of, error) -> None:
        def native(x: float) -> float:
            return x + 1.0

        def compiled(x: float) -> float:
            while x > 1e300:
                x = x / 2.0
            return x

        def arrow(x: float) -> float:
            return float(sum([x for _ in str(x)]))

        made = pk.udf({"native": native, "compiled": compiled, "arrow": arrow}[tier])
        assert made.plan.tier == tier
        df = spark.createDataFrame([(value,)], f"x {of}")
        with pytest.raises(Exception, match="TypeError") as raised:
            df.select(made("x")).collect()
        assert error in str(raised.value)

    def test_what_fits_without_loss(self, spark) -> None:
        def whole(x: int) -> int:
            return x

        def real(x: float) -> float:
            return x

        df = spark.createDataFrame(
            [(True, 3, 2.0, 2**53, 1.5)], "b boolean, t tinyint, d double, l bigint, f float"
        )
        found = df.select(*(pk.udf(whole)(c) for c in "btdl"), *(pk.udf(real)(c) for c in "btdlf")).collect()[
            0
        ]
        assert tuple(found) == (1, 3, 2, 2**53, 1.0, 3.0, 2.0, float(2**53), 1.5)
        with pytest.raises(Exception, match=r"without loss: 1\.5"):
            df.select(pk.udf(whole)("f")).collect()
        for odd in (math.nan, math.inf, 2.0**63):
            with pytest.raises(Exception, match="without loss"):
                spark.createDataFrame([(odd,)], "x double").select(pk.udf(whole)("x")).collect()

    def test_a_result_that_does_not_fit(self, spark) -> None:
        grown = pk.udf(lambda_cubed, "int")
        df = spark.createDataFrame([(10,), (2000,)], "n int")
        assert one(df.limit(1), grown("n")) == [1000]
        assert df.select(grown("n")).schema[0].dataType == IntegerType()
        with pytest.raises(Exception, match="OverflowError: the function returned a whole number that int32"):
            df.select(grown("n")).collect()

    def test_times_are_what_a_clock_in_the_sessions_zone_shows(self, spark) -> None:
        def hour(t: datetime) -> int:
            return t.hour

        def year(d: date) -> int:
            return d.year

        df = spark.sql(
            "SELECT timestamp'2024-03-01 17:30:00' t, timestamp_ntz'2024-03-01 05:30:00' n, date'2023-01-02' d"
        )
        assert pk.udf(hour).plan.tier == "native"
        assert tuple(df.select(pk.udf(hour)("t"), pk.udf(hour)("n"), pk.udf(year)("d")).collect()[0]) == (
            17,
            5,
            2023,
        )

    def test_lists(self, spark) -> None:
        def total(values: list[float]) -> float:
            return sum(values)

        df = spark.createDataFrame([([1, 2, 3],)], "v array<int>")
        assert one(df, pk.udf(total)("v")) == [6.0]

    def test_the_users_error_arrives_with_its_class_and_message(self, spark) -> None:
        def checked(x: float) -> float:
            if x < 0.0:
                raise ValueError("negative weight")
            return x

        with pytest.raises(Exception, match="ValueError: negative weight"):
            spark.createDataFrame([(-1.0,)], "x double").select(pk.udf(checked)("x")).collect()


def lambda_cubed(n: int) -> int:
    return n * n * n


class TestWithColumns:
    def test_types_come_from_the_dataframe(self, spark) -> None:
        def label(km, city):
            return None if city is None else city.strip().lower() + (" far" if km > 10 else " near")

        df = spark.createDataFrame([(30, " Rome"), (1, None)], "km int, city string")
        found = pk.with_columns(df, label=(label, "km", "city"), half=(lambda km: km / 2, F.col("km") + 1))
        assert boundaries(found) == 0
        assert [tuple(row) for row in found.collect()] == [
            (30, " Rome", "rome far", 15.5),
            (1, None, None, 1.0),
        ]

    def test_a_column_is_replaced_in_its_place(self, spark) -> None:
        df = spark.range(2).withColumn("a b", F.lit(1))
        found = pk.with_columns(df, id=(lambda n: n + 1, "id"))
        assert found.columns == ["id", "a b"]
        assert [row.id for row in found.collect()] == [1, 2]

    def test_what_has_no_expression_needs_a_type(self, spark) -> None:
        def odd(text):
            return sorted(text)[0]

        df = spark.createDataFrame([("ba",)], "t string")
        with pytest.raises(ExpressionError, match=r"odd=\(penstock.udf\(odd, 'double'\)"):
            pk.with_columns(df, odd=(odd, "t"))
        assert pk.with_columns(df, odd=(pk.udf(odd, "string"), "t")).collect()[0].odd == "a"

    def test_what_is_no_function(self, spark) -> None:
        with pytest.raises(ExpressionError, match="a function and the columns it takes are wanted"):
            pk.with_columns(spark.range(1), x=("id", "id"))


def test_a_function_too_long_for_spark_runs_over_arrow() -> None:
    def long(x: float) -> float:
        for _ in range(12):
            x = (x * x + 1.0) % (abs(x) + 0.5) // (x + 0.25)
        return x

    plan = pk.udf(long).plan
    assert plan.tier == "arrow"
    assert plan.reasons


def test_a_udf_of_no_function() -> None:
    with pytest.raises(ExpressionError, match="3 is none"):
        Udf(3)  # type: ignore[arg-type]


def test_a_filter_meets_no_row_that_another_takes_out(spark) -> None:
    """As with a Python function: what is filtered by a plain column first is never computed."""

    def inverse(x: int) -> float:
        return 1 / x

    df = spark.range(3).select(F.col("id").alias("x")).withColumn("y", pk.udf(inverse)("x"))
    assert sorted(row.x for row in df.filter((F.col("y") > 0.1) & (F.col("x") != 0)).collect()) == [1, 2]


def test_lambdas_with_choices_in_them(spark) -> None:
    made = pk.with_columns(
        spark.range(3),
        y=(lambda n: None if n is None else n % 2, "id"),
        z=(lambda n: n % 2 if n else -1, "id"),
    )
    assert [tuple(row) for row in made.collect()] == [(0, 0, -1), (1, 1, 1), (2, 0, 0)]
    assert boundaries(made) == 0
