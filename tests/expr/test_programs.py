"""Compiled programs: what is shared is computed once, deep trees stay small in Spark, and Connect does the same."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from expr_compare import same_leaf

from penstock.backends import engine
from penstock.backends.arrow.times import local
from penstock.errors import ExpressionError
from penstock.expr.build import coalesce, col, lit, stack, when

HERE = Path(__file__).parent


def test_what_trees_share_is_computed_once() -> None:
    x = (col("a") + 1).log1p()
    program = engine("arrow").prepare(
        {"p": x * 2, "q": x * 3 + x, "r": x}, engine("arrow").schema_of(TABLE.schema)
    )
    ops = [getattr(step.node, "op", "leaf") for step in program._program.steps]
    assert ops.count("log1p") == 1
    assert ops.count("add") == 2


TABLE = pa.table({"a": [1.5, None, -3.0, float("nan")], "b": pa.array([1, 2, None, 4], pa.int16())})


def test_record_batches_chunks_and_no_rows() -> None:
    arrow = engine("arrow")
    program = arrow.prepare(
        {"x": col("a") + col("b"), "y": stack(col("a"), 1), "z": lit("t"), "w": lit(2).one_hot(3)},
        arrow.schema_of(TABLE.schema),
    )
    whole = program(TABLE)
    assert program(TABLE.to_batches()[0]).equals(whole) or str(program(TABLE.to_batches()[0])) == str(whole)
    chunked = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)])
    assert str(program(chunked).combine_chunks()) == str(whole)
    assert str(program(TABLE.slice(2)).combine_chunks()) == str(whole.slice(2).combine_chunks())
    empty = program(TABLE.slice(0, 0))
    assert empty.num_rows == 0
    assert empty.schema == whole.schema
    with pytest.raises(ExpressionError, match="the table has no column 'a'"):
        program(TABLE.drop(["a"]))


def test_arrow_columns_of_other_spellings() -> None:
    arrow = engine("arrow")
    table = pa.table(
        {
            "s": pa.array(["x", None, "x"]).dictionary_encode(),
            "l": pa.array([[1, 2], None, [3]], pa.large_list(pa.uint8())),
            "ns": pa.array([-1, 1_500, None], pa.timestamp("ns", "Europe/Berlin")),
            "ms": pa.array([1, 2, 3], pa.timestamp("ms")),
            "d": pa.array([86_400_000, None, 0], pa.date64()),
        }
    ).slice(0, 3)
    program = arrow.prepare(
        {
            "s": col("s").upper(),
            "l": col("l").list_sum(),
            "ns": col("ns").epoch_seconds(),
            "ms": col("ms").epoch_seconds(),
            "d": col("d").epoch_seconds(),
        },
        arrow.schema_of(table.schema),
    )
    assert program(table).to_pydict() == {
        "s": ["X", None, "X"],
        "l": [3.0, None, 3.0],
        "ns": [-1e-06, 1e-06, None],
        "ms": [0.001, 0.002, 0.003],
        "d": [86400.0, None, 0.0],
    }


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "Africa/Casablanca", "Asia/Tehran", "America/Caracas", "Pacific/Apia"]
)
def test_zones_are_those_of_the_database(zone: str) -> None:
    # Arrow's own knowledge of zones ends in 2037; Java's, which the conformance suite asks, does not.
    start, end = datetime(1890, 1, 1, tzinfo=UTC), datetime(2037, 1, 1, tzinfo=UTC)
    span = int((end - start) / timedelta(microseconds=1))
    first = int((start - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
    micros = first + np.random.default_rng(1).integers(0, span, 3000)
    wanted = pc.local_timestamp(pa.array(micros, pa.timestamp("us", zone))).cast(pa.int64())
    assert np.array_equal(local(micros, zone), wanted.to_numpy())


@pytest.fixture
def small(spark):
    return spark.createDataFrame(
        [(1.0, 0.0, "a"), (None, 2.0, None), (float("nan"), -0.0, "b")], "a double, b double, s string"
    )


def test_deep_trees_stay_small_in_spark(spark, small) -> None:
    deep = col("a")
    for _ in range(6):
        deep = (deep / col("b")).log1p().bucketize([0.5, 1.5]).cast("float64").floor()
    program = engine("spark").prepare({"x": deep, "y": deep + 1}, engine("spark").schema_of(small.schema))
    got = [tuple(row) for row in program(small).collect()]
    arrow = engine("arrow")
    table = pa.table({"a": [1.0, None, float("nan")], "b": [0.0, 2.0, -0.0], "s": ["a", None, "b"]})
    wanted = arrow.prepare({"x": deep, "y": deep + 1}, arrow.schema_of(table.schema))(table).to_pydict()
    assert got == list(zip(wanted["x"], wanted["y"], strict=True))


def test_spark_runs_no_python_and_keeps_columns(spark, small, capsys) -> None:
    program = engine("spark").prepare(
        {"x": stack(col("a"), col("b")).normalize(), "y": col("s").hash(9)},
        engine("spark").schema_of(small.schema),
    )
    found = program(small, keep=None)
    assert found.columns == ["a", "b", "s", "x", "y"]
    found.explain()
    assert "Python" not in capsys.readouterr().out.replace("PythonRDD", "").replace(
        "applySchemaToPythonRDD", ""
    )
    with pytest.raises(ExpressionError, match="has a column 'y' already"):
        program(small.withColumn("y", small.a), keep=None)


def test_columns_with_odd_names(spark) -> None:
    df = spark.createDataFrame([(1, 2)], "`a.b` int, `c``d` int")
    program = engine("spark").prepare({"x.y": col("a.b") + col("c`d")}, engine("spark").schema_of(df.schema))
    assert program(df).collect()[0][0] == 3.0


def test_a_branch_that_is_not_taken_does_not_raise(spark, small) -> None:
    guarded = when(col("b") != 0, col("a") / col("b")).otherwise(0.0)
    both = when((col("b") != 0) & (col("a") / col("b") > 1) & (col("a") / col("b") < 5), 1).otherwise(0)
    cast = when(col("s") == "7", col("s").cast("int64")).otherwise(coalesce(col("s").cast("int8"), 3))
    program = engine("spark").prepare(
        {"g": guarded, "b": both, "c": cast}, engine("spark").schema_of(small.schema)
    )
    assert [row.c for row in program(small).collect()] == [3, 3, 3]


def test_the_session_time_zone_does_not_matter(spark) -> None:
    micros = [0, 1_711_846_800_000_000, 1_729_990_800_000_000, -(10**15)]
    table = pa.table({"at": pa.array(micros, pa.timestamp("us", "UTC"))})
    trees = {f"h{i}": col("at").hour(zone) for i, zone in enumerate(("UTC", "Europe/Berlin", "Asia/Kolkata"))}
    trees |= {"d": col("at").day("America/New_York"), "e": col("at").epoch_seconds()}
    wanted = engine("arrow").prepare(trees, engine("arrow").schema_of(table.schema))(table).to_pylist()
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("America/New_York", "Australia/Lord_Howe"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            df = spark.range(len(micros)).selectExpr(
                f"timestamp_micros(element_at(array({', '.join(f'{m}L' for m in micros)}), int(id) + 1)) as at"
            )
            program = engine("spark").prepare(trees, engine("spark").schema_of(df.schema))
            assert [row.asDict() for row in program(df).collect()] == wanted
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_torch_takes_plain_tensors_and_literals() -> None:
    program = engine("torch").prepare(
        {"x": (col("a") * 0.1).cast("float32"), "y": lit(3) + col("b")},
        engine("arrow").schema_of(TABLE.schema),
    )
    found = program({"a": torch.tensor([1.5, 3.0]), "b": torch.tensor([1, 2], dtype=torch.int16)})
    assert found["x"][0].dtype == torch.float32
    assert found["x"][1] is None
    assert same_leaf(float(found["x"][0][0]), float(np.float32(1.5 * 0.1)), "EXACT", 1.0)
    assert found["y"][0].tolist() == [4.0, 5.0]


def test_over_spark_connect() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "over_connect.py")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "all well" in done.stdout
