"""What else took time when the query ran: rows moved between machines, spilled to disk, or dealt out unevenly.

Pure functions over what operators counted (`penstock.jobs.plan_reading.Run`); neighbours of
`penstock.jobs.boundaries_around`, whose `Finding` they give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from penstock.errors import humane_bytes
from penstock.jobs.boundaries_around import Finding
from penstock.jobs.plan_classic import Measured
from penstock.jobs.plan_reading import Run

UNEVEN = 4.0
"""The largest partition against the median, from where on it is called skewed; AQE splits from 5 on."""
LARGE_SHUFFLE, LARGE_PARTITION = 10_000_000, 1_000_000
"""Bytes, and bytes or rows, below which shuffles and skew are not worth a word."""
MANY_ROWS = 100_000


def costs(run: Run, cores: int | None) -> Iterator[Finding]:
    """Everything worth a word about one run."""
    yield from _shuffles(run.nodes)
    yield from _spills(run.nodes)
    yield from _skewed_shuffles(run.nodes)
    yield from _uneven_result(run.rows_by_partition)
    yield from _few_partitions(run.rows_by_partition, cores)


def _shuffles(nodes: Sequence[Measured]) -> Iterator[Finding]:
    moved = [node.metrics.get("shuffleBytesWritten", 0.0) for node in nodes if node.name == "Exchange"]
    total = sum(moved)
    if total >= LARGE_SHUFFLE:
        times = "once" if len(moved) == 1 else f"in {len(moved)} shuffles"
        yield Finding(
            "shuffle",
            None,
            "Exchange",
            f"{humane_bytes(int(total))} were moved between tasks, {times}.",
            "Select and filter before what moves rows (groupBy, join, orderBy, repartition), and broadcast the smaller "
            "side of a join where it fits in memory.",
        )


def _spills(nodes: Sequence[Measured]) -> Iterator[Finding]:
    for node in nodes:
        spilled = node.metrics.get("spillSize", 0.0)
        if spilled > 0:
            yield Finding(
                "spill",
                None,
                node.name,
                f"{humane_bytes(int(spilled))} did not fit in memory and were written to disk.",
                "More partitions make each smaller (spark.sql.shuffle.partitions); or give executors more memory.",
            )


def _skewed_shuffles(nodes: Sequence[Measured]) -> Iterator[Finding]:
    for node in nodes:
        sizes = node.partitions
        if len(sizes) > 1 and max(sizes) >= LARGE_PARTITION and max(sizes) > UNEVEN * max(median(sizes), 1):
            yield Finding(
                "skew",
                None,
                "Exchange",
                f"one of {len(sizes)} partitions of a shuffle has {humane_bytes(max(sizes))}, the median "
                f"{humane_bytes(int(median(sizes)))}: its task runs when all others have ended.",
                "A few keys have most of the rows. Aggregate before the join, treat these keys apart, or add a random "
                "number to the key and combine afterwards.",
            )
    for node in nodes:
        split = node.metrics.get("numSkewedPartitions", 0.0)
        if split > 0:
            yield Finding(
                "skew",
                None,
                node.name,
                f"{int(split)} partitions of a join were so large that Spark split them while it ran.",
                "A few keys have most of the rows: treat them apart, or broadcast the smaller side.",
            )


def _uneven_result(rows: Sequence[int]) -> Iterator[Finding]:
    if len(rows) > 1 and max(rows) >= MANY_ROWS and max(rows) > UNEVEN * max(median(rows), 1):
        yield Finding(
            "skew",
            None,
            "result",
            f"one of {len(rows)} partitions of the result has {max(rows):,} of {sum(rows):,} rows.",
            "df.repartition(n) before the expensive step deals rows out evenly.",
        )


def _few_partitions(rows: Sequence[int], cores: int | None) -> Iterator[Finding]:
    if cores is not None and 0 < len(rows) < cores and sum(rows) >= MANY_ROWS:
        yield Finding(
            "partitions",
            None,
            "result",
            f"{sum(rows):,} rows came out of {len(rows)} partitions, and {cores} cores could have worked.",
            f"df.repartition({cores}) before the expensive step, or smaller files in the source.",
        )
