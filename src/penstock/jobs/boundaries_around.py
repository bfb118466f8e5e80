"""What boundaries do to the plan around them: filters they hold back, passes that could be one, work done twice.

Pure functions from a plan to `Finding`s; `penstock.tools.explain` puts them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.jobs.boundaries import Boundary, Place, Wording, rows_of, rows_out, shortened
from penstock.jobs.boundaries_kinds import CROSSINGS, MEMORY_SOURCE, PANDAS
from penstock.jobs.plan import Node, columns, items, numbers
from penstock.jobs.plan_calls import as_call
from penstock.jobs.sinks import Sink

PASSING = ("Project", "ColumnarToRow", "RowToColumnar")
LIMITS = ("LocalLimit", "GlobalLimit", "CollectLimit", "CollectTail", "TakeOrderedAndProject")
EVERY_PAIR = ("BroadcastNestedLoopJoin", "CartesianProduct")
MOVES = ("Exchange", "BroadcastExchange", "ShuffleExchange")
SMALL_BATCH = 1000
"""Rows; below this the fixed cost of a batch shows in a column function's time."""


@dataclass(frozen=True)
class Finding:
    """Something about a plan that costs time, and what to do about it.

    `kind` is one of: boundary, filter, limit, columns, unfused, twice, sampled, join, memory, collect, batches, sink;
    and where the query ran: shuffle, spill, skew, partitions. `node` is the operator's number in the plan; a sink,
    which only `penstock explain script.py` sees, has none.

    >>> print(Finding("spill", 4, "Sort", "2.0 GB were spilled.", "Give executors more memory."))
    Sort (4): 2.0 GB were spilled.
      -> Give executors more memory.
    """

    kind: str
    node: int | None
    operator: str
    says: str
    advice: str
    boundary: Boundary | None = None
    sink: Sink | None = None

    def __str__(self) -> str:
        where = self.operator + (f" ({self.node})" if self.node is not None else "")
        return f"{where}: {self.says}" + (f"\n  -> {self.advice}" if self.advice else "")

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


def crossings(places: Sequence[Place]) -> Iterator[Finding]:
    """Every boundary itself."""
    for place in places:
        counted = f". Counted: {place.boundary.traffic}" if place.boundary.traffic else ""
        yield _finding("boundary", place, f"{place.boundary}{counted}.", _sentence(place.kind.cure))


def _finding(kind: str, place: Place, says: str, advice: str) -> Finding:
    return Finding(kind, place.node.number, place.node.name, says, advice, place.boundary)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def held_back(plan: Node, places: Sequence[Place]) -> Iterator[Finding]:
    """Filters, limits and choices of columns that stand above a boundary, where they spare it nothing."""
    words = Wording(plan)
    for place in places:
        if place.kind.family == "source":
            continue
        yield from _held_back(place, words)


def _held_back(place: Place, words: Wording) -> Iterator[Finding]:
    made = {column.number for column in place.results}
    produced, used = set(made), set[int]()
    name = place.boundary.name
    for node in place.above:
        if node.name == "Filter":
            condition = node.details.get("Condition", "")
            used |= numbers(condition)
            yield _filter(place, node, words.plain(condition), bool(numbers(condition) & made))
        elif node.name in LIMITS:
            # Spark itself hands a limit down to below a function that adds columns.
            if place.kind.opaque:
                count = node.arguments.partition(",")[0]
                yield _finding(
                    "limit",
                    place,
                    f"the limit of {count} stands above {name}, which gets whole batches of rows all the same.",
                    f"Limit before {name} where it gives one row for each.",
                )
            return
        elif node.name == "Project":
            kept = numbers(node.details.get("Output", "")) | used
            if place.kind.family == "map" and produced - kept:
                spare = [column.name for column in place.results if column.number not in kept]
                yield _finding(
                    "columns",
                    place,
                    f"{len(spare)} of the {len(place.results)} columns that come back are not used "
                    f"({shortened(spare)}), but Spark cannot drop columns before a function that it cannot look into.",
                    f"Let {name} return only what is used, and select only what it needs before it.",
                )
                produced = set()  # said once
            made |= _carried(node, made)
        elif node.name not in PASSING and not _is_scalar(node):
            return


def _is_scalar(node: Node) -> bool:
    return node.name in ("BatchEvalPython", "ArrowEvalPython")


def _carried(project: Node, made: set[int]) -> set[int]:
    """The columns of a projection that are computed from those."""
    found = set()
    for item in items(project.details.get("Output", "")):
        if numbers(item) & made:
            found |= {column.number for column in columns(f"[{item}]")}
    return found


def _filter(place: Place, node: Node, condition: str, on_result: bool) -> Finding:
    name, before, after = place.boundary.name, rows_out(place.node), rows_out(node)
    dropped = ""
    if before and after is not None:
        dropped = f" It drops {before - after:,} of the {rows_of(before)} that came back."
    if place.kind.opaque:
        says = f"the filter {condition} stands above {name}, and cannot reach the source through it."
        advice = f"Filter before {name} where it passes these columns on as they are."
    elif on_result:
        says = (
            f"the filter {condition} needs the result of {name}, so every row crosses before one is dropped."
        )
        advice = (
            f"Put a native condition before it that drops most of the rows {name} would refuse, or write the test "
            "with pyspark.sql.functions: then Spark hands it to the source."
        )
    else:
        says = f"the filter {condition} does not need {name}, and stands above it only because it is not deterministic."
        advice = f"Filter before calling {name}."
    return _finding("filter", place, says + dropped, advice)


def unfused(plan: Node, places: Sequence[Place]) -> Iterator[Finding]:
    """Boundaries right above one another, with why they are not one pass."""
    words = Wording(plan)
    by_node = {place.node.number: place for place in places if place.kind.family != "source"}
    for upper in by_node.values():
        node = upper.node.children[0] if len(upper.node.children) == 1 else None
        while node is not None and node.name in PASSING and node.number not in by_node:
            node = node.children[0] if len(node.children) == 1 else None
        if node is None or node.number not in by_node:
            continue
        lower = by_node[node.number]
        says, advice = _why_apart(lower, upper, words)
        yield _finding(
            "unfused",
            upper,
            f"{upper.boundary.name} takes another pass through Python after {lower.boundary.name}: {says}.",
            advice,
        )


def _why_apart(lower: Place, upper: Place, words: Wording) -> tuple[str, str]:
    first, second = lower.boundary.name, upper.boundary.name
    if lower.kind.family != "scalar" or upper.kind.family != "scalar":
        kinds = dict.fromkeys((lower.kind.asked_by, upper.kind.asked_by))
        both = " and ".join(kinds) if len(kinds) > 1 else f"two calls of {lower.kind.asked_by}"
        return (
            f"Spark never runs {both} in one pass",
            f"Call both from one function, so that rows cross once instead of twice ({first}, {second}).",
        )
    if lower.kind.asked_by != upper.kind.asked_by:
        best = max(lower, upper, key=lambda place: CROSSINGS.index(place.kind.crossing))
        return (
            f"{first} ({lower.kind.asked_by}) and {second} ({upper.kind.asked_by}) are of different kinds, and only "
            "functions of one kind share a pass",
            f"Write both as {best.kind.asked_by}.",
        )
    made = {column.number for column in lower.results}
    between = [
        sent for call in upper.calls for sent in call.sent if numbers(sent) & made and not as_call(sent)
    ]
    native = [words.plain(sent) for sent in between if not sent.startswith("pythonUDF")]
    if native:
        return (
            f"between them Spark computes {native[0]}",
            f"Compute that inside {second}, which then takes the result of {first} directly.",
        )
    return (
        "they belong to different steps of the query",
        "Compute both columns in one select before the other steps: functions of one kind in one select share a pass.",
    )


def twice(plan: Node, places: Sequence[Place]) -> Iterator[Finding]:
    """Calls of one function on the same values at more than one boundary."""
    words = Wording(plan)
    seen: dict[str, Place] = {}
    for place in places:
        for call in place.calls if place.kind.family == "scalar" else ():
            first = seen.setdefault(words.source(call.text), place)
            if first is place:
                continue
            name = ", ".join(call.names)
            filtered = any(node.name == "Filter" for node in _between(first, place))
            why = "once for a filter on its result and once for the column" if filtered else "in two places"
            yield _finding(
                "twice",
                place,
                f"{name} is computed twice on the same values, {why} (nodes {first.node.number} and "
                f"{place.node.number}): Spark takes a function for cheap, and computes it anew where it is used.",
                f"Mark it as {call.name}.asNondeterministic(), which keeps Spark from copying it, and filter on other "
                "columns before; or cache the DataFrame that holds the column.",
            )


def _between(lower: Place, upper: Place) -> list[Node]:
    """The operators from one boundary up to another; none where the other is not above it."""
    numbers_above = [node.number for node in lower.above]
    if upper.node.number not in numbers_above:
        return []
    return list(lower.above[: numbers_above.index(upper.node.number)])


def sampled(places: Sequence[Place]) -> Iterator[Finding]:
    """Boundaries that a sort runs twice: Spark first samples the rows to find the ranges of their keys."""
    for place in places:
        for node in place.above:
            if node.name == "InMemoryRelation":
                break
            if node.name in MOVES:
                if "rangepartitioning" in node.arguments:
                    yield _finding(
                        "sampled",
                        place,
                        f"{place.boundary.name} runs twice: the sort above it (Exchange {node.number}) first samples "
                        "its input to find ranges of keys, and then reads it again.",
                        "Cache the DataFrame before orderBy or repartitionByRange; or sort first, where the key does "
                        "not need Python. sortWithinPartitions needs no ranges.",
                    )
                break


def joined(places: Sequence[Place]) -> Iterator[Finding]:
    """Functions in a join's condition: every row is paired with every other, and all pairs go to Python."""
    for place in places:
        below = place.node.children[0] if place.node.children else None
        if place.kind.family != "scalar" or below is None or len(below.children) != 2:
            continue
        if below.name.split()[0] not in EVERY_PAIR:
            continue
        used = {number for call in place.calls for number in numbers(call.text)}
        sides = [{column.number for column in child.outputs} for child in below.children]
        if all(used & side for side in sides):
            yield _finding(
                "join",
                place,
                f"{place.boundary.name} is part of a join's condition, so Spark pairs every row of one side with every "
                f"row of the other ({below.name.split()[0]}), and all pairs cross to Python.",
                "Compute what each side contributes as a column before the join, and join on equality of columns.",
            )


def ends(plan: Node) -> Iterator[Finding]:
    """Rows that begin or end in the driver's memory, as far as a plan shows it."""
    root = next((node for _, node in plan.lines()), plan)
    if root.name in LIMITS and not root.name.startswith(("Local", "Global")):
        count = root.arguments.partition(",")[0]
        yield Finding(
            "collect",
            root.number,
            root.name,
            f"at most {rows_of(int(count)) if count.isdigit() else count} come to the driver.",
            "",
        )
    for node in plan.walk():
        if node.name == MEMORY_SOURCE:
            yield Finding(
                "memory",
                node.number,
                node.name,
                "its rows lie in the plan itself: the driver sends them along with every query.",
                "Fine for a few thousand rows; write more of them to Parquet once, and read that.",
            )


def small_batches(places: Sequence[Place], batch_rows: int | None) -> Iterator[Finding]:
    """A session's setting that makes Arrow batches small."""
    arrow = [place for place in places if "Arrow" in place.kind.crossing or place.kind.crossing == PANDAS]
    if arrow and batch_rows is not None and 0 < batch_rows < SMALL_BATCH:
        yield _finding(
            "batches",
            arrow[0],
            f"the session lets Arrow batches hold {batch_rows:,} rows at most, so the cost of a batch is paid often.",
            'Raise it: spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000").',
        )
