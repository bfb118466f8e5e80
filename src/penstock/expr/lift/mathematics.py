"""Functions of `math` and, where they exist, NumPy's scalar ones: what they give, and when math's raise."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from penstock.expr.lift.arithmetic import as_float, as_int, equal, refuse_numpy_truth
from penstock.expr.lift.conversion import is_infinite, whole_of
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import NUMBERS, Seq, Symbol, Typed, Value
from penstock.expr.nodes import Expression, Literal
from penstock.expr.ops.python import TWO_REALS
from penstock.expr.types import FLOAT64

DOMAIN, RANGE = ("ValueError", "math domain error"), ("OverflowError", "math range error")


def _real(machine: Machine, x: Typed) -> Expression:
    if x.kind == "numpy_bool":
        refuse_numpy_truth(machine, "a function")
    if x.kind not in NUMBERS:
        machine.fail("TypeError", f"must be real number, not {x.python}")
    return as_float(machine, x)


def _float(machine: Machine, number: float) -> Expression:
    return machine.trees.literal(number, FLOAT64)


def _is(machine: Machine, op: str, x: Expression, bound: float) -> Expression:
    if isinstance(x, Literal):
        import operator

        holds = getattr(operator, op)(x.value, bound)
        return machine.trees.true if holds else machine.trees.false
    return machine.trees.make(op, x, _float(machine, bound))


OUTSIDE: dict[str, Callable[[Machine, Expression], Expression]] = {
    "acos": lambda m, x: _is(m, "gt", m.trees.make("abs", x), 1.0),
    "asin": lambda m, x: _is(m, "gt", m.trees.make("abs", x), 1.0),
    "cos": is_infinite,
    "log": lambda m, x: _is(m, "le", x, 0.0),
    "log10": lambda m, x: _is(m, "le", x, 0.0),
    "log1p": lambda m, x: _is(m, "le", x, -1.0),
    "log2": lambda m, x: _is(m, "le", x, 0.0),
    "sin": is_infinite,
    "sqrt": lambda m, x: _is(m, "lt", x, 0.0),
    "tan": is_infinite,
}
"""Where a function of `math` raises ValueError."""
OVERFLOWS = ("cosh", "exp", "expm1", "sinh")


def _one(name: str) -> Callable[[Machine, Sequence[Typed]], Value]:
    def function(machine: Machine, args: Sequence[Typed]) -> Value:
        x = _real(machine, args[0])
        found = machine.trees.make("math", x, params={"function": name})
        if name in OUTSIDE:
            machine.fault(OUTSIDE[name](machine, x), *DOMAIN)
        if name in OVERFLOWS:
            machine.fault(machine.trees.make("is_null", found), *RANGE)
        return machine.one("float", found)

    return function


def _log(machine: Machine, args: Sequence[Typed]) -> Value:
    if len(args) == 1:
        return _one("log")(machine, args)
    from penstock.expr.lift.arithmetic import operate

    logs = [_one("log")(machine, [arg]) for arg in args]
    return machine.over(logs, lambda a, b: operate(machine, "Div", a, b))


def _two(name: str) -> Callable[[Machine, Sequence[Typed]], Value]:
    def function(machine: Machine, args: Sequence[Typed]) -> Value:
        x, y = (_real(machine, arg) for arg in args)
        found = machine.trees.make("math", x, y, params={"function": name})
        if name == "hypot":
            machine.fault(machine.trees.make("is_null", found), *RANGE)
        if name == "fmod":
            machine.fault(machine.trees.make("is_null", found), *DOMAIN)
        return machine.one("float", found)

    return function


def _pow(machine: Machine, args: Sequence[Typed]) -> Value:
    x, y = (_real(machine, arg) for arg in args)
    trees = machine.trees
    found = trees.make("float_power", x, y)
    missing = trees.make("is_null", found)
    pole = trees.either(_is(machine, "eq", x, 0.0), _is(machine, "lt", x, 0.0))
    near = trees.make("floor", y)
    broken = trees.either(_is(machine, "eq", x, 0.0), trees.make("ne", y, near))
    machine.fault(trees.both(missing, trees.both(pole, broken)), *DOMAIN)
    machine.fault(missing, *RANGE)
    return machine.one("float", found)


def _scaled(factor: float) -> Callable[[Machine, Sequence[Typed]], Value]:
    return lambda machine, args: machine.one(
        "float", machine.trees.make("multiply", _real(machine, args[0]), _float(machine, factor))
    )


def _to_whole(op: str) -> Callable[[Machine, Sequence[Typed]], Value]:
    """floor, ceil and trunc: ints of ints, and of floats where there is one."""

    def function(machine: Machine, args: Sequence[Typed]) -> Value:
        (x,) = args
        if x.kind == "int":
            return Symbol(((machine.trees.true, x),))
        value = _real(machine, x)
        near = value if op == "trunc" else machine.trees.make(op, value)
        return whole_of(
            machine, near, "cannot convert float NaN to integer", "cannot convert float infinity to integer"
        )

    return function


def _modf(machine: Machine, args: Sequence[Typed]) -> Value:
    """math.modf(x): the fraction and the whole part, both with x's sign."""
    trees, x = machine.trees, _real(machine, args[0])
    size = trees.make("abs", x)
    whole = trees.make("floor", size)
    rest = trees.choose(is_infinite(machine, x), _float(machine, 0.0), trees.make("subtract", size, whole))
    signed = (trees.make("math", part, x, params={"function": "copysign"}) for part in (rest, whole))
    return Seq(tuple(machine.one("float", part) for part in signed))


def _remainder(machine: Machine, args: Sequence[Typed]) -> Value:
    """math.remainder(x, y), as CPython computes it: every step is exact."""
    trees = machine.trees
    x, y = (_real(machine, arg) for arg in args)
    infinite, nan = is_infinite(machine, x), trees.either(is_nan(machine, x), is_nan(machine, y))
    wrong = trees.either(infinite, equal(machine, y, _float(machine, 0.0)))
    machine.fault(trees.both(trees.negated(nan), wrong), *DOMAIN)

    def rest(one: Expression, other: Expression) -> Expression:
        return trees.make("math", one, other, params={"function": "fmod"})

    size, by = trees.make("abs", x), trees.make("abs", y)
    below = rest(size, by)
    above = trees.make("subtract", by, below)
    half = trees.make("multiply", _float(machine, 0.5), trees.make("subtract", size, below))
    even = trees.make("subtract", below, trees.make("multiply", _float(machine, 2.0), rest(half, by)))
    near = trees.choose(
        trees.make("lt", below, above),
        below,
        trees.choose(trees.make("gt", below, above), trees.make("negate", above), even),
    )
    sign = trees.make("math", _float(machine, 1.0), x, params={"function": "copysign"})
    finite = trees.choose(is_infinite(machine, y), x, trees.make("multiply", sign, near))
    return machine.one("float", trees.choose(nan, trees.make("add", x, y), finite))


def _isqrt(machine: Machine, args: Sequence[Typed]) -> Value:
    """math.isqrt(n): the root of the double next to it is off by one at the most."""
    trees, (x,) = machine.trees, args
    if x.kind not in ("bool", "int"):
        machine.fail("TypeError", f"'{x.python}' object cannot be interpreted as an integer")
    number = as_int(machine, x)
    machine.fault(
        trees.make("lt", number.held, machine.whole(0)),
        "ValueError",
        "isqrt() argument must be nonnegative",
    )
    real = trees.make("cast", number.held, params={"to": "float64"})
    root = trees.make("math", real, params={"function": "sqrt"})
    near = trees.make("cast", trees.make("floor", root), params={"to": "int64"})
    less, more = (trees.make(op, near, machine.whole(1)) for op in ("int_subtract", "int_add"))
    square, next_square = (trees.make("int_multiply", one, one) for one in (near, more))
    # A square that leaves 64 bits is null, and greater than any number.
    high = trees.negated(trees.make("coalesce", trees.make("le", square, number.held), trees.false))
    low = trees.make("coalesce", trees.make("le", next_square, number.held), trees.false)
    found = trees.choose(high, less, trees.choose(low, more, near))
    return Symbol(((trees.true, Typed("int", found, 0, 3_037_000_499)),))


def _asked(
    ask: Callable[[Machine, Expression], Expression], kind: str = "bool"
) -> Callable[[Machine, Sequence[Typed]], Value]:
    return lambda machine, args: machine.one(kind, ask(machine, _real(machine, args[0])))


def is_nan(machine: Machine, x: Expression) -> Expression:
    """Whether it is nan."""
    return machine.trees.make("is_nan", x)


def is_finite(machine: Machine, x: Expression) -> Expression:
    """Whether it is neither nan nor an infinity."""
    return machine.trees.make("lt", machine.trees.make("abs", x), _float(machine, math.inf))


MATH: dict[str, tuple[int, int, Callable[[Machine, Sequence[Typed]], Value]]] = {
    **{name: (1, 1, _one(name)) for name in (*OUTSIDE, *OVERFLOWS, "atan", "cbrt", "tanh") if name != "log"},
    **{name: (2, 2, _two(name)) for name in TWO_REALS},
    "log": (1, 2, _log),
    "pow": (2, 2, _pow),
    "degrees": (1, 1, _scaled(180.0 / math.pi)),
    "radians": (1, 1, _scaled(math.pi / 180.0)),
    "floor": (1, 1, _to_whole("floor")),
    "ceil": (1, 1, _to_whole("ceil")),
    "trunc": (1, 1, _to_whole("trunc")),
    "modf": (1, 1, _modf),
    "remainder": (2, 2, _remainder),
    "isqrt": (1, 1, _isqrt),
    "isnan": (1, 1, _asked(is_nan)),
    "isinf": (1, 1, _asked(is_infinite)),
    "isfinite": (1, 1, _asked(is_finite)),
    "fabs": (
        1,
        1,
        lambda machine, args: machine.one("float", machine.trees.make("abs", _real(machine, args[0]))),
    ),
}
"""Functions of `math`: the least and the most arguments, and what they become."""


def _numpy(op: str) -> Callable[[Machine, Sequence[Typed]], Value]:
    """One whose operation of the same name is NumPy's own; of an int it takes the float, where that gives one."""

    def function(machine: Machine, args: Sequence[Typed]) -> Value:
        (x,) = args
        held = as_float(machine, x) if x.kind == "int" and op in OF_INTS else _np_real(machine, x)
        return machine.one("numpy", machine.trees.make(op, held))

    return function


def _np_sign(machine: Machine, args: Sequence[Typed]) -> Value:
    """numpy.sign(): 0.0 of -0.0 too, which adding 0.0 makes of it and which leaves every other sign as it is."""
    sign = machine.trees.make("sign", _np_real(machine, args[0]))
    return machine.one("numpy", machine.trees.make("add", sign, _float(machine, 0.0)))


def _np_extreme(op: str) -> Callable[[Machine, Sequence[Typed]], Value]:
    """minimum and maximum with a constant that is no zero: which of two zeros NumPy takes is up to the processor.

    Not so in maximum(x, 0): processors take either the second or the positive one, and here both are 0.0.
    """

    def function(machine: Machine, args: Sequence[Typed]) -> Value:
        mixed = any(x.kind in ("float", "numpy") for x in args)
        values = [as_float(machine, x) if x.kind == "int" and mixed else _np_real(machine, x) for x in args]
        if op == "maximum" and isinstance(values[1], Literal) and repr(values[1].value) == "0.0":
            below = machine.trees.make("le", *values)
            return machine.one("numpy", machine.trees.choose(below, values[1], values[0]))
        if not any(isinstance(one, Literal) and one.value not in (0, None) for one in values):
            machine.refuse(
                f"numpy.{op}() of what may be 0.0 and -0.0, of which the processor chooses one",
                f"Use {op[:3]}(), which Python defines.",
            )
        return machine.one("numpy", machine.trees.make(op, *values))

    return function


def _np_clip(machine: Machine, args: Sequence[Typed]) -> Value:
    """numpy.clip(): a bound takes the place of what lies beyond it; nan stays."""
    x = _np_real(machine, args[0])
    if any(one.kind == "bool" for one in args):
        machine.refuse("numpy.clip() of bools", "Give floats.")
    low, high = (None if one.kind == "none" else _real(machine, one) for one in args[1:])
    trees, found = machine.trees, x
    for bound, op in ((low, "lt"), (high, "gt")):
        if bound is not None:
            found = trees.choose(trees.make(op, found, bound), bound, found)
    return machine.one("numpy", found)


def _np_round(machine: Machine, args: Sequence[Typed]) -> Value:
    """numpy.round(): scaled, rounded and scaled back, which is not what Python's round() does."""
    x = _np_real(machine, args[0])
    digits = args[1].held if len(args) > 1 and args[1].kind == "int" else machine.whole(0)
    if not isinstance(digits, Literal) or not isinstance(digits.value, int) or not 0 <= digits.value <= 15:
        machine.refuse("numpy.round() to another number of digits than a constant from 0 to 15", "Use one.")
    if not digits.value:
        return machine.one("numpy", machine.trees.make("round", x))
    scale = _float(machine, float(10**digits.value))
    near = machine.trees.make("round", machine.trees.make("multiply", x, scale))
    return machine.one("numpy", machine.trees.make("divide", near, scale))


def _np_log2(machine: Machine, args: Sequence[Typed]) -> Value:
    x = as_float(machine, args[0]) if args[0].kind == "int" else _np_real(machine, args[0])
    trees = machine.trees
    found = trees.make("math", x, params={"function": "log2"})
    pole = trees.choose(_is(machine, "eq", x, 0.0), _float(machine, -math.inf), _float(machine, math.nan))
    return machine.one("numpy", trees.choose(trees.make("is_null", found), pole, found))


def _np_hypot(machine: Machine, args: Sequence[Typed]) -> Value:
    x, y = (as_float(machine, one) if one.kind == "int" else _np_real(machine, one) for one in args)
    found = machine.trees.make("math", x, y, params={"function": "hypot"})
    missing = machine.trees.make("is_null", found)
    return machine.one("numpy", machine.trees.choose(missing, _float(machine, math.inf), found))


OF_INTS = ("sqrt", "log", "log1p", "log10", "exp", "expm1", "sin", "cos", "tanh")
"""Functions of NumPy's that make a float64 of an int."""


def _np_real(machine: Machine, x: Typed) -> Expression:
    if x.kind in ("float", "numpy"):
        return x.held
    machine.refuse(
        f"a NumPy function of {x.python} follows NumPy's rules", "Turn it into a float first: float(x)."
    )


NUMPY: dict[str, tuple[int, int, Callable[[Machine, Sequence[Typed]], Value]]] = {
    **{
        name: (1, 1, _numpy({"absolute": "abs", "abs": "abs"}.get(name, name)))
        for name in ("sqrt", "log", "log1p", "log10", "exp", "expm1", "sin", "cos", "tanh", "floor", "ceil")
    },
    "abs": (1, 1, _numpy("abs")),
    "absolute": (1, 1, _numpy("abs")),
    "sign": (1, 1, _np_sign),
    "rint": (1, 1, _numpy("round")),
    "clip": (3, 3, _np_clip),
    "round": (1, 2, _np_round),
    "around": (1, 2, _np_round),
    "log2": (1, 1, _np_log2),
    "hypot": (2, 2, _np_hypot),
    "minimum": (2, 2, _np_extreme("minimum")),
    "maximum": (2, 2, _np_extreme("maximum")),
    "isnan": (1, 1, _asked(is_nan, "numpy_bool")),
    "isinf": (1, 1, _asked(is_infinite, "numpy_bool")),
    "isfinite": (1, 1, _asked(is_finite, "numpy_bool")),
}


def is_close(machine: Machine, args: Sequence[Typed], relative: float, absolute: float) -> Value:
    """math.isclose(a, b), as CPython computes it."""
    trees = machine.trees
    if relative < 0 or absolute < 0:
        machine.fail("ValueError", "tolerances must be non-negative")
    a, b = (_real(machine, x) for x in args)
    apart = trees.make("abs", trees.make("subtract", b, a))

    def within(side: Expression) -> Expression:
        return trees.make(
            "le", apart, trees.make("abs", trees.make("multiply", _float(machine, relative), side))
        )

    near = trees.either(
        trees.either(within(b), within(a)), trees.make("le", apart, _float(machine, absolute))
    )
    infinite = trees.either(is_infinite(machine, a), is_infinite(machine, b))
    return machine.one(
        "bool", trees.either(trees.make("eq", a, b), trees.both(trees.negated(infinite), near))
    )


def function_for(function: Any) -> tuple[int, int, Callable[[Machine, Sequence[Typed]], Value]] | None:
    """What a function of `math` or NumPy becomes; None for any other."""
    name = getattr(function, "__name__", None)
    if isinstance(name, str):
        if name in MATH and getattr(math, name, None) is function:
            return MATH[name]
        numpy = sys.modules.get("numpy")  # a function of NumPy's can only be seen where it is imported
        if numpy is not None and name in NUMPY and getattr(numpy, name, None) is function:
            return NUMPY[name]
    return None
