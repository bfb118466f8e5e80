"""Ranks on Spark's executors: one barrier stage, a task for each rank. The driver's side; executors run
`launch_task`.

This is what PySpark's TorchDistributor does, `mapInArrow(barrier=True)` over as many partitions as ranks, without
TorchDistributor itself: that one gives a rank's error as text inside of Spark's, mixes what ranks print, needs an
open port without any password for it, and over Spark Connect looks for that port on the server instead of here. A
function written for the one runs under the other, because both set the same variables.
"""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.errors import LaunchError, humane_bytes
from penstock.jobs.crossing import ship_by_value
from penstock.jobs.failures import user_error
from penstock.jobs.launch_channel import STOP, WHERE, Listener
from penstock.jobs.launch_ends import End
from penstock.jobs.launch_lines import show
from penstock.jobs.launch_package import package
from penstock.jobs.launch_task import RESULT_DDL, Order, barrier_task
from penstock.jobs.running import Running, is_connect
from penstock.progress import notice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.1
WAIT_SECONDS = 20.0
"""After which somebody should know that Spark has not started all tasks: it tries for ten minutes by default."""
STOP_SECONDS = 10.0
"""For tasks that were told to stop; then Spark cancels them."""
TIMED_OUT = 124
SLOTS = "free slots (executors x cores / spark.task.cpus)"
CONNECT_BYTES = 120 << 20
"""PySpark's client sends messages of up to 128 MiB, and the plan around the function is in it too."""


def run_on_spark(
    spark: SparkSession,
    payload: bytes,
    workers: int,
    gpus: int | None,
    deadline: float | None,
    timeout: float | None,
) -> list[End]:
    """Every rank's end."""
    _check_gpus(spark, gpus)
    sent = package()
    _check_size(spark, len(payload), len(sent))
    ship_by_value()
    listener = Listener(show, _host(spark))
    with listener as door:
        order = Order(payload, sent, door, workers, gpus)

        def job() -> bytes:
            ranks = spark.range(0, workers, 1, workers)
            done = ranks.mapInArrow(barrier_task(order), RESULT_DDL, barrier=True)
            return b"".join(bytes(row.piece) for row in done.collect())

        with Running(spark, job) as running:
            try:
                _watch(running, listener, workers, deadline, timeout)
            except BaseException as error:
                # Tasks that are told stop their ranks now; Spark, left to itself, kills them seconds later.
                listener.tell(WHERE if isinstance(error, LaunchError) else STOP)
                if listener.seen:
                    running.wait(STOP_SECONDS)
                raise
        try:
            data = running.answer()
        except Exception as error:
            # Not a rank's own failure: an executor was lost, or there are too few slots.
            raise LaunchError(str(user_error(error, f"runs {workers} ranks at once"))) from error
    return _ends(data)


def _watch(
    running: Running[bytes], listener: Listener, workers: int, deadline: float | None, timeout: float | None
) -> None:
    began, said = time.monotonic(), False
    while running.wait(LOOK_SECONDS):
        now = time.monotonic()
        if deadline is not None and now > deadline:
            raise LaunchError(_too_long(listener, workers, timeout), exit_code=TIMED_OUT)
        if not listener.seen and not said and now - began > WAIT_SECONDS:
            said = True
            notice(
                f"launch waits for Spark to run {workers} tasks at once, or for word from them: it needs so many "
                f"{SLOTS}."
            )


def _too_long(listener: Listener, workers: int, timeout: float | None) -> str:
    if listener.seen:
        return (
            f"after timeout={timeout:g} seconds the ranks still ran, and all were stopped. Where each stood is printed "
            "above."
        )
    return (
        f"after timeout={timeout:g} seconds no rank had been heard of, and the job was stopped. Either Spark did not "
        f"start {workers} tasks at once, for which it needs so many {SLOTS}: pass fewer workers, or a longer timeout. "
        "Or the ranks still ran, on executors that do not reach this machine."
    )


def _ends(data: bytes) -> list[End]:
    """The ends out of one task's rows after the other's."""
    import io

    ends, rest = [], io.BytesIO(data)
    while rest.tell() < len(data):
        told = pickle.load(rest)
        end = End.from_dict(told["end"])
        for error, line in told["lines"]:
            with suppress(Exception):  # the training has ended, and its answer is worth more than its lines
                show(end.rank, error, line)
        ends.append(end)
    return ends


def _check_gpus(spark: SparkSession, gpus: int | None) -> None:
    if not gpus:
        return
    amount = spark.conf.get("spark.task.resource.gpu.amount", None) or "0"
    if float(amount) != gpus:
        raise LaunchError(
            f"gpus={gpus}, and Spark gives each task {amount} (spark.task.resource.gpu.amount). Set it to {gpus} "
            "when the session starts, or leave gpus out to take what the tasks have."
        )


def _check_size(spark: SparkSession, payload: int, package: int) -> None:
    """Refuse what no message of Spark Connect holds; classic Spark sends it in pieces."""
    if is_connect(spark) and payload + package > CONNECT_BYTES:
        raise LaunchError(
            f"the function and its arguments take {humane_bytes(payload)}, and a message of Spark Connect holds "
            f"{humane_bytes(CONNECT_BYTES)} with Penstock itself. Write large arguments to storage that executors "
            "reach, and pass their paths."
        )


def _host(spark: SparkSession) -> str | None:
    """The address by which a cluster's executors reach this process; None where it is this machine or not to be
    known.

    Lines would cross the network in the clear, so never where the cluster encrypts its own traffic.
    """

    def setting(key: str) -> str:
        return spark.conf.get(key, "") or ""

    encrypted = any(
        setting(key) == "true" for key in ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    )
    if is_connect(spark) or encrypted or setting("spark.master").startswith("local"):
        return None
    return setting("spark.driver.host") or None
