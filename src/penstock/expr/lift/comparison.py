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
from penstock.expr.lift.values import NUMBERS, Known, Seq, Typed, Value, kind_of
from penstock.expr.nodes import Call, Expression, Literal
from penstock.expr.ops.python import EXACT_INTS
from penstock.expr.types import FLOAT64

OPS = {"Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}
TURNED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
REALS = ("float", "numpy")
"""Kinds of which a value may be nan."""
SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(machine: Machine, op: str, left: Value, right: Value) -> Expression:
    """Whether `left <op> right`, by the operation's name in the table."""
    return truth(machine, compared(machine, op, left, right))


def compared(machine: Machine, op: str, left: Value, right: Value) -> Value:
    """`left <op> right` as a value: a bool, or a truth value of NumPy's where one side is NumPy's."""
    if isinstance(left, Known) and isinstance(right, Known):
        return _known(machine, op, left.value, right.value)
    if isinstance(left, Seq) and isinstance(right, Seq) and left.kind is right.kind and not left.once:
        return machine.one("bool", _in_order(machine, op, left.items, right.items))
    if isinstance(left, Seq) or isinstance(right, Seq):
        machine.refuse("a tuple or list is compared with something else", "Compare its elements.")
    return machine.over(
        [left, right], lambda a, b: machine.one(_kind_of_truth(a, b), _compare(machine, op, a, b))
    )


def _kind_of_truth(a: Typed, b: Typed) -> str:
    """What a comparison of two types gives."""
    numpys = {a.kind, b.kind} & {"numpy", "numpy_bool"}
    # NumPy leaves these to Python.
    left_out = {a.kind, b.kind} & {"none", "date", "datetime", "days"}
    return "numpy_bool" if numpys and not left_out else "bool"


def same_or_equal(machine: Machine, left: Value, right: Value) -> Expression:
    """Whether they are one object or equal, as sequences compare their elements: one nan is then equal to itself."""
    if isinstance(left, Known) and isinstance(right, Known) and left.value is right.value:
        return machine.trees.true
    if isinstance(left, Seq) or isinstance(right, Seq):
        return compare(machine, "eq", left, right)
    return truth(machine, machine.over([left, right], lambda a, b: _same_or_equal(machine, a, b)))


def _same_or_equal(machine: Machine, a: Typed, b: Typed) -> Value:
    if a.kind in REALS and b.kind in REALS:
        if a is b:
            return machine.one("bool", machine.trees.true)
        if may_be_one(a.held, b.held):
            machine.refuse(
                "a float may be compared with itself in a tuple, a list or by `in`, where Python takes one nan "
                "for equal",
                "Compare the numbers themselves by ==, or leave out nan before.",
            )
    return machine.one("bool", _compare(machine, "eq", a, b))


def may_be_one(a: Expression, b: Expression) -> bool:
    """Whether two floats may be one object, and nan."""
    left, right = _sources(a), _sources(b)
    # Which element of a list is taken differs from row to row.
    return any(one is other or (_is_element(one) and _is_element(other)) for one in left for other in right)


def _sources(expr: Expression) -> list[Expression]:
    """What a float may come from unchanged, but for what is never nan."""
    if isinstance(expr, Literal):
        return [expr] if isinstance(expr.value, float) and math.isnan(expr.value) else []
    if isinstance(expr, Call):
        if expr.op == "when":
            return [source for value in (*expr.of[1::2], expr.of[-1]) for source in _sources(value)]
        if expr.op == "coalesce":
            return [source for value in expr.of for source in _sources(value)]
        if expr.op == "cast":  # of a whole number
            return []
    return [expr]


def _is_element(expr: Expression) -> bool:
    return isinstance(expr, Call) and expr.op in ("list_at", "list_best")


def _in_order(machine: Machine, op: str, left: tuple[Value, ...], right: tuple[Value, ...]) -> Expression:
    """Sequences, by the first elements that are not equal."""
    trees = machine.trees
    if not left or not right:
        return truth(machine, _known(machine, op, len(left), len(right)))
    if op in ("eq", "ne") and len(left) != len(right):
        return trees.false if op == "eq" else trees.true
    same = same_or_equal(machine, left[0], right[0])
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


def _known(machine: Machine, op: str, left: Any, right: Any) -> Known:
    import operator

    for one in (left, right):
        require_quiet(machine, one)
        if holds_values(one):
            machine.refuse("a dict of values that differ from row to row is compared", "Compare its values.")
    try:
        found = getattr(operator, op)(left, right)
    except TypeError as error:
        machine.fail("TypeError", str(error))
    if kind_of(found) not in ("bool", "numpy_bool"):
        machine.refuse(f"a comparison that gives a {type(found).__name__}", "Compare numbers and texts.")
    return Known(found)


def require_quiet(machine: Machine, value: Any) -> None:
    """Refuse to ask what would run something of its own, or be another thing where the rows are."""
    if not is_quiet(value):
        machine.refuse(
            f"a value of type {type(value).__name__} is asked, which is no plain constant",
            "Take what is needed of it into a plain constant before the function: a number, a text, a dict.",
        )


def _compare(machine: Machine, op: str, a: Typed, b: Typed) -> Expression:
    trees = machine.trees
    a, b = (Typed("bool", x.held) if x.kind == "numpy_bool" else x for x in (a, b))
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
    if "numpy" in (a.kind, b.kind):  # NumPy rounds a whole number to a float first
        return machine.trees.make(op, as_float(machine, a), as_float(machine, b))
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
    if x.kind in ("bool", "numpy_bool"):
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
