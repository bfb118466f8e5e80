"""Rows a model cannot score, and results that are not what was declared: which row, which column, what was seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pyspark.sql import functions as F

import penstock as pk
from penstock.errors import ReturnsError
from penstock.scoring.job import Result
from penstock.scoring.results import arrow_results


@pytest.fixture(scope="module")
def rows(spark):
    return (
        spark.range(0, 1000, 1, 2)
        .select("id", (F.col("id") / 4).alias("x"), F.lit("a").alias("text"))
        .cache()
    )


def summing():
    """Refuses rows whose sum is a multiple of 100, and with them their batch; changes what it got before it does."""

    def load():
        def score(x):
            total = x.sum(1)
            x.zero_()
            if (total % 100 == 0).any():
                raise ValueError("a round number")
            return total

        return score

    return load


def said(error) -> str:
    return str(error.value)


class TestOneBadRow:
    def test_the_models_error_comes_with_the_first_kept_columns(self, rows):
        df = rows.where("id <= 10 or id > 100").coalesce(1)
        with pytest.raises(Exception, match="RowRefused") as error:
            pk.predict(df, summing(), tensors=["id", "x"], dtype="float64", returns="s double").collect()
        told = (
            "row id=0, x=0.0, text='a' (number 0 of partition 0) cannot be scored: ValueError: a round number"
        )
        assert f"{told} (raised in score, {__file__}, line " in said(error)
        # 400 is the next whose quarter is a multiple of 100; nothing is kept that could name it.
        with pytest.raises(Exception, match=r"row number 399 of partition 0 cannot be scored"):
            pk.predict(
                rows.where("id > 0").coalesce(1), summing(), tensors=["x"], returns="s double", keep=[]
            ).collect()

    def test_or_goes_to_a_column_and_leaves_the_others_alone(self, rows):
        found = pk.predict(
            rows,
            summing(),
            tensors=["id", "x"],
            dtype="float64",
            returns="s double",
            on_error="column",
            batch_size=64,
        )
        assert found.columns == ["id", "x", "text", "s", "error"]
        for row in found.collect():
            if row.id % 80 == 0:
                assert (row.s, row.error) == (None, "ValueError: a round number")
            else:
                assert (row.s, row.error) == (row.id * 1.25, None), row

    def test_where_all_rows_are_bad_there_are_only_errors(self, rows):
        def load():
            def score(x):
                raise RuntimeError("never")

            return score

        few = rows.where("id < 40")
        found = pk.predict(
            few, load, tensors="id", returns="s array<float>, t int", on_error="column"
        ).collect()
        assert [(row.s, row.t, row.error) for row in found] == [(None, None, "RuntimeError: never")] * 40


class TestNulls:
    @pytest.fixture
    def holes(self, spark):
        return spark.createDataFrame(
            [
                (1, 1.0, 1, [1.0, 2.0]),
                (2, None, 2, [1.0, 2.0]),
                (3, 3.0, None, [1.0, 2.0]),
                (4, 4.0, 4, None),
                (5, 5.0, 5, [1.0, None]),
                (6, 6.0, 6, [6.0, 6.0]),
            ],
            "id int, a double, n int, list array<double>",
        ).coalesce(1)

    def test_are_refused_with_the_row(self, holes):
        with pytest.raises(Exception, match="RowRefused") as error:
            pk.predict(holes, lambda: lambda x: x[:, 0], tensors=["id", "a"], returns="s double").collect()
        assert (
            "row id=2, a=None, n=2 (number 1 of partition 0) cannot be scored: null in column 'a'."
            in said(error)
        )

    def test_or_told_in_the_column(self, holes):
        def load():
            return lambda x, list: x[:, 2] + list[:, 0]

        found = pk.predict(
            holes,
            load,
            tensors={"x": ["id", "n", "a"], "list": "list"},
            dtype="float64",
            returns="s double",
            on_error="column",
            batch_size=2,
        ).collect()
        assert [(row.id, row.s, row.error) for row in found] == [
            (1, 2.0, None),
            (2, None, "null in column 'a'"),
            (3, None, "null in column 'n'"),
            (4, None, "null in column 'list'"),
            (5, None, "null in column 'list'"),
            (6, 12.0, None),
        ]
        assert found[3].list is None
        assert found[4].list == [1.0, None]

    def test_or_become_what_was_said(self, holes):
        def load():
            return lambda x, list: x.sum(1) + list.sum(1)

        found = pk.predict(
            holes,
            load,
            tensors={"x": ["n", "a"], "list": "list"},
            dtype="float64",
            nulls={"a": 10, "n": 20, "list": 100},
            returns="s double",
        ).collect()
        assert [row.s for row in found] == [5.0, 15.0, 26.0, 208.0, 111.0, 24.0]


def test_values_and_lists_that_do_not_fit_are_bad_rows_too(spark):
    df = spark.createDataFrame(
        [(1, 5, [1]), (2, 300, [2]), (3, 7, [3, 3]), (4, 8, [4])], "id int, n int, list array<int>"
    ).coalesce(1)

    def load():
        return lambda n, list: n + list[:, 0]

    def go(on_error):
        return pk.predict(
            df,
            load,
            tensors={"n": "n", "list": "list"},
            dtype={"n": "int8"},
            returns="s int",
            on_error=on_error,
        )

    found = go("column").collect()
    assert [row.s for row in found] == [6, None, None, 12]
    assert found[1].error.startswith("column 'n' holds 300, which does not fit int8.")
    assert found[2].error.startswith(
        "column 'list' holds a list of length 2 where the rows before it have 1."
    )
    with pytest.raises(
        Exception, match=r"row id=2, n=300, list=\[2\] \(number 1 of partition 0\) cannot be scored"
    ):
        go("raise").collect()


ONES = np.ones(5, np.float32)


class TestResults:
    def test_become_columns_of_the_types_declared(self, spark):
        cases = [
            ("a float", np.ones((5, 1), np.float32), 1.0),
            ("b double", ONES, 1.0),
            ("c float", np.full(5, 0.1), float(np.float32(0.1))),
            ("d tinyint", np.full(5, 7), 7),
            ("e boolean", np.ones(5, bool), True),
            ("f string", np.array(["yes"] * 5), "yes"),
            ("g string", ["ja"] * 5, "ja"),
            ("h float", [0.5] * 5, 0.5),
            ("i array<float>", np.ones((5, 3, 1), np.float32), [1.0, 1.0, 1.0]),
            ("j array<float>", np.ones((5, 1), np.float32), [1.0]),
            ("k array<double>", np.ones((5, 0)), []),
            ("l array<array<int>>", np.arange(4).reshape(2, 2)[None].repeat(5, 0), [[0, 1], [2, 3]]),
            ("m bigint", np.full(5, 2**32 - 1, np.uint32), 2**32 - 1),
        ]
        made = tuple(values for _, values, _ in cases)
        found = pk.predict(
            spark.range(0, 5, 1, 1),
            lambda: lambda x: made,
            tensors="id",
            returns=", ".join(declared for declared, _, _ in cases),
            framework="numpy",
            keep=[],
        )
        assert [tuple(row) for row in found.collect()] == [tuple(wanted for _, _, wanted in cases)] * 5
        declared = ",".join(declared.replace(" ", ":") for declared, _, _ in cases)
        assert found.schema.simpleString() == f"struct<{declared}>"

    @pytest.mark.parametrize(
        ("wanted", "made", "told"),
        [
            (
                Result("s", "float32"),
                np.ones((5, 3)),
                "'s' came as float64[5, 3], and [5] is wanted for 5 rows",
            ),
            (Result("s", "float32"), np.ones(4), "'s' came as float64[4], and [5] is wanted for 5 rows"),
            (Result("s", "float32", 1), ONES, "'s' came as float32[5], and [5, *] is wanted for 5 rows"),
            (Result("s", "float32"), np.float32(1), "'s' came as float32[], and [5] is wanted"),
            (Result("s", "int32"), ONES, "'s' came as float32[5], which does not become int by itself"),
            (Result("s", "bool"), ONES, "which does not become boolean by itself"),
            (Result("s", "float32"), np.array(["a"] * 5), "which does not become float by itself"),
            (Result("s", "string"), ONES, "which are no texts"),
            (Result("s", "string"), ["a"] * 4 + [math.nan], "no texts: among them is nan, of type float"),
            (Result("s", "string"), ["a", "b", "c", "d", 1], "no texts: among them is 1, of type int"),
            (Result("s", "string"), ["a", "b", "c", "d", True], "no texts: among them is True, of type bool"),
            (Result("s", "string"), [b"a"] * 5, "no texts: among them is b'a', of type bytes"),
            (Result("s", "string"), ["\ud800"] * 5, "no text of Unicode"),
            (Result("s", "float32", 1), [[1.0]] * 4 + [[1.0, 2.0]], "column 's' is no array"),
        ],
    )
    def test_that_are_not_what_was_declared_name_column_and_shapes(self, wanted, made, told):
        with pytest.raises(ReturnsError) as error:
            arrow_results(made, [wanted], 5)
        assert told in said(error)
        assert f"(declared: {wanted})" in said(error)

    @pytest.mark.parametrize("texts", [["a\0", "", "nan", "\u00e9\0"], ["a\0", None, "nan", ""]])
    def test_texts_are_what_the_model_returned(self, texts):
        for made in (texts, tuple(texts), np.array(texts, object), [[text] for text in texts]):
            columns, faults = arrow_results({"s": made}, [Result("s", "string")], 4)
            assert (columns[0].to_pylist(), faults) == (texts, {})
        columns, _ = arrow_results(np.array(["a", "bc"]), [Result("s", "string")], 2)
        assert columns[0].to_pylist() == ["a", "bc"]

    @pytest.mark.parametrize(
        ("wanted", "value", "told"),
        [
            (Result("s", "int8"), np.int64(300), "300, which does not fit tinyint"),
            (Result("s", "int32"), np.uint32(2**31), "2147483648, which does not fit int"),
            (Result("s", "int64"), np.uint64(2**63), "9223372036854775808, which does not fit bigint"),
            (Result("s", "float32"), np.int32(2**24 + 1), "16777217, which does not fit float"),
            (Result("s", "float32"), np.int32(2**31 - 1), "2147483647, which does not fit float"),
            (Result("s", "float32"), np.uint32(2**32 - 1), "4294967295, which does not fit float"),
            (Result("s", "float64"), np.int64(2**53 + 1), "9007199254740993, which does not fit double"),
            (Result("s", "float64"), np.int64(2**63 - 1), "9223372036854775807, which does not fit double"),
            (Result("s", "float64"), np.int64(1 - 2**63), "-9223372036854775807, which does not fit double"),
            (Result("s", "float64"), np.uint64(2**64 - 1), "18446744073709551615, which does not fit double"),
        ],
    )
    def test_a_whole_number_that_would_change_is_its_rows_fault(self, wanted, value, told):
        fits = value.dtype.type(int(np.sign(value)) * 64)
        (column,), faults = arrow_results(np.array([fits, value, fits]), [wanted], 3)
        assert column.to_pylist() == [fits, None, fits]
        assert list(faults) == [1]
        assert faults[1].startswith(f"result 's' is {told};")
        lists = Result("s", wanted.dtype, 1)
        (column,), faults = arrow_results(np.array([[fits, fits], [fits, value]]), [lists], 2)
        assert column.to_pylist() == [[fits, fits], None]
        assert told in faults[1]

    @pytest.mark.parametrize(
        "made", [np.array([1.0, 1e300, np.inf, np.nan]), np.array([1, -1e39, np.inf, np.nan])]
    )
    def test_a_float_beyond_the_range_is_its_rows_fault_and_infinity_is_none(self, made):
        (column,), faults = arrow_results(made, [Result("s", "float32")], 4)
        assert str(column.to_pylist()) == "[1.0, None, inf, nan]"
        assert faults == {
            1: f"result 's' is {made[1]}, which does not fit float; declare a wider type in returns"
        }

    def test_floats_are_rounded_to_the_type_declared(self):
        (column,), faults = arrow_results(np.array([0.1, 3.4028235e38, 1e-60]), [Result("s", "float32")], 3)
        assert (column.to_pylist(), faults) == (np.array([0.1, 3.4028235e38, 0], "f4").tolist(), {})

    def test_whole_numbers_that_a_float_holds_stay(self):
        for dtype, values in (("float32", [2**24, -(2**24), 2**40]), ("float64", [2**53, -(2**63), 2**62])):
            (column,), faults = arrow_results(np.array(values), [Result("s", dtype)], 3)
            assert (column.to_pylist(), faults) == (values, {})

    @pytest.mark.parametrize("framework", ["numpy", "torch"])
    def test_a_number_too_large_goes_to_the_column_or_names_its_row(self, spark, framework):
        df = spark.range(0, 6, 1, 1).select("id", (F.col("id") * 1_000_000_000).alias("n"))

        def go(on_error):
            return pk.predict(
                df,
                lambda: lambda n: (n, n + 1),
                tensors="n",
                returns="s int, t bigint",
                framework=framework,
                on_error=on_error,
                batch_size=4,
            )

        found = [(row.id, row.s, row.t, row.error is None) for row in go("column").collect()]
        good = [(n, n * 1_000_000_000, n * 1_000_000_000 + 1, True) for n in range(3)]
        assert found == good + [(n, None, None, False) for n in range(3, 6)]
        with pytest.raises(Exception, match="RowRefused") as error:
            go("raise").collect()
        assert (
            "row id=3, n=3000000000 (number 3 of partition 0) cannot be scored: result 's' is 3000000000, which does "
            "not fit int; declare a wider type in returns." in said(error)
        )

    @pytest.mark.parametrize(
        ("made", "told"),
        [
            (
                np.ones((5, 2)),
                "returned one ndarray, not 2: a tuple in this order, or a dictionary by name, is wanted",
            ),
            ((ONES,), "the model returned 1 values, not 2"),
            ({"s": ONES}, "the model returned a dictionary of 's', without 't'"),
        ],
    )
    def test_of_another_number_are_refused(self, made, told):
        with pytest.raises(ReturnsError) as error:
            arrow_results(made, [Result("s", "float32"), Result("t", "float32")], 5)
        assert told in said(error)

    def test_a_wrong_declaration_fails_whatever_on_error_says(self, spark):
        with pytest.raises(Exception, match=r"ReturnsError: column 's' came as float64\[5, 3\]"):
            pk.predict(
                spark.range(0, 5, 1, 1),
                lambda: lambda x: np.ones((len(x), 3)),
                tensors="id",
                returns="s float",
                framework="numpy",
                on_error="column",
            ).collect()

    def test_several_columns_by_order_and_by_name(self, rows):
        def load():
            return lambda x: (x, x[:, None].repeat(1, 2) * 2)

        def named():
            return lambda x: {"v": x[:, None].repeat(1, 2) * 2, "s": x}

        for given in (load, named):
            found = pk.predict(
                rows.where("id < 3"), given, tensors="x", returns="s double, v array<double>", keep=["id"]
            )
            assert sorted((row.id, row.s, row.v) for row in found.collect()) == [
                (0, 0.0, [0.0, 0.0]),
                (1, 0.25, [0.5, 0.5]),
                (2, 0.5, [1.0, 1.0]),
            ]
