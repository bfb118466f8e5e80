"""Rows of the table: lists of numbers taken as vectors, all constants standing in parameters.

A null list gives null. Where elements stay apart (`each`, `elements`, `list_multiply`) a null among them stays one;
where they come together (`linear`, `softmax`, `list_argmax`) it makes the whole null.
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
    like_list,
    number_list,
    number_list_gives,
    whole,
)
from penstock.expr.ops.lists import LONGEST
from penstock.expr.types import FLOAT64, INT64, Type, list_of

FUNCTIONS = ("add", "subtract", "multiply", "divide", "minimum", "maximum", "gt", "if_nan")
"""What `each` can do with an element and the number that belongs to it."""
PAD_REMEDY = "Give it that length: .pad(length, value)."


def _each(op: Op, types: Sequence[Type], params: Params) -> Type:
    seen, by = number_list(op, types), params["by"]
    if isinstance(by, tuple) and seen.length != len(by):
        raise Wrong(op, 0, seen, f"a list of {len(by)} numbers, one for each given", PAD_REMEDY)
    return list_of(FLOAT64, seen.length)


def _elements(op: Op, types: Sequence[Type], params: Params) -> Type:
    if types[0].kind != "list":
        raise Wrong(op, 0, types[0], "a list")
    return list_of(types[0].item, len(params["places"]))


def _list_multiply(op: Op, types: Sequence[Type], params: Params) -> Type:
    length = number_list(op, types).length
    for position, seen in enumerate(types):
        if seen.kind != "list" or not seen.item.is_number or seen.length is None:
            raise Wrong(op, position, seen, "a list of numbers of fixed length", PAD_REMEDY)
    if types[1].length != length:
        raise Wrong(op, 1, types[1], f"as long as the left one, {length}", PAD_REMEDY)
    return list_of(FLOAT64, length)


def _linear(op: Op, types: Sequence[Type], params: Params) -> Type:
    seen, width = number_list(op, types), len(params["weights"][0])
    if seen.length != width:
        raise Wrong(op, 0, seen, f"a list of {width} numbers, one for each weight", PAD_REMEDY)
    if len(params["bias"]) != len(params["weights"]):
        raise Wrong(
            op, 0, seen, f"weighted with as many rows as there are in bias, which is {len(params['bias'])}"
        )
    return list_of(FLOAT64, len(params["weights"]))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and 0 < len(value) <= LONGEST and all(map(_is_number, value))


def _function(value: Any) -> str | None:
    return None if value in FUNCTIONS else f"one of {', '.join(FUNCTIONS)}"


def _by(value: Any) -> str | None:
    return None if _is_number(value) or _are_numbers(value) else "a number, or a number for each element"


def _numbers(value: Any) -> str | None:
    return None if _are_numbers(value) else "one or more numbers"


def _matrix(value: Any) -> str | None:
    rows = isinstance(value, tuple) and bool(value) and all(map(_are_numbers, value))
    return None if rows and len({len(row) for row in value}) == 1 else "rows of numbers, equally long"


def _truth(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _places(value: Any) -> str | None:
    check = whole(0)
    fine = isinstance(value, tuple) and 0 < len(value) <= LONGEST and all(check(one) is None for one in value)
    return None if fine else "one or more whole numbers from 0 on"


OPS = (
    Op(
        "each",
        ("argument",),
        _each,
        EXACT,
        "A function of each element and of the number that belongs to it; gt gives 1 or 0, minimum and maximum "
        "keep a nan, if_nan puts the number in its place.",
        (Param("function", _function), Param("by", _by)),
    ),
    Op(
        "elements",
        ("argument",),
        _elements,
        EXACT,
        "The elements at these places, in this order; null where the list ends before.",
        (Param("places", _places),),
    ),
    Op(
        "list_multiply",
        ("left", "right"),
        _list_multiply,
        EXACT,
        "left * right, element by element; absorbing: 0 where left is 0, whatever right is, as in sparse vectors.",
        (Param("absorbing", _truth, required=False),),
    ),
    Op(
        "linear",
        ("argument",),
        _linear,
        SUM,
        "For each row of weights the sum of the elements so weighted, and its bias: a matrix times the list.",
        (Param("weights", _matrix), Param("bias", _numbers)),
    ),
    Op(
        "softmax",
        ("argument",),
        number_list_gives(like_list(FLOAT64)),
        SUM,
        "exp of each, divided by their sum; all nan with a nan. Infinite ones share what there is.",
    ),
    Op(
        "list_argmax",
        ("argument",),
        number_list_gives(lambda seen, params: INT64),
        EXACT,
        "The place of the first that is greatest; a nan is passed over, and 0 where all are. Null of an empty list.",
    ),
)
