"""Python's operators on numbers of known kinds: the text that computes them, and the kind that comes out."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from penstock.compiled.plain import is_readable, numbers_among
from penstock.compiled.scope import NUMBERS, Scope
from penstock.compiled.values import (
    EXACT,
    GREATEST,
    LEAST,
    Known,
    Number,
    Several,
    Value,
    converted,
    literal,
)
from penstock.expr.lift.constants import range_length
from penstock.expr.lift.operators import BINARY, UNARY

COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "Lt": ("<", operator.lt),
    "LtE": ("<=", operator.le),
    "Gt": (">", operator.gt),
    "GtE": (">=", operator.ge),
    "Eq": ("==", operator.eq),
    "NotEq": ("!=", operator.ne),
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
OUTCOMES = {
    "<": "& 1 != 0",
    "<=": "& 3 != 0",
    ">": "& 4 != 0",
    ">=": "& 6 != 0",
    "==": "& 2 != 0",
    "!=": "& 2 == 0",
}
"""What `compare_if` has to give for a comparison to hold."""
NAMES = {"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "FloorDiv": "floordiv", "Mod": "mod"}
SIGNS = {"Add": "+", "Sub": "-", "Mult": "*"}
BITS = {"BitAnd": "&", "BitOr": "|", "BitXor": "^"}
MOST_POWER = 300
MOST_ELEMENTS = 1000
BEGIN = "Begin with a float: 0.0 instead of 0."


def folded(scope: Scope, compute: Callable[..., Any], *values: Any) -> Known:
    """An operation on constants, done now."""
    try:
        return Known(compute(*values))
    except Exception as error:
        scope.refuse(f"it raises {type(error).__name__} in every row that comes here: {error}", "Correct it.")


def binary(scope: Scope, op: str, one: Value, other: Value) -> Value:
    """`one <operator> other`, by the operator's name in Python's syntax tree."""
    if isinstance(one, Known) and isinstance(other, Known):
        large = type(other.value) is int and abs(other.value) > MOST_POWER
        if not (op in ("Pow", "LShift") and large) and one.is_number and other.is_number:
            return folded(scope, BINARY[op], one.value, other.value)
    a, b = scope.number(one), scope.number(other)
    kinds = {a.kind, b.kind}
    if op in BITS or op in ("LShift", "RShift"):
        return _bits(scope, op, a, b)
    if op == "MatMult":
        scope.refuse("@ multiplies matrices", NUMBERS)
    if op == "Pow":
        return _power(scope, a, b, other)
    if kinds <= {"bool", "int"}:
        text = f"{NAMES[op]}_ii({converted(a, 'int')}, {converted(b, 'int')})"
        return Number("float" if op == "Div" else "int", text)
    if "float" in kinds or op == "Div":
        # With a float at hand Python makes floats of both; and so it does for / of ints that are floats exactly.
        kind = "float" if "float" in kinds else "mixed"
        left, right = converted(a, kind), converted(b, kind)
        if op in SIGNS:
            return Number("float", f"({left} {SIGNS[op]} {right})")
        return Number("float", f"{NAMES[op]}_ff({left}, {right})")
    return Number("mixed", f"{NAMES[op]}_mm({_mixed(a)}, {_mixed(b)})")


def _mixed(number: Number) -> str:
    return converted(number, "mixed")


def _power(scope: Scope, a: Number, b: Number, exponent: Value) -> Number:
    kinds = {a.kind, b.kind}
    if kinds <= {"bool", "int"}:
        if isinstance(exponent, Known) and exponent.value < 0:
            return Number("float", f"pow_ff({converted(a, 'float')}, {converted(b, 'float')})")
        # A power below zero of rows is a float: such a row is Python's.
        return Number("int", f"pow_ii({converted(a, 'int')}, {converted(b, 'int')})")
    if "float" not in kinds:
        scope.refuse("** of a number that may be an int or a float, whose powers differ", BEGIN)
    return Number("float", f"pow_ff({converted(a, 'float')}, {converted(b, 'float')})")


def _bits(scope: Scope, op: str, a: Number, b: Number) -> Number:
    if not {a.kind, b.kind} <= {"bool", "int"}:
        scope.refuse("bits of a float", "Turn it into an int first: int(x).")
    if a.kind == b.kind == "bool" and op in BITS:
        return Number("bool", f"({a.code} {'!=' if op == 'BitXor' else BITS[op]} {b.code})")
    left, right = converted(a, "int"), converted(b, "int")
    if op in BITS:
        return Number("int", f"({left} {BITS[op]} {right})")
    return Number("int", f"{'shl' if op == 'LShift' else 'shr'}_ii({left}, {right})")


def unary(scope: Scope, op: str, value: Value) -> Value:
    """`-x`, `+x` and `~x`."""
    if isinstance(value, Known) and value.is_number:
        return folded(scope, UNARY[op], value.value)
    a = scope.number(value)
    if op == "Invert":
        if a.kind not in ("bool", "int"):
            scope.refuse("bits of a float", "Turn it into an int first: int(x).")
        return Number("int", f"(~{converted(a, 'int')})")
    if a.kind == "bool":
        a = Number("int", converted(a, "int"))
    if op == "UAdd":
        return a
    if a.kind == "float":
        return Number("float", f"(-{a.code})")
    return Number(a.kind, f"neg_{a.kind[0]}({a.code})")


def truth(scope: Scope, value: Value) -> Value:
    """Whether a value counts as true: known, or a bool."""
    if isinstance(value, Known):
        return folded(scope, bool, value.value)
    if isinstance(value, Several):
        return scope.after([value], Known(bool(value.items)))
    a = scope.number(value)
    return a if a.kind == "bool" else Number("bool", f"({a.code} != {'0' if a.kind == 'int' else '0.0'})")


def compare(scope: Scope, op: str, one: Value, other: Value) -> Value:
    """A single comparison, exact between ints and floats as well."""
    if op in ("Is", "IsNot"):
        return _identity(scope, op, one, other)
    if isinstance(one, Known) and isinstance(other, Known):
        return folded(scope, COMPARISONS[op][1], one.value, other.value)
    for side in (one, other):
        if isinstance(side, Known) and side.value is None and op in ("Eq", "NotEq"):
            return scope.after([one, other], Known(op == "NotEq"))
    a, b = scope.number(one), scope.number(other)
    sign = COMPARISONS[op][0]
    whole = ("bool", "int")
    if (a.kind in whole) == (b.kind in whole):
        kind = "int" if a.kind in whole else "float"
        return Number("bool", f"({converted(a, kind)} {sign} {converted(b, kind)})")
    for known, number in ((one, b), (other, a)):  # a small constant is a float without loss
        if isinstance(known, Known) and isinstance(known.value, int) and abs(known.value) <= EXACT:
            exact = literal(float(known.value)).code
            sides = (exact, number.code) if known is one else (number.code, exact)
            return Number("bool", f"({sides[0]} {sign} {sides[1]})")
    if a.kind not in whole:
        a, b, sign = b, a, MIRRORED[sign]
    found = f"compare_if({converted(a, 'int')}, {b.code})"
    return Number("bool", f"({found} {OUTCOMES[sign]})")


def _identity(scope: Scope, op: str, one: Value, other: Value) -> Value:
    for side, beside in ((one, other), (other, one)):
        if isinstance(side, Known) and side.value is None:
            # A row with None among its arguments is Python's, so that what comes here is a value.
            same = isinstance(beside, Known) and beside.value is None
            return scope.after([beside], Known(same == (op == "Is")))
    scope.refuse("`is` of numbers asks for objects, which columns do not have", "Use ==.")


def contained(scope: Scope, one: Value, container: Value) -> Value:
    """`one in container`."""
    number = None if isinstance(one, Known) else scope.number(one)
    if isinstance(container, Several):
        return _among(scope, one, container)
    if not isinstance(container, Known):
        scope.refuse("`in` a number", "Use a tuple of numbers.")
    if number is None:
        return folded(scope, lambda: one.value in container.value)  # type: ignore[union-attr]  # both are known
    if not is_readable(container.value):
        scope.refuse(f"`in` a {type(container.value).__name__}", "Use a tuple of numbers.")
    count = range_length(container.value) if type(container.value) is range else len(container.value)
    if count > MOST_ELEMENTS:
        scope.refuse(f"`in` {count} elements", f"At most {MOST_ELEMENTS} are compared with.")
    whole = number.kind in ("bool", "int")
    try:
        items = numbers_among(container.value, whole)
    except ValueError as other:
        scope.refuse(f"`in` what holds a {other}, which may equal a number", "Use a tuple of plain numbers.")
    if any(item != item for item in items):
        scope.refuse("`in` what holds nan, of which Python asks for the very object", "Use math.isnan().")
    if whole:  # equal to a float only if that is whole
        wanted: list[Any] = [int(item) for item in items if LEAST <= item <= GREATEST and int(item) == item]
        kind = "int"
    else:
        wanted, kind = [float(item) for item in items if abs(item) <= EXACT or type(item) is float], "float"
        if any(type(item) is int and abs(item) > EXACT for item in items):
            scope.refuse("a float `in` whole numbers beyond 2**53", "Write them as floats.")
    if not wanted:
        return scope.after([one], Known(False))
    return Number("bool", f"is_in({scope.unit.array(wanted, kind)}, {converted(number, kind)})")


def _among(scope: Scope, one: Value, container: Several) -> Value:
    """`in` a tuple of values that differ from row to row."""
    numbers = [scope.number(item) for item in (one, *container.items)]
    if any(number.kind in ("float", "mixed") for number in numbers):
        scope.refuse("`in` a tuple that may hold nan, of which Python asks for the very object", "Use ==.")
    tests = [scope.number(compare(scope, "Eq", one, item)).code for item in container.items]
    return Number("bool", f"({' or '.join(tests)})")
