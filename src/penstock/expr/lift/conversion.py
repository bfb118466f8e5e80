"""int(), float(), str(), bool(), round(), and how a result becomes the declared type: without loss, or not at all."""

from __future__ import annotations

from penstock.expr.lift.arithmetic import as_float, as_int, equal, refuse_numpy_truth
from penstock.expr.lift.comparison import _truth as truth_of
from penstock.expr.lift.forms import Form
from penstock.expr.lift.machine import REACH, Machine
from penstock.expr.lift.times import time_text
from penstock.expr.lift.values import GREATEST, LEAST, Symbol, Typed, Value
from penstock.expr.nodes import Expression
from penstock.expr.ops.python import EXACT_INTS, MOST_DIGITS
from penstock.expr.types import FLOAT64


def _same(machine: Machine, x: Typed) -> Symbol:
    return Symbol(((machine.trees.true, x),))


def is_infinite(machine: Machine, x: Expression) -> Expression:
    """Whether a float is an infinity."""
    return equal(machine, machine.trees.make("abs", x), machine.trees.literal(float("inf"), FLOAT64))


def whole_of(machine: Machine, x: Expression, nan: str, infinite: str) -> Symbol:
    """A float without a fraction as an int; faults for those that are none."""
    found = machine.trees.make("cast", x, params={"to": "int64"})
    machine.fault(machine.trees.make("is_nan", x), "ValueError", nan)
    machine.fault(is_infinite(machine, x), "OverflowError", infinite)
    machine.fault(machine.trees.make("is_null", found), REACH, "a whole number leaves 64 bits (from a float)")
    return machine.one("int", found)


def to_int(machine: Machine, x: Typed) -> Value:
    """int(x)."""
    if x.kind in ("bool", "int", "numpy_bool"):
        return _same(machine, as_int(machine, x))
    if x.kind in ("float", "numpy"):
        return whole_of(
            machine, x.held, "cannot convert float NaN to integer", "cannot convert float infinity to integer"
        )
    if x.kind == "str":
        trees = machine.trees
        wrong = trees.negated(trees.make("is_int_text", x.held))
        message = trees.make(
            "text_concat",
            machine.text("invalid literal for int() with base 10: '"),
            x.held,
            machine.text("'"),
        )
        machine.fault(wrong, "ValueError", message)
        found = trees.make("int_of_text", x.held)
        machine.fault(trees.make("is_null", found), REACH, "a whole number leaves 64 bits (from a text)")
        return machine.one("int", found)
    machine.fail(
        "TypeError",
        f"int() argument must be a string, a bytes-like object or a real number, not '{x.python}'",
    )


def to_float(machine: Machine, x: Typed) -> Value:
    """float(x)."""
    if x.kind in ("bool", "int", "float", "numpy", "numpy_bool"):
        return machine.one("float", as_float(machine, x))
    if x.kind == "str":
        trees = machine.trees
        wrong = trees.negated(trees.make("is_float_text", x.held))
        message = trees.make(
            "text_concat", machine.text("could not convert string to float: '"), x.held, machine.text("'")
        )
        machine.fault(wrong, "ValueError", message)
        return machine.one("float", trees.make("float_of_text", x.held))
    machine.fail("TypeError", f"float() argument must be a string or a real number, not '{x.python}'")


def to_bool(machine: Machine, x: Typed) -> Value:
    """bool(x)."""
    return machine.one("bool", truth_of(machine, x))


def to_text(machine: Machine, x: Typed) -> Value:
    """str(x)."""
    trees = machine.trees
    if x.kind == "str":
        return _same(machine, x)
    if x.kind == "int":
        return machine.one("str", trees.make("cast", x.held, params={"to": "string"}))
    if x.kind in ("bool", "numpy_bool"):
        return machine.one("str", trees.choose(x.held, machine.text("True"), machine.text("False")))
    if x.kind == "none":
        return machine.one("str", machine.text("None"))
    if x.kind in ("date", "datetime"):
        return machine.one("str", time_text(machine, x, " "))
    machine.refuse(
        f"a {x.python} as a text: engines write it differently",
        "Round it to a whole number, or format it with a fixed number of digits: f'{x:.2f}'.",
    )


def fixed_text(machine: Machine, x: Typed, digits: int) -> Value:
    """f"{x:.2f}": a number with so many digits behind the point."""
    trees = machine.trees
    if x.kind not in ("int", "float", "bool", "numpy"):
        machine.refuse(f"a {x.python} formatted with a number of digits", "Format numbers.")
    value = as_float(machine, x)
    rounded = trees.make("float_round", value, params={"digits": digits})
    scale = trees.literal(float(10**digits), FLOAT64)
    scaled = trees.make("round", trees.make("multiply", trees.make("abs", rounded), scale))
    units = trees.make("cast", scaled, params={"to": "int64"})
    infinite = is_infinite(machine, value)
    odd = trees.either(trees.make("is_nan", value), infinite)
    large = trees.make(
        "ge", trees.make("abs", trees.make("multiply", value, scale)), trees.literal(2.0**53, FLOAT64)
    )
    machine.fault(
        trees.both(trees.negated(odd), large), REACH, "a number of more than 15 digits is formatted"
    )
    text = trees.make("cast", units, params={"to": "string"})
    if digits:
        padded = trees.make("text_zfill", text, params={"width": digits + 1})
        whole = trees.make("text_slice", padded, machine.whole(-(1 << 63)), machine.whole(-digits))
        rest = trees.make("text_slice", padded, machine.whole(-digits), machine.whole((1 << 63) - 1))
        text = trees.make("text_concat", whole, machine.text("."), rest)
    special = trees.choose(infinite, machine.text("inf"), machine.text("nan"))
    text = trees.choose(odd, special, text)
    sign = trees.make("math", trees.literal(1.0, FLOAT64), value, params={"function": "copysign"})
    below = trees.both(
        trees.make("lt", sign, trees.literal(0.0, FLOAT64)), trees.negated(trees.make("is_nan", value))
    )
    signed = trees.make("text_concat", machine.text("-"), text)
    return machine.one("str", trees.choose(below, signed, text))


def rounded(machine: Machine, x: Typed, digits: int | None) -> Value:
    """round(x) and round(x, digits)."""
    if x.kind in ("bool", "int"):
        if digits is not None and digits < 0:
            return _rounded_whole(machine, as_int(machine, x), -digits)
        return _same(machine, as_int(machine, x))
    if x.kind == "numpy_bool":
        refuse_numpy_truth(machine, "round()")
    if x.kind not in ("float", "numpy"):
        machine.fail("TypeError", f"type {x.python} doesn't define __round__ method")
    if digits is None:
        near = machine.trees.make("round", x.held)
        return whole_of(
            machine, near, "cannot convert float NaN to integer", "cannot convert float infinity to integer"
        )
    if x.kind == "numpy" or not 0 <= digits <= MOST_DIGITS:
        machine.refuse(
            f"round(x, {digits})" + (" of a NumPy number" if x.kind == "numpy" else ""),
            f"Round a float to 0 to {MOST_DIGITS} digits: round(float(x), 2).",
        )
    return machine.one("float", machine.trees.make("float_round", x.held, params={"digits": digits}))


def _rounded_whole(machine: Machine, x: Typed, zeros: int) -> Value:
    """round(n, -2): to the nearest, and from the middle to the even one."""
    if zeros > 17:
        machine.refuse(f"round() of a whole number to {zeros} zeros", "Round to fewer.")
    trees, step = machine.trees, machine.typed(10**zeros)
    quotient = trees.make("int_floordiv", x.held, step.held)
    rest = trees.make("int_modulo", x.held, step.held)
    half = machine.whole(10**zeros // 2)
    odd = trees.make("eq", trees.make("int_modulo", quotient, machine.whole(2)), machine.whole(1))
    up = trees.either(trees.make("gt", rest, half), trees.both(trees.make("eq", rest, half), odd))
    near = trees.choose(up, trees.make("int_add", quotient, machine.whole(1)), quotient)
    found = trees.make("int_multiply", near, step.held)
    if x.low - 10**zeros < LEAST or x.high + 10**zeros > GREATEST:
        machine.fault(trees.make("is_null", found), REACH, "a whole number leaves 64 bits (round)")
    return machine.one("int", found)


def returned(machine: Machine, x: Typed, declared: Form) -> Expression:
    """A result as the declared type; a fault where that would lose something."""
    trees = machine.trees
    if x.kind == "none":
        return trees.literal(None, declared.type)
    if x.kind == "numpy_bool":  # as where rows run in Python: by its item()
        return returned(machine, Typed("bool", x.held), declared)
    if x.kind == declared.kind or (x.kind, declared.kind) == ("numpy", "float"):
        if x.kind == "list" and x.type is not None and x.type.item != declared.type.item:
            machine.refuse(
                f"it returns a list of {x.type.item}, and declares {declared}", "Declare what it returns."
            )
        return x.held
    if declared.kind == "float" and x.kind in ("bool", "int"):
        number = as_float(machine, x)
        if max(-x.low, x.high) > EXACT_INTS and x.kind == "int":
            back = trees.make("cast", number, params={"to": "int64"})
            lost = trees.either(trees.make("is_null", back), trees.make("ne", back, x.held))
            machine.fault(lost, "ValueError", f"the function returned an int that no {declared} is equal to")
        return number
    if declared.kind == "int" and x.kind in ("bool", "float", "numpy"):
        if x.kind == "bool":
            return as_int(machine, x).held
        number = trees.make("cast", x.held, params={"to": "int64"})
        back = trees.make("cast", number, params={"to": "float64"})
        none = trees.either(trees.make("is_nan", x.held), is_infinite(machine, x.held))
        lost = trees.either(none, trees.make("ne", back, x.held))
        machine.fault(lost, "ValueError", "the function returned a float that no int is equal to")
        machine.fault(trees.make("is_null", number), REACH, "a whole number leaves 64 bits (the result)")
        return number
    machine.fail("TypeError", f"the function returned {x.python}, and is declared to return {declared}")
