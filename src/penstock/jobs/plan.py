"""A physical plan of Spark's as a tree of nodes, read from what EXPLAIN FORMATTED prints.

That text is the only form of a plan that classic Spark and Spark Connect both give. It has three parts: a drawn tree of
names and numbers, a paragraph of details for every number, and the trees of subqueries with paragraphs of their own.
Values stand in it unquoted, so a literal or a column's name may look like anything; what cannot be told apart is kept
as text and never guessed at.

`penstock.jobs.plan_reading` gets the text and what the nodes took when they ran; `penstock.jobs.plan_calls` reads the
Python functions in a node's arguments; `penstock.jobs.boundaries` says what a plan means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from penstock.errors import PenstockError

TREE = "== Physical Plan =="
SUBQUERIES = "===== Subqueries ====="
BEFORE_RUNNING = "== Initial Plan =="
"""Heads the tree that adaptive execution began with, where the one it ended with is printed, too."""

DRAWN = re.compile(r"(?P<lines>[ :+-]*)(?:\* )?(?P<name>.*\S) *\((?P<number>\d+)\)(?:[ ,].*)?")
HEADING = re.compile(r"\((\d+)\) (.*)")
DETAIL = re.compile(r"([A-Z][A-Za-z ]*?)(?: \[\d+\])? ?: ?(.*)")
HOST = re.compile(r"Subquery:\d+ Hosting operator id = (\d+) ")
COLUMN = re.compile(r"(?P<name>.*)#(?P<number>\d+)L?", re.DOTALL)


@dataclass(frozen=True)
class Column:
    """A column inside a plan: its name, and the number that Spark tells it from others of that name by.

    >>> print(Column("price", 7))
    price
    """

    name: str
    number: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Node:
    """One operator of a plan, with those it takes its rows from.

    `details` are the lines that EXPLAIN prints about it: Input, Output, Arguments, Condition and others. `metrics` are
    what Spark counted when it ran, under Spark's names, in bytes, seconds and rows; empty before.

    >>> Node(1, "Range", {"Output": "[id#0L]"}).outputs
    (Column(name='id', number=0),)
    """

    number: int
    name: str
    details: Mapping[str, str] = field(default_factory=dict)
    children: tuple[Node, ...] = ()
    subqueries: tuple[Node, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def arguments(self) -> str:
        """What the operator was told, as Spark prints it."""
        return self.details.get("Arguments", "")

    @property
    def inputs(self) -> tuple[Column, ...]:
        """The columns of the rows it gets."""
        if "Input" in self.details:
            return columns(self.details["Input"])
        return tuple(
            column
            for side in ("Left output", "Right output")
            for column in columns(self.details.get(side, "[]"))
        )

    @property
    def outputs(self) -> tuple[Column, ...]:
        """The columns it is printed with; operators that pass rows on are printed with their input alone."""
        return columns(self.details["Output"]) if "Output" in self.details else self.inputs

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each before its children, subqueries last."""
        yield self
        for below in (*self.children, *self.subqueries):
            yield from below.walk()

    def lines(self) -> Iterator[tuple[int, Node]]:
        """Every node with its depth, for printing; adaptive execution's own nodes are left out."""

        def visit(node: Node, depth: int) -> Iterator[tuple[int, Node]]:
            shown = not is_wrapper(node.name)
            if shown:
                yield depth, node
            for below in (*node.children, *node.subqueries):
                yield from visit(below, depth + shown)

        yield from visit(self, 0)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "number": self.number,
            "name": self.name,
            "details": dict(self.details),
            "metrics": dict(self.metrics),
            "children": [child.to_dict() for child in self.children],
            "subqueries": [subquery.to_dict() for subquery in self.subqueries],
        }


def is_wrapper(name: str) -> bool:
    """Whether a node only holds others together, and does nothing to rows.

    >>> is_wrapper("AdaptiveSparkPlan"), is_wrapper("Exchange")
    (True, False)
    """
    return name.startswith(("WholeStageCodegen", "AdaptiveSparkPlan", "InputAdapter")) or name.endswith(
        "QueryStage"
    )


def parse_plan(text: str) -> Node:
    """The tree in a text of EXPLAIN FORMATTED.

    >>> plan = parse_plan('''== Physical Plan ==
    ... * Filter (2)
    ... +- * Range (1)
    ...
    ...
    ... (1) Range [codegen id : 1]
    ... Output [1]: [id#0L]
    ...
    ... (2) Filter [codegen id : 1]
    ... Input [1]: [id#0L]
    ... Condition : (id#0L > 3)
    ... ''')
    >>> plan.name, plan.details["Condition"], plan.children[0].name
    ('Filter', '(id#0L > 3)', 'Range')
    """
    main, _, rest = text.partition(f"\n{SUBQUERIES}\n")
    drawn = _drawing(main)
    if not drawn:
        said = " ".join(text.split())[:200] or "nothing"
        raise PenstockError(f"Spark does not tell its plan in a form that Penstock can read. It says: {said}")
    inner: dict[int, list[list[_Line]]] = {}
    known = {line.number for line in drawn}
    for host, block in _subqueries(rest):
        lines = _drawing(f"{TREE}\n{block}")
        # A subquery that is used twice is printed twice, and one that a filter hands to a scan as well.
        if lines and lines[0].number not in known:
            known |= {line.number for line in lines}
            inner.setdefault(host, []).append(lines)
    names = {line.number: line.name for lines in (drawn, *_flat(inner)) for line in lines}
    details = _details(text, names)
    return _grow(drawn, details, inner)


@dataclass(frozen=True)
class _Line:
    """A node as drawn: how far from the left its name begins tells whose child it is."""

    place: int
    name: str
    number: int


def _flat(inner: Mapping[int, Sequence[list[_Line]]]) -> Iterator[list[_Line]]:
    for trees in inner.values():
        yield from trees


def _drawing(text: str) -> list[_Line]:
    """The drawn nodes, without those of plans that adaptive execution gave up for others."""
    _, found, drawing = text.partition(f"{TREE}\n")
    lines: list[_Line] = []
    skipped_from: int | None = None
    for drawn in drawing.splitlines() if found else ():
        if not drawn.strip():
            break
        place = len(drawn) - len(drawn.lstrip(" :+-"))
        if skipped_from is not None and place >= skipped_from:
            continue
        skipped_from = place if BEFORE_RUNNING in drawn else None
        match = DRAWN.fullmatch(drawn)
        if match and skipped_from is None:
            lines.append(_Line(len(match["lines"]), match["name"], int(match["number"])))
    return lines


def _subqueries(text: str) -> Iterator[tuple[int, str]]:
    """The number of the operator that asks for each subquery, and the text from its drawing on."""
    hosts = list(re.finditer(HOST.pattern + r".*\n", text))
    ends = [*(host.start() for host in hosts[1:]), len(text)]
    for host, end in zip(hosts, ends, strict=False):
        yield int(host[1]), text[host.end() : end]


def _details(text: str, names: Mapping[int, str]) -> dict[int, tuple[str, dict[str, str]]]:
    """For every number its plain name and the lines printed about it."""
    found: dict[int, tuple[str, dict[str, str]]] = {}
    lines: dict[str, str] | None = None
    key = ""
    for line in text.splitlines():
        heading = HEADING.fullmatch(line)
        number = int(heading[1]) if heading else -1
        if heading and number in names and number not in found:
            name = re.sub(r" \[codegen id : \d+\]$", "", heading[2]).strip()
            if names[number].startswith(name):
                lines, key = {}, ""
                found[number] = (name, lines)
                continue
        if lines is None or line == SUBQUERIES or HOST.match(line):
            lines = None
            continue
        detail = DETAIL.fullmatch(line)
        if detail and detail[1] not in lines:
            key = detail[1]
            lines[key] = detail[2]
        elif key and line:  # a value with a line break in it
            lines[key] += f"\n{line}"
    return found


def _grow(
    drawn: Sequence[_Line],
    details: Mapping[int, tuple[str, dict[str, str]]],
    inner: Mapping[int, Sequence[list[_Line]]],
) -> Node:
    """The tree of drawn lines, the first of which is its root."""
    root, below = drawn[0], drawn[1:]
    # A child is as far left as the first line below; what stands further right belongs to the child before it.
    edge = min((line.place for line in below), default=0)
    starts = [place for place, line in enumerate(below) if line.place == edge]
    parts = [below[start:end] for start, end in pairwise([*starts, len(below)])]
    name, lines = details.get(root.number, (root.name, {}))
    return Node(
        root.number,
        name,
        lines,
        tuple(_grow(part, details, inner) for part in parts),
        tuple(_grow(tree, details, inner) for tree in inner.get(root.number, ())),
    )


def columns(listed: str) -> tuple[Column, ...]:
    """The columns in a list of a plan's; an expression counts as the column it makes.

    >>> [column.name for column in columns("[id#0L, a, b#1, max(x#2, y#3) AS most#4]")]
    ['id', 'a, b', 'most']
    """
    found = (COLUMN.fullmatch(item) for item in items(listed))
    return tuple(
        Column(match["name"].rpartition(" AS ")[2], int(match["number"])) for match in found if match
    )


def numbers(text: str) -> frozenset[int]:
    """The numbers of all columns that an expression mentions.

    >>> sorted(numbers("(x#5 + y#12L)"))
    [5, 12]
    """
    return frozenset(int(number) for number in re.findall(r"#(\d+)", text))


def items(listed: str) -> list[str]:
    """The items of a bracketed list, each ending in a column's number; brackets inside hold their commas.

    >>> items("[f(a#0, b#1)#2, c#3]")
    ['f(a#0, b#1)#2', 'c#3']
    """
    text = listed.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return []
    found, closed = _cut(text[1:-1], brackets=True)
    # Brackets in names need not be closed; then they mean nothing.
    return found if closed else _cut(text[1:-1], brackets=False)[0]


def _cut(text: str, brackets: bool) -> tuple[list[str], bool]:
    """The items between commas, and whether every bracket is closed."""
    found, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += brackets * ((letter in "([") - (letter in ")]"))
        # Names of columns may hold commas, so one alone ends nothing; nor does that inside a subquery's name.
        ends = letter == "," and depth <= 0 and not text.startswith(", [id=#", place)
        if ends and re.search(r"#\d+L?$", text[start:place]):
            found.append(text[start:place].strip())
            start, depth = place + 1, 0
    last = text[start:].strip()
    return [*found, last] if last else found, depth <= 0


def with_metrics(node: Node, measured: Mapping[int, Mapping[str, float]]) -> Node:
    """The tree with what its nodes took, by their numbers."""
    return replace(
        node,
        children=tuple(with_metrics(child, measured) for child in node.children),
        subqueries=tuple(with_metrics(subquery, measured) for subquery in node.subqueries),
        metrics=measured.get(node.number, {}),
    )
