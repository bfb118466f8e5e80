"""DataFrames to tensors through a real local Spark: types, nulls, shapes, order, limits, errors."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os
import threading

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql import types as T

import penstock as pk
from penstock.errors import (
    CastError,
    DataError,
    DeviceError,
    NullError,
    RaggedError,
    SelectionError,
    TooLarge,
    UnsupportedType,
)


@pytest.fixture(scope="module")
def numbers(spark):
    return spark.range(0, 1000, 1, 5).select(
        F.col("id"),
        (F.col("id") / 3).alias("third"),
        (F.col("id") % 100).cast("byte").alias("small"),
        F.array("id", F.col("id") + 1).alias("pair"),
        (F.col("id") % 2 == 0).alias("even"),
    )


class TestShapesOfTheRequest:
    def test_none_gives_one_tensor_per_column(self, numbers):
        tensors = pk.to_numpy(numbers)
        assert {name: (t.dtype.name, t.shape) for name, t in tensors.items()} == {
            "id": ("int64", (1000,)),
            "third": ("float64", (1000,)),
            "small": ("int8", (1000,)),
            "pair": ("int64", (1000, 2)),
            "even": ("bool", (1000,)),
        }
        assert np.array_equal(tensors["id"], np.arange(1000))
        assert np.array_equal(tensors["pair"], np.arange(1000)[:, None] + [0, 1])

    def test_list_gives_one_matrix_even_of_one_column(self, numbers):
        assert pk.to_numpy(numbers, ["small", "even"]).dtype == np.int8
        assert pk.to_numpy(numbers, ["id"]).shape == (1000, 1)

    def test_name_gives_the_column_itself(self, numbers):
        assert pk.to_numpy(numbers, "id").shape == (1000,)

    def test_mapping_names_tensors_and_lists_may_hold_vectors(self, numbers):
        tensors = pk.to_numpy(numbers, {"x": ["small", "pair", "even"], "y": "third"}, dtype={"x": "float32"})
        assert tensors["x"].shape == (1000, 4)
        assert tensors["x"].dtype == np.float32
        assert tensors["x"][999].tolist() == [99.0, 999.0, 1000.0, 0.0]
        assert tensors["y"].dtype == np.float64

    def test_fields_of_structs_and_odd_names(self, spark):
        df = spark.createDataFrame([((1, 2.0), 3, 4)], "s struct<a:int,b:double>, `a.b` int, `t``ick` int")
        assert pk.to_numpy(df, ["s.a", "s.b"]).tolist() == [[1.0, 2.0]]
        assert pk.to_numpy(df, ["a.b", "t`ick"]).tolist() == [[3, 4]]

    def test_only_named_columns_leave_the_jvm(self, numbers):
        poisoned = numbers.withColumn("bad", F.raise_error(F.lit("evaluated")).cast("int"))
        assert pk.to_numpy(poisoned, ["id"]).shape == (1000, 1)

    def test_order_is_collects(self, numbers):
        shuffled = numbers.repartition(7).sortWithinPartitions("third", ascending=False)
        assert pk.to_numpy(shuffled, "id").tolist() == [row.id for row in shuffled.select("id").collect()]

    @pytest.mark.parametrize(
        ("request_", "words"),
        [
            (["nope"], "no column 'nope'"),
            ({"x": []}, "must not be empty"),
            ({"x": 3}, "a column's name or a list"),
            (["id", "third"], "no one dtype holds without loss"),
        ],
    )
    def test_bad_requests(self, numbers, request_, words):
        with pytest.raises(SelectionError, match=words):
            pk.to_numpy(numbers, request_)

    def test_two_columns_of_one_name(self, numbers):
        with pytest.raises(SelectionError, match="more than one column named 'id'"):
            pk.to_numpy(numbers.select("id", "id"), ["id"])

    def test_not_a_dataframe(self):
        with pytest.raises(SelectionError, match="a Spark DataFrame is wanted"):
            pk.to_numpy([1, 2])


class TestTypes:
    def test_every_number_and_time(self, spark):
        when = dt.datetime(2013, 1, 1, 5, 15, 0, 7, tzinfo=dt.UTC)
        df = spark.createDataFrame(
            [(True, 1, 2, 3, 4, 0.5, 0.25, decimal.Decimal("1.25"), dt.date(1970, 1, 11), when,
              when.replace(tzinfo=None))],
            "b boolean, i8 byte, i16 short, i32 int, i64 long, f float, d double, dec decimal(15,2), day date, "
            "at timestamp, wall timestamp_ntz",
        )  # fmt: skip
        df = df.withColumn("clock", F.expr("time'00:00:01'")).withColumn(
            "span", F.expr("interval '1' second")
        )
        micros = int(when.timestamp()) * 1_000_000 + 7
        assert {name: (t.dtype.name, t[0].item()) for name, t in pk.to_numpy(df).items()} == {
            "b": ("bool", True),
            "i8": ("int8", 1),
            "i16": ("int16", 2),
            "i32": ("int32", 3),
            "i64": ("int64", 4),
            "f": ("float32", 0.5),
            "d": ("float64", 0.25),
            "dec": ("float64", 1.25),
            "day": ("int32", 10),
            "at": ("int64", micros),
            "wall": ("int64", micros),
            "clock": ("int64", 1_000_000_000),
            "span": ("int64", 1_000_000),
        }
        assert pk.to_numpy(df, ["day", "at"]).tolist() == [[10, micros]]

    def test_mllib_vectors_dense_and_sparse(self, spark):
        schema = T.StructType([T.StructField("v", VectorUDT())])
        rows = [(Vectors.dense([1.0, 0.0, 3.0]),), (Vectors.sparse(3, [1], [5.0]),), (None,)]
        df = spark.createDataFrame(rows, schema)
        assert pk.to_numpy(df, "v", nulls=-1).tolist() == [[1, 0, 3], [0, 5, 0], [-1, -1, -1]]
        assert pk.to_numpy(df.limit(2), "v", dtype="float32").dtype == np.float32
        with pytest.raises(NullError, match="'v' has 1"):
            pk.to_numpy(df)

    def test_nested_arrays_give_more_axes(self, spark):
        df = spark.createDataFrame([([[1, 2, 3], [4, 5, 6]],)] * 3, "m array<array<int>>")
        assert pk.to_numpy(df, "m").shape == (3, 2, 3)
        with pytest.raises(SelectionError, match="nested lists"):
            pk.to_numpy(df, ["m"])

    def test_lists_of_decimals_dates_and_booleans(self, spark):
        df = spark.sql(
            "select array(1.5bd, 2.25bd) as dec, array(date'1970-01-02') as day, array(true, false) as b"
        )
        tensors = pk.to_numpy(df)
        assert [tensors[name].tolist() for name in ("dec", "day", "b")] == [
            [[1.5, 2.25]],
            [[1]],
            [[True, False]],
        ]

    @pytest.mark.parametrize(
        ("expression", "words"),
        [
            ("'text'", "hash or index"),
            ("binary('x')", "Decode it"),
            ("struct(1 as a)", "column.field"),
            ("map(1, 2)", "entries you need"),
            ("parse_json('1')", "variant_get"),
            ("array('text')", "hash or index"),
            ("null", "nothing but null"),
            ("interval '1' month", "months"),
        ],
    )
    def test_types_without_a_tensor_form(self, spark, expression, words):
        with pytest.raises(UnsupportedType, match=words) as caught:
            pk.to_numpy(spark.range(1).selectExpr(f"{expression} as c"))
        assert "'c'" in str(caught.value)

    def test_ragged_lists_name_the_odd_length(self, spark):
        df = spark.createDataFrame([([1, 2],), ([1, 2],), ([1, 2, 3],)], "v array<int>")
        with pytest.raises(RaggedError, match="length 3 where the rows before it have 2"):
            pk.to_numpy(df.coalesce(1))
        with pytest.raises(RaggedError):
            pk.to_numpy(df.repartition(3))


class TestNothingChangesSilently:
    def test_decimals_beyond_float64_need_a_named_dtype(self, spark):
        df = spark.sql("select 12345678901234567890.12bd as d")
        with pytest.raises(SelectionError, match="22 digits"):
            pk.to_numpy(df)
        assert pk.to_numpy(df, "d", dtype="float64")[0] == float("12345678901234567890.12")
        with pytest.raises(CastError, match="12345678901234567890"):
            pk.to_numpy(df, "d", dtype="int64")

    def test_rounding_only_where_a_dtype_is_named(self, spark):
        df = spark.sql(f"select cast({2**53 + 1} as bigint) as n, cast(0.5 as double) as x")
        with pytest.raises(SelectionError, match="without loss"):
            pk.to_numpy(df, ["n", "x"])
        assert pk.to_numpy(df, ["n", "x"], dtype="float64")[0, 0] == 2.0**53
        assert pk.to_numpy(df, "n").tolist() == [2**53 + 1]

    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            ("300", "int8"),
            ("-1", "uint8"),
            ("double('nan')", "int32"),
            ("double('infinity')", "int64"),
            ("2", "bool"),
        ],
    )
    def test_overflow_and_nan_to_int_always_raise(self, spark, value, dtype):
        with pytest.raises(CastError, match=f"column 'c' holds .* does not fit {dtype}"):
            pk.to_numpy(spark.range(1).selectExpr(f"{value} as c"), "c", dtype=dtype)

    def test_named_float_rounds_as_numpy_does(self, spark):
        values = [0.1, 1e300, -0.0, math.nan, 65520.0, 2.0**-30]
        df = spark.createDataFrame([(v,) for v in values], "x double").coalesce(1)
        for dtype in ("float32", "float16"):
            with np.errstate(over="ignore"):
                expected = np.array(values).astype(dtype)
            assert pk.to_numpy(df, "x", dtype=dtype).tobytes() == expected.tobytes()

    def test_bfloat16_is_torchs(self, spark):
        values = [0.1, 3.3895e38, -0.0, math.nan, 1.0039062]
        df = spark.createDataFrame([(v,) for v in values], "x float").coalesce(1)
        got = pk.to_torch(df, "x", dtype=torch.bfloat16)
        assert torch.equal(got.nan_to_num(7.0), torch.tensor(values).to(torch.bfloat16).nan_to_num(7.0))
        with pytest.raises(DeviceError, match="bfloat16"):
            pk.to_numpy(df, "x", dtype="bfloat16")


class TestNulls:
    @pytest.fixture
    def holes(self, spark):
        return spark.range(0, 40, 1, 4).selectExpr(
            "id", "if(id % 4 = 1, null, id / 2) as half", "if(id < 15, null, array(id, null)) as pair"
        )

    def test_refused_with_columns_and_counts(self, holes):
        with pytest.raises(NullError) as caught:
            pk.to_numpy(holes)
        assert caught.value.counts == {"half": 10, "pair": 15 + 25}

    def test_filled_by_nan_value_or_column(self, holes):
        half = pk.to_numpy(holes, "half", nulls="nan")
        assert np.isnan(half).sum() == 10
        tensors = pk.to_numpy(holes, {"m": ["half", "half"], "pair": "pair"}, nulls={"half": -1, "pair": -2})
        assert tensors["m"][1].tolist() == [-1, -1]
        assert tensors["pair"][[0, 14, 15]].tolist() == [[-2, -2], [-2, -2], [15, -2]]

    @pytest.mark.parametrize("nulls", ["nan", 0.5, 2**70, {"id": math.inf}])
    def test_a_fill_must_fit_the_dtype(self, holes, nulls):
        with pytest.raises(SelectionError, match="cannot become"):
            pk.to_numpy(holes, "id", nulls=nulls)

    def test_bad_policies(self, holes):
        with pytest.raises(SelectionError, match="not understood"):
            pk.to_numpy(holes, nulls="drop")
        with pytest.raises(SelectionError, match="'nope' that no tensor uses"):
            pk.to_numpy(holes, nulls={"nope": 1})

    def test_lists_that_are_all_null_have_no_length(self, spark):
        df = spark.range(3).selectExpr("cast(null as array<int>) as v")
        with pytest.raises(DataError, match="only nulls"):
            pk.to_numpy(df, nulls=0)


class TestSizes:
    def test_empty_dataframes_keep_dtypes(self, numbers):
        tensors = pk.to_numpy(numbers.where("id < 0"), {"a": ["id", "small"], "b": "even", "c": "pair"})
        assert {name: (t.shape, t.dtype.name) for name, t in tensors.items()} == {
            "a": ((0, 2), "int64"),
            "b": ((0,), "bool"),
            "c": ((0, 0), "int64"),
        }

    def test_beyond_max_bytes_it_stops_and_says_what_to_do(self, spark):
        df = spark.range(0, 10_000_000, 1, 20)
        with pytest.raises(TooLarge, match=r"larger than the 1.0 MB allowed \(max_bytes\)") as caught:
            pk.to_numpy(df, max_bytes=1_000_000)
        assert "pk.write(df" in str(caught.value)
        assert caught.value.seen < 40_000_000

    def test_memory_stays_near_the_tensors_own(self, spark):
        rows = 6_000_000
        df = spark.range(0, rows, 1, 2).selectExpr("cast(id as double) as a", "cast(id as double) as b")
        pk.to_numpy(df.limit(10), ["a", "b"])
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = _status("VmRSS")
        matrix = pk.to_numpy(df, ["a", "b"])
        grown = _status("VmHWM") - before
        assert matrix[-1].tolist() == [rows - 1, rows - 1]
        assert grown < 1.3 * matrix.nbytes + (32 << 20)

    def test_nothing_is_left_behind(self, spark, numbers):
        before = set(os.listdir("/proc/self/fd"))
        conf = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
        pk.to_numpy(numbers, "id")
        with pytest.raises(CastError):
            pk.to_numpy(numbers, "id", dtype="int8")
        assert not [t for t in threading.enumerate() if t.name.startswith("penstock")]
        left = {fd for fd in set(os.listdir("/proc/self/fd")) - before if _is_ours(fd)}
        assert not left
        assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == conf

    def test_several_threads_at_once(self, numbers):
        results: list[int] = []

        def work():
            results.append(int(pk.to_numpy(numbers, ["id", "small"]).sum()))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [int(pk.to_numpy(numbers, ["id", "small"]).sum())] * 3


def _status(key: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))


def _is_ours(fd: str) -> bool:
    try:
        return "penstock" in os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False


class TestFrameworks:
    def test_torch_shares_memory_and_devices_are_checked(self, numbers):
        matrix = pk.to_torch(numbers, ["id", "third"], dtype=torch.float32)
        assert matrix.dtype == torch.float32
        assert matrix[999].tolist() == [999.0, 333.0]
        matrix += 1
        with pytest.raises(DeviceError, match="sees no CUDA device"):
            pk.to_torch(numbers, device="cuda")
        with pytest.raises(DeviceError, match="does not know the device"):
            pk.to_torch(numbers, device="sausage")

    def test_tensorflow(self, numbers):
        import tensorflow as tf

        tensors = pk.to_tensorflow(
            numbers, {"x": ["id", "third"], "b": "even", "p": "pair"}, dtype={"x": tf.float32}
        )
        assert tensors["x"].dtype == tf.float32
        assert tensors["x"][999].numpy().tolist() == [999.0, 333.0]
        assert tensors["b"].numpy()[:2].tolist() == [True, False]
        assert tensors["p"].shape == (1000, 2)
        half = pk.to_tensorflow(numbers, "small", dtype="bfloat16")
        assert half.dtype == tf.bfloat16
        assert float(half[99]) == 99.0
        assert pk.to_tensorflow(numbers.where("id < 0"), ["small"]).shape == (0, 1)
        with pytest.raises(DeviceError, match="sees no device"):
            pk.to_tensorflow(numbers, device="GPU:7")

    def test_jax_refuses_to_narrow(self, numbers):
        import jax

        with pytest.raises(DeviceError, match="narrow"):
            pk.to_jax(numbers, "third")
        tensors = pk.to_jax(numbers, {"x": ["id", "third"], "b": "even"}, dtype={"x": "float32"})
        assert tensors["x"].dtype == jax.numpy.float32
        assert tensors["x"][999].tolist() == [999.0, 333.0]
        assert tensors["b"][:2].tolist() == [True, False]
        assert pk.to_jax(numbers, "small", dtype="bfloat16")[99] == 99
        assert pk.to_jax(numbers.where("id < 0"), ["small"]).shape == (0, 1)
        with pytest.raises(DeviceError, match="sees no device"):
            pk.to_jax(numbers, "small", device="tpu")
        with jax.enable_x64(True):
            assert pk.to_jax(numbers, "third").dtype == jax.numpy.float64

    def test_numpy_has_no_other_device(self, numbers):
        with pytest.raises(DeviceError, match="CPU"):
            pk.to_numpy(numbers, device="cuda")


INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53 + 1, -(2**63), 2**63 - 1])
SCALARS = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": INT64,
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal(12,3)": st.decimals(-(10**8), 10**8, places=3, allow_nan=False),
    "date": st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
}


@st.composite
def tables(draw):
    """A schema, and rows for it: scalars and lists of one length, nulls among them, on some partitions."""
    kinds = draw(st.lists(st.sampled_from(sorted(SCALARS)), min_size=1, max_size=4))
    lengths = [draw(st.none() | st.integers(0, 3)) for _ in kinds]
    columns = [
        SCALARS[kind]
        if length is None
        else st.lists(st.none() | SCALARS[kind], min_size=length, max_size=length)
        for kind, length in zip(kinds, lengths, strict=True)
    ]
    rows = draw(st.lists(st.tuples(*(st.none() | column for column in columns)), max_size=12))
    ddl = ", ".join(
        f"c{place} {kind if length is None else f'array<{kind}>'}"
        for place, (kind, length) in enumerate(zip(kinds, lengths, strict=True))
    )
    return ddl, kinds, lengths, rows, draw(st.integers(1, 5))


def reference(value, kind, length, fill):
    """A collected value as plain numbers, nulls filled."""
    if length is not None:
        items = [None] * length if value is None else value
        return [reference(item, kind, None, fill) for item in items]
    if value is None:
        return fill
    if kind == "date":
        return (value - dt.date(1970, 1, 1)).days
    return float(value) if kind.startswith("decimal") else value


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_whatever_the_schema_and_values_tensors_equal_collect(spark, table):
    ddl, kinds, lengths, rows, partitions = table
    df = spark.createDataFrame(rows, ddl).repartition(partitions).cache()
    collected = df.collect()
    fills = {f"c{place}": 0 if kind == "boolean" else 7 for place, kind in enumerate(kinds)}
    told = [any(row[place] is not None for row in rows) for place in range(len(kinds))]
    lost = [place for place, length in enumerate(lengths) if length is not None and rows and not told[place]]
    nulls = sum(
        sum(item is None for item in cell) if isinstance(cell, list) else cell is None
        for row in collected
        for cell in row
    )
    if nulls:
        with pytest.raises(NullError) as caught:
            pk.to_numpy(df)
        assert sum(caught.value.counts.values()) == nulls
    if lost:
        with pytest.raises(DataError, match="only nulls"):
            pk.to_numpy(df, nulls=fills)
    else:
        tensors = pk.to_numpy(df, nulls=fills)
        for place, (kind, length) in enumerate(zip(kinds, lengths, strict=True)):
            name = f"c{place}"
            expected = [reference(row[place], kind, length, fills[name]) for row in collected]
            shape = () if length is None else (length if told[place] else 0,)
            expected_array = np.array(expected, tensors[name].dtype).reshape(len(rows), *shape)
            np.testing.assert_array_equal(tensors[name], expected_array, strict=True)
    df.unpersist()
