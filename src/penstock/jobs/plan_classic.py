"""What every operator of an executed plan counted, on classic Spark: the one file of `explain` that talks to the JVM.

Classic PySpark has no public call for it; Spark Connect has (`executionInfo`), and `penstock.jobs.plan_reading` uses it
there. Both give the same names and units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNITS = {"timing": 1e-3, "nsTiming": 1e-9, "average": 0.1}
"""What a value is multiplied by, by Spark's name of its kind: to seconds, and averages that are kept in tenths."""


@dataclass(frozen=True)
class Measured:
    """An operator that ran: its name, what it counted, and how the rows it handed on lay in partitions.

    >>> Measured("Exchange", {"shuffleBytesWritten": 96.0}, (64, 32)).partitions
    (64, 32)
    """

    name: str
    metrics: dict[str, float] = field(default_factory=dict)
    partitions: tuple[int, ...] = ()
    """Bytes in each partition of a shuffle; empty where Spark does not tell."""


def in_plain_units(value: float, kind: str) -> float:
    """A metric's value in seconds, bytes or rows. Spark keeps -1 where nothing was counted.

    >>> in_plain_units(1500, "timing"), in_plain_units(-1, "size")
    (1.5, 0.0)
    """
    return max(float(value), 0.0) * UNITS.get(kind, 1.0)


def was_stopped() -> bool:
    """Whether the classic session of this process, which a DataFrame belonged to, is no more."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is None


def executed(df: DataFrame) -> list[Measured]:
    """The operators of a classic DataFrame that was collected, each before its children."""
    frame: Any = df
    return list(_walk(frame._jdf.queryExecution().executedPlan()))


def _walk(plan: Any) -> Iterator[Measured]:
    name = str(plan.nodeName())
    metrics: dict[str, float] = {}
    partitions: tuple[int, ...] = ()
    pairs = plan.metrics().iterator()
    while pairs.hasNext():
        pair = pairs.next()
        metric = pair._2()
        metrics[str(pair._1())] = in_plain_units(metric.value(), str(metric.metricType()))
    children = _children(plan, name)
    if name == "ShuffleQueryStage":
        statistics = plan.mapStats()
        if statistics.isDefined():
            partitions = tuple(int(size) for size in statistics.get().bytesByPartitionId())
    yield Measured(name, metrics, partitions)
    for child in children:
        yield from _walk(child)


def _children(plan: Any, name: str) -> list[Any]:
    if name == "AdaptiveSparkPlan":
        return [plan.executedPlan()]
    if name.endswith("QueryStage"):
        return [plan.plan()]
    found, children = [], plan.children().iterator()
    while children.hasNext():
        found.append(children.next())
    return found
