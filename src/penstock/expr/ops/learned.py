"""Rows of the other table: operations that learn from data before they can be computed.

No engine has them. `penstock.recipe` asks for the statistics they need and puts operations of the table in their
place, with what was learned as constants. Here stand only their arguments, parameters and types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.ops.base import EXACT, Op, Param, Params, Wrong, numbers, whole
from penstock.expr.ops.lookups import MOST_UNSEEN
from penstock.expr.types import FLOAT64, INT64, Type, list_of

STATISTICS = ("mean", "median", "mode")
LEARNED_LENGTH = 1
"""Stands for the length of a list that is learned, while types are checked before."""


def _fill(op: Op, types: Sequence[Type], params: Params) -> Type:
    seen, statistic = types[0], params["statistic"]
    kinds = ("int", "float", "bool", "string") if statistic == "mode" else ("int", "float")
    if seen.kind not in kinds:
        raise Wrong(
            op,
            0,
            seen,
            " or ".join(kinds),
            f'To fill a text with the text "{statistic}", write coalesce(..., "{statistic}").'
            if seen.kind == "string"
            else 'Cast it first: .cast("float64").',
        )
    return FLOAT64 if statistic == "mean" else seen


def _bins(op: Op, types: Sequence[Type], params: Params) -> Type:
    numbers(op, types, params)
    return INT64


def _key(op: Op, seen: Type) -> Type:
    leaf = seen.item if seen.kind == "list" else seen
    if leaf.kind not in ("string", "int", "bool"):
        remedy = "Floating-point numbers have too many values: .quantile_bins(k) them first."
        raise Wrong(
            op, 0, seen, "a text, a whole number or a truth value", remedy if leaf.kind == "float" else ""
        )
    return leaf


def _index(op: Op, types: Sequence[Type], params: Params) -> Type:
    _key(op, types[0])
    return list_of(INT64, types[0].length) if types[0].kind == "list" else INT64


def _one_hot(op: Op, types: Sequence[Type], params: Params) -> Type:
    _key(op, types[0])
    return list_of(FLOAT64, LEARNED_LENGTH)


def _by_category(op: Op, types: Sequence[Type], params: Params) -> Type:
    if types[0].kind == "list":
        raise Wrong(op, 0, types[0], "a text, a whole number or a truth value")
    _key(op, types[0])
    if len(types) > 1 and not (types[1].is_number or types[1].kind == "bool"):
        raise Wrong(op, 1, types[1], "a number or a truth value")
    return FLOAT64


def _winsorize(op: Op, types: Sequence[Type], params: Params) -> Type:
    numbers(op, types, params)
    if params["low"] >= params["high"]:
        raise ExpressionError(
            f"winsorize(): low is {params['low']} and must be below high, {params['high']}."
        )
    return FLOAT64


def _statistic(value: Any) -> str | None:
    return None if value in STATISTICS else f"one of {', '.join(STATISTICS)}"


def _share(value: Any) -> str | None:
    fine = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return None if fine else "a share from 0 to 1"


def _smoothing(value: Any) -> str | None:
    fine = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e300
    return None if fine else "a number from 0 on"


_MIN_COUNT = Param("min_count", whole(1), required=False)
_MAX_SIZE = Param("max_size", whole(1), required=False)

OPS = (
    Op(
        "fill_learned",
        ("argument",),
        _fill,
        EXACT,
        "The column's mean, median or mode where it is null.",
        (Param("statistic", _statistic),),
    ),
    Op(
        "standardize",
        ("argument",),
        numbers,
        EXACT,
        "Less the mean, divided by the standard deviation; 0 of a column that is always the same.",
        (Param("ddof", whole(0, 1), required=False),),
    ),
    Op("minmax", ("argument",), numbers, EXACT, "0 at the least value seen, 1 at the greatest."),
    Op("robust", ("argument",), numbers, EXACT, "Less the median, divided by the distance of the quartiles."),
    Op(
        "quantile_bins",
        ("argument",),
        _bins,
        EXACT,
        "The number of the bin, of bins that hold about equally many rows.",
        (Param("bins", whole(2, 10_000)),),
    ),
    Op(
        "winsorize",
        ("argument",),
        _winsorize,
        EXACT,
        "Clipped at two quantiles.",
        (Param("low", _share), Param("high", _share)),
    ),
    Op(
        "index",
        ("argument",),
        _index,
        EXACT,
        "A number for each value, the most frequent first; 0 of null, 1 to oov for values not seen.",
        (_MIN_COUNT, _MAX_SIZE, Param("oov", whole(0, MOST_UNSEEN), required=False)),
    ),
    Op(
        "one_hot_learned",
        ("argument",),
        _one_hot,
        EXACT,
        "Zeros, and 1 at the value's place, the most frequent first; only zeros of null and of values not seen.",
        (_MIN_COUNT, _MAX_SIZE),
    ),
    Op(
        "target_mean",
        ("argument", "label"),
        _by_category,
        EXACT,
        "The mean of the label among rows of the same value, drawn towards the mean of all.",
        (Param("smoothing", _smoothing, required=False), _MIN_COUNT, _MAX_SIZE),
    ),
    Op("count_encode", ("argument",), _by_category, EXACT, "How often the value was seen; 0 if never."),
)
