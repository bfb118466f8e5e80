"""Which row goes to which shard, decided in Spark before the rows are written.

Shuffled, each partition sorts its rows by a hash of their content and deals them to the shards in turn, and every shard
sorts what it got by a hash of where it was dealt. So shards are even whatever the data, equal rows do not end up next
to each other, a task that runs again deals the same way, and the result does not depend on the order in which rows
arrive. In order, partitions become shards as they are; only where a number of shards is asked for are they cut anew, by
row number. Where others read along, a shard must be whole before the job is: partitions stay what they are, and are
sorted by that hash in themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from penstock.dataset.writing import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PLACE = "penstock_place"
"""The column added while rows are arranged. Those of `penstock.jobs.selection` are called p0, p1 ..."""
ROW_BITS = 33
"""Of monotonically_increasing_id: the row's number in its partition. The bits above are the partition's."""


@contextmanager
def arranged(frame: DataFrame, options: WriteOptions) -> Iterator[DataFrame]:
    """The rows, each partition holding those of one shard, in their order there; to be used inside the block."""
    if options.follow:
        yield _shuffled_inside(frame, options.seed) if options.shuffle else frame
    elif options.shuffle:
        yield _shuffled(frame, options.seed, _shards(frame, options))
    elif options.counted:
        with _numbered_once(frame) as numbered:
            yield _cut(numbered, _shards(frame, options))
    else:
        yield frame


def _shards(frame: DataFrame, options: WriteOptions) -> int:
    return options.shard_count(lambda: default_shards(frame.sparkSession))


def _seeded(seed: int, purpose: str, *columns: str | Column) -> Column:
    from pyspark.sql import functions as F

    return F.xxhash64(F.lit(f"penstock.shuffle {purpose} {seed}"), *columns)


def _shuffled_inside(frame: DataFrame, seed: int) -> DataFrame:
    """Every partition in an order of its content; equal rows lie together, until a loader permutes them."""
    return frame.sortWithinPartitions(_seeded(seed, "content", *frame.columns))


def _shuffled(frame: DataFrame, seed: int, shards: int) -> DataFrame:
    from pyspark.sql import functions as F

    seeded = partial(_seeded, seed)
    # In this order a row's number follows from the partition's content: equal rows may change places, nobody can tell.
    numbered = frame.sortWithinPartitions(seeded("content", *frame.columns)).withColumn(
        PLACE, F.monotonically_increasing_id()
    )
    part, row = _part_and_row(F.col(PLACE))
    # Partitions begin at shards of their own, or the first shards would get every partition's odd rows.
    shard = F.pmod(F.pmod(seeded("first", part), F.lit(shards)) + row, F.lit(shards)).cast("int")
    dealt = numbered.repartitionById(shards, shard)
    return dealt.sortWithinPartitions(seeded("place", PLACE)).drop(PLACE)


@contextmanager
def _numbered_once(frame: DataFrame) -> Iterator[DataFrame]:
    """The rows with their places, computed once and kept on the executors' disks for the length of the block.

    They are needed twice, to count and to cut. Computed twice they may come in other partitions: a sort draws a new
    sample each time, and Spark joins and merges partitions by what it meets.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    numbered = frame.withColumn(PLACE, F.monotonically_increasing_id()).persist(StorageLevel.DISK_ONLY)
    try:
        yield numbered
    finally:
        numbered.unpersist()


def _cut(numbered: DataFrame, shards: int) -> DataFrame:
    """Equal runs of rows, in order."""
    from pyspark.sql import functions as F

    part, row = _part_and_row(F.col(PLACE))
    counted = numbered.groupBy(part.cast("int").alias("part")).count().collect()
    counts = {found["part"]: found["count"] for found in counted}
    starts, total = [], 0
    for number in range(max(counts, default=-1) + 1):
        starts.append(total)
        total += counts.get(number, 0)
    if not total:
        return numbered.drop(PLACE)
    start = F.get(F.lit(starts), part.cast("int"))
    shard = F.floor((start + row) * F.lit(shards) / F.lit(total)).cast("int")
    runs = numbered.repartitionById(shards, F.least(shard, F.lit(shards - 1)))
    return runs.sortWithinPartitions(PLACE).drop(PLACE)


def _part_and_row(place: Column) -> tuple[Column, Column]:
    from pyspark.sql import functions as F

    return F.shiftrightunsigned(place, ROW_BITS), place.bitwiseAND((1 << ROW_BITS) - 1)


def default_shards(spark: SparkSession) -> int:
    """As many as Spark would use at once by itself: the partitions it gives a range."""
    from pyspark.sql import functions as F

    parts = spark.range(1 << 16).select(F.spark_partition_id().alias("part"))
    last = parts.agg(F.max("part")).first()
    assert last is not None
    return int(last[0]) + 1
