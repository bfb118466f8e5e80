"""List comprehensions and generators over what is known while lifting, element by element."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING

from penstock.expr.lift.assignment import assign
from penstock.expr.lift.known import items_of
from penstock.expr.lift.machine import Dead
from penstock.expr.lift.values import Seq, Value
from penstock.expr.nodes import Expression

if TYPE_CHECKING:
    from penstock.expr.lift.expressions import Reader


def elements(reader: Reader, node: ast.GeneratorExp | ast.ListComp) -> list[Value]:
    """All elements of a comprehension."""
    machine, loop, outer = reader.machine, _loop(reader, node), reader.variables
    found: list[Value] = []
    hidden = reader.hidden
    try:
        for item in items_of(machine, reader.value(loop.iter), "a comprehension"):
            reader.variables = dict(outer)
            _bind(reader, loop.target, item)
            kept = True
            for test in loop.ifs:
                decided = machine.decide(reader.condition(test))
                if decided is None:
                    machine.refuse("a comprehension whose length differs from row to row", "Use a sum.")
                kept = decided
                if not kept:
                    break
            if kept:
                found.append(reader.value(node.elt))
    finally:
        reader.variables, reader.hidden = outer, hidden
    return found


def elements_and_conditions(
    reader: Reader, node: ast.GeneratorExp | ast.ListComp
) -> list[tuple[Expression, Value | None]]:
    """Elements with the condition under which each is there; None for one that raises wherever it is."""
    machine, loop, outer = reader.machine, _loop(reader, node), reader.variables
    found: list[tuple[Expression, Value | None]] = []
    hidden = reader.hidden
    try:
        for item in items_of(machine, reader.value(loop.iter), "a comprehension"):
            reader.variables = dict(outer)
            _bind(reader, loop.target, item)
            kept: Expression = machine.trees.true
            for test in loop.ifs:
                kept = reader.and_then(kept, test, True)
            if machine.decide(kept) is not False:
                found.append((kept, machine.branch(kept, lambda: reader.value(node.elt))))
    finally:
        reader.variables, reader.hidden = outer, hidden
    return found


def _bind(reader: Reader, target: ast.expr, item: Value) -> None:
    """The loop's variable, which is the comprehension's own."""
    names = (one.id for one in ast.walk(target) if isinstance(one, ast.Name))
    reader.hidden = reader.hidden.union(names)
    assign(reader, target, item)


def _loop(reader: Reader, node: ast.GeneratorExp | ast.ListComp) -> ast.comprehension:
    if len(node.generators) != 1 or node.generators[0].is_async:
        reader.machine.refuse("a comprehension with several loops", "Write it as for loops.")
    if any(isinstance(one, ast.NamedExpr) for one in ast.walk(node)):
        reader.machine.refuse("an assignment inside a comprehension", "Write it as a for loop.")
    return node.generators[0]


def generator(reader: Reader, node: ast.GeneratorExp) -> Value:
    """One that may be left before its end: whether that matters depends on what its elements may raise."""
    machine = reader.machine
    before = len(machine.pending)
    try:
        found = elements(reader, node)
    except Dead:
        found = []
    if len(machine.pending) > before:
        machine.place.node = node
        machine.refuse(
            "a generator whose elements may raise, and may not all be asked for", "Make it a list: [...]."
        )
    return Seq(tuple(found), types.GeneratorType)


def first_that_decides(reader: Reader, node: ast.GeneratorExp, wanted: bool) -> Expression:
    """Whether an element of a generator is as wanted, true or false; none is asked for behind the first that is."""
    machine, trees = reader.machine, reader.machine.trees
    loop, outer = _loop(reader, node), reader.variables
    asked = node.elt if wanted else ast.copy_location(ast.UnaryOp(ast.Not(), node.elt), node.elt)

    def of_element(item: Value) -> Expression:
        reader.variables = dict(outer)
        _bind(reader, loop.target, item)
        first, *others = (*loop.ifs, asked)
        found = reader.condition(first)
        for part in others:
            found = reader.and_then(found, part, True)
        return found

    decided: Expression = trees.false
    hidden = reader.hidden
    try:
        for item in items_of(machine, reader.value(loop.iter), "a comprehension"):
            undecided = trees.negated(decided)
            if machine.decide(undecided) is False:
                break
            here = machine.branch(undecided, lambda item=item: of_element(item))  # type: ignore[misc]
            if here is None:  # every row that comes so far raises
                if decided is trees.false:
                    raise Dead
                break
            decided = trees.either(decided, here)
    finally:
        reader.variables, reader.hidden = outer, hidden
    return decided
