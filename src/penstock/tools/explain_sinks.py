"""What a script does with its DataFrames in the end: `collect()`, `toPandas()` and their like, watched while it runs.

Calls are noted where the script makes them, with the DataFrame, and run as ever; those that PySpark or Penstock make
for a purpose of their own are not the script's. `penstock.tools.explain_target` runs the script and puts what is found
with the DataFrames' explanations; what is said of each stands in `penstock.jobs.sinks`.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.jobs.boundaries_around import Finding
from penstock.jobs.running import is_connect
from penstock.jobs.sinks import METHODS, Sink, crossing_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.tools.explain import Explanation

ROUND_TRIP = "rdd"
"""A property of classic DataFrames. Only what a script does with it is looked at."""
ARROW_SETTING = "spark.sql.execution.arrow.pyspark.enabled"


@dataclass(frozen=True, eq=False)
class Taken:
    """A DataFrame, and a call that took its rows."""

    frame: DataFrame
    sink: Sink


@contextmanager
def watching() -> Iterator[list[Taken]]:
    """While the block runs, what takes rows out of Spark is noted in the list."""
    found: list[Taken] = []
    busy = threading.local()  # toPandas() collects, and foreach() goes through rdd
    before: list[tuple[Any, str, Any]] = []
    try:
        for frame in _frames():
            for name in METHODS:
                before.append((frame, name, frame.__dict__[name]))
                setattr(frame, name, _watched(name, frame.__dict__[name], found, busy))
            known = frame.__dict__.get(ROUND_TRIP)
            if isinstance(known, functools.cached_property):  # over Connect it is there to refuse
                before.append((frame, ROUND_TRIP, known))
                setattr(frame, ROUND_TRIP, property(_watched(ROUND_TRIP, known.__get__, found, busy)))
        yield found
    finally:
        for frame, name, original in reversed(before):
            setattr(frame, name, original)


def _frames() -> list[Any]:
    found: list[Any] = []
    with suppress(ImportError):  # where pyspark is the client of a server alone
        from pyspark.sql.classic.dataframe import DataFrame

        found.append(DataFrame)
    with suppress(ImportError):  # also PySpark's own error, where what Connect needs is missing
        from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

        found.append(ConnectFrame)
    return found


def _watched(name: str, original: Callable[..., Any], found: list[Taken], busy: Any) -> Callable[..., Any]:
    def taking(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(busy, "now", False):
            return original(self, *args, **kwargs)
        busy.now = True
        try:
            with suppress(Exception):  # a script that runs by itself has to run when it is watched
                _note(name, self, found)
            return original(self, *args, **kwargs)
        finally:
            busy.now = False

    return taking if name == ROUND_TRIP else functools.wraps(original)(taking)


def _note(name: str, df: Any, found: list[Taken]) -> None:
    place = _caller()
    if place is None:
        return
    file, line = place
    for number, taken in enumerate(found):
        before = taken.sink
        # In a loop every round has a DataFrame of its own; the first stands for all.
        if (before.call, before.file, before.line) == (name, file, line):
            found[number] = replace(taken, sink=replace(before, times=before.times + 1))
            return
    # Without a default of ours, which would come before Spark's own.
    arrow = str(df.sparkSession.conf.get(ARROW_SETTING)).lower() == "true"
    crossing, to = crossing_of(name, is_connect(df), arrow)
    found.append(Taken(df, Sink(name, file, line, crossing, to, tuple(df.columns))))


def _caller() -> tuple[str, int] | None:
    """File and line of the call; None where PySpark makes it, whose take() collects as well, or Penstock."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] in ("pyspark", "penstock"):
        return None
    return Path(frame.f_code.co_filename).name, frame.f_lineno


def nameless(taken: Sequence[Taken], named: Sequence[Any], script: str) -> dict[str, Any]:
    """The DataFrames that were taken and have no name, by the line that took them."""
    known, found = {id(frame) for frame in named}, dict[str, Any]()
    for each in taken:
        if id(each.frame) in known:
            continue
        known.add(id(each.frame))
        file = "" if each.sink.file == script else f"{each.sink.file} "
        name = f"{file}line {each.sink.line}"
        found[name if name not in found else f"{name}, {each.sink.name}"] = each.frame
    return found


def with_sinks(explanation: Explanation, taken: Sequence[Taken], df: Any) -> Explanation:
    """An explanation of a DataFrame, with what a script did with its rows in the end."""
    sinks = [each.sink for each in taken if each.frame is df]
    if not sinks:
        return explanation
    told = ", ".join(f"{sink.name} in line {sink.line}" for sink in sinks)
    return replace(
        explanation,
        sentence=f"{explanation.sentence} The script takes its rows out of Spark: {told}.",
        findings=(
            *explanation.findings,
            *(Finding("sink", None, sink.name, f"{sink}.", sink.advice, sink=sink) for sink in sinks),
        ),
    )
