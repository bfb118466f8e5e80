"""The ways there are to carry a DataFrame's columns to the driver, and why `pk.to_numpy` takes the one it takes.

    python benchmarks/transfer_ways.py [--rows 4000000] [--columns 40] [--rounds 3]

Beside the whole call stand its bounds (the columns cross to the Python workers and are dropped there), the same call
with other batch sizes and partition counts, and the ways that were tried and lost. All in one run, in a random turn
each round, as in `transfer.py`, which compares with what users write. Prints Markdown for docs/results.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from transfer import Way, make, measure

import penstock as pk
from penstock.jobs import crossing

NO_LIMIT = str((1 << 31) - 1)


@contextmanager
def arrow_batches(spark: SparkSession, rows: int, limit: str = NO_LIMIT) -> Iterator[None]:
    """Spark's Arrow batch settings while the block runs."""
    wanted = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(rows),
        "spark.sql.execution.arrow.maxBytesPerBatch": limit,
    }
    before = {key: spark.conf.get(key) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def packed(df: DataFrame) -> DataFrame:
    return df.select(F.array(*(F.col(name).cast("float") for name in df.columns)).alias("x"))


def drop(df: DataFrame) -> None:
    """Cross to the Python workers and go no further."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})

    df.mapInArrow(count, "rows long").collect()


def by_files(df: DataFrame, columns: int, folder: str) -> np.ndarray:
    """Workers write raw matrices, the driver reads them into one."""

    def save(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import tempfile

        from pyspark import TaskContext

        handle, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb", buffering=0) as file:
            for batch in batches:
                file.write(batch.column(0).flatten().to_numpy())
        place = TaskContext.get().partitionId()
        yield pa.RecordBatch.from_pydict({"place": [place], "name": [name]})

    names = [row.name for row in sorted(df.mapInArrow(save, "place long, name string").collect())]
    sizes = [os.path.getsize(name) for name in names]
    matrix = np.empty((sum(sizes) // (4 * columns), columns), np.float32)
    room, place = memoryview(matrix).cast("B"), 0
    for name, size in zip(names, sizes, strict=True):
        with open(name, "rb", buffering=0) as file:
            while size:
                got = file.readinto(room[place : place + size])
                place, size = place + got, size - got
        os.unlink(name)
    return matrix


def whole(df: DataFrame, batch_bytes: int = crossing.BATCH_BYTES) -> Callable[[], object]:
    """`pk.to_numpy`, with batches of another size."""

    def run() -> object:
        before, crossing.BATCH_BYTES = crossing.BATCH_BYTES, batch_bytes
        try:
            return pk.to_numpy(df, df.columns, dtype="float32")
        finally:
            crossing.BATCH_BYTES = before

    return run


def from_stream(df: DataFrame) -> pa.Table:
    return pa.RecordBatchReader.from_stream(df).read_all()


def ways(
    spark: SparkSession, frames: dict[int, DataFrame], few: DataFrame, part: int, disk: str
) -> list[Way]:
    df = frames[8]
    columns = len(df.columns)
    rows = max(crossing.BATCH_BYTES // (8 * columns), 1)

    def with_batches(
        run: Callable[[], object], count: int = rows, limit: str = NO_LIMIT
    ) -> Callable[[], object]:
        def inside() -> object:
            with arrow_batches(spark, count, limit):
                return run()

        return inside

    found = [
        Way("pk.to_numpy (8 partitions)", whole(df)),
        Way("bare df.toArrow() (columns, no matrix)", df.toArrow),
        Way(
            "bound: packed columns cross to the workers, dropped there",
            with_batches(lambda: drop(packed(df))),
        ),
        Way("bound: plain columns, dropped there", with_batches(lambda: drop(df))),
        Way(
            "bound: plain columns, Spark's byte limit on",
            with_batches(lambda: drop(df), 10_000, str(64 << 20)),
        ),
        Way("packed in the JVM, then toArrow()", with_batches(packed(df).toArrow)),
        Way(
            "packed, workers write files, on disk", with_batches(lambda: by_files(packed(df), columns, disk))
        ),
        Way("pk.to_numpy, batches of 1/8", whole(df, crossing.BATCH_BYTES // 8)),
        Way("pk.to_numpy, batches of 8 x", whole(df, crossing.BATCH_BYTES * 8)),
        *(
            Way(f"pk.to_numpy, {count} partitions", whole(frame))
            for count, frame in frames.items()
            if count != 8
        ),
        Way("packed, __arrow_c_stream__", lambda: from_stream(packed(few)), part, 1),
    ]
    if os.path.isdir("/dev/shm"):
        found.append(
            Way(
                "packed, workers write files, in /dev/shm",
                with_batches(lambda: by_files(packed(df), columns, "/dev/shm")),
            )
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=4_000_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow-part", type=int, default=10, help="slow ways get one in so many rows")
    parser.add_argument("--memory", default="10g")
    given = parser.parse_args()

    spark = pk.session(memory=given.memory)
    frames = {8: make(spark, given.rows, given.columns).cache()}
    for count in (2, 64):
        frames[count] = make(spark, given.rows, given.columns, count).cache()
    few = make(spark, given.rows // given.slow_part, given.columns).cache()
    for frame in (*frames.values(), few):
        frame.count()
    folder = tempfile.mkdtemp(prefix="penstock-ways-")
    try:
        run(ways(spark, frames, few, given.slow_part, folder), given, spark.version)
    finally:
        shutil.rmtree(folder)


def run(all_ways: list[Way], given: argparse.Namespace, version: str) -> None:
    for way in all_ways:
        measure(way)
        way.forget()
    order = random.Random(7)
    for turn in range(given.rounds):
        for way in order.sample(all_ways, len(all_ways)):
            if way.rounds is None or turn < way.rounds:
                measure(way)
        print(".", end="", file=sys.stderr, flush=True)
    floor = all_ways[1].median
    print(f"\n{date.today()}, {platform.machine()}, {os.cpu_count()} cores, Spark {version}")
    arguments = f"--rows {given.rows} --columns {given.columns} --rounds {given.rounds}"
    print(f"`python benchmarks/{Path(__file__).name} {arguments}`\n")
    print("| way | seconds: median (all) | of bare toArrow | processor s |\n| --- | --- | --- | --- |")
    for way in all_ways:
        scaled = f" (1/{way.part} of the rows, scaled)" if way.part > 1 else ""
        print(
            f"| {way.name}{scaled} | {way.median:.2f} ({way.all_times}) | {way.median / floor:.2f} x "
            f"| {way.median_processor:.1f} |"
        )


if __name__ == "__main__":
    main()
