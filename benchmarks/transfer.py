"""DataFrame to one float32 matrix: Penstock beside the usual ways, in one run.

    python benchmarks/transfer.py [--rows 4000000] [--columns 40] [--rounds 5] [--remote "local[2]"]

The DataFrame is cached in Spark, a mixture of float, double and int columns. Every way is run once to warm up,
then `--rounds` times, all ways in a random turn, so that noise falls on all alike. Before each run the Python
allocators give back what they hold: each way pays for the memory it hands over, as a single call in a script does.
Two ways are too slow for all rows; they get fewer and are scaled up, and the table says so. Prints Markdown for
docs/results.md.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock as pk


@dataclass
class Way:
    """One way to get the matrix, and what it took."""

    name: str
    run: Callable[[], object]
    part: int = 1
    """It got one in so many rows; its times are scaled up by that."""
    rounds: int | None = None
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """Processor seconds of all processes together: Python, the JVM and its Python workers."""
    peak: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) * self.part

    @property
    def median_processor(self) -> float:
        return statistics.median(self.processor) * self.part

    @property
    def all_times(self) -> str:
        return ", ".join(f"{seconds * self.part:.1f}" for seconds in sorted(self.seconds))

    def forget(self) -> None:
        """What was measured so far was for warming up."""
        self.seconds.clear()
        self.processor.clear()
        self.peak = 0


def make(spark: SparkSession, rows: int, columns: int, partitions: int = 8) -> DataFrame:
    """Half floats, a quarter doubles, a quarter ints; seeded by the row's number."""
    chosen = []
    for place in range(columns):
        value = F.xxhash64(F.col("id"), F.lit(place))
        if place < columns // 2:
            made = ((value % 100_000) / 7).cast("float")
        elif place < columns * 3 // 4:
            made = (value % 1_000_000) / 7
        else:
            made = (value % 50_000).cast("int")
        chosen.append(made.alias(f"c{place}"))
    return spark.range(0, rows, 1, partitions).select(*chosen)


def stack(table: pa.Table) -> np.ndarray:
    matrix = np.empty((table.num_rows, table.num_columns), np.float32)
    for place, column in enumerate(table.columns):
        matrix[:, place] = column.to_numpy()
    return matrix


def rows_of(df: DataFrame) -> np.ndarray:
    return np.array(df.rdd.map(list).collect(), np.float32)


def ways(spark: SparkSession, df: DataFrame, slow: DataFrame, part: int, remote: bool) -> list[Way]:
    def pandas(arrow: bool, source: DataFrame) -> np.ndarray:
        spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", str(arrow).lower())
        try:
            return source.toPandas().to_numpy(np.float32)
        finally:
            spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")

    columns = df.columns
    chosen = [
        Way("pk.to_numpy", lambda: pk.to_numpy(df, columns, dtype="float32")),
        Way("pk.to_torch", lambda: pk.to_torch(df, columns, dtype="float32")),
        Way("df.toArrow() alone (no matrix)", df.toArrow),
        Way("df.toArrow() + NumPy stack", lambda: stack(df.toArrow())),
        Way("df.toPandas().to_numpy(), Arrow on", lambda: pandas(True, df)),
    ]
    if not remote:  # Spark Connect has no RDDs, and always uses Arrow
        chosen += [
            Way("df.toPandas().to_numpy(), Arrow off", lambda: pandas(False, slow), part, 1),
            Way("np.array(df.rdd.map(list).collect())", lambda: rows_of(slow), part, 1),
        ]
    return chosen


def release() -> None:
    """Let Python's allocators give unused memory back."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def resident(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    return 0


def processor_seconds() -> float:
    here = psutil.Process()
    times = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def measure(way: Way) -> None:
    release()
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")
    before, processor = resident("VmRSS"), processor_seconds()
    began = time.perf_counter()
    result = way.run()
    way.seconds.append(time.perf_counter() - began)
    way.processor.append(processor_seconds() - processor)
    way.peak = max(way.peak, resident("VmHWM") - before)
    del result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=4_000_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow-part", type=int, default=20, help="slow ways get one in so many rows")
    parser.add_argument("--memory", default="8g")
    parser.add_argument("--remote", help='over Spark Connect: "local[2]" starts a server on this machine')
    given = parser.parse_args()

    spark = pk.session(memory=given.memory, remote=given.remote)
    df = make(spark, given.rows, given.columns).cache()
    slow = make(spark, given.rows // given.slow_part, given.columns).cache()
    df.count(), slow.count()
    all_ways = ways(spark, df, slow, given.slow_part, given.remote is not None)
    expected = stack(df.toArrow())
    if not np.array_equal(pk.to_numpy(df, df.columns, dtype="float32"), expected):
        sys.exit("the matrices differ")
    del expected
    for way in all_ways:
        measure(way)
        way.forget()
    order = random.Random(7)
    for turn in range(given.rounds):
        # In another order each time: who comes after a way that freed much memory finds warm pages.
        for way in order.sample(all_ways, len(all_ways)):
            if way.rounds is None or turn < way.rounds:
                measure(way)
        print(".", end="", file=sys.stderr, flush=True)

    report(
        all_ways,
        f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, Spark {spark.version}",
        given,
    )


def report(all_ways: list[Way], machine: str, given: argparse.Namespace) -> None:
    floor = next(way for way in all_ways if "alone" in way.name)
    ours = all_ways[0].median
    size = given.rows * given.columns * 4
    print(f"\n{machine}, Python {platform.python_version()}")
    arguments = f"--rows {given.rows} --columns {given.columns} --rounds {given.rounds}"
    arguments += f' --remote "{given.remote}"' if given.remote else ""
    print(f"`python benchmarks/transfer.py {arguments}`\n")
    print(
        "| way | seconds: median (all) | of bare toArrow: median, best | processor s | peak memory, of the matrix |"
    )
    print("| --- | --- | --- | --- | --- |")
    for way in all_ways:
        scaled = f" (1/{way.part} of the rows, scaled)" if way.part > 1 else ""
        best = min(way.seconds) * way.part / min(floor.seconds)
        ratios = f"{way.median / floor.median:.2f} x, {best:.2f} x"
        peak = f"{way.peak * way.part / size:.2f} x"
        print(
            f"| {way.name}{scaled} | {way.median:.2f} ({way.all_times}) | {ratios} "
            f"| {way.median_processor:.1f} | {peak} |"
        )
    slow = [f"{way.median / ours:.0f} x faster than {way.name}" for way in all_ways if way.part > 1]
    if slow:
        print("\npk.to_numpy is " + " and ".join(slow))


if __name__ == "__main__":
    main()
