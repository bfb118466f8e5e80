"""`pk.explain`: every place where a DataFrame's rows cross between the JVM and Python, what it costs, and the cure.

A plan is read (`penstock.jobs.plan_reading`), its boundaries found (`penstock.jobs.boundaries`) with what they do to
the plan around them (`penstock.jobs.boundaries_around`); with `analyze=True` the query runs, and what each step took
joins them (`penstock.jobs.boundaries_costs`). How the result looks stands in `penstock.tools.explain_pages`; what
`penstock explain` does with scripts and tables in `penstock.tools.explain_target`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.jobs.boundaries import Boundary, Place, boundaries, rows_of
from penstock.jobs.boundaries_around import (
    Finding,
    crossings,
    ends,
    held_back,
    joined,
    sampled,
    small_batches,
    twice,
    unfused,
)
from penstock.jobs.boundaries_costs import costs
from penstock.jobs.boundaries_kinds import EVERY_ROW
from penstock.jobs.plan import Node, with_metrics
from penstock.jobs.plan_reading import Run, aligned, python_sources, read_plan, run
from penstock.jobs.settings import cores_of
from penstock.tools.explain_lifting import with_lifting
from penstock.tools.explain_pages import as_html, as_text, on_terminal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from rich.console import RenderableType


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `pk.explain` found: a sentence, the findings, and the plan they are about.

    Printed it is a page of text, in a notebook a page of HTML, and `rich.print` draws it for a terminal. `seconds` is
    what the query took on the clock, and `rows` how many it gave; None unless it was run.

    >>> import penstock as pk
    >>> found = explain(pk.session(cores=2).range(9).where("id > 3"))
    >>> found.boundaries, found.plan.name
    ((), 'Filter')
    """

    sentence: str
    findings: tuple[Finding, ...]
    plan: Node
    seconds: float | None = None
    rows: int | None = None

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """The boundaries alone, in the order in which rows meet them."""
        return tuple(found.boundary for found in self.findings if found.kind == "boundary" and found.boundary)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "sentence": self.sentence,
            "seconds": self.seconds,
            "rows": self.rows,
            "findings": [finding.to_dict() for finding in self.findings],
            "plan": self.plan.to_dict(),
        }

    def __str__(self) -> str:
        return as_text(self.sentence, self.findings, self.plan)

    __repr__ = __str__

    def __rich__(self) -> RenderableType:
        return on_terminal(self.sentence, self.findings, self.plan)

    def _repr_html_(self) -> str:
        return as_html(self.sentence, self.findings, self.plan)


def explain(
    df: DataFrame, *, analyze: bool = False, functions: Mapping[str, Any] | None = None
) -> Explanation:
    """Every place where a DataFrame's rows cross between the JVM and Python, and what to do about it.

    `df`: a Spark DataFrame, classic or over Spark Connect; also a stream, unless it is to be run.

    `analyze`: run the query, all of its rows and columns, keeping nothing. Then every finding tells rows, bytes and
    seconds as Spark counted them, and shuffles, spills and skew that cost time are found as well. Seconds in Python are
    added up over tasks, which run side by side.

    `functions`: what the names of Python functions in the plan mean, such as `globals()`; without it, what they mean in
    the script or notebook that runs. Of those at hand the advice tells what `penstock.udf` would make of them.

    What happens to rows afterwards, such as `toPandas()`, is not part of a plan and cannot be seen here; the command
    `penstock explain script.py` sees it.

    >>> import penstock as pk
    >>> from pyspark.sql.functions import udf
    >>> half = udf(lambda n: n / 2, "double", useArrow=False)
    >>> found = explain(pk.session(cores=2).range(1000).select(half("id").alias("half")), analyze=True)
    >>> found.boundaries[0].crossing, found.boundaries[0].sent, found.boundaries[0].traffic.rows_sent
    ('pickled rows', ('id',), 1000)
    """
    if not callable(getattr(df, "mapInArrow", None)):
        raise PenstockError(
            f"explain takes a Spark DataFrame, and got a {type(df).__name__}. For a table pass spark.table(name), for "
            "files spark.read.parquet(path), for pandas on Spark df.to_spark()."
        )
    plan = read_plan(df)
    scans = any(node.name.startswith("BatchScan") for node in plan.walk())
    sources = python_sources(df) if scans else frozenset[str]()
    ran = run(df) if analyze else None
    if ran is not None:
        plan = with_metrics(plan, aligned(plan, ran.nodes))
    places = boundaries(plan, sources)
    findings = [
        *with_lifting(crossings(places), vars(sys.modules["__main__"]) if functions is None else functions),
        *twice(plan, places),
        *sampled(places),
        *joined(places),
        *unfused(plan, places),
        *held_back(plan, places),
        *small_batches(places, _batch_rows(df)),
        *ends(plan),
    ]
    if ran is not None:
        findings += costs(ran, _cores(df))
    return Explanation(
        _summary(places, ran),
        tuple(findings),
        plan,
        None if ran is None else ran.seconds,
        None if ran is None else sum(ran.rows_by_partition),
    )


def _batch_rows(df: DataFrame) -> int | None:
    rows = df.sparkSession.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", None)
    return int(rows) if rows is not None and rows.lstrip("-").isdigit() else None


def _cores(df: DataFrame) -> int | None:
    master = df.sparkSession.conf.get("spark.master", None)
    return cores_of(master) if master else None


def _summary(places: Sequence[Place], ran: Run | None) -> str:
    if not places:
        found = "No row crosses between the JVM and Python in this plan."
    else:
        names = dict.fromkeys(place.boundary.name for place in places)
        times = "once" if len(places) == 1 else f"{len(places)} times"
        found = f"Rows cross between the JVM and Python {times} ({', '.join(names)})"
        slow = [place for place in places if place.kind.calls == EVERY_ROW]
        if slow:
            which = (
                "with one call of Python for every row"
                if len(slow) == len(places)
                else (f"{len(slow)} of them with one call of Python for every row")
            )
            found += f", {which}"
        found += "."
    if ran is None:
        return found
    rows = sum(ran.rows_by_partition)
    found += f" The query gave {rows_of(rows)} in {ran.seconds:.2f} s"
    timed = [
        (p.boundary.traffic.seconds, p) for p in places if p.boundary.traffic and p.boundary.traffic.seconds
    ]
    if timed:
        most, where = max(timed, key=lambda pair: pair[0])
        total = sum(seconds for seconds, _ in timed)
        found += f"; Python ran for {total:.2f} s, added up over tasks"
        found += (
            f", most of it at {where.node.name} ({where.node.number}), {most:.2f} s" if len(timed) > 1 else ""
        )
    return f"{found}."
