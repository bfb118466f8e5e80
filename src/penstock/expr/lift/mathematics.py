"""Functions of `math` and, where they exist, NumPy's scalar ones: what they give, and when math's raise."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from penstock.expr.lift.arithmetic import as_float
from penstock.expr.lift.conversion import is_infinite, whole_of
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import NUMBERS, Symbol, Typed, Value
from penstock.expr.nodes import Expression, Literal
from penstock.expr.ops.python import TWO_REALS
from penstock.expr.types import FLOAT64

DOMAIN, RANGE = ("ValueError", "math domain error"), ("OverflowError", "math range error")


def _real(machine: Machine, x: Typed) -> Expression:
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


def _asked(ask: Callable[[Machine, Expression], Expression]) -> Callable[[Machine, Sequence[Typed]], Value]:
    return lambda machine, args: machine.one("bool", ask(machine, _real(machine, args[0])))


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
    """One whose operation of the same name is NumPy's own."""

    def function(machine: Machine, args: Sequence[Typed]) -> Value:
        return machine.one("numpy", machine.trees.make(op, *(_np_real(machine, x) for x in args)))

    return function


def _np_extreme(op: str) -> Callable[[Machine, Sequence[Typed]], Value]:
    """minimum and maximum with a constant that is no zero: which of two zeros NumPy takes is up to the processor."""

    def function(machine: Machine, args: Sequence[Typed]) -> Value:
        values = [_np_real(machine, x) for x in args]
        if not any(isinstance(one, Literal) and one.value not in (0, None) for one in values):
            machine.refuse(
                f"numpy.{op}() of what may be 0.0 and -0.0, of which the processor chooses one",
                f"Use {op[:3]}(), which Python defines.",
            )
        return machine.one("numpy", machine.trees.make(op, *values))

    return function


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
    "sign": (1, 1, _numpy("sign")),
    "rint": (1, 1, _numpy("round")),
    "minimum": (2, 2, _np_extreme("minimum")),
    "maximum": (2, 2, _np_extreme("maximum")),
    "isnan": (1, 1, _asked(is_nan)),
    "isinf": (1, 1, _asked(is_infinite)),
    "isfinite": (1, 1, _asked(is_finite)),
}


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
