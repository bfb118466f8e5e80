"""Rows of the table: keys that are looked up in a vocabulary, and the demand that nothing is null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.ops.base import EXACT, Op, Param, Params, Wrong, a_number, a_text, whole
from penstock.expr.types import FLOAT64, INT64, Type, list_of
from penstock.expr.vocabulary import Vocabulary

MOST_UNSEEN = 1 << 20


def keyed(op: Op, seen: Type) -> Type:
    """The type of the keys an argument holds: of the elements, where it is a list."""
    leaf = seen.item if seen.kind == "list" else seen
    if leaf.kind not in ("string", "int"):
        remedy = 'Cast it first: .cast("int64").' if leaf.kind == "bool" else ""
        raise Wrong(op, 0, seen, "a text or a whole number, or a list of them", remedy)
    return leaf


def _found(result: Type) -> Callable[[Op, Sequence[Type], Params], Type]:
    def rule(op: Op, types: Sequence[Type], params: Params) -> Type:
        leaf, keys = keyed(op, types[0]), params["keys"]
        if len(keys) and leaf.kind != keys.type.kind:
            raise Wrong(
                op, 0, types[0], f"of {keys.type}, as the keys are", "Did the column change its type?"
            )
        if op.name == "look_up" and keys.numbers is None:
            raise ExpressionError("look_up(): its vocabulary has no numbers. Give one for each key.")
        return list_of(result, types[0].length) if types[0].kind == "list" else result

    return rule


def _demand(op: Op, types: Sequence[Type], params: Params) -> Type:
    return types[0]


def _vocabulary(value: Any) -> str | None:
    return None if isinstance(value, Vocabulary) else "a Vocabulary"


OPS = (
    Op(
        "index_in",
        ("argument",),
        _found(INT64),
        EXACT,
        "0 of null, 1 to oov for keys that are not in the vocabulary, and from oov + 1 on the key's place in it.",
        (Param("keys", _vocabulary), Param("oov", whole(0, MOST_UNSEEN))),
    ),
    Op(
        "look_up",
        ("argument",),
        _found(FLOAT64),
        EXACT,
        "The number of the key; others for keys that are not in the vocabulary, and for null.",
        (Param("keys", _vocabulary), Param("unseen", a_number), Param("null", a_number)),
    ),
    Op(
        "demand",
        ("argument",),
        _demand,
        EXACT,
        "The value as it is; a null, also one in a list, is an error with the message. Tensors keep their mask.",
        (Param("message", a_text),),
    ),
)
