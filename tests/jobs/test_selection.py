"""One table through Spark and straight from Arrow gives the same tensors; ragged columns and texts cross as well."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

import penstock as pk
from penstock.errors import SelectionError, UnsupportedType
from penstock.jobs.selection import select
from penstock.wire.arrow_source import select_arrow
from penstock.wire.pack import Packer
from penstock.wire.plan import Plan
from penstock.wire.ragged import Ragged
from penstock.wire.selection import ragged

BERLIN = dt.timezone(dt.timedelta(hours=1))
AT = dt.datetime(1969, 12, 31, 23, 59, 59, 123456)
CENTS = [Decimal("0.29"), Decimal("-1234567890123.45"), Decimal("0.10")]

TABLE = pa.table(
    {
        "bool": pa.array([True, False, True]),
        "int8": pa.array([-128, 0, 127], pa.int8()),
        "int16": pa.array([-(2**15), 0, 2**15 - 1], pa.int16()),
        "int32": pa.array([-(2**31), 0, 2**31 - 1], pa.int32()),
        "int64": pa.array([-(2**63), 0, 2**63 - 1]),
        "float32": pa.array([0.1, -0.0, float("inf")], pa.float32()),
        "float64": pa.array([0.1, -0.0, float("-inf")]),
        "decimal": pa.array(CENTS, pa.decimal128(15, 2)),
        "wide": pa.array([Decimal("16777217.00000000000000000001")] * 3, pa.decimal128(38, 20)),
        "date": pa.array([dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
        "ntz": pa.array([AT, dt.datetime(1900, 1, 1), dt.datetime(2024, 2, 29)], pa.timestamp("us")),
        "zoned": pa.array([AT.replace(tzinfo=BERLIN)] * 3, pa.timestamp("us", "Europe/Berlin")),
        "milli": pa.array([-1, 0, 1], pa.timestamp("ms", "UTC")),
        "second": pa.array([-1, 0, 1], pa.timestamp("s")),
        "nano": pa.array([-1000, 0, 1000], pa.timestamp("ns")),
        "duration": pa.array([dt.timedelta(days=-1), dt.timedelta(0), dt.timedelta(microseconds=1)]),
        "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16())),
        "nested": pa.array([[[0.5], [1.5]]] * 3, pa.list_(pa.list_(pa.float64()))),
        "cents": pa.array([CENTS[:2]] * 3, pa.list_(pa.decimal128(15, 2))),
        "struct": pa.array([{"a": 1, "b": 0.5}] * 3),
    }
)
PLAIN = [*(name for name in TABLE.column_names if name not in ("wide", "struct")), "struct.a", "struct.b"]


def packed(plan: Plan, batches: list[pa.RecordBatch]) -> dict[str, list[Any]]:
    packer = Packer(plan)
    arrays = [packer.arrays(batch) for batch in batches]
    assert not packer.nulls
    return {tensor.name: [each[place] for each in arrays] for place, tensor in enumerate(plan.tensors)}


def from_arrow(table: pa.Table, tensors: Any, dtype: Any = None, nulls: Any = "error") -> dict[str, Any]:
    selection = select_arrow(table.schema, tensors, dtype, nulls)
    batches = [selection.prepare(batch) for batch in table.combine_chunks().to_batches()]
    return {name: arrays[0] for name, arrays in packed(selection.plan, batches).items()}


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame(TABLE)


def same(ours: dict[str, Any], sparks: dict[str, Any]) -> None:
    assert list(ours) == list(sparks)
    for name, array in sparks.items():
        assert ours[name].dtype == array.dtype, name
        assert ours[name].shape == array.shape, name
        assert ours[name].tobytes() == array.tobytes(), name


def test_the_same_values_as_through_spark(frame):
    tensors = {name: name for name in PLAIN}
    same(from_arrow(TABLE, tensors), pk.to_numpy(frame, tensors))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_same_rounding_as_through_spark(frame, dtype):
    tensors = {name: name for name in (*PLAIN, "wide")}
    same(from_arrow(TABLE, tensors, dtype), pk.to_numpy(frame, tensors, dtype=dtype))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_the_same_integers_as_through_spark(frame, dtype):
    few = ["bool", "pair", "wide", "decimal", "int16"] if dtype == "int64" else ["bool"]
    tensors = {name: name for name in few}
    same(from_arrow(TABLE, tensors, dtype), pk.to_numpy(frame, tensors, dtype=dtype))


def test_the_same_matrix_as_through_spark(frame):
    tensors = {"m": ["int8", "pair", "bool", "date", "decimal", "float32"]}
    same(from_arrow(TABLE, tensors, "float64"), pk.to_numpy(frame, tensors, dtype="float64"))


def test_times_of_day_as_through_spark(spark):
    table = pa.table({"t": pa.array([dt.time(0, 0, 1, 5), dt.time(23, 59, 59)], pa.time64("us"))})
    df = spark.createDataFrame([(dt.time(0, 0, 1, 5),), (dt.time(23, 59, 59),)], "t time(6)").coalesce(1)
    same(from_arrow(table, None), pk.to_numpy(df))


@pytest.fixture(scope="module")
def uneven(spark):
    return (
        spark.range(0, 50, 1, 3)
        .select(
            F.col("id"),
            F.sequence(F.lit(0), F.col("id") % 4).alias("tokens"),
            F.when(F.col("id") % 5 != 0, F.repeat(F.lit("ä"), (F.col("id") % 3).cast("int"))).alias("city"),
            F.col("id").cast("string").cast("binary").alias("blob"),
        )
        .withColumn("pairs", F.transform("tokens", lambda token: F.array(token, token * 2)))
    )


def crossed(df: Any, tensors: Any, dtype: Any = None, nulls: Any = "error") -> dict[str, list[Any]]:
    """The rows of each tensor, as lists or bytes, after a crossing from the JVM."""
    selection = select(df, tensors, dtype, nulls, ragged=True)
    batches = df.select(*selection.columns).toArrow().to_batches()
    rows: dict[str, list[Any]] = {}
    for plan, (name, arrays) in zip(
        selection.plan.tensors, packed(selection.plan, batches).items(), strict=True
    ):
        rows[name] = []
        for array in arrays:
            for place in range(len(array)):
                row = array.row(place) if isinstance(array, Ragged) else array[place]
                assert row.dtype == plan.type.storage
                rows[name].append(row.tolist() if plan.kind in ("fixed", "ragged") else row.tobytes())
    return rows


def test_rows_of_lengths_of_their_own_cross(uneven):
    tensors = {"t": ragged("tokens"), "p": ragged("pairs"), "c": "city", "b": "blob", "y": ["id"]}
    found = crossed(uneven, tensors, {"t": "float32", "p": "int32"}, {"city": "none"})
    rows = uneven.collect()
    assert found == {
        "t": [row.tokens for row in rows],
        "p": [row.pairs for row in rows],
        "c": [("none" if row.city is None else row.city).encode() for row in rows],
        "b": [bytes(row.blob) for row in rows],
        "y": [[row.id] for row in rows],
    }


def test_every_column_with_its_own_kind(uneven):
    plan = select(uneven.drop("tokens", "pairs"), None, None, "error", ragged=True).plan
    assert [(tensor.name, tensor.kind) for tensor in plan.tensors] == [
        ("id", "fixed"),
        ("city", "string"),
        ("blob", "binary"),
    ]


def test_vectors_may_be_ragged(spark):
    df = spark.createDataFrame([(Vectors.dense([1, 2]),), (Vectors.sparse(3, [2], [5.0]),), (None,)], ["v"])
    assert crossed(df, {"v": ragged("v")}, nulls=0)["v"] == [[1, 2], [0, 0, 5], []]


def test_every_kind_of_string(spark):
    key = "spark.sql.preserveCharVarcharTypeInfo"
    before = spark.conf.get(key, None)
    spark.conf.set(key, "true")
    try:
        df = spark.sql("SELECT CAST('ab' AS CHAR(3)) c, CAST('x' AS VARCHAR(5)) v, 'z' COLLATE UNICODE_CI k")
        found = crossed(df, None)
    finally:
        spark.conf.unset(key) if before is None else spark.conf.set(key, before)
    assert found == {"c": [b"ab "], "v": [b"x"], "k": [b"z"]}


def test_tensors_in_memory_take_no_ragged_columns_and_no_texts(uneven):
    with pytest.raises(SelectionError) as caught:
        pk.to_numpy(uneven, {"t": ragged("tokens")})
    assert "pk.write(df, \"path\", tensors={'t': pk.ragged('tokens')})" in str(caught.value)
    with pytest.raises(UnsupportedType, match="column 'city' is of type string"):
        pk.to_numpy(uneven, "city")
    with pytest.raises(UnsupportedType, match="column 'blob' is of type binary"):
        pk.to_numpy(uneven, {"b": "blob"})
    with pytest.raises(UnsupportedType, match="of type array<string>"):
        select(uneven.select(F.array("city").alias("a")), None, None, "error", ragged=True)


def test_many_decimals_are_rounded_as_in_the_jvm(spark):
    """Random decimals, where a rounding that is not the nearest shows soon."""
    unscaled = np.random.default_rng(7).integers(-(10**15) + 1, 10**15, 5000)
    numbers = [Decimal(int(number)).scaleb(-7) for number in unscaled]
    table = pa.table({"d": pa.array(numbers, pa.decimal128(15, 7))})
    df = spark.createDataFrame(table)
    for dtype in ("float64", "float32"):
        same(from_arrow(table, None, dtype), pk.to_numpy(df, dtype=dtype))
