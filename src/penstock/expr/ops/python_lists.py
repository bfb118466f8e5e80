"""Rows of the table: what Python does with lists, for lifted functions. Like `python`, null where Python would raise.

Elements are taken from the left, one after the other, because Python does: which of several is the greatest, and what
a sum of floats rounds to, depends on the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.expr.ops.base import EXACT, Op, Param, Params, Wrong
from penstock.expr.types import FLOAT64, INT64, Type, list_of

BEST = ("max", "min")


def _a_list(op: Op, types: Sequence[Type]) -> Type:
    if types[0].kind != "list":
        raise Wrong(op, 0, types[0], "a list")
    return types[0]


def _sliced(op: Op, types: Sequence[Type], params: Params) -> Type:
    seen = _a_list(op, types)
    for position, bound in enumerate(types[1:], 1):
        if bound.kind != "int":
            raise Wrong(op, position, bound, "a whole number")
    return list_of(seen.item)


def _total(op: Op, types: Sequence[Type], params: Params) -> Type:
    item = _a_list(op, types).item
    if item.kind not in ("bool", "int", "float"):
        raise Wrong(op, 0, types[0], "a list of numbers or truth values")
    result = FLOAT64 if item.kind == "float" else INT64
    if types[1].kind != result.kind:
        raise Wrong(op, 1, types[1], str(result))
    return result


def _best(op: Op, types: Sequence[Type], params: Params) -> Type:
    return _a_list(op, types).item


def _alike(op: Op, types: Sequence[Type], params: Params) -> Type:
    item = _a_list(op, types).item
    if types[1].kind != item.kind:
        raise Wrong(op, 1, types[1], f"{item}, as the list's elements are")
    return INT64


def _a_truth(value: Any) -> str | None:
    return None if isinstance(value, bool) else "True or False"


def _which(value: Any) -> str | None:
    return None if value in BEST else f"one of {', '.join(BEST)}"


OPS = (
    Op("list_slice", ("argument", "start", "stop"), _sliced, EXACT, "xs[start:stop]."),
    Op("list_reverse", ("argument",), lambda op, types, params: _a_list(op, types), EXACT, "xs[::-1]."),
    Op(
        "list_total",
        ("argument", "start"),
        _total,
        EXACT,
        "start + xs[0] + xs[1] and so on; null with a null in it, and where whole numbers leave 64 bits on the way. "
        "Compensated: floats as Python adds them since 3.12, with what rounding lost carried along.",
        (Param("compensated", _a_truth),),
    ),
    Op(
        "list_best",
        ("argument",),
        _best,
        EXACT,
        "max(xs) or min(xs): the first of the best, so nan only where it comes first; null of an empty list. "
        "Elements that are null are passed over.",
        (Param("which", _which),),
    ),
    Op(
        "list_find",
        ("argument", "value"),
        _alike,
        EXACT,
        "Where the first element is that equals the value; -1 where none does. nan equals nothing.",
    ),
    Op(
        "list_count",
        ("argument", "value"),
        _alike,
        EXACT,
        "How many elements equal the value. nan equals nothing.",
    ),
)
