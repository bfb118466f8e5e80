"""Rows of the table: lists.

A null list gives null. Of a list with a null in it, sums and the like are null as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.expr.ops.base import (
    EXACT,
    SUM,
    Op,
    Param,
    Params,
    Wrong,
    a_number,
    like_list,
    number_list,
    number_list_gives,
    whole,
)
from penstock.expr.ops.numbers import holds
from penstock.expr.types import FLOAT64, INT64, SCALARS, Type, list_of

LONGEST = 1 << 20
"""Of a list whose length an operation decides: a guard against a slip, not a limit of an engine."""


def _any_list(op: Op, seen: Type) -> Type:
    if seen.kind != "list":
        raise Wrong(op, 0, seen, "a list")
    return seen


def _pad(op: Op, types: Sequence[Type], params: Params) -> Type:
    seen = _any_list(op, types[0])
    element = holds(seen.item, params["value"])
    if element is None:
        raise Wrong(op, 0, seen, f"a list that {params['value']!r} fits into")
    return list_of(element, params["length"])


def _one_hot(op: Op, types: Sequence[Type], params: Params) -> Type:
    leaf = types[0].item if types[0].kind == "list" else types[0]
    if leaf.kind != "int":
        raise Wrong(op, 0, types[0], "a whole number or a list of them")
    return list_of(FLOAT64, params["size"])


def _stack(op: Op, types: Sequence[Type], params: Params) -> Type:
    length = 0
    for position, seen in enumerate(types):
        leaf, count = (seen.item, seen.length) if seen.kind == "list" else (seen, 1)
        if not leaf.is_number or count is None:
            remedy = "Give it a length: .pad(length, value)." if seen.kind == "list" and count is None else ""
            raise Wrong(op, position, seen, "a number or a list of numbers of fixed length", remedy)
        length += count
    return list_of(SCALARS[params["dtype"]], length)


def _number_dtype(value: Any) -> str | None:
    fine = [name for name, one in SCALARS.items() if one.is_number]
    return None if value in fine else f"one of {', '.join(fine)}"


def _value(value: Any) -> str | None:
    return None if isinstance(value, bool | int | float | str) else "a number, a text or a truth value"


def _norm(value: Any) -> str | None:
    return None if a_number(value) is None and value >= 1 else "a number from 1 on; inf for the greatest"


def _scalar(element: Type) -> Any:
    return number_list_gives(lambda seen, params: element)


OPS = (
    Op(
        "element",
        ("argument",),
        lambda op, types, params: _any_list(op, types[0]).item,
        EXACT,
        "The element at a place, counted from 0; null where the list ends before.",
        (Param("index", whole(0)),),
    ),
    Op(
        "list_length",
        ("argument",),
        lambda op, types, params: _any_list(op, types[0]) and INT64,
        EXACT,
        "How many elements.",
    ),
    Op("list_sum", ("argument",), _scalar(FLOAT64), SUM, "The sum; 0 of an empty list."),
    Op("list_mean", ("argument",), _scalar(FLOAT64), SUM, "The mean; null of an empty list."),
    Op(
        "list_max",
        ("argument",),
        lambda op, types, params: number_list(op, types).item,
        EXACT,
        "The greatest; nan with a nan, null of an empty list.",
    ),
    Op(
        "list_min",
        ("argument",),
        lambda op, types, params: number_list(op, types).item,
        EXACT,
        "The least; nan with a nan, null of an empty list.",
    ),
    Op(
        "pad",
        ("argument",),
        _pad,
        EXACT,
        "A list of exactly so many: cut, or filled up at its end with the value.",
        (Param("length", whole(1, LONGEST)), Param("value", _value)),
    ),
    Op(
        "normalize",
        ("argument",),
        number_list_gives(like_list(FLOAT64)),
        SUM,
        "Divided by its Euclidean length, or by another norm; a list of zeros stays. The norm of inf passes nan over.",
        (Param("p", _norm, required=False),),
    ),
    Op(
        "one_hot",
        ("argument",),
        _one_hot,
        EXACT,
        "Zeros, and 1 at the place of the number, or of each number of a list; null where one is out of range.",
        (Param("size", whole(1, LONGEST)),),
    ),
    Op(
        "stack",
        ("*argument",),
        _stack,
        EXACT,
        "Numbers, and lists of fixed length, one after the other in one list.",
        (Param("dtype", _number_dtype),),
    ),
)
