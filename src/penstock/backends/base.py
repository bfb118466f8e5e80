"""What an engine is: a table of kernels, one for each operation, and one way to compile trees for it.

`compile` checks trees against columns once, finds what they have in common, and looks every operation up;
`Program.run` then only calls kernels, each shared piece once. An operation an engine does not offer is a row of its
table all the same: `unsupported("why")`, which is what the error says. `penstock.backends` finds engines by name;
the meaning of every operation is what `penstock.backends.arrow` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.errors import ExpressionError, UnsupportedOperation
from penstock.expr.check import Schema, node_type
from penstock.expr.nodes import Call, Column, Expression, Literal
from penstock.expr.ops import LEARNED
from penstock.expr.types import Type

Kernel = Callable[..., Any]
"""Called with the `Site` and the values of the arguments."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a kernel knows besides its arguments' values."""

    op: str
    types: tuple[Type, ...]
    """Of the arguments."""
    type: Type
    """Of the result."""
    params: Mapping[str, Any]
    constants: tuple[Any, ...] = ()
    """For each argument its value where it is a constant, else `Unknown`."""


class Unknown:
    """Stands for an argument that is no constant."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An operation an engine does not offer, with the reason."""

    reason: str


def unsupported(reason: str) -> Unsupported:
    """Declare a gap: the reason, and what to do instead."""
    return Unsupported(reason)


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a compiled program: what it is, its type, and the steps its arguments come from."""

    node: Expression
    type: Type
    args: tuple[int, ...]
    site: Site | None = None
    kernel: Kernel | None = None


@dataclass(frozen=True)
class Program:
    """Trees, compiled for one engine: steps in an order in which each finds its arguments computed."""

    steps: tuple[Step, ...]
    outputs: Mapping[str, int]

    @property
    def columns(self) -> list[str]:
        """The columns it reads."""
        return [step.node.name for step in self.steps if isinstance(step.node, Column)]

    @property
    def types(self) -> dict[str, Type]:
        """The type of each output."""
        return {name: self.steps[place].type for name, place in self.outputs.items()}

    def run(self, leaf: Callable[[Column | Literal, Type], Any]) -> dict[str, Any]:
        """Compute every step once; `leaf` gives the value of a column or a constant."""
        values: list[Any] = []
        for step, done in zip(self.steps, self._done, strict=True):
            if step.kernel is None:
                values.append(leaf(step.node, step.type))  # type: ignore[arg-type]  # no Call is without a kernel
            else:
                values.append(step.kernel(step.site, *[values[arg] for arg in step.args]))
            for arg in done:
                values[arg] = None  # a batch's intermediate results should not outlive their use
        return {name: values[place] for name, place in self.outputs.items()}

    @cached_property
    def _done(self) -> list[list[int]]:
        """After each step, the steps whose values nobody needs any more."""
        last = {arg: place for place, step in enumerate(self.steps) for arg in step.args}
        kept, found = set(self.outputs.values()), [list[int]() for _ in self.steps]
        for arg, place in last.items():
            if arg not in kept:
                found[place].append(arg)
        return found


def compile(
    engine: str,
    table: Mapping[str, Kernel | Unsupported],
    expressions: Mapping[str, Expression],
    schema: Schema,
) -> Program:
    """Trees against columns, for an engine: checked, shared pieces found once, kernels looked up."""
    steps: list[Step] = []
    numbers: dict[tuple[Any, ...], int] = {}

    seen: dict[int, int] = {}

    def visit(node: Expression) -> int:
        if id(node) not in seen:  # lifted functions share pieces, and would grow exponentially as trees
            seen[id(node)] = number(node)
        return seen[id(node)]

    def number(node: Expression) -> int:
        args = tuple(visit(arg) for arg in node.args)
        # Two nodes are the same computation if they are the same operation on the same steps.
        key = (node.op, args, node.told) if isinstance(node, Call) else node.key()
        if key not in numbers:
            steps.append(_step(engine, table, node, args, steps, schema))
            numbers[key] = len(steps) - 1
        return numbers[key]

    for name, expression in expressions.items():
        if not isinstance(expression, Expression):
            raise ExpressionError(f'{name!r} is {expression!r}, which is no expression. Write col("...").')
    outputs = {name: visit(tree) for name, tree in expressions.items()}
    return Program(tuple(steps), outputs)


def _step(
    engine: str,
    table: Mapping[str, Kernel | Unsupported],
    node: Expression,
    args: tuple[int, ...],
    steps: list[Step],
    schema: Schema,
) -> Step:
    types = tuple(steps[arg].type for arg in args)
    found = node_type(node, list(types), schema)
    if not isinstance(node, Call):
        return Step(node, found, args)
    if node.op in LEARNED:
        raise ExpressionError(f"{node!r} has to learn from data first. Put it into a Recipe, and fit that.")
    kernel = table[node.op]
    if isinstance(kernel, Unsupported):
        raise UnsupportedOperation(engine, node.op, kernel.reason)
    constants = tuple(
        source.value if isinstance(source := steps[arg].node, Literal) else Unknown for arg in args
    )
    return Step(node, found, args, Site(node.op, types, found, dict(node.params), constants), kernel)
