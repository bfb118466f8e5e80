"""From declared tensors to fitted ones: which statistics are gathered when, and what takes their place in the trees.

Operations that learn may stand in each other: a column is filled before its mean is asked for. So they are settled in
rounds, and a round gathers everything at once: all numbers in one aggregate, and, when no more numbers can be asked
for, all vocabularies in one job. The rounds depend on how deep operations stand in each other, not on how many columns
there are; and `hoisting` saves the one that the most frequent case would need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.expr.check import Schema, columns_of, type_of
from penstock.expr.nodes import Call, Expression
from penstock.expr.ops import LEARNED
from penstock.expr.statistics import Answer, Answers, Counts, Request, Summarized
from penstock.recipe.hoisting import Hoisted, hoisted
from penstock.recipe.learning import LEARNERS, Learned

Key = tuple[Any, ...]


class Source(Protocol):
    """Data that can be asked."""

    @property
    def schema(self) -> Schema:
        """The columns' types, of those that expressions know."""

    def gather(self, requests: list[Request]) -> Answers:
        """The answers to requests, in one pass."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """One operation that has learned: what it was, and what the data answered."""

    node: Call
    columns: tuple[str, ...]
    answers: tuple[tuple[Request, Answer], ...]


def settle(tensors: Mapping[str, Expression], source: Source) -> tuple[dict[str, Expression], list[Lesson]]:
    """The trees with everything learned, and what that was."""
    schema = source.schema
    for tree in tensors.values():
        type_of(tree, schema)
    nodes = _learned_nodes(tensors.values())
    settled: dict[Key, Expression] = {}
    lessons: dict[Key, Lesson] = {}
    answers: Answers = {}
    early = _hoisted(nodes, schema)
    while len(settled) < len(nodes):
        ready = {
            key: _plain(node.args, settled)
            for key, node in nodes.items()
            if key not in settled and all(inner in settled for inner in _learned_nodes(node.args))
        }
        asks = {
            key: LEARNERS[nodes[key].op].asks(args, dict(nodes[key].params)) for key, args in ready.items()
        }
        for key in asks.keys() & early.keys():
            bare, present = (answers[request.key] for request in early[key].wanted())
            assert isinstance(bare, Summarized)
            assert isinstance(present, Summarized)
            filled = settled[early[key].fill.key()]
            answers.setdefault(asks[key][0].key, early[key].answer(bare, present, filled))
        numbers = {
            key: asked for key, asked in asks.items() if not any(isinstance(one, Counts) for one in asked)
        }
        now = numbers or asks
        wanted = [request for asked in now.values() for request in asked]
        wanted += [one for hoist in early.values() if hoist.fill.key() in now for one in hoist.wanted()]
        different = {request.key: request for request in wanted if request.key not in answers}
        if different:
            answers |= source.gather(list(different.values()))
        for key, asked in now.items():
            node, args = nodes[key], ready[key]
            found = tuple(answers[request.key] for request in asked)
            types = tuple(type_of(arg, schema) for arg in args)
            settled[key] = LEARNERS[node.op].becomes(Learned(node, args, types, found))
            lessons[key] = Lesson(node, tuple(columns_of(node)), tuple(zip(asked, found, strict=True)))
    plain = dict(zip(tensors, _plain(tensors.values(), settled), strict=True))
    for tree in plain.values():
        type_of(tree, schema)
    return plain, [lessons[key] for key in nodes]


def _hoisted(nodes: Mapping[Key, Call], schema: Schema) -> dict[Key, Hoisted]:
    """Operations whose moments can be asked for before the column they are of is filled."""
    found = {key: hoisted(node.of[0]) for key, node in nodes.items() if node.op in ("standardize", "minmax")}
    return {key: hoist for key, hoist in found.items() if hoist is not None and _bare_number(hoist, schema)}


def _bare_number(hoist: Hoisted, schema: Schema) -> bool:
    bare = hoist.fill.of[0]
    return not learns(bare) and type_of(bare, schema).is_number


def learns(tree: Expression) -> bool:
    """Whether something in a tree has to learn first."""
    return bool(_learned_nodes([tree]))


def _learned_nodes(trees: Iterable[Expression]) -> dict[Key, Call]:
    """Every different operation that learns, inner ones first."""
    found: dict[Key, Call] = {}
    seen: set[int] = set()

    def visit(node: Expression) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for arg in node.args:
            visit(arg)
        if isinstance(node, Call) and node.op in LEARNED:
            found.setdefault(node.key(), node)

    for tree in trees:
        visit(tree)
    return found


def _plain(trees: Iterable[Expression], settled: Mapping[Key, Expression]) -> tuple[Expression, ...]:
    """The trees with operations that learned replaced."""
    made: dict[int, Expression] = {}

    def visit(node: Expression) -> Expression:
        if id(node) not in made:
            made[id(node)] = replaced(node) if isinstance(node, Call) else node
        return made[id(node)]

    def replaced(node: Call) -> Expression:
        if node.op in LEARNED:
            return settled[node.key()]
        args = tuple(map(visit, node.of))
        same = all(new is old for new, old in zip(args, node.of, strict=True))
        return node if same else Call(node.op, args, node.params)

    return tuple(map(visit, trees))
