"""Rows of the table: Python's own arithmetic, for functions that `penstock.expr.lift` turned into expressions.

Nothing here raises. An operation is null where Python would raise, and where a whole number leaves 64 bits; the
lifter asks for that beside it, makes a number of it (a *fault*), and `raise_faults` at the very top raises what the
function would have raised. So engines may compute any piece for any row, in any order. `python_texts` has the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.ops.base import (
    EXACT,
    ULP,
    Op,
    Param,
    Params,
    Rule,
    Wrong,
    a_text,
    demand,
    gives,
    no_vectors,
    whole,
)
from penstock.expr.types import BOOL, DATE, FLOAT64, INT64, Type, parse_type

BITWISE = ("and", "or", "xor", "lshift", "rshift")
ONE_REAL = (
    *(
        "acos",
        "asin",
        "atan",
        "cbrt",
        "cos",
        "cosh",
        "exp",
        "expm1",
        "log",
        "log10",
        "log1p",
        "log2",
        "sin",
        "sinh",
    ),
    *("sqrt", "tan", "tanh"),
)
TWO_REALS = ("atan2", "hypot", "fmod", "copysign")
MOST_DIGITS = 15
"""Of round(x, digits): 10**digits and x times it must stay exact."""


def _one_of(*words: str) -> Any:
    return lambda value: None if value in words else f"one of {', '.join(words)}"


def _math(op: Op, types: Sequence[Type], params: Params) -> Type:
    demand(op, types, ("float",), "float64")
    wanted = 2 if params["function"] in TWO_REALS else 1
    if len(types) != wanted:
        raise ExpressionError(f"math(): {params['function']} takes {wanted} arguments, and got {len(types)}.")
    return FLOAT64


def _type_name(value: Any) -> str | None:
    try:
        parse_type(value)
    except (ExpressionError, TypeError):
        return "the name of a type"
    return None


TAKEN: dict[str, tuple[str, ...]] = {"int": ("bool", "int", "float"), "float": ("bool", "int", "float")}
"""What a column may be where a function's argument is a number; for others it has to be the same."""


def _converted(op: Op, types: Sequence[Type], params: Params) -> Type:
    seen, target = types[0], parse_type(params["to"])
    leaf, goal = (seen.item, target.item) if seen.kind == target.kind == "list" else (seen, target)
    if leaf.kind not in TAKEN.get(goal.kind, (goal.kind,)) or (seen.kind == "list") != (
        target.kind == "list"
    ):
        remedy = (
            "A timestamp with a zone is an instant; cast it to timestamp_ntz, what a clock shows."
            if seen.kind == "timestamp"
            else "Cast the column, or change the annotation."
        )
        raise ExpressionError(
            f"the function's argument {params['argument']!r} is declared {target}, and gets {seen}. {remedy}"
        )
    return BOOL if op.name == "argument_fits" else target


def _faults(value: Any) -> str | None:
    fine = isinstance(value, tuple) and all(isinstance(one, str) and ":" in one for one in value)
    return None if fine else 'texts such as "ValueError: what happened"'


def _raised(op: Op, types: Sequence[Type], params: Params) -> Type:
    no_vectors(op, types)
    op.check_count(len(types))
    if types[1].kind != "int":
        raise Wrong(op, 1, types[1], "a whole number, which error it is")
    for position, seen in enumerate(types[2:], 2):
        if seen.kind != "string":
            raise Wrong(op, position, seen, "a string, an error's message")
    return types[0]


def _dates(op: Op, types: Sequence[Type], params: Params) -> Type:
    demand(op, types, ("date",), "date")
    return INT64


def _walls(result: Type) -> Rule:
    return gives(result, "timestamp_ntz")


def _ints(name: str, doc: str, *params: Param) -> Op:
    return Op(name, ("left", "right"), gives(INT64, "int"), EXACT, doc, params)


def _reals(name: str, tier: str, doc: str) -> Op:
    return Op(name, ("left", "right"), gives(FLOAT64, "float"), tier, doc)


EXACT_INTS = 1 << 53
"""Up to here every whole number is a double."""

OPS = (
    _ints("int_add", "left + right; null where that leaves 64 bits."),
    _ints("int_subtract", "left - right; null where that leaves 64 bits."),
    _ints("int_multiply", "left * right; null where that leaves 64 bits."),
    _ints("int_floordiv", "left // right, rounded down; null by zero and where it leaves 64 bits."),
    _ints("int_modulo", "left % right, with right's sign; null by zero."),
    _ints("int_power", "left ** right; null where right is negative, and where it leaves 64 bits."),
    _ints(
        "int_bits",
        "A bitwise operation; null where a shift is negative or leaves 64 bits.",
        Param("operation", _one_of(*BITWISE)),
    ),
    Op(
        "int_divide",
        ("left", "right"),
        gives(FLOAT64, "int"),
        EXACT,
        "left / right of whole numbers; null by zero, and where one of them is beyond 2**53.",
    ),
    _reals("float_floordiv", EXACT, "left // right, as Python rounds it; null by zero."),
    _reals("float_modulo", EXACT, "left % right, with right's sign; null by zero."),
    _reals("float_power", ULP, "left ** right; null where Python raises, or makes a complex number."),
    Op(
        "float_round",
        ("argument",),
        gives(FLOAT64, "float"),
        EXACT,
        "round(x, digits): by x's exact decimals, and a half to the even digit.",
        (Param("digits", whole(0, MOST_DIGITS)),),
    ),
    Op(
        "math",
        ("*argument",),
        _math,
        ULP,
        "A function of Python's module math; null where it raises.",
        (Param("function", _one_of(*ONE_REAL, *TWO_REALS)),),
    ),
    Op("days_between", ("left", "right"), _dates, EXACT, "left - right of dates, in days."),
    Op("date_of", ("argument",), _walls(DATE), EXACT, "The day that a timestamp without zone shows."),
    Op(
        "microsecond",
        ("argument",),
        _walls(INT64),
        EXACT,
        "What it shows beyond the second, in microseconds.",
    ),
    Op(
        "convert_argument",
        ("argument",),
        _converted,
        EXACT,
        "A column as a function's argument is declared; null where that would lose something.",
        (Param("argument", a_text), Param("to", _type_name)),
    ),
    Op(
        "argument_fits",
        ("argument",),
        _converted,
        EXACT,
        "Whether convert_argument loses nothing; true of null.",
        (Param("argument", a_text), Param("to", _type_name)),
    ),
    Op(
        "raise_faults",
        ("value", "*fault"),
        _raised,
        EXACT,
        "The value, where the fault is null; else an error, by its number. A message of '{0}' is the first message.",
        (Param("faults", _faults),),
    ),
)
