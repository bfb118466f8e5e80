"""Assignments, and lists that are changed in their place, which the lifter allows where nobody else can see it.

A list that the function made, and that no other name holds, may grow: it is then as good as a new one. One that came
from outside, or that another name may stand for, is refused.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from penstock.expr.lift.arithmetic import operate
from penstock.expr.lift.known import is_plain, items_of, native
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.operators import BINARY
from penstock.expr.lift.texts import element
from penstock.expr.lift.values import OUTSIDE, Known, Seq, Symbol, Value, seqs_in

if TYPE_CHECKING:
    from penstock.expr.lift.expressions import Reader


def assign(reader: Reader, target: ast.expr, value: Value) -> None:
    """`target = value`."""
    reader.machine.place.node = target
    if isinstance(target, ast.Name):
        refuse_once(reader.machine, value)
        reader.variables = {**reader.variables, target.id: value}
    elif isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, Symbol):
            items = _unpacked(reader.machine, value, len(target.elts))
        else:
            items = items_of(reader.machine, value, "unpacking")
        if any(isinstance(one, ast.Starred) for one in target.elts):
            reader.machine.refuse("unpacking with *", "Name every element.")
        if len(items) != len(target.elts):
            many = (
                "too many values to unpack"
                if len(items) > len(target.elts)
                else "not enough values to unpack"
            )
            reader.machine.fail("ValueError", many)
        for one, item in zip(target.elts, items, strict=True):
            assign(reader, one, item)
    else:
        reader.machine.refuse("an attribute or an element is assigned", "Use plain variables.")


def _unpacked(machine: Machine, value: Symbol, count: int) -> list[Value]:
    """The elements of a list, as many as there are names; an error where it has more or fewer."""
    cases = machine.symbol(value).cases
    if len(cases) != 1 or cases[0][1].kind != "list":
        machine.refuse("a value that differs from row to row is unpacked", "Take its elements one by one.")
    trees, (_, held) = machine.trees, cases[0]
    length = trees.make("list_length", held.held)
    message = trees.make(
        "text_concat",
        machine.text(f"not enough values to unpack (expected {count}, got "),
        trees.make("cast", length, params={"to": "string"}),
        machine.text(")"),
    )
    machine.fault(trees.make("lt", length, machine.whole(count)), "ValueError", message)
    machine.fault(
        trees.make("gt", length, machine.whole(count)),
        "ValueError",
        f"too many values to unpack (expected {count})",
    )
    return [element(machine, held, machine.typed(place)) for place in range(count)]


def refuse_once(machine: Machine, value: Value) -> None:
    """What can be gone through a single time has to be, at its place; whether it was later, nobody can see."""
    for one in seqs_in(value):
        if one.once:
            machine.refuse(
                f"a {one.kind.__name__} is kept, which can be gone through a single time",
                "Make it a list first: list(...), or [... for ...].",
            )


def appended(reader: Reader, node: ast.expr) -> bool:
    """`name.append(value)` as a statement."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[item], keywords=[]):
            before = reader.variables.get(name)
        case _:
            return False
    if not isinstance(before, Seq) or before.kind is not list:
        return False
    _refuse_shared(reader, name, before, "list.append()")
    value = reader.value(item)
    refuse_once(reader.machine, value)
    reader.variables = {**reader.variables, name: Seq((*before.items, value), list, before.born)}
    return True


def _refuse_shared(reader: Reader, name: str, before: Seq, what: str) -> None:
    """Refuse to change a list that somebody else may see."""
    if before.born & OUTSIDE:
        reader.machine.refuse(
            f"{what} changes {name!r} in its place, which comes from outside the function",
            "Make a new list of it first: list(...).",
        )
    if any(_holds(value, before.born) for value in reader.going):
        reader.machine.refuse(
            f"{what} changes {name!r} in its place while a loop goes through it",
            "Go through a copy: for value in list(name).",
        )
    held = [value for other, value in reader.variables.items() if other != name]
    for value in (*held, *reader.given, *before.items):
        if _holds(value, before.born):
            reader.machine.refuse(
                f"{what} changes {name!r} in its place, which something else may stand for too",
                "Make a new list: name = name + [value].",
            )


def _holds(value: Value, born: frozenset[int]) -> bool:
    """Whether a list in a value may be one that was made at one of these places."""
    return any(one.born & born for one in seqs_in(value))


def is_named(reader: Reader, value: Value) -> bool:
    """Whether something else stands for a list in a value as well, so that the two have to change together."""
    born = frozenset[int]().union(*(one.born for one in seqs_in(value))) - OUTSIDE
    if not born:
        return False
    return any(_holds(held, born) for held in (*reader.variables.values(), *reader.given, *reader.going))


def augmented(reader: Reader, node: ast.AugAssign) -> None:
    """`target += value`, and its kin."""
    machine, target = reader.machine, node.target
    if not isinstance(target, ast.Name):
        machine.refuse("an attribute or an element is assigned", "Use plain variables.")
    before = reader.value(ast.copy_location(ast.Name(target.id, ast.Load()), target))
    added, name = reader.value(node.value), type(node.op).__name__
    machine.place.node = node
    value: Value
    if isinstance(before, Seq) and before.kind is list:
        _refuse_shared(reader, target.id, before, "an augmented assignment")
        if name == "Add":
            items = (*before.items, *items_of(machine, added, "+="))
        elif is_plain(before) and is_plain(added):
            found = native(machine, BINARY[name], [before, added], {})
            items = found.items if isinstance(found, Seq) else ()
        else:
            machine.refuse("a list is changed in its place", "Build a new one.")
        value = Seq(items, list, before.born)
    elif isinstance(before, Known) and isinstance(before.value, dict | set | list | bytearray):
        machine.refuse(
            f"an augmented assignment changes a {type(before.value).__name__} in its place",
            "Build a new one.",
        )
    elif is_plain(before) and is_plain(added):
        value = native(machine, BINARY[name], [before, added], {})
    elif isinstance(before, Seq) and isinstance(added, Seq) and name == "Add":
        value = Seq((*before.items, *added.items), before.kind)
    else:
        value = machine.over([before, added], lambda a, b: operate(machine, name, a, b))
    assign(reader, target, value)
