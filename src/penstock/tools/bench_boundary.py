"""`penstock bench boundary`: what it costs to leave the JVM, measured on this machine, and which batch size to choose.

The same function in six ways (`penstock.tools.bench_boundary_ways`), first held against each other to the last bit
(`bench_boundary_check`), then timed in random turn (`bench_boundary_timing`); and two of them over all batch sizes
(`bench_boundary_curve`, `bench_boundary_knee`). The result and how it looks: `bench_boundary_result`,
`bench_boundary_pages`, `bench_boundary_plot`. Without Spark: `bench_boundary_alone`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from penstock.errors import PenstockError
from penstock.jobs.plan_settings import set_for_a_while
from penstock.jobs.session import session
from penstock.tools.bench_boundary_alone import bench_alone
from penstock.tools.bench_boundary_check import check_equal
from penstock.tools.bench_boundary_curve import SETTING, compute, curves
from penstock.tools.bench_boundary_knee import SIZES
from penstock.tools.bench_boundary_plot import figure_for
from penstock.tools.bench_boundary_result import BoundaryBench, WayTiming
from penstock.tools.bench_boundary_timing import Job, Told, timed
from penstock.tools.bench_boundary_ways import MOST_ROWS, Way, numbers, spark_ways

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCAN = "scan alone"
TRANSPILER = "spark.sql.experimental.optimizer.transpilePyUDFs"
SETTINGS = (
    SETTING,
    "spark.sql.execution.arrow.maxBytesPerBatch",
    "spark.sql.execution.python.udf.maxRecordsPerBatch",
)


def bench_boundary(
    rows: int = 4_000_000,
    *,
    spark: SparkSession | None = None,
    with_spark: bool = True,
    rounds: int = 3,
    seed: int = 0,
    ways: Sequence[Way] | None = None,
    sizes: Sequence[int] = SIZES,
    plot: str | Path | None = None,
) -> BoundaryBench:
    """Time one function over `rows` doubles: native, lifted, over Arrow, row by row; and over batches of all sizes.

    `spark`: the session to use, classic or over Spark Connect; None finds or starts one. `with_spark=False` runs the
    single-process version of the experiment, which needs no Java.

    `ways`: others to compare instead; the last is what speed-ups are told against. All of them must compute the same,
    to the last bit, else `WaysDiffer` shows the first row.

    `sizes`: rows of a batch. Small batches are tried on fewer rows. A size under which Spark gave the function batches
    of another size is not timed, and the result says so.

    `plot`: draw the result into this file as well. That this can be done is seen to before anything is timed.

    >>> found = bench_boundary(20_000, with_spark=False, rounds=1)
    >>> [way.name for way in found.ways], found.curves[0].points[-1].refused
    (['whole column', 'batches of 10,000', 'rows', 'pickled rows'], 'not reached: partitions have 20,000 rows')
    """
    _demand(1 <= rows <= MOST_ROWS, f"rows={rows:,}", f"1 to {MOST_ROWS:,}")
    _demand(rounds >= 1, f"rounds={rounds}", "1 or more")
    _demand(0 <= seed < MOST_ROWS, f"seed={seed}", f"0 to {MOST_ROWS - 1:,}")
    _demand(
        bool(sizes) and min(sizes) >= 1, f"sizes={tuple(sizes)}", "one or more batch sizes of 1 or more rows"
    )
    if ways is not None:
        names = [SCAN, *(way.name for way in ways)]
        _demand(
            len(ways) > 1 and len({*names}) == len(names),
            f"ways {names[1:]}",
            "two or more, with names of their own",
        )
    if plot is not None:
        figure_for(Path(plot))
    with Console(stderr=True).status("Starting") as status:
        if with_spark:
            found = _on_spark(
                spark or session(), rows, rounds, seed, ways or spark_ways(), sizes, status.update
            )
        else:
            found = bench_alone(rows, rounds=rounds, seed=seed, sizes=sizes, told=status.update)
    if plot is not None:
        found.plot(plot)
    return found


def _on_spark(
    spark: SparkSession,
    rows: int,
    rounds: int,
    seed: int,
    ways: Sequence[Way],
    sizes: Sequence[int],
    told: Told,
) -> BoundaryBench:
    df = numbers(spark, rows, seed)
    with set_for_a_while(
        spark, {TRANSPILER: "false"}
    ):  # it would make a native expression of the pickled udf
        told(f"Comparing {len(ways)} ways, row by row")
        check_equal(df, ways)
        jobs = [Job(SCAN, partial(compute, df.select("x")))]
        jobs += [Job(way.name, partial(compute, df.select(way.column(df["x"])))) for way in ways]
        timings = timed(jobs, rounds, seed, told)
        found = curves(
            lambda count: numbers(spark, count, seed), rows, rounds=rounds, seed=seed, sizes=sizes, told=told
        )
    return BoundaryBench(
        f"Spark {spark.version}",
        rows,
        rounds,
        seed,
        tuple(WayTiming(way.name, way.crosses, timings[way.name]) for way in ways),
        timings[SCAN],
        found,
        SETTING,
        {key: spark.conf.get(key) for key in SETTINGS},
    )


def _demand(holds: bool, given: str, wanted: str) -> None:
    if not holds:
        raise PenstockError(f"bench_boundary got {given}. Pass {wanted}.")
