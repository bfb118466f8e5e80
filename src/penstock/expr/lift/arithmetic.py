"""Python's operators on values of one type each: what comes out, and when it raises.

Whole numbers carry bounds, so that a sum that cannot leave 64 bits is not asked whether it did. Called by
`penstock.expr.lift.expressions` for every pair of cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

from penstock.expr.lift.machine import REACH, Machine
from penstock.expr.lift.values import GREATEST, LEAST, NUMBERS, Symbol, Typed, Value
from penstock.expr.nodes import Expression, Literal
from penstock.expr.ops.python import EXACT_INTS
from penstock.expr.types import FLOAT64

SIGNS = {
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "Pow": "** or pow()",
    "BitAnd": "&",
    "BitOr": "|",
    "BitXor": "^",
    "LShift": "<<",
    "RShift": ">>",
}
LOGICAL = ("BitAnd", "BitOr", "BitXor")
BITS = {"BitAnd": "and", "BitOr": "or", "BitXor": "xor", "LShift": "lshift", "RShift": "rshift"}


def as_float(machine: Machine, x: Typed) -> Expression:
    """A number as a float, rounded as Python does."""
    if x.kind in ("float", "numpy"):
        return x.held
    if isinstance(x.held, Literal):
        return machine.trees.literal(float(x.held.value), FLOAT64)  # type: ignore[arg-type]  # a number
    return machine.trees.make("cast", as_int(machine, x).held, params={"to": "float64"})


def as_int(machine: Machine, x: Typed) -> Typed:
    """A bool or an int as an int."""
    if x.kind == "int":
        return x
    if isinstance(x.held, Literal):
        return machine.typed(int(x.held.value))  # type: ignore[arg-type]  # a bool
    return Typed("int", machine.trees.make("cast", x.held, params={"to": "int64"}), 0, 1)


def operate(machine: Machine, name: str, a: Typed, b: Typed) -> Value:
    """`a <operator> b`, by the operator's name in Python's syntax tree."""
    if "numpy_bool" in (a.kind, b.kind):
        return _numpy_truths(machine, name, a, b)
    if a.kind in NUMBERS and b.kind in NUMBERS:
        if name in BITS:
            return _bits(machine, name, a, b)
        if "numpy" in (a.kind, b.kind):
            return _numpy(machine, name, a, b)
        if "float" in (a.kind, b.kind):
            return _floats(machine, name, as_float(machine, a), as_float(machine, b))
        return _ints(machine, name, as_int(machine, a), as_int(machine, b))
    if name == "Add" and a.kind == b.kind == "str":
        return machine.one("str", machine.trees.make("text_concat", a.held, b.held))
    if (
        name == "Mult"
        and {a.kind, b.kind} <= {"str", "int", "bool"}
        and "str" in (a.kind, b.kind)
        and a.kind != b.kind
    ):
        text, times = (a, b) if a.kind == "str" else (b, a)
        found = machine.trees.make("text_repeat", text.held, as_int(machine, times).held)
        machine.fault(
            machine.trees.make("is_null", found),
            REACH,
            "a repeated text is longer than 10 million characters",
        )
        return machine.one("str", found)
    if name == "Sub" and a.kind == b.kind == "date":
        days = machine.trees.make("days_between", a.held, b.held)
        return Symbol(((machine.trees.true, Typed("days", days, -4_000_000, 4_000_000)),))
    if {a.kind, b.kind} & {"date", "datetime", "days", "list"} or (name == "Mod" and a.kind == "str"):
        machine.refuse(
            f"{a.python} {SIGNS[name]} {b.python} is not offered",
            "Compute with numbers and texts, or f-strings.",
        )
    machine.fail("TypeError", f"unsupported operand type(s) for {SIGNS[name]}: '{a.python}' and '{b.python}'")


def _within(low: int, high: int) -> bool:
    return low >= LEAST and high <= GREATEST


def _checked(machine: Machine, op: str, a: Typed, b: Typed, low: int, high: int, what: str) -> Symbol:
    """A whole number, with the fault where it leaves 64 bits if its bounds do."""
    found = machine.trees.make(op, a.held, b.held)
    if not _within(low, high):
        machine.fault(machine.trees.make("is_null", found), REACH, f"a whole number leaves 64 bits ({what})")
    return Symbol(((machine.trees.true, Typed("int", found, max(low, LEAST), min(high, GREATEST))),))


def _ints(machine: Machine, name: str, a: Typed, b: Typed) -> Value:
    if name == "Add":
        return _checked(machine, "int_add", a, b, a.low + b.low, a.high + b.high, "+")
    if name == "Sub":
        return _checked(machine, "int_subtract", a, b, a.low - b.high, a.high - b.low, "-")
    if name == "Mult":
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return _checked(machine, "int_multiply", a, b, min(corners), max(corners), "*")
    if name == "Pow":
        return _int_power(machine, a, b)
    zero = {"Div": "division by zero", "Mod": "integer modulo by zero"}
    _nonzero(machine, b, zero.get(name, "integer division or modulo by zero"))
    if name == "Div":
        found = machine.trees.make("int_divide", a.held, b.held)
        if max(-a.low, a.high, -b.low, b.high) > EXACT_INTS:
            machine.fault(
                machine.trees.make("is_null", found), REACH, "a whole number beyond 2**53 is divided (/)"
            )
        return machine.one("float", found)
    if name == "FloorDiv":
        most = max(abs(a.low), abs(a.high))
        if most > GREATEST and not b.low <= -1 <= b.high:
            most = GREATEST  # only the least number divided by -1 is too large
        return _checked(machine, "int_floordiv", a, b, max(-most, LEAST), most, "//")
    found = machine.trees.make("int_modulo", a.held, b.held)
    return Symbol(((machine.trees.true, Typed("int", found, min(b.low + 1, 0), max(b.high - 1, 0))),))


def _nonzero(machine: Machine, divisor: Typed, message: str) -> None:
    if divisor.kind == "int" and (divisor.low > 0 or divisor.high < 0):
        return
    zero = machine.whole(0) if divisor.kind == "int" else machine.trees.literal(0.0, FLOAT64)
    machine.fault(equal(machine, divisor.held, zero), "ZeroDivisionError", message)


def equal(machine: Machine, left: Expression, right: Expression) -> Expression:
    """Whether two expressions of one type are equal; decided where both are constants."""
    if isinstance(left, Literal) and isinstance(right, Literal):
        return machine.trees.true if left.value == right.value else machine.trees.false
    return machine.trees.make("eq", left, right)


def _int_power(machine: Machine, a: Typed, b: Typed) -> Value:
    def whole() -> Value:
        found = machine.trees.make("int_power", a.held, b.held)
        largest = max(abs(a.low), abs(a.high))
        bounds = (LEAST, GREATEST)
        if b.high <= 63 and largest ** max(b.high, 0) <= GREATEST:
            bounds = (-(largest ** max(b.high, 0)), max(largest, 1) ** max(b.high, 0))
        else:
            machine.fault(machine.trees.make("is_null", found), REACH, "a whole number leaves 64 bits (**)")
        return Symbol(((machine.trees.true, Typed("int", found, *bounds)),))

    if b.low >= 0:
        return whole()

    def fraction() -> Value:
        return _float_power(machine, as_float(machine, a), as_float(machine, b))

    if b.high < 0:
        return fraction()
    negative = machine.trees.make("lt", b.held, machine.whole(0))
    yes, no = machine.branches(negative, fraction, whole)
    return machine.merge(negative, yes, no)


def _floats(machine: Machine, name: str, a: Expression, b: Expression) -> Value:
    plain = {"Add": "add", "Sub": "subtract", "Mult": "multiply"}
    if name in plain:
        return machine.one("float", machine.trees.make(plain[name], a, b))
    if name == "Pow":
        return _float_power(machine, a, b)
    message = {
        "Div": "float division by zero",
        "Mod": "float modulo",
        "FloorDiv": "float floor division by zero",
    }
    _nonzero(machine, Typed("float", b), message[name])
    op = {"Div": "divide", "Mod": "float_modulo", "FloorDiv": "float_floordiv"}[name]
    return machine.one("float", machine.trees.make(op, a, b))


def _float_power(machine: Machine, a: Expression, b: Expression) -> Value:
    trees = machine.trees
    found = trees.make("float_power", a, b)
    if isinstance(b, Literal) and isinstance(b.value, float) and b.value in (1.0, 2.0):
        missing: Expression = trees.make("is_null", found)  # only an overflow is left
        machine.fault(missing, "OverflowError", "(34, 'Numerical result out of range')")
        return machine.one("float", found)
    zero = trees.literal(0.0, FLOAT64)
    infinite = trees.literal(float("inf"), FLOAT64)
    pole = trees.both(equal(machine, a, zero), trees.make("lt", b, zero))
    pole = trees.both(pole, trees.negated(equal(machine, trees.make("abs", b), infinite)))
    machine.fault(pole, "ZeroDivisionError", "0.0 cannot be raised to a negative power")
    broken = trees.negated(equal(machine, b, trees.make("floor", b)))
    if isinstance(b, Literal) and isinstance(b.value, float):
        broken = trees.false if b.value.is_integer() or not math.isfinite(b.value) else trees.true
    missing = trees.make("is_null", found)
    machine.fault(
        trees.both(missing, trees.both(trees.make("lt", a, zero), broken)),
        REACH,
        "a negative number to a broken power is a complex number (**)",
    )
    machine.fault(missing, "OverflowError", "(34, 'Numerical result out of range')")
    return machine.one("float", found)


def _numpy(machine: Machine, name: str, a: Typed, b: Typed) -> Value:
    """A float64 of NumPy's and another number: IEEE's arithmetic, which raises nothing."""
    ops = {"Add": "add", "Sub": "subtract", "Mult": "multiply", "Div": "divide"}
    if name not in ops:
        machine.refuse(
            f"{SIGNS[name]} on a NumPy number follows NumPy's rules, which engines do not share",
            "Turn it into a float first: float(...).",
        )
    return machine.one("numpy", machine.trees.make(ops[name], as_float(machine, a), as_float(machine, b)))


def _numpy_truths(machine: Machine, name: str, a: Typed, b: Typed) -> Value:
    """A truth value of NumPy's and another value."""
    kinds = {a.kind, b.kind}
    if kinds <= {"bool", "numpy_bool"} and name in LOGICAL:
        return _logical(machine, name, "numpy_bool", a.held, b.held)
    if kinds & {"float", "numpy"}:  # float64, and so is what comes out
        return _numpy(machine, name, a, b)
    refuse_numpy_truth(machine, SIGNS[name])


def refuse_numpy_truth(machine: Machine, doing: str) -> NoReturn:
    """Refuse what NumPy does with its truth values in another way than Python with bools, or not at all."""
    machine.refuse(
        f"{doing} of a truth value of NumPy's follows NumPy's rules",
        "Write bool(np.isnan(x)), or math.isnan(x); bool(...) around a comparison.",
    )


def _logical(machine: Machine, name: str, kind: str, a: Expression, b: Expression) -> Value:
    """`&`, `|` and `^` of truth values."""
    trees = machine.trees
    if name == "BitXor":
        return machine.one(kind, trees.make("ne", a, b))
    return machine.one(kind, (trees.both if name == "BitAnd" else trees.either)(a, b))


def _bits(machine: Machine, name: str, a: Typed, b: Typed) -> Value:
    if not {a.kind, b.kind} <= {"bool", "int"}:
        machine.fail(
            "TypeError", f"unsupported operand type(s) for {SIGNS[name]}: '{a.python}' and '{b.python}'"
        )
    if a.kind == b.kind == "bool" and name in LOGICAL:
        return _logical(machine, name, "bool", a.held, b.held)
    x, y = as_int(machine, a), as_int(machine, b)
    found = machine.trees.make("int_bits", x.held, y.held, params={"operation": BITS[name]})
    if name in ("LShift", "RShift"):
        if y.low < 0:
            negative = machine.trees.make("lt", y.held, machine.whole(0))
            machine.fault(negative, "ValueError", "negative shift count")
        if name == "LShift":
            machine.fault(machine.trees.make("is_null", found), REACH, "a whole number leaves 64 bits (<<)")
    low, high = (LEAST, GREATEST) if x.low < 0 or y.low < 0 or name == "LShift" else (0, GREATEST)
    return Symbol(((machine.trees.true, Typed("int", found, low, high)),))


def negative(machine: Machine, x: Typed) -> Value:
    """-x."""
    if x.kind in ("bool", "int"):
        return _ints(machine, "Sub", machine.typed(0), as_int(machine, x))
    if x.kind in ("float", "numpy"):
        return machine.one(x.kind, machine.trees.make("negate", x.held))
    if x.kind == "numpy_bool":
        refuse_numpy_truth(machine, "-")
    machine.fail("TypeError", f"bad operand type for unary -: '{x.python}'")


def positive(machine: Machine, x: Typed) -> Value:
    """+x."""
    if x.kind == "numpy":  # another object than x, unlike +x of Python's own
        return machine.one("numpy", x.held)
    if x.kind in NUMBERS:
        return Symbol(((machine.trees.true, as_int(machine, x) if x.kind == "bool" else x),))
    if x.kind == "numpy_bool":
        refuse_numpy_truth(machine, "+")
    machine.fail("TypeError", f"bad operand type for unary +: '{x.python}'")


def inverted(machine: Machine, x: Typed) -> Value:
    """~x."""
    if x.kind in ("bool", "int"):
        return _ints(machine, "Sub", machine.typed(-1), as_int(machine, x))
    if x.kind == "numpy_bool":
        return machine.one("numpy_bool", machine.trees.negated(x.held))
    machine.fail("TypeError", f"bad operand type for unary ~: '{x.python}'")


def absolute(machine: Machine, x: Typed) -> Value:
    """abs(x)."""
    if x.kind in ("float", "numpy"):
        return machine.one(x.kind, machine.trees.make("abs", x.held))
    if x.kind == "numpy_bool":
        refuse_numpy_truth(machine, "abs()")
    if x.kind not in ("bool", "int"):
        machine.fail("TypeError", f"bad operand type for abs(): '{x.python}'")
    number = as_int(machine, x)
    if number.low >= 0:
        return Symbol(((machine.trees.true, number),))
    below = machine.trees.make("lt", number.held, machine.whole(0))
    turned, same = machine.branches(
        below, lambda: negative(machine, number), lambda: Symbol(((machine.trees.true, number),))
    )
    found = machine.merge(below, turned, same)
    assert isinstance(found, Symbol)
    expr = found.cases[0][1].held
    bounds = (0, min(max(abs(number.low), abs(number.high)), GREATEST))
    return Symbol(((machine.trees.true, Typed("int", expr, *bounds)),))


UNARY: dict[str, Callable[[Machine, Typed], Value]] = {"USub": negative, "UAdd": positive, "Invert": inverted}
