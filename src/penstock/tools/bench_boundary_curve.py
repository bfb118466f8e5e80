"""The batch-size curve of `penstock bench boundary` on Spark: first what batches the function gets, then the time.

`spark.sql.execution.arrow.maxRecordsPerBatch` cuts rows into batches only where Spark hands over rows. Cached and
Parquet input comes in the column batches of its source (10,000 and 4,096 rows unless set otherwise), which Spark 4.3
passes on as they are. So each setting is probed with a function of the same kind that tells how many rows it was called
with; one that was not in force is not timed. What counts, and where the knee is: `penstock.tools.bench_boundary_knee`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.jobs.plan_settings import set_for_a_while
from penstock.tools.bench_boundary_knee import SIZES, Curve, Point, Seen, refusals, rows_for
from penstock.tools.bench_boundary_timing import Job, Told, timed, unheard
from penstock.tools.bench_boundary_ways import arrow_sizes, arrow_way, pandas_sizes, pandas_way

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"


def curves(
    made: Callable[[int], DataFrame],
    rows: int,
    *,
    rounds: int,
    seed: int,
    sizes: Sequence[int] = SIZES,
    told: Told = unheard,
) -> tuple[Curve, ...]:
    """An arrow_udf and a pandas_udf over all batch sizes; `made` gives the DataFrame of so many rows, with column x."""
    kinds = {"arrow_udf": (arrow_way(), arrow_sizes()), "pandas_udf": (pandas_way(), pandas_sizes())}
    counts = {size: rows_for(size, rows) for size in sizes}
    frames = {count: made(count) for count in counts.values()}
    seen: dict[str, dict[int, Seen]] = {}
    refused: dict[str, dict[int, str]] = {}
    jobs = []
    for kind, (function, probe) in kinds.items():
        seen[kind] = {}
        for size in sizes:
            told(f"batches of {size:,} rows, {kind}: what the function gets")
            with under(frames[counts[size]], size):
                seen[kind][size] = batches(frames[counts[size]], probe)
        refused[kind] = refusals(seen[kind])
        for size in sizes:
            if not refused[kind][size]:
                df = frames[counts[size]]
                run = partial(compute, df.select(function("x")))
                jobs.append(Job(f"{kind}, batches of {size:,} rows", run, partial(under, df, size)))
    timings = timed(jobs, rounds, seed, told)

    def point(kind: str, size: int) -> Point:
        timing = timings.get(f"{kind}, batches of {size:,} rows")
        return Point(size, counts[size], seen[kind][size].usual, timing, refused[kind][size])

    return tuple(Curve(kind, tuple(point(kind, size) for size in sizes)) for kind in kinds)


def under(df: DataFrame, size: int) -> AbstractContextManager[None]:
    """The session asks for batches of this size while the block runs."""
    return set_for_a_while(df.sparkSession, {SETTING: str(size)})


def batches(df: DataFrame, probe: Any) -> Seen:
    """The batches in which column x reaches a function; `probe` tells of every row how large its batch was.

    >>> from penstock.jobs.session import session
    >>> from penstock.tools.bench_boundary_ways import numbers
    >>> df = numbers(session(cores=2), 2500, seed=0).coalesce(1)
    >>> with under(df, 1000):
    ...     batches(df, arrow_sizes())
    Seen(partitions=({500: 1, 1000: 2},))
    """
    from pyspark.sql import functions as F

    told = df.select(F.spark_partition_id().alias("partition"), probe(df["x"]).alias("size"))
    partitions: dict[int, dict[int, int]] = {}
    for row in told.groupBy("partition", "size").agg(F.count("*").alias("rows")).sort("size").collect():
        partitions.setdefault(row.partition, {})[row.size] = row.rows // row.size
    return Seen(tuple(partitions[number] for number in sorted(partitions)))


def compute(df: DataFrame) -> None:
    """Compute every row and keep none.

    Spark's "noop" sink takes rows as any sink takes them, so nothing is left out, nothing is collected, and it is the
    same over Spark Connect. An aggregate would be fused with a native expression, whose rows would then never exist.
    """
    df.write.format("noop").mode("overwrite").save()
