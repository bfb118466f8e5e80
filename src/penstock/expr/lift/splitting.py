"""Texts cut in two: `partition`, `rpartition`, and `split(sep, 1)` where its elements are taken at once.

A list of one or two texts, as `split(sep, 1)` gives, has no exact expression; its elements do.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import GREATEST, Known, Symbol, Typed, Value
from penstock.expr.nodes import Expression

if TYPE_CHECKING:
    from penstock.expr.lift.expressions import Reader


class Halves(NamedTuple):
    """A text at a separator: whether that is in it, and what stands before and behind."""

    there: Expression
    before: Expression
    behind: Expression


def last_place(machine: Machine, x: Expression, part: Expression) -> Expression:
    """str.rfind(part): where the part last begins; -1 where it does not."""
    trees = machine.trees
    place = trees.make("text_find", trees.make("text_reverse", x), trees.make("text_reverse", part))
    room = trees.make("int_subtract", trees.make("length", x), trees.make("length", part))
    missing = trees.make("lt", place, machine.whole(0))
    return trees.choose(missing, machine.whole(-1), trees.make("int_subtract", room, place))


def halved(machine: Machine, x: Expression, separator: str, last: bool) -> Halves:
    """A text cut at the first separator, or at the last."""
    trees, text = machine.trees, machine.text(separator)
    place = last_place(machine, x, text) if last else trees.make("text_find", x, text)
    return Halves(
        trees.make("ge", place, machine.whole(0)),
        trees.make("text_slice", x, machine.whole(0), place),
        trees.make(
            "text_slice",
            x,
            trees.make("int_add", place, machine.whole(len(separator))),
            machine.whole(GREATEST),
        ),
    )


def split_once(reader: Reader, node: ast.expr) -> tuple[Value, str, bool] | None:
    """The text, the separator and whether it is the last one, where an expression is `text.split(separator, 1)`."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=text, attr="split" | "rsplit" as name),
            args=[separator, ast.Constant(value=1)],
            keywords=[],
        ):
            pass
        case ast.Call(
            func=ast.Attribute(value=text, attr="split" | "rsplit" as name),
            args=[separator],
            keywords=[ast.keyword(arg="maxsplit", value=ast.Constant(value=1))],
        ):
            pass
        case _:
            return None
    receiver, part = reader.value(text), reader.value(separator)
    if not isinstance(part, Known) or type(part.value) is not str or not part.value:
        return None
    if isinstance(receiver, Symbol) and all(typed.kind in ("str", "none") for _, typed in receiver.cases):
        return receiver, part.value, name == "rsplit"
    return None


def element_of_split(
    machine: Machine,
    split: tuple[Value, str, bool],
    index: int,
    missing: tuple[str, str] = ("IndexError", "list index out of range"),
) -> Value:
    """`text.split(separator, 1)[index]`; an error where there is no such element."""
    text, separator, last = split

    def of_case(x: Typed) -> Value:
        if x.kind == "none":
            name = "rsplit" if last else "split"
            machine.fail("AttributeError", f"'NoneType' object has no attribute '{name}'")
        halves = halved(machine, x.held, separator, last)
        if index == 0:
            return machine.one("str", machine.trees.choose(halves.there, halves.before, x.held))
        if index == -1:
            return machine.one("str", machine.trees.choose(halves.there, halves.behind, x.held))
        none = machine.trees.negated(halves.there) if index in (1, -2) else machine.trees.true
        machine.fault(none, *missing)
        return machine.one("str", halves.behind if index == 1 else halves.before)

    return machine.over([text], of_case)


def unpacked_split(machine: Machine, split: tuple[Value, str, bool]) -> tuple[Value, Value]:
    """`a, b = text.split(separator, 1)`."""
    missing = ("ValueError", "not enough values to unpack (expected 2, got 1)")
    return (
        element_of_split(machine, split, -2, missing),
        element_of_split(machine, split, 1, missing),
    )
