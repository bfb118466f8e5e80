"""How rows cross from the JVM to Python workers, for every job that sends them: batch sizes, and what is shipped.

Used by `transfer` (to the driver) and `write` (to shards).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.wire.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_BYTES = 4 << 20
"""Counted at 8 bytes a number. On 2 cores batches of 0.3 to 2 MB of float32 crossed equally fast."""
WIDE_BATCH_ROWS, WIDE_BATCH_BYTES = 10_000, 64 << 20
NO_BYTE_LIMIT = (1 << 31) - 1

_batch_settings = threading.Lock()


def ship_by_value() -> None:
    """Let Spark's pickler send Penstock's own functions whole: executors need not have it installed."""
    from pyspark import cloudpickle

    import penstock

    cloudpickle.register_pickle_by_value(penstock)  # type: ignore[no-untyped-call]


def task_ids() -> tuple[int, int]:
    """Partition and attempt of the running task; called on executors."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "runs only inside a Spark task"
    return context.partitionId(), context.taskAttemptId()


@contextmanager
def batch_settings(spark: SparkSession, plan: Plan) -> Iterator[None]:
    """Arrow batches sized for this plan, while the block runs.

    With a byte limit Spark adds up the whole batch after every row; where the schema fixes the row's size, a number of
    rows says the same for nothing. The settings belong to the whole session and only steer speed, so a second transfer
    at the same time runs with those of the first.
    """
    if not _batch_settings.acquire(blocking=False):
        yield
        return
    rows, size = WIDE_BATCH_ROWS, WIDE_BATCH_BYTES
    if plan.row_bytes is not None:
        rows, size = max(BATCH_BYTES // max(plan.row_bytes, 1), 1), NO_BYTE_LIMIT
    wanted = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(rows),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(size),
    }
    before = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
        _batch_settings.release()
