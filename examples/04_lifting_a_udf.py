"""A Python UDF becomes a native Spark expression: the same values, without a call of Python for every row.

`fare` is an ordinary function with branches, texts and a null. Spark's own `udf` calls it once for every row.
`pk.udf` reads it, writes it as an expression with Python's meaning, and checks that against the function on edge
values before it is used. Where that cannot be done exactly, it says at which line and why, and runs the function
over Arrow columns.

Expect the plan of both, that all values are equal, and the best of three rounds of each.

    python examples/04_lifting_a_udf.py --rows 5000000
"""

from __future__ import annotations

import argparse
import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import penstock as pk


def fare(km: float, minutes: int | None, city: str) -> float:
    if minutes is None or minutes <= 0:
        return 0.0
    base = 3.5 if city.lower() in ("oslo", "zurich") else 2.5
    speed = km / minutes * 60
    return base + km * (1.2 if speed > 30 else 1.5) + minutes % 7 * 0.1


def seconds(df: DataFrame) -> float:
    """How long Spark takes for all rows; their sum keeps it from leaving anything out."""
    began = time.perf_counter()
    df.agg(F.sum("fare")).collect()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    given = parser.parse_args()

    lifted = pk.udf(fare)
    print(lifted.plan.tier, "| what it declines:", lifted.plan.limits or "nothing")

    spark = pk.session()
    rides = spark.range(given.rows).selectExpr(
        "id % 997 / 10 as km",
        "cast(nullif(id % 61, 0) as int) as minutes",
        "element_at(array('Oslo', 'ZURICH', 'Rome'), cast(id % 3 + 1 as int)) as city",
    )
    usual = F.udf(fare, "double", useArrow=True)  # Spark's own, at its best
    by_spark = rides.select(usual("km", "minutes", "city").alias("fare"))
    by_penstock = rides.select(lifted("km", "minutes", "city").alias("fare"))
    for name, df in (("Spark's udf", by_spark), ("pk.udf", by_penstock)):
        print(f"{name}: {pk.explain(df).sentence}")

    few = rides.limit(10_000).cache()
    both = few.select(usual("km", "minutes", "city").alias("a"), lifted("km", "minutes", "city").alias("b"))
    print("equal, to the last bit, in", both.where("a = b").count(), "of", few.count(), "rows")

    slow, fast = (min(seconds(df) for _ in range(3)) for df in (by_spark, by_penstock))
    print(
        f"{given.rows:,} rows: Spark's udf {slow:.1f} s, pk.udf {fast:.1f} s, {slow / fast:.0f} times as fast"
    )


if __name__ == "__main__":
    main()
