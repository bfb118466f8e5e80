"""Rows of the table: arithmetic, mathematics, comparison, logic, choice and casts.

All arithmetic is that of float64, whatever the columns are: `3 / 0` is inf and `log(-1)` is nan, in every engine.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.ops.base import (
    CAST_REMEDY,
    EXACT,
    ULP,
    Op,
    Param,
    Params,
    Wrong,
    a_number,
    anything,
    demand,
    gives,
    no_vectors,
    numbers,
)
from penstock.expr.types import BOOL, FLOAT32, FLOAT64, INT64, SCALARS, Type, common, int_range, list_of

CAST_TARGETS = tuple(name for name, one in SCALARS.items() if one.kind in ("bool", "int", "float", "string"))
ORDERED = ("bool", "string", "date", "timestamp", "timestamp_ntz")


def _comparable(op: Op, types: Sequence[Type], params: Params) -> Type:
    left, right = types
    if left.is_number and right.is_number:
        return BOOL
    if left.is_number:
        raise Wrong(op, 1, right, "a number, as the left side is", CAST_REMEDY)
    if left.kind not in ORDERED:
        raise Wrong(op, 0, left, "a number, bool, string, date or timestamp")
    if left.kind != right.kind:
        raise Wrong(op, 1, right, f"{left.kind}, as the left side is", "Cast one of them.")
    return BOOL


def _choice(op: Op, types: Sequence[Type]) -> Type:
    no_vectors(op, types)
    found = common(types)
    if found is None:
        odd = next(i for i, one in enumerate(types) if common([types[0], one]) is None)
        raise Wrong(op, odd, types[odd], f"{types[0]} or a type that goes with it", "Cast one of them.")
    return found


def _same(op: Op, types: Sequence[Type], params: Params) -> Type:
    return _choice(op, types)


def _same_number(op: Op, types: Sequence[Type], params: Params) -> Type:
    numbers(op, types, params)
    return _choice(op, types)


def _when(op: Op, types: Sequence[Type], params: Params) -> Type:
    """Conditions and values in turn, and at the end the value that else holds."""
    if len(types) % 2 == 0:
        raise Wrong(op, len(types) - 1, types[-1], "followed by a value: write when(...).otherwise(...)")
    for position in range(0, len(types) - 1, 2):
        if types[position].kind != "bool":
            raise Wrong(op, position, types[position], "bool, being a condition")
    values = [types[i] for i in range(1, len(types), 2)] + [types[-1]]
    found = common(values)
    no_vectors(op, types)
    if found is None:
        odd = next(i for i, one in enumerate(values) if common([values[0], one]) is None)
        place = len(types) - 1 if odd == len(values) - 1 else 2 * odd + 1
        raise Wrong(op, place, values[odd], f"{values[0]} or a type that goes with it", "Cast one of them.")
    return found


def _clip(op: Op, types: Sequence[Type], params: Params) -> Type:
    numbers(op, types, params)
    if params["low"] > params["high"]:
        raise ExpressionError(f"clip(): low is {params['low']} and must not be above high, {params['high']}.")
    whole = types[0].kind == "int" and all(isinstance(params[side], int) for side in ("low", "high"))
    if not whole:
        return FLOAT64
    low, high = int_range(types[0])
    return types[0] if low <= params["low"] and params["high"] <= high else INT64


def holds(of: Type, value: Any) -> Type | None:
    """The type that a column of this one becomes when this value joins it; None where the two do not go together."""
    if of.kind == "bool":
        return of if isinstance(value, bool) else None
    if of.kind == "string":
        return of if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if of.kind == "int":
        if not isinstance(value, int):
            return None
        low, high = int_range(of)
        return of if low <= value <= high else INT64 if abs(value) < 1 << 63 else None
    if of.kind == "float":
        return of if of == FLOAT64 or _fits(value, of) else FLOAT64
    return None


def _fits(value: float, of: Type) -> bool:
    try:
        packed = struct.pack("f" if of == FLOAT32 else "e", value)
    except OverflowError:
        return False
    back = struct.unpack("f" if of == FLOAT32 else "e", packed)[0]
    return bool(back == value or math.isnan(value))


def _fill(op: Op, types: Sequence[Type], params: Params) -> Type:
    value, seen = params["value"], types[0]
    leaf = seen.item if seen.kind == "list" else seen
    found = holds(leaf, value)
    if found is None:
        raise Wrong(op, 0, seen, f"a type that {value!r} belongs to", "Cast it first, or give another value.")
    return list_of(found, seen.length) if seen.kind == "list" else found


def _fill_value(value: Any) -> str | None:
    return None if isinstance(value, bool | int | float | str) else "a number, a text or a truth value"


def _cast(op: Op, types: Sequence[Type], params: Params) -> Type:
    seen, target = types[0], SCALARS[params["to"]]
    leaf = seen.item if seen.kind == "list" else seen
    demand(op, [leaf], ("bool", "int", "float", "string"), "a bool, a number or a string")
    if leaf.kind == "float" and target.kind == "string":
        raise Wrong(
            op,
            0,
            seen,
            "something else to become a string",
            "Engines write floating-point numbers differently.",
        )
    return list_of(target, seen.length) if seen.kind == "list" else target


def _target(value: Any) -> str | None:
    return None if value in CAST_TARGETS else f"one of {', '.join(CAST_TARGETS)}"


def _edges(value: Any) -> str | None:
    fine = isinstance(value, tuple) and value and all(a_number(edge) is None for edge in value)
    if fine and all(math.isfinite(edge) for edge in value):
        rounded = [float(edge) for edge in value]
        if all(low < high for low, high in itertools.pairwise(rounded)):
            return None
    return "one or more finite numbers, each above the one before"


def _arithmetic(name: str, doc: str) -> Op:
    return Op(name, ("left", "right"), numbers, EXACT, doc)


def _function(name: str, tier: str, doc: str) -> Op:
    return Op(name, ("argument",), numbers, tier, doc)


OPS = (
    _arithmetic("add", "left + right."),
    _arithmetic("subtract", "left - right."),
    _arithmetic("multiply", "left * right."),
    _arithmetic("divide", "left / right; by zero it is an infinity or nan, as IEEE says."),
    _function("negate", EXACT, "-x."),
    _function("abs", EXACT, "The absolute value."),
    _function("sign", EXACT, "-1, 1, or the zero or nan it was."),
    _function("round", EXACT, "To the nearest whole number, halves to the even one."),
    _function("floor", EXACT, "The greatest whole number that is not above, as float64."),
    _function("ceil", EXACT, "The least whole number that is not below, as float64."),
    _function("nan_as_null", EXACT, "Null where it is nan."),
    _function("sqrt", ULP, "The square root; nan below zero."),
    _function("log", ULP, "The natural logarithm; -inf of zero, nan below."),
    _function("log1p", ULP, "log(1 + x), exact near zero; -inf of -1, nan below."),
    _function("log10", ULP, "The decimal logarithm; -inf of zero, nan below."),
    _function("exp", ULP, "e to the power of x; inf where it overflows."),
    _function("expm1", ULP, "exp(x) - 1, exact near zero."),
    _function("sin", ULP, "The sine of x radians; nan of an infinity."),
    _function("cos", ULP, "The cosine of x radians; nan of an infinity."),
    _function("tanh", ULP, "The hyperbolic tangent."),
    Op("pow", ("left", "right"), numbers, ULP, "left to the power of right, as C's pow."),
    Op("minimum", ("*argument",), _same_number, EXACT, "The least; null with a null, else nan with a nan."),
    Op(
        "maximum", ("*argument",), _same_number, EXACT, "The greatest; null with a null, else nan with a nan."
    ),
    Op(
        "clip",
        ("argument",),
        _clip,
        EXACT,
        "low where it is below, high where it is above; nan stays.",
        (Param("low", a_number), Param("high", a_number)),
    ),
    Op(
        "bucketize",
        ("argument",),
        lambda op, types, params: numbers(op, types, params) and INT64,
        EXACT,
        "How many of the edges are not above x; null of a nan, which belongs nowhere.",
        (Param("edges", _edges),),
    ),
    Op("eq", ("left", "right"), _comparable, EXACT, "Whether both are equal; nan equals nothing."),
    Op("ne", ("left", "right"), _comparable, EXACT, "Whether they differ; nan differs from everything."),
    Op("lt", ("left", "right"), _comparable, EXACT, "left < right; false with a nan."),
    Op("le", ("left", "right"), _comparable, EXACT, "left <= right; false with a nan."),
    Op("gt", ("left", "right"), _comparable, EXACT, "left > right; false with a nan."),
    Op("ge", ("left", "right"), _comparable, EXACT, "left >= right; false with a nan."),
    Op(
        "and",
        ("left", "right"),
        gives(BOOL, "bool"),
        EXACT,
        "Both; false with a false, else null with a null.",
    ),
    Op(
        "or",
        ("left", "right"),
        gives(BOOL, "bool"),
        EXACT,
        "Either; true with a true, else null with a null.",
    ),
    Op("not", ("argument",), gives(BOOL, "bool"), EXACT, "The contrary."),
    Op(
        "when",
        ("condition", "value", "*value"),
        _when,
        EXACT,
        "The value of the first condition that is true.",
    ),
    Op("is_null", ("argument",), anything(BOOL), EXACT, "Whether there is no value."),
    Op("is_nan", ("argument",), gives(BOOL, "int", "float"), EXACT, "Whether it is nan; false of null."),
    Op("coalesce", ("*argument",), _same, EXACT, "The first that is not null."),
    Op("fill", ("argument",), _fill, EXACT, "The value where it is null.", (Param("value", _fill_value),)),
    Op(
        "cast",
        ("argument",),
        _cast,
        EXACT,
        "As another type; null where it does not fit.",
        (Param("to", _target),),
    ),
)
