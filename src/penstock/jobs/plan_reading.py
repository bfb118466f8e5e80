"""Ask Spark for a DataFrame's plan, and run the DataFrame to learn what every step of it took.

Both on classic Spark and over Spark Connect. To run it, all columns of all rows are computed and none of them leaves
Spark: the rows are counted by partition, with a hash that needs every column. A write to the "noop" sink would do as
well, but over Connect it returns no metrics. What was measured is laid beside the plan as printed (`aligned`): adaptive
execution changes a plan while it runs, and Connect does not tell the plan it ended with.
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, SessionError
from penstock.jobs.failures import user_error
from penstock.jobs.plan import Node, is_wrapper, parse_plan
from penstock.jobs.plan_classic import Measured, executed, in_plain_units, was_stopped
from penstock.jobs.plan_settings import WHOLE, one_at_a_time, set_for_a_while
from penstock.jobs.running import Running, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

UNPLANNED = "Error occurred during query planning"
"""All that EXPLAIN says of a query that Spark cannot plan."""


@dataclass(frozen=True)
class Run:
    """What a DataFrame took: its operators, the rows that came out of each partition, and seconds on the clock."""

    nodes: tuple[Measured, ...]
    rows_by_partition: tuple[int, ...]
    seconds: float


@contextmanager
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """Spark cuts nothing off its plans while the block runs."""
    with one_at_a_time, set_for_a_while(spark, WHOLE):
        yield


def read_plan(df: DataFrame) -> Node:
    """The plan by which Spark would run the DataFrame now.

    >>> from penstock.jobs.session import session
    >>> read_plan(session(cores=2).range(9).where("id > 3")).name
    'Filter'
    """
    try:
        with whole_plans(df.sparkSession):
            text = _printed(df, "formatted")
        if text.startswith(UNPLANNED):
            df.inputFiles()  # needs the plan as well, and says what is wrong with it
        return parse_plan(text)
    except PenstockError:
        raise
    except Exception as error:  # Py4J has errors of its own
        if not is_connect(df) and was_stopped():
            raise SessionError(
                "the DataFrame's Spark session was stopped, and its plan with it. Make the DataFrame anew in a session "
                "that runs, such as penstock.session()."
            ) from error
        raise user_error(error, "plans the DataFrame") from error


def python_sources(df: DataFrame) -> frozenset[str]:
    """The names of data sources in its plan that are written in Python, which only the short form of a plan tells."""
    with whole_plans(df.sparkSession):
        return frozenset(re.findall(r"BatchScan ([^\[\n]+)\[.*\] \(Python\)", _printed(df, "simple")))


def _printed(df: DataFrame, mode: str) -> str:
    if df.isStreaming:  # EXPLAIN as a statement refuses streams
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            df.explain(mode=mode)
        return printed.getvalue()
    kind = "" if mode == "simple" else mode.upper()
    return str(df.sparkSession.sql(f"EXPLAIN {kind} SELECT * FROM {{plan}}", plan=df).collect()[0][0])


def run(df: DataFrame) -> Run:
    """Compute every row of a DataFrame, keep none, and tell what it took."""
    if df.isStreaming:
        raise PenstockError(
            "analyze=True runs the DataFrame, and this one is a stream, which never ends. Leave analyze out, or pass a "
            "DataFrame of the same query that reads its source with spark.read."
        )
    spark = df.sparkSession
    counted = _counted(df)
    began = time.perf_counter()
    with Running(spark, counted.collect) as running:
        while running.wait(0.05):
            pass
    seconds = time.perf_counter() - began
    try:
        rows = running.answer()
    except Exception as error:
        raise user_error(error, "runs the DataFrame") from error
    nodes = _over_connect(counted) if is_connect(spark) else executed(counted)
    return Run(tuple(_without_counting(nodes)), tuple(int(row[1]) for row in rows), seconds)


def _counted(df: DataFrame) -> DataFrame:
    """Rows by partition; `last` of a hash keeps columns, sorting and all else from being optimised away."""
    from pyspark.sql import functions as F

    if all(map(_is_hashable, df.schema.fields)):
        # A star and no names, so that no projection comes between a limit and its sort.
        every = F.xxhash64("*") if df.columns else F.lit(0)
    else:
        df = df.toDF(*(f"c{place}" for place in range(len(df.columns))))  # two columns may have one name
        # Spark hashes no values of some types; whether one is null cannot be told without computing it, either.
        values = [
            F.col(field.name) if _is_hashable(field) else F.col(field.name).isNull()
            for field in df.schema.fields
        ]
        every = F.xxhash64(*values)
    rows = df.select(F.spark_partition_id().alias("partition"), every.alias("every"))
    return rows.groupBy("partition").agg(F.count("*"), F.last("every"))


def _is_hashable(field: StructField) -> bool:
    return not re.search(r"map<|variant|interval|geo", field.dataType.simpleString())


def _without_counting(nodes: Sequence[Measured]) -> list[Measured]:
    """The operators without those that `_counted` adds: an aggregate, and if rows were moved, that and another."""

    def after(place: int, name: str) -> int:
        while place < len(nodes) and (is_wrapper(nodes[place].name) or nodes[place].name == "AQEShuffleRead"):
            place += 1
        return place + 1 if place < len(nodes) and nodes[place].name == name else 0

    start = after(0, "HashAggregate")
    moved = after(start, "Exchange") if start else 0
    return list(nodes[after(moved, "HashAggregate") if moved else start :])


def _over_connect(df: DataFrame) -> list[Measured]:
    """The operators as Spark Connect tells them, each before its children."""
    told = df.executionInfo
    if told is None or told.metrics is None:
        return []
    top, graph = told.metrics.extract_graph()
    seen: set[int] = set()

    def walk(number: int) -> Iterator[Measured]:
        if number in seen:  # the root is told as a child of its own
            return
        seen.add(number)
        node = graph[number]
        metrics = {metric.name: in_plain_units(metric.value, metric.metric_type) for metric in node.metrics}
        yield Measured(node.name.strip(), metrics)
        for child in node.children:
            yield from walk(child)

    return list(walk(top))


def aligned(plan: Node, nodes: Sequence[Measured]) -> Mapping[int, Mapping[str, float]]:
    """What the plan's nodes took, by their numbers: both trees top down, matched by name.

    A node that adaptive execution took away, such as one whose result another had computed, is left out. So is what
    lies in a cache or in a subquery: it did not run here, or Spark does not tell.

    >>> plan = Node(3, "Filter", children=(Node(2, "Exchange", children=(Node(1, "Range"),)),))
    >>> ran = [
    ...     Measured("Filter", {"numOutputRows": 4}),
    ...     Measured("AQEShuffleRead"),
    ...     Measured("Exchange"),
    ...     Measured("Range", {"numOutputRows": 9}),
    ... ]
    >>> aligned(plan, ran)
    {3: {'numOutputRows': 4}, 2: {}, 1: {'numOutputRows': 9}}
    """
    planned = [node for node in _run_here(plan) if not is_wrapper(node.name)]
    ran = [node for node in nodes if not is_wrapper(node.name)]
    names, ran_names = [[short_name(node.name) for node in side] for side in (planned, ran)]
    blocks = SequenceMatcher(None, names, ran_names, autojunk=False).get_matching_blocks()
    pairs = {block.a + place: block.b + place for block in blocks for place in range(block.size)}
    # Where as many ran as were planned, they are the same ones in the same order, whatever else changed around them.
    for name in {*names} & {*ran_names}:
        ours, theirs = [[p for p, n in enumerate(side) if n == name] for side in (names, ran_names)]
        if len(ours) == len(theirs):
            pairs.update(zip(ours, theirs, strict=True))
    return {planned[ours].number: ran[theirs].metrics for ours, theirs in sorted(pairs.items())}


def _run_here(node: Node) -> Iterator[Node]:
    yield node
    if node.name != "InMemoryTableScan":
        for child in node.children:
            yield from _run_here(child)


def short_name(name: str) -> str:
    """A node's name without what EXPLAIN adds to some.

    >>> short_name("BroadcastHashJoin Inner BuildRight"), short_name("Scan parquet ")
    ('BroadcastHashJoin', 'Scan parquet')
    """
    words = name.split()
    return " ".join(words[:2] if words[0] in ("Scan", "BatchScan") else words[:1])
