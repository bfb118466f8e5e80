"""Comparisons, truth and membership, as Python has them.

None is no number, nan equals nothing, and 2**53 + 1 is not 2.0**53.
"""

from __future__ import annotations

import math
from typing import Any

from penstock.expr.lift.arithmetic import as_float, as_int
from penstock.expr.lift.constants import is_quiet
from penstock.expr.lift.known import holds_values
from penstock.expr.lift.lists import in_list
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import NUMBERS, Known, Seq, Typed, Value
from penstock.expr.nodes import Expression, Literal
from penstock.expr.ops.python import EXACT_INTS
from penstock.expr.types import FLOAT64

OPS = {"Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}
TURNED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(machine: Machine, op: str, left: Value, right: Value) -> Expression:
    """Whether `left <op> right`, by the operation's name in the table."""
    if isinstance(left, Known) and isinstance(right, Known):
        return _known(machine, op, left.value, right.value)
    if isinstance(left, Seq) and isinstance(right, Seq) and left.kind is right.kind and not left.once:
        return _in_order(machine, op, left.items, right.items)
    if isinstance(left, Seq) or isinstance(right, Seq):
        machine.refuse("a tuple or list is compared with something else", "Compare its elements.")
    found = machine.over([left, right], lambda a, b: machine.one("bool", _compare(machine, op, a, b)))
    return truth(machine, found)


def _in_order(machine: Machine, op: str, left: tuple[Value, ...], right: tuple[Value, ...]) -> Expression:
    """Sequences, by the first elements that are not equal."""
    trees = machine.trees
    if not left or not right:
        return _known(machine, op, len(left), len(right))
    same = compare(machine, "eq", left[0], right[0])
    if op in ("eq", "ne") and len(left) != len(right):
        return trees.false if op == "eq" else trees.true
    decided = machine.decide(same)
    if decided is not None:
        rest = (left[1:], right[1:])
        return _in_order(machine, op, *rest) if decided else _first(machine, op, left[0], right[0])
    equal, other = machine.branches(
        same,
        lambda: _in_order(machine, op, left[1:], right[1:]),
        lambda: _first(machine, op, left[0], right[0]),
    )
    return trees.choose(
        same, trees.false if equal is None else equal, trees.false if other is None else other
    )


def _first(machine: Machine, op: str, left: Value, right: Value) -> Expression:
    """What decides where two elements are not equal."""
    if op in ("eq", "ne"):
        return machine.trees.true if op == "ne" else machine.trees.false
    return compare(machine, op, left, right)


def _known(machine: Machine, op: str, left: Any, right: Any) -> Expression:
    import operator

    for one in (left, right):
        require_quiet(machine, one)
        if holds_values(one):
            machine.refuse("a dict of values that differ from row to row is compared", "Compare its values.")
    try:
        return machine.trees.true if getattr(operator, op)(left, right) else machine.trees.false
    except TypeError as error:
        machine.fail("TypeError", str(error))


def require_quiet(machine: Machine, value: Any) -> None:
    """Refuse to ask what would run something of its own, or be another thing where the rows are."""
    if not is_quiet(value):
        machine.refuse(
            f"a value of type {type(value).__name__} is asked, which is no plain constant",
            "Take what is needed of it into a plain constant before the function: a number, a text, a dict.",
        )


def _compare(machine: Machine, op: str, a: Typed, b: Typed) -> Expression:
    trees = machine.trees
    if a.kind in NUMBERS and b.kind in NUMBERS:
        return _numbers(machine, op, a, b)
    if a.kind == b.kind and a.kind in ("str", "date", "datetime"):
        return trees.make(op, a.held, b.held)
    if "list" in (a.kind, b.kind):
        machine.refuse("lists are compared", "Compare their elements.")
    if "days" in (a.kind, b.kind):
        machine.refuse("a difference of dates is compared", "Compare its .days.")
    if op in ("eq", "ne"):
        same = a.kind == b.kind == "none"
        return trees.true if same == (op == "eq") else trees.false
    machine.fail(
        "TypeError", f"'{SIGNS[op]}' not supported between instances of '{a.python}' and '{b.python}'"
    )


def _numbers(machine: Machine, op: str, a: Typed, b: Typed) -> Expression:
    whole = [x.kind in ("bool", "int") for x in (a, b)]
    if a.kind == b.kind == "bool":
        return machine.trees.make(op, a.held, b.held)
    if all(whole):
        return _bounded(machine, op, as_int(machine, a), as_int(machine, b))
    if any(whole):
        if whole[1]:
            return _mixed(machine, TURNED[op], as_int(machine, b), b, a)
        return _mixed(machine, op, as_int(machine, a), a, b)
    return machine.trees.make(op, a.held, b.held)


def _bounded(machine: Machine, op: str, a: Typed, b: Typed) -> Expression:
    """Whole numbers; decided where their bounds do so."""
    trees = machine.trees
    if op in ("lt", "ge") and (a.high < b.low or a.low >= b.high):
        return trees.true if (a.high < b.low) == (op == "lt") else trees.false
    if op in ("gt", "le") and (a.low > b.high or a.high <= b.low):
        return trees.true if (a.low > b.high) == (op == "gt") else trees.false
    if op in ("eq", "ne") and (a.high < b.low or a.low > b.high):
        return trees.true if op == "ne" else trees.false
    return trees.make(op, a.held, b.held)


def _mixed(machine: Machine, op: str, whole: Typed, seen: Typed, real: Typed) -> Expression:
    """A whole number and a float, compared exactly and not as two floats."""
    trees = machine.trees
    if max(-whole.low, whole.high) <= EXACT_INTS:
        return trees.make(op, as_float(machine, seen), real.held)
    if isinstance(real.held, Literal):
        return _with_constant(machine, op, whole, real.held.value)
    edge = trees.literal(2.0**63, FLOAT64)
    above = trees.make("ge", real.held, edge)
    below = trees.make("lt", real.held, trees.literal(-(2.0**63), FLOAT64))
    nan = trees.make("is_nan", real.held)
    near = trees.make("ceil" if op in ("lt", "ge") else "floor", real.held)
    as_whole = trees.make("cast", near, params={"to": "int64"})
    inside = trees.make(op, whole.held, as_whole)
    if op in ("eq", "ne"):
        same = trees.both(trees.make("eq", near, real.held), trees.make("eq", whole.held, as_whole))
        inside = same if op == "eq" else trees.negated(same)
    if op in ("eq", "ne"):
        beyond = trees.false if op == "eq" else trees.true
        out = trees.either(nan, trees.either(above, below))
        return trees.make("when", out, beyond, inside)
    less = op in ("lt", "le")
    return trees.make(
        "when",
        nan,
        trees.false,
        above,
        trees.true if less else trees.false,
        below,
        trees.false if less else trees.true,
        inside,
    )


def _with_constant(machine: Machine, op: str, whole: Typed, real: Any) -> Expression:
    trees = machine.trees
    if math.isnan(real):
        return trees.true if op == "ne" else trees.false
    if not -(2.0**63) <= real < 2.0**63:
        less = op in ("lt", "le") if real > 0 else op in ("gt", "ge")
        return trees.true if less or op == "ne" else trees.false
    near = math.ceil(real) if op in ("lt", "ge") else math.floor(real)
    if op in ("eq", "ne") and near != real:
        return trees.true if op == "ne" else trees.false
    return trees.make(op, whole.held, machine.whole(near))


def truth(machine: Machine, value: Value) -> Expression:
    """Whether `if value` holds."""
    trees = machine.trees
    if isinstance(value, Known):
        require_quiet(machine, value.value)
        return trees.true if value.value else trees.false
    if isinstance(value, Seq):
        return trees.true if value.once or value.items else trees.false
    cases = machine.symbol(value).cases
    found = _truth(machine, cases[-1][1])
    for guard, typed in reversed(cases[:-1]):
        found = trees.choose(guard, _truth(machine, typed), found)
    return found


def _truth(machine: Machine, x: Typed) -> Expression:
    trees = machine.trees
    if x.kind == "bool":
        return _literal_truth(machine, x.held)
    if x.kind == "none":
        return trees.false
    if x.kind in ("int", "days"):
        if x.low > 0 or x.high < 0:
            return trees.true
        return trees.make("ne", x.held, machine.whole(0))
    if x.kind in ("float", "numpy"):
        return trees.make("ne", x.held, trees.literal(0.0, FLOAT64))
    if x.kind == "str":
        return trees.make("ne", x.held, machine.text(""))
    if x.kind == "list":
        return trees.make("gt", trees.make("list_length", x.held), machine.whole(0))
    return trees.true


def _literal_truth(machine: Machine, held: Expression) -> Expression:
    if isinstance(held, Literal):
        return machine.trees.true if held.value else machine.trees.false
    return held


def identical(machine: Machine, left: Value, right: Value) -> Expression:
    """`left is right`, where one of them is None, True or False."""
    if isinstance(left, Known) and isinstance(right, Known):
        return machine.trees.true if left.value is right.value else machine.trees.false
    if isinstance(left, Known):
        left, right = right, left
    if not isinstance(right, Known) or not (right.value is None or isinstance(right.value, bool)):
        machine.refuse("`is` compares objects, and rows have none", "Use ==, or `is None`.")
    if isinstance(left, Seq):
        return machine.trees.false
    found = machine.trees.false
    for guard, typed in machine.symbol(left).cases:
        if right.value is None and typed.kind == "none":
            found = machine.trees.either(found, guard)
        elif isinstance(right.value, bool) and typed.kind == "bool":
            same = typed.held if right.value else machine.trees.negated(typed.held)
            found = machine.trees.either(found, machine.trees.both(guard, same))
    return found


def in_text(machine: Machine, part: Typed, text: Typed) -> Value:
    """`part in text`, of a text or a list column."""
    if text.kind == "list":
        return machine.one("bool", in_list(machine, part, text))
    if text.kind != "str":
        machine.fail("TypeError", f"argument of type '{text.python}' is not iterable")
    if part.kind != "str":
        machine.fail("TypeError", f"'in <string>' requires string as left operand, not {part.python}")
    place = machine.trees.make("text_find", text.held, part.held)
    return machine.one("bool", machine.trees.make("ge", place, machine.whole(0)))
