"""Lifted Python functions beside the same written by hand, and beside the ways that leave the JVM, in one run.

    python benchmarks/lift.py [--rows 4000000] [--rounds 5] [--cores 2]

Four functions as people write them: numbers, choices, nulls, and texts. Each as a native expression written by hand,
through `penstock.udf`, as an arrow_udf (numbers only), and as Spark's plain `udf`, Arrow-serialised (its default) and
pickled. Rows are cached in Spark; every row is computed, and none is kept ("noop"). Results are compared before any
way is timed. Each way runs once before, then in random turn. Prints Markdown for docs/results.md.
"""

from __future__ import annotations

import argparse
import platform
import sys
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

import penstock as pk
from penstock.tools.bench_boundary_timing import Job, timed


def clipped(x: float) -> float:
    score = (x - 50.0) / 28.9
    return max(-1.5, min(1.5, score))


def band(x: float) -> str:
    if x < 10.0:
        return "low"
    if x < 60.0:
        return "middle"
    return "high"


def speed(km: float, minutes: float | None) -> float:
    if minutes is None or minutes <= 0:
        return 0.0
    return min(km / minutes * 60, 200.0)


def tidy(city: str) -> str:
    name = city.strip().lower()
    return name if name.startswith("st ") else "st " + name


def by_hand() -> dict[str, Column]:
    score = (F.col("x") - 50.0) / 28.9
    pace = F.least(F.col("km") / F.col("minutes") * 60, F.lit(200.0))
    name = F.lower(F.trim("city"))
    return {
        "clipped": F.greatest(F.lit(-1.5), F.least(F.lit(1.5), score)),
        "band": F.when(F.col("x") < 10, "low").when(F.col("x") < 60, "middle").otherwise("high"),
        "speed": F.when(F.col("minutes").isNull() | (F.col("minutes") <= 0), 0.0).otherwise(pace),
        "tidy": F.when(name.startswith("st "), name).otherwise(F.concat(F.lit("st "), name)),
    }


def on_arrow() -> Column:
    def run(values: pa.Array) -> pa.Array:
        score = pc.divide(pc.subtract(values, 50.0), 28.9)
        return pc.max_element_wise(pa.scalar(-1.5), pc.min_element_wise(pa.scalar(1.5), score))

    run.__annotations__ = {"values": pa.Array, "return": pa.Array}
    column: Column = arrow_udf(run, "double")("x")  # type: ignore[call-overload]
    return column


FUNCTIONS = {
    "clipped": (clipped, "double", ("x",)),
    "band": (band, "string", ("x",)),
    "speed": (speed, "double", ("km", "minutes")),
    "tidy": (tidy, "string", ("city",)),
}


def ways(name: str) -> dict[str, Column]:
    function, returns, columns = FUNCTIONS[name]
    found = {"by hand": by_hand()[name], "lifted": pk.udf(function, strict=True)(*columns)}
    if name == "clipped":
        found["arrow_udf"] = on_arrow()
    found["udf"] = F.udf(function, returns, useArrow=True)(*columns)
    found["udf, pickled"] = F.udf(function, returns, useArrow=False)(*columns)
    return found


def make(rows: int) -> DataFrame:
    spark = pk.session()
    df = spark.range(rows).selectExpr(
        "pmod(xxhash64(id), 10000) / 100D as x",
        "pmod(xxhash64(id, 1), 10000) / 10D as km",
        "if(id % 10 = 0, null, cast(pmod(xxhash64(id, 2), 100) as int)) as minutes",
        "concat(if(id % 3 = 0, ' ', ''), 'City', cast(id % 1000 as string)) as city",
    )
    cached = df.cache()
    cached.count()
    return cached


def computed(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    asked = parser.parse_args()
    pk.session(cores=asked.cores, memory="4g")
    df = make(asked.rows)
    print(
        f"{date.today()}, {platform.machine()}, {asked.cores} cores, {asked.rows:,} rows, {asked.rounds} rounds;"
    )
    print(f"`python benchmarks/lift.py {' '.join(sys.argv[1:])}`\n")
    print("| function | way | seconds | net of the scan | of by hand | lifted is faster by |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (_, _, columns) in FUNCTIONS.items():
        told(df, name, columns, asked.rounds)


def told(df: DataFrame, name: str, columns: tuple[str, ...], rounds: int) -> None:
    found = ways(name)
    wrong = [way for way in found if differs(df, found[way], found["udf, pickled"])]
    if wrong:
        raise SystemExit(f"{name}: {wrong} give other values than the plain function.")
    frames: dict[str, Any] = {way: df.select(column) for way, column in found.items()}
    frames["scan"] = df.select(*columns)
    times = timed([Job(way, lambda way=way: computed(frames[way])) for way in frames], rounds, seed=0)  # type: ignore[misc]
    scan, hand, lifted = (times[way].median for way in ("scan", "by hand", "lifted"))
    for way, took in times.items():
        seconds = took.median
        print(
            f"| {name} | {way} | {seconds:.2f} ({took.low:.2f} to {took.high:.2f}) | {seconds - scan:.2f} "
            f"| {seconds / hand:.2f} x | {seconds / lifted:.1f} x |"
        )


def differs(df: DataFrame, one: Column, other: Column) -> bool:
    rows = df.limit(200_000).select(one.alias("a"), other.alias("b"))
    return rows.filter("not (a <=> b)").limit(1).count() > 0


if __name__ == "__main__":
    main()
