"""Calls: of builtins, of `math`, and of the user's other functions, which are translated along."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable
from typing import Any

from penstock.compiled.operators import binary, folded, truth
from penstock.compiled.scope import NUMBERS, Scope
from penstock.compiled.values import Known, Number, Several, Value, converted, joined_kind
from penstock.expr.lift.lists import COMPENSATED

ONE_REAL = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2"),
    *("expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"),
)
"""Functions of `math` that are those of the C library, with its results checked."""
WHOLE = {
    "gcd": ("gcd_ii", 2),
    "lcm": ("lcm_ii", 2),
    "isqrt": ("isqrt_i", 1),
    "factorial": ("factorial_i", 1),
    "comb": ("comb_ii", 2),
    "perm": ("perm_ii", 2),
}
"""Functions of `math` on whole numbers: the helper, and how many arguments it takes."""
PURE: tuple[Any, ...] = (
    *(
        abs,
        min,
        max,
        round,
        int,
        float,
        bool,
        len,
        sum,
        divmod,
        pow,
        isinstance,
        range,
        zip,
        enumerate,
        reversed,
    ),
    *(sorted, tuple, list, any, all),
)
LISTED = (zip, enumerate, reversed)
TYPES = {"bool": bool, "int": int, "float": float}

Words = dict[str, Value]


def call_of(scope: Scope, function: Any, args: list[Value], words: Words) -> Value:
    """A call of a function that is known."""
    of_math = getattr(math, str(getattr(function, "__name__", "")), None) is function
    pure = of_math or any(function is one for one in PURE)
    if pure and all(isinstance(one, Known) for one in (*args, *words.values())):
        return _now(scope, function, args, words)
    if isinstance(function, types.FunctionType) and _is_users(function):
        return scope.unit.inline(scope, function, args, words)
    if of_math:
        return _math(scope, function.__name__, args, words)
    name = getattr(function, "__name__", repr(function))
    handle = BUILTINS.get(name) if pure else None
    if handle is None or words:
        module = (getattr(function, "__module__", None) or type(function).__module__).lstrip("_")
        told = name if module == "builtins" else f"{module}.{name}"
        scope.refuse(
            f"{told}() is not compiled", "Use arithmetic, math, abs, min, max, round, int, float, sum."
        )
    return handle(scope, args)


def _is_users(function: types.FunctionType) -> bool:
    module = (function.__module__ or "").partition(".")[0]
    return module not in sys.stdlib_module_names and module != "numpy"


def _now(scope: Scope, function: Any, args: list[Value], words: Words) -> Known:
    values = [one.value for one in args if isinstance(one, Known)]
    given = {name: one.value for name, one in words.items() if isinstance(one, Known)}
    if function in (pow, math.factorial, math.comb, math.perm) and any(
        isinstance(one, int) and abs(one) > 300 for one in values
    ):
        scope.refuse(f"{function.__name__}() of large constants", "Write the result instead.")
    found = folded(scope, lambda: function(*values, **given))
    return Known(list(found.value)) if function in LISTED else found


def _real(scope: Scope, value: Value) -> str:
    return converted(scope.number(value), "float")


def _math(scope: Scope, name: str, args: list[Value], words: Words) -> Value:
    if name == "isclose" and len(args) == 2 and set(words) <= {"rel_tol", "abs_tol"}:
        near = {"rel_tol": Known(1e-09), "abs_tol": Known(0.0)} | words
        texts = ", ".join(_real(scope, one) for one in (*args, near["rel_tol"], near["abs_tol"]))
        return Number("bool", f"is_close({texts})")
    if not words and len(args) == 1:
        (one,) = args
        if name in ONE_REAL:
            return Number("float", f"m_{name}({_real(scope, one)})")
        if name == "sqrt":
            return Number("float", f"math_sqrt({_real(scope, one)})")
        if name == "fabs":
            return Number("float", f"abs({_real(scope, one)})")
        if name in ("isnan", "isinf", "isfinite"):
            return Number("bool", f"math.{name}({_real(scope, one)})")
        if name in ("degrees", "radians"):
            factor = 180.0 / math.pi if name == "degrees" else math.pi / 180.0
            return Number("float", f"({_real(scope, one)} * {factor!r})")
        if name in ("floor", "ceil", "trunc"):
            return _whole(scope, one, {"trunc": "int_f"}.get(name, f"{name}_f"))
    if not words and len(args) == 2:
        a, b = args
        if name == "log":
            return binary(scope, "Div", call_of(scope, math.log, [a], {}), call_of(scope, math.log, [b], {}))
        if name in ("pow", "fmod"):
            return Number("float", f"math_{name}({_real(scope, a)}, {_real(scope, b)})")
        if name == "atan2":
            return Number("float", f"c_atan2({_real(scope, a)}, {_real(scope, b)})")
        if name == "copysign":
            return Number("float", f"math.copysign({_real(scope, a)}, {_real(scope, b)})")
    if name in WHOLE and not words and len(args) == WHOLE[name][1]:
        return Number("int", f"{WHOLE[name][0]}({', '.join(_int(scope, name, one) for one in args)})")
    scope.refuse(f"math.{name}() with {len(args)} arguments is not compiled", "Use arithmetic instead.")


def _int(scope: Scope, name: str, value: Value) -> str:
    number = scope.number(value)
    if number.kind not in ("bool", "int"):
        scope.refuse(f"{name}() of what may be a float", "Turn it into an int first: int(x).")
    return converted(number, "int")


def _whole(scope: Scope, value: Value, helper: str) -> Value:
    number = scope.number(value)
    if number.kind in ("bool", "int"):
        return Number("int", converted(number, "int"))
    return Number("int", f"{helper}({number.code})")


def _abs(scope: Scope, args: list[Value]) -> Value:
    (one,) = _exactly(scope, "abs", args, 1)
    number = scope.number(one)
    if number.kind in ("bool", "int"):
        return Number("int", f"abs_i({converted(number, 'int')})")
    return Number(number.kind, f"abs({number.code})")


def _extreme(name: str) -> Callable[[Scope, list[Value]], Value]:
    """min and max: the first of those that are the least, by Python's comparisons."""
    chosen = min if name == "min" else max

    def handle(scope: Scope, args: list[Value]) -> Value:
        items = _items(scope, name, args)
        found = items[0]
        for item in items[1:]:
            if isinstance(found, Known) and isinstance(item, Known):
                found = _now(scope, chosen, [found, item], {})
                continue
            a, b = scope.number(found), scope.number(item)
            kind = joined_kind(a.kind, b.kind)
            found = Number(kind, f"{name}_of({converted(a, kind)}, {converted(b, kind)})")
        return found

    return handle


def _items(scope: Scope, name: str, args: list[Value]) -> list[Value]:
    """The values that min, max and sum go through."""
    if len(args) != 1:
        return args
    (one,) = args
    if isinstance(one, Several) and one.items:
        return list(one.items)
    scope.refuse(f"{name}() of one argument that is no tuple or list", "Give it the values one by one.")


def _sum(scope: Scope, args: list[Value]) -> Value:
    found: Value = Known(0)
    for item in _items(scope, "sum", _exactly(scope, "sum", args, 1)):
        found = binary(scope, "Add", found, item)
    return summed(scope, scope.number(found))


def summed(scope: Scope, found: Number) -> Number:
    """A result of sum(), which adds floats with a correction since Python 3.12."""
    if found.kind in ("float", "mixed") and COMPENSATED:
        scope.refuse(
            "sum() of floats, which Python does with a correction", "Add them up in a loop, or with +."
        )
    return found


def _round(scope: Scope, args: list[Value]) -> Value:
    number = scope.number(args[0])
    if len(args) == 1 or (isinstance(args[1], Known) and args[1].value is None):
        return _whole(scope, args[0], "round_f")
    digits = _exactly(scope, "round", args, 2)[1]
    if number.kind == "float":
        return Number("float", f"round_fi({number.code}, {_int(scope, 'round', digits)})")
    if number.kind in ("bool", "int") and isinstance(digits, Known) and digits.value >= 0:
        return Number("int", converted(number, "int"))
    scope.refuse("round() of what may be an int to a number of digits", "Round a float: round(float(x), 2).")


def _to_int(scope: Scope, args: list[Value]) -> Value:
    return _whole(scope, _exactly(scope, "int", args, 1)[0], "int_f")


def _to_float(scope: Scope, args: list[Value]) -> Value:
    return Number("float", _real(scope, _exactly(scope, "float", args, 1)[0]))


def _to_bool(scope: Scope, args: list[Value]) -> Value:
    return truth(scope, _exactly(scope, "bool", args, 1)[0])


def _length(scope: Scope, args: list[Value]) -> Value:
    (one,) = _exactly(scope, "len", args, 1)
    if isinstance(one, Several):
        return scope.after([one], Known(len(one.items)))
    scope.refuse("len() of a number", NUMBERS)


def _divmod(scope: Scope, args: list[Value]) -> Value:
    a, b = _exactly(scope, "divmod", args, 2)
    return Several((binary(scope, "FloorDiv", a, b), binary(scope, "Mod", a, b)))


def _pow(scope: Scope, args: list[Value]) -> Value:
    if len(args) == 3:
        return Number("int", f"pow_iii({', '.join(_int(scope, 'pow', one) for one in args)})")
    a, b = _exactly(scope, "pow", args, 2)
    return binary(scope, "Pow", a, b)


def _isinstance(scope: Scope, args: list[Value]) -> Value:
    one, types_ = _exactly(scope, "isinstance", args, 2)
    number = scope.number(one)
    if number.kind == "mixed" or not isinstance(types_, Known):
        scope.refuse("isinstance() of what may be an int or a float", "Compare values instead of types.")
    given = TYPES[number.kind]
    return scope.after([number], folded(scope, issubclass, given, types_.value))


def _told(name: str) -> Callable[[Scope, list[Value]], Value]:
    """any and all of a tuple: its elements are computed first, all of them."""

    def handle(scope: Scope, args: list[Value]) -> Value:
        found = [truth(scope, item) for item in _items(scope, name, _exactly(scope, name, args, 1))]
        text = scope.number(found[0]).code
        for one in found[1:]:
            text = f"{name}_of({text}, {scope.number(one).code})"
        return Number("bool", text)

    return handle


def _exactly(scope: Scope, name: str, args: list[Value], count: int) -> list[Value]:
    if len(args) != count:
        scope.refuse(f"{name}() with {len(args)} arguments", "Give the usual number.")
    return args


BUILTINS: dict[str, Callable[[Scope, list[Value]], Value]] = {
    "abs": _abs,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "sum": _sum,
    "round": _round,
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "len": _length,
    "divmod": _divmod,
    "pow": _pow,
    "isinstance": _isinstance,
    "any": _told("any"),
    "all": _told("all"),
    "tuple": lambda scope, args: _same(scope, "tuple", args),
    "list": lambda scope, args: _same(scope, "list", args),
}


def _same(scope: Scope, name: str, args: list[Value]) -> Value:
    if len(args) == 1 and isinstance(args[0], Several):
        return args[0]
    scope.refuse(f"{name}() of a number", NUMBERS)


def method(scope: Scope, base: Value, name: str, args: list[Value], words: bool) -> Value:
    """A method of a number."""
    if isinstance(base, Number) and not args and not words:
        if base.kind == "float" and name == "is_integer":
            return Number("bool", f"is_integer_f({base.code})")
        if base.kind in ("bool", "int") and name in ("bit_length", "bit_count"):
            return Number("int", f"{name}_i({converted(base, 'int')})")
    what = type(base.value).__name__ if isinstance(base, Known) else "number"
    scope.refuse(f"the method .{name}() of a {what} is not compiled", NUMBERS)
