"""Run a Spark job in a thread of its own, so that it can be watched and cancelled without touching any other.

Classic Spark and Spark Connect mark jobs in different ways. Connect's tags reach across threads; a classic session's
`interruptTag` finds only what its own thread started, so there the context's job tags are used.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")


def is_connect(spark: Any) -> bool:
    """Whether a session (or DataFrame) speaks to a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


class Running(Generic[Answer]):
    """A job that runs in a thread; leaving the block cancels it if it still does, and waits for its end.

    >>> from penstock.jobs.session import session
    >>> spark = session(cores=2)
    >>> with Running(spark, lambda: spark.range(3).count()) as running:
    ...     while running.wait(0.1):
    ...         pass
    >>> running.answer()
    3
    """

    def __init__(self, spark: SparkSession, job: Callable[[], Answer]) -> None:
        from pyspark import InheritableThread

        self._spark, self._job = spark, job
        self._tag = f"penstock-{uuid.uuid4()}"
        self._answers: list[Answer] = []
        self._errors: list[BaseException] = []
        self._thread = InheritableThread(target=self._run, session=spark)

    def _run(self) -> None:
        try:
            if is_connect(self._spark):
                self._spark.addTag(self._tag)
            else:
                self._spark.sparkContext.addJobTag(self._tag)
                # Connect does so by itself. Without it a cancelled task goes on for up to 4 seconds, and is then killed
                # before it can take its files away.
                self._spark.sparkContext.setInterruptOnCancel(True)
            self._answers.append(self._job())
        except BaseException as error:
            self._errors.append(error)

    def __enter__(self) -> Running[Answer]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        while self._thread.is_alive():
            # More than once: a job that is still being planned has nothing to cancel yet.
            self._cancel()
            self._thread.join(0.5)

    def _cancel(self) -> None:
        if is_connect(self._spark):
            self._spark.interruptTag(self._tag)
        else:
            self._spark.sparkContext.cancelJobsWithTag(self._tag)

    def wait(self, seconds: float) -> bool:
        """Wait a while for the job's end; whether it still runs."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def answer(self) -> Answer:
        """What the job returned, or the error it ended with."""
        if self._errors:
            raise self._errors[0]
        return self._answers[0]
