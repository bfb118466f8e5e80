"""Queries with every kind of boundary, and what `explain` has to say of each; for classic Spark and Spark Connect.

Run by itself, in a process of its own: `explained_queries.py remote local[2]` or `... master local-cluster[2,1,1024]`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.functions import arrow_udf, pandas_udf, udf, udtf

import penstock as pk
from penstock.errors import PenstockError
from penstock.tools.explain import explain

ROWS = 1000


@dataclass(frozen=True)
class Expected:
    """A query's boundaries, as (operator, functions, crossing, sent, received), and the kinds of other findings."""

    boundaries: tuple[tuple[str, str, str, str, str], ...]
    others: tuple[str, ...] = ()
    rows: int = ROWS


def table(spark: SparkSession, folder: str) -> DataFrame:
    """Rows in Parquet: columns are pruned and filters pushed there, which a plan shows."""
    spark.range(0, ROWS, 1, 3).selectExpr(
        "id", "id / 7 as x", "id % 5 as k", "'a' as `odd, name`"
    ).write.parquet(folder)
    return spark.read.parquet(folder)


def batches(found):
    yield from found


def whole(group):
    return group


def left(one, other):
    return one


class Counting(DataSource):
    @classmethod
    def name(cls):
        return "counting"

    def schema(self):
        return "a int, b string"

    def reader(self, schema):
        return CountingReader()


class CountingReader(DataSourceReader):
    def read(self, partition):
        for n in range(10):
            yield n, str(n)


def functions() -> SimpleNamespace:
    """One of each kind; made when a session is there, whose kind decides theirs."""

    @udf("double", useArrow=False)
    def pickled(v):
        return v * 2.0

    @udf("double", useArrow=True)
    def arrowed(v):
        return v * 2.0

    @udf("double", useArrow=True)
    def fickle(v):
        return v * 2.0

    @pandas_udf("double")
    def series(v: pd.Series) -> pd.Series:
        return v * 2.0

    @pandas_udf("double")
    def streamed(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for v in batches:
            yield v * 2.0

    @pandas_udf("double")
    def mean(v: pd.Series) -> float:
        return float(v.mean())

    @arrow_udf("double")
    def array(v: pa.Array) -> pa.Array:
        return pc.multiply(v, 2.0)

    @arrow_udf("double")
    def product(v: pa.Array, w: pa.Array) -> pa.Array:
        return pc.multiply(v, w)

    @arrow_udf("double")
    def arrow_mean(v: pa.Array) -> float:
        return pc.mean(v).as_py()

    @udtf(returnType="a int, b int")
    class Pairs:
        def eval(self, n):
            yield int(n), 1
            yield int(n), 2

    return SimpleNamespace(
        pickled=pickled,
        arrowed=arrowed,
        fickle=fickle.asNondeterministic(),
        series=series,
        streamed=streamed,
        mean=mean,
        array=array,
        product=product,
        arrow_mean=arrow_mean,
        pairs=Pairs,
    )


def queries(t: DataFrame) -> dict[str, tuple[Callable[[], DataFrame], Expected]]:
    f = functions()
    every = "id, x, k, odd, name"
    fewer = t.where("id < 40").select(F.col("x").alias("w"))
    pairs = sum((i / 7) * (j / 7) > 3 for i in range(50) for j in range(40))
    one = ("ArrowEvalPython", "arrowed", "rows over Arrow", "x", "y")
    return {
        "native": (lambda: t.select(F.col("x") + 1).where("id > 3"), Expected((), rows=ROWS - 4)),
        "pickled": (
            lambda: t.select(f.pickled("x").alias("y")),
            Expected((("BatchEvalPython", "pickled", "pickled rows", "x", "y"),)),
        ),
        "arrowed": (lambda: t.select("id", f.arrowed("x").alias("y")), Expected((one,))),
        "nested": (
            lambda: t.select(f.arrowed(f.arrowed("x")).alias("y")),
            Expected((("ArrowEvalPython", "arrowed, arrowed", "rows over Arrow", "x", "y"),)),
        ),
        "pandas": (
            lambda: t.select("*", f.series("x").alias("y")),
            Expected((("ArrowEvalPython", "series", "pandas batches", "x", "y"),)),
        ),
        "iterator": (
            lambda: t.select("*", f.streamed("x").alias("y")),
            Expected((("ArrowEvalPython", "streamed", "pandas batches", "x", "y"),)),
        ),
        "arrow": (
            lambda: t.select(f.array(F.col("x") + 1).alias("y"), f.product("x", "x").alias("z")),
            Expected((("ArrowEvalPython", "array, product", "Arrow batches", "(x + 1.0), x", "y, z"),)),
        ),
        "aggregate": (
            lambda: t.groupBy("k").agg(f.mean("x").alias("m")),
            Expected((("ArrowAggregatePython", "mean", "pandas batches", "x", "m"),), rows=5),
        ),
        "arrow aggregate": (
            lambda: t.groupBy("k").agg(f.arrow_mean("x").alias("m")),
            Expected((("ArrowAggregatePython", "arrow_mean", "Arrow batches", "x", "m"),), rows=5),
        ),
        "window": (
            lambda: t.select("id", f.mean("x").over(Window.partitionBy("k")).alias("m")),
            Expected((("ArrowWindowPython", "mean", "pandas batches", "x", "m"),)),
        ),
        "mapInPandas": (
            lambda: t.mapInPandas(batches, t.schema).where("x > 3").select("id"),
            Expected(
                (("MapInPandas", "batches", "pandas batches", every, every),), ("filter", "columns"), 978
            ),
        ),
        "mapInArrow": (
            lambda: t.select("id", "x").mapInArrow(batches, "id long, x double").limit(5),
            Expected(
                (("MapInArrow", "batches", "Arrow batches", "id, x", "id, x"),), ("limit", "collect"), 5
            ),
        ),
        "applyInPandas": (
            lambda: t.groupBy("k").applyInPandas(whole, t.schema),
            Expected((("FlatMapGroupsInPandas", "whole", "pandas batches", every, every),)),
        ),
        "applyInArrow": (
            lambda: t.groupBy("k").applyInArrow(whole, t.schema),
            Expected((("FlatMapGroupsInArrow", "whole", "Arrow batches", every, every),)),
        ),
        "cogroup": (
            lambda: t.groupBy("k").cogroup(t.groupBy("k")).applyInPandas(left, t.schema),
            Expected((("FlatMapCoGroupsInPandas", "left", "pandas batches", every, every),)),
        ),
        "udtf": (
            lambda: t.lateralJoin(f.pairs(F.col("id").outer())),
            Expected((("ArrowEvalPythonUDTF", "Pairs", "rows over Arrow", "id", "a, b"),), rows=2 * ROWS),
        ),
        "filter on a result": (
            lambda: t.withColumn("y", f.arrowed("x")).where("y > 3 and id < 500"),
            Expected(((*one[:4], "arrowed(x)"), one), ("twice", "filter"), 489),
        ),
        "filter on a computed argument": (
            lambda: t.selectExpr("x * 2 as z").withColumn("y", f.arrowed("z")).where("y > 3"),
            Expected(
                (
                    ("ArrowEvalPython", "arrowed", "rows over Arrow", "(x * 2.0)", "arrowed((x * 2.0))"),
                    ("ArrowEvalPython", "arrowed", "rows over Arrow", "z", "y"),
                ),
                ("twice", "filter"),
                994,
            ),
        ),
        "filter above chance": (
            lambda: t.withColumn("y", f.fickle("x")).where("id < 500"),
            Expected((("ArrowEvalPython", "fickle", "rows over Arrow", "x", "y"),), ("filter",), 500),
        ),
        "different kinds": (
            lambda: t.select(f.arrowed("x").alias("a"), f.pickled("x").alias("b")),
            Expected(
                ((*one[:4], "a"), ("BatchEvalPython", "pickled", "pickled rows", "x", "b")), ("unfused",)
            ),
        ),
        "native between": (
            lambda: t.select(f.arrowed(f.arrowed("x") + 1).alias("y")),
            Expected(
                (
                    (*one[:4], "arrowed(x)"),
                    ("ArrowEvalPython", "arrowed", "rows over Arrow", "(arrowed(x) + 1.0)", "y"),
                ),
                ("unfused",),
            ),
        ),
        "two maps": (
            lambda: t.select("id").mapInArrow(batches, "id long").mapInArrow(batches, "id long"),
            Expected((("MapInArrow", "batches", "Arrow batches", "id", "id"),) * 2, ("unfused",)),
        ),
        "sorted": (
            lambda: t.select("id", f.arrowed("x").alias("y")).orderBy("y"),
            Expected((one,), ("sampled",)),
        ),
        "join condition": (
            lambda: t.where("id < 50").select("x").join(fewer, f.product("x", "w") > 3),
            Expected(
                (("ArrowEvalPython", "product", "Arrow batches", "x, w", "product(x, w)"),),
                ("join", "filter"),
                pairs,
            ),
        ),
        "join key": (
            lambda: t.select("x").join(t.select(F.col("x").alias("w")), f.arrowed("x") == F.col("w")),
            Expected(((*one[:4], "arrowed(x)"),), rows=500),
        ),
        "subquery": (
            lambda: t.where(F.col("x") < t.select(F.max(f.pickled("x"))).scalar()),
            Expected((("BatchEvalPython", "pickled", "pickled rows", "x", "pickled(x)"),)),
        ),
    }


def source(spark: SparkSession) -> tuple[DataFrame, Expected]:
    """A data source written in Python."""
    spark.dataSource.register(Counting)
    return (
        spark.read.format("counting").load().where("a > 3"),
        Expected((("BatchScan counting", "", "Arrow batches", "", "a, b"),), rows=6),
    )


def check(df: DataFrame, expected: Expected, analyze: bool) -> Any:
    """Explain a query, compare with what is expected, and hand the explanation on."""
    found = explain(df, analyze=analyze)
    assert [
        (b.operator, ", ".join(b.functions), b.crossing, ", ".join(b.sent), ", ".join(b.received))
        for b in found.boundaries
    ] == list(expected.boundaries)
    others = [finding.kind for finding in found.findings if finding.kind != "boundary"]
    assert others == list(expected.others)
    assert [f.kind for f in found.findings[: len(found.boundaries)]] == ["boundary"] * len(found.boundaries)
    if analyze:
        assert found.rows == expected.rows
        assert found.seconds is not None
        assert found.seconds > 0
    return found


def main(kind: str, where: str) -> None:
    spark = (
        pk.session(remote=where)
        if kind == "remote"
        else pk.session(memory="1g", config={"spark.master": where})
    )
    t = table(spark, f"{tempfile.mkdtemp()}/t")
    for name, (query, expected) in queries(t).items():
        measured = name in MEASURED
        found = check(query(), expected, analyze=measured)
        if measured and name != "native":
            traffic = found.boundaries[0].traffic
            assert traffic is not None, name
            assert (traffic.rows_sent, traffic.rows_received) == MEASURED[name], name
            assert traffic.bytes_sent > 0, name
            assert traffic.bytes_received > 0, name
            assert traffic.seconds >= 0, name
    df, expected = source(spark)
    assert check(df, expected, analyze=True).boundaries[0].traffic.rows_received == 10
    if kind == "remote":
        from explained_sinks import check_over_connect  # beside this file, which is the script here

        check_over_connect(Path(tempfile.mkdtemp()))
    spark.stop()
    with pytest.raises(PenstockError) as told:
        explain(t)
    assert "JVM" not in str(told.value)
    assert kind == "remote" or "session was stopped" in str(told.value)
    print("all well")


MEASURED = {
    "native": None,
    "pickled": (ROWS, ROWS),
    "arrow": (ROWS, ROWS),
    "aggregate": (ROWS, 5),
    "mapInPandas": (ROWS, ROWS),
    "cogroup": (2 * ROWS, ROWS),
    "udtf": (ROWS, 2 * ROWS),
    "filter on a result": (500, 500),
    "sorted": (2 * ROWS, 2 * ROWS),
    "join condition": (2000, 2000),
}
"""Queries that are run, with the rows that go there and back at their first boundary."""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
