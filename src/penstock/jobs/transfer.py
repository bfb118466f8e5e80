"""Run one Spark job that carries a DataFrame's columns into tensors' memory on the driver.

The job packs columns in the JVM, makes them row-major in the Python workers, and sends them over sockets straight to
where they stay (`penstock.wire`). Executors that cannot reach the driver, as behind a remote Spark Connect server,
hand the same frames back through Spark instead. Only the DataFrame API is used, so both work everywhere.
Called by `penstock.jobs.tensors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.dtypes import Array
from penstock.jobs.crossing import batch_settings, ship_by_value, task_ids
from penstock.jobs.running import Running, is_connect
from penstock.jobs.selection import Selection
from penstock.progress import progress
from penstock.wire.assembly import Assembly, Attempt
from penstock.wire.plan import Plan
from penstock.wire.receive import Receiver, take_blob
from penstock.wire.send import RESULT_DDL, Door, blobber, result_row, sender

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

POLL_SECONDS = 0.05
PROBES = 8


def transfer(
    df: DataFrame, selection: Selection, limit: int, limit_source: str, wanted: object
) -> list[Array]:
    """The selection's tensors as host arrays, rows in the order of `df.collect()`."""
    spark = df.sparkSession
    ship_by_value()
    assembly = Assembly(selection.plan, limit, limit_source, wanted)
    crossing = df.select(*selection.columns)
    with batch_settings(spark, selection.plan), Receiver(assembly, _driver_host(spark)) as door:
        if _same_machine(spark) or _reachable(spark, door):

            def job() -> dict[int, int]:
                sent = crossing.mapInArrow(sender(selection.plan, door, task_ids), RESULT_DDL)
                return {row.partition: row.attempt for row in sent.collect()}
        else:

            def job() -> dict[int, int]:
                return _take_blobs(crossing, selection.plan, assembly)

        counted = _watch(spark, job, assembly)
    return assembly.finish(counted)


def _take_blobs(crossing: DataFrame, plan: Plan, assembly: Assembly) -> dict[int, int]:
    blobs = crossing.mapInArrow(blobber(plan, task_ids), RESULT_DDL)
    attempts: dict[int, Attempt] = {}
    for row in blobs.toLocalIterator(prefetchPartitions=True):
        if assembly.failed.is_set():
            break
        if row.partition not in attempts:
            attempts[row.partition] = assembly.begin(row.partition, row.attempt)
        take_blob(assembly, attempts[row.partition], bytes(row.payload))
    return {partition: attempt.attempt for partition, attempt in attempts.items()}


def _watch(spark: SparkSession, job: Callable[[], dict[int, int]], assembly: Assembly) -> dict[int, int]:
    """Run the job, show how far it is, and stop it at the first bad row (or on Ctrl-C)."""
    with Running(spark, job) as running, progress("Spark to tensors") as meter:
        while running.wait(POLL_SECONDS) and not assembly.failed.is_set():
            meter.update(assembly.bytes_received, assembly.rows_received)
    if assembly.failure is not None:
        raise assembly.failure
    return running.answer()


def _setting(spark: SparkSession, key: str) -> str:
    return spark.conf.get(key, "") or ""


def _same_machine(spark: SparkSession) -> bool:
    """Certain only for classic sessions: a Connect server's `local` is the server's machine."""
    return not is_connect(spark) and _setting(spark, "spark.master").startswith("local")


def _driver_host(spark: SparkSession) -> str | None:
    """The address that executors of a cluster reach this process by; None to stay on this machine.

    Rows would cross the network in the clear, so never where the cluster encrypts its own traffic.
    """
    encrypted = any(
        _setting(spark, key) == "true" for key in ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    )
    if is_connect(spark) or _same_machine(spark) or encrypted:
        return None
    return _setting(spark, "spark.driver.host") or None


def _reachable(spark: SparkSession, door: Door) -> bool:
    """Ask some tasks whether they can connect."""

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        try:
            door.connect().close()
            yield result_row(0, 0, b"y")
        except OSError:
            yield result_row(0, 0, b"n")

    rows = spark.range(0, PROBES, 1, PROBES).mapInArrow(probe, RESULT_DDL).collect()
    return all(bytes(row.payload) == b"y" for row in rows)
