"""Where a plan's rows go from the JVM to Python or back: every such place as a `Boundary`.

`boundaries` finds them; `penstock.jobs.boundaries_around` what they do to the plan around them, and
`penstock.jobs.boundaries_costs` what else took time. What operators mean stands in `penstock.jobs.boundaries_kinds`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.errors import humane_bytes
from penstock.jobs.boundaries_kinds import PYTHON_SOURCE, ROWS_OF_AN_RDD, Kind, kind_of
from penstock.jobs.plan import Column, Node, columns, is_wrapper, items
from penstock.jobs.plan_calls import Call, calls, eval_type, parts

SHOWN_NAMES = 8
MOST_STEPS, LONGEST_TEXT = 20, 10_000
"""How far expressions are written out; two that are longer are not compared."""


@dataclass(frozen=True)
class Traffic:
    """What crossed at a boundary when the query ran, and the seconds its Python workers took, added up over tasks.

    None is what this version of Spark does not count. `seconds` is how long the workers of this boundary ran, so it
    holds their waiting for rows, too; of it, `processing` was spent on batches and `boot` on starting workers.

    >>> print(Traffic(rows_sent=10, rows_received=10, bytes_sent=2048, seconds=0.5))
    10 rows there, 10 rows back; 2.0 kB sent; Python ran for 0.50 s
    """

    rows_sent: int | None = None
    rows_received: int | None = None
    bytes_sent: int | None = None
    bytes_received: int | None = None
    seconds: float | None = None
    processing: float | None = None
    boot: float | None = (
        None  # Spark's "init" time is left out: of a worker that is used again it counts the idle time
    )

    def __str__(self) -> str:
        rows = [f"{rows_of(self.rows_sent)} there"] if self.rows_sent is not None else []
        rows += [f"{rows_of(self.rows_received)} back"] if self.rows_received is not None else []
        size = [f"{humane_bytes(self.bytes_sent)} sent"] if self.bytes_sent is not None else []
        size += [f"{humane_bytes(self.bytes_received)} received"] if self.bytes_received is not None else []
        time = [f"Python ran for {self.seconds:.2f} s"] if self.seconds is not None else []
        time += [f"{self.processing:.2f} s of it on batches"] if self.processing is not None else []
        time += [f"{self.boot:.2f} s to start workers"] if self.boot else []
        return "; ".join(", ".join(part) for part in (rows, size, time) if part) or "nothing was counted"


@dataclass(frozen=True)
class Boundary:
    """One place where rows cross between the JVM and Python.

    `functions` are the names of the Python functions, in the order they run; `sent` and `received` the columns and
    expressions that cross; `crossing` is how: "pickled rows", "rows over Arrow" (one call per row all the same),
    "Arrow batches" or "pandas batches". A `cached` one runs when the cache is filled, and not with this query.

    >>> found = Boundary(
    ...     3, "ArrowEvalPython", "udf", ("f",), "rows over Arrow", "once for every row", ("x",), ("y",)
    ... )
    >>> print(found)
    f (udf) is called once for every row, with x going to Python and y coming back as rows over Arrow
    """

    node: int
    operator: str
    asked_by: str
    functions: tuple[str, ...]
    crossing: str
    calls: str
    sent: tuple[str, ...]
    received: tuple[str, ...]
    cached: bool = False
    traffic: Traffic | None = None

    @property
    def name(self) -> str:
        """Its functions, or what asked for it."""
        return ", ".join(dict.fromkeys(self.functions)) or self.asked_by

    def __str__(self) -> str:
        back = shortened(self.received) or "nothing"
        if self.functions:
            are = "is" if len(set(self.functions)) == 1 else "are"
            who = f"{self.name} ({self.asked_by}) {are} called {self.calls}"
            text = f"{who}, with {shortened(self.sent) or 'nothing'} going to Python and {back} coming back"
        else:
            text = f"{self.asked_by} gives {back}"
        return f"{text} as {self.crossing}" + (", when the cache is filled" if self.cached else "")

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Place:
    """A boundary in its plan: what its operator is, its calls, and the operators above it, the nearest first."""

    node: Node
    kind: Kind
    calls: tuple[Call, ...]
    results: tuple[Column, ...]
    above: tuple[Node, ...]
    boundary: Boundary


def rows_of(count: int) -> str:
    """A number of rows for a sentence.

    >>> rows_of(1), rows_of(2000)
    ('1 row', '2,000 rows')
    """
    return "1 row" if count == 1 else f"{count:,} rows"


def shortened(names: Sequence[str]) -> str:
    """Columns for a sentence: all of them while few.

    >>> shortened(["a", "b"]), shortened([str(n) for n in range(12)])
    ('a, b', '0, 1, 2, 3, 4, 5, 6, 7 and 4 more')
    """
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def boundaries(plan: Node, python_sources: frozenset[str] = frozenset()) -> list[Place]:
    """Every boundary of a plan, in the order in which rows meet them."""
    found = []
    words = Wording(plan)
    for node, above in _with_ancestors(plan, ()):
        kind = _kind(node, python_sources)
        if kind is None:
            continue
        source = kind.family == "source"
        called = () if source else calls(node.arguments)
        results = node.outputs if source else _results(node, kind, called)
        boundary = Boundary(
            node.number,
            node.name,
            kind.asked_by,
            tuple(name for call in called for name in call.names),
            kind.crossing,
            kind.calls,
            () if source else _sent(node, called, words),
            tuple(_user_names(results, called, above, words)),
            any(upper.name == "InMemoryRelation" for upper in above),
            _traffic(node, kind),
        )
        found.append(Place(node, kind, called, results, above, boundary))
    return sorted(found, key=lambda place: place.node.number)


def _with_ancestors(node: Node, above: tuple[Node, ...]) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    yield node, above
    here = above if is_wrapper(node.name) else (node, *above)
    for below in node.children:
        yield from _with_ancestors(below, here)
    for inner in node.subqueries:
        yield from _with_ancestors(inner, ())


def _kind(node: Node, python_sources: frozenset[str]) -> Kind | None:
    if node.name == "Scan ExistingRDD":
        # A checkpoint is such a scan as well, of rows that never were in Python.
        return ROWS_OF_AN_RDD if "PythonRDD" in node.arguments else None
    scan, _, source = node.name.partition(" ")
    if scan == "BatchScan":
        return PYTHON_SOURCE if source in python_sources else None
    return kind_of(node.name, eval_type(node.arguments))


def _results(node: Node, kind: Kind, called: Sequence[Call]) -> tuple[Column, ...]:
    """The columns that come back: the last list of a node's arguments; of a window's, the first."""
    listed = [part for part in parts(node.arguments) if part.startswith("[") and columns(part)]
    if not listed:
        return ()
    if kind.family == "window":
        return columns(listed[0])
    keys = {column.number for column in columns(listed[0])} if "Aggregate" in node.name else set()
    return tuple(column for column in columns(listed[-1]) if column.number not in keys)


def _sent(node: Node, called: Sequence[Call], words: Wording) -> tuple[str, ...]:
    if not called:
        return tuple(column.name for column in node.inputs)
    return tuple(dict.fromkeys(words.plain(sent) for call in called for sent in call.sent))


def _user_names(
    results: Sequence[Column], called: Sequence[Call], above: Sequence[Node], words: Wording
) -> Iterator[str]:
    """The names that results have further up; those that Spark makes up are told as the call they come from."""
    renamed: dict[int, str] = {}
    for node in above:
        if node.name == "Project":
            for item in items(node.details.get("Output", "")):
                match = re.fullmatch(r"[^\s#]+#(\d+)L? AS (.*)#\d+L?", item, re.DOTALL)
                if match:
                    renamed.setdefault(int(match[1]), match[2])
    for column in results:
        yield renamed.get(column.number) or words.plain(f"{column.name}#{column.number}")


class Wording:
    """A plan's expressions as people write them, and as what they are computed from.

    >>> plan = Node(2, "ArrowEvalPython", {"Arguments": "[f(x#1)#5], [pythonUDF0#9], 101"})
    >>> Wording(plan).plain("(pythonUDF0#9 > 3.0)")
    '(f(x) > 3.0)'
    """

    def __init__(self, plan: Node) -> None:
        self._made: dict[int, str] = {}
        """The calls that columns of Spark's making stand for."""
        self._defined: dict[int, str] = {}
        """The expressions that projections give a name."""
        for node in plan.walk():
            made = [
                column
                for part in parts(node.arguments)
                for column in columns(part)
                if column.name.startswith("pythonUDF")
            ]
            for column, call in zip(made, calls(node.arguments) if made else (), strict=False):
                self._made[column.number] = call.text
            for item in items(node.details.get("Output", "")) if node.name == "Project" else ():
                match = re.fullmatch(r"(.*) AS .*#(\d+)L?", item, re.DOTALL)
                if match:
                    self._defined[int(match[2])] = match[1]

    def plain(self, expression: str) -> str:
        """The expression without numbers, and with calls in place of the columns that Spark makes of them."""
        return re.sub(r"#\d+L?\b", "", _replaced(expression, r"pythonUDF\d+", self._made))

    def source(self, expression: str) -> str:
        """The expression with all that projections compute written out: equal for two that are computed alike."""
        return _replaced(expression, r"[^\s()\[\],#]+", {**self._defined, **self._made})


def _replaced(text: str, name: str, values: Mapping[int, str]) -> str:
    for _ in range(MOST_STEPS):  # what is put in may hold more of them
        shown = re.sub(rf"{name}#(\d+)L?\b", lambda seen: values.get(int(seen[1]), seen[0]), text)
        if shown == text or len(shown) > LONGEST_TEXT:
            return text
        text = shown
    return text


def _traffic(node: Node, kind: Kind) -> Traffic | None:
    metrics = node.metrics
    if not metrics:
        return None

    def whole(name: str) -> int | None:
        return int(metrics[name]) if name in metrics else None

    received = whole("pythonNumRowsReceived")
    if kind.family == "source":
        return Traffic(
            rows_received=whole("numOutputRows"),
            bytes_sent=whole("pythonDataSent"),
            bytes_received=whole("pythonDataReceived"),
        )
    # A scalar function gives one row for each, and how many a filter below let through may not have been counted.
    sent = received if kind.family == "scalar" else rows_into(node)
    return Traffic(
        sent,
        received,
        whole("pythonDataSent"),
        whole("pythonDataReceived"),
        metrics.get("pythonTotalTime"),
        metrics.get("pythonProcessingTime"),
        metrics.get("pythonBootTime"),
    )


def rows_into(node: Node) -> int | None:
    """How many rows a node got, as the nodes below it counted them."""
    counts = [rows_out(child) for child in node.children]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def counted_rows(node: Node) -> int | None:
    """How many rows a node gave, where it counted them itself.

    >>> counted_rows(Node(1, "Range", metrics={"numOutputRows": 9.0}))
    9
    """
    # Others write shuffle files on the side.
    moved = ("shuffleRecordsWritten",) if node.name.endswith("Exchange") else ()
    for name in ("numOutputRows", "pythonNumRowsReceived", *moved):
        if name in node.metrics:
            return int(node.metrics[name])
    return None


def rows_out(node: Node) -> int | None:
    """How many rows a node gave, counted by itself or, where it changes none, by those below."""
    counted = counted_rows(node)
    if counted is not None:
        return counted
    changes_none = node.name in ("Project", "Sort", "ColumnarToRow", "AQEShuffleRead") or is_wrapper(
        node.name
    )
    return rows_into(node) if changes_none else None
