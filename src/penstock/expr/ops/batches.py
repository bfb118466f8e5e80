"""Row of the table: a user's own function of whole columns (`penstock.expr.batch`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.expr.ops.base import EXACT, Op, Param, Params, no_vectors
from penstock.expr.types import Type


def _returns(op: Op, types: Sequence[Type], params: Params) -> Type:
    no_vectors(op, types)
    found: Type = params["function"].type
    return found


def _function(value: Any) -> str | None:
    fine = callable(getattr(value, "function", None)) and isinstance(getattr(value, "type", None), Type)
    return None if fine else "a function that batch() made"


OPS = (
    Op(
        "batch",
        ("*column",),
        _returns,
        EXACT,
        "What the function returns for the columns; on Spark they cross to Python as Arrow batches.",
        (Param("function", _function),),
    ),
)
