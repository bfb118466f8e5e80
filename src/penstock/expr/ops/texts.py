"""Rows of the table: hashes and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.ops.base import EXACT, Op, Param, Params, Wrong, a_text, gives, some_text, whole
from penstock.expr.patterns import parse_pattern
from penstock.expr.types import BOOL, INT64, STRING, Type, list_of

HASHED = ("bool", "int", "float", "string", "date", "timestamp", "timestamp_ntz")


def _hash(op: Op, types: Sequence[Type], params: Params) -> Type:
    if len(types) == 1 and types[0].kind == "list":
        _hashed(op, 0, types[0].item)
        return list_of(INT64, types[0].length)
    for position, seen in enumerate(types):
        _hashed(op, position, seen)
    return INT64


def _hashed(op: Op, position: int, seen: Type) -> None:
    if seen.kind not in HASHED or (seen.bits == 16 and seen.kind == "float"):
        raise Wrong(
            op, position, seen, "a single value", "Spark has no float16 to hash." if seen.bits else ""
        )


def _pattern(value: Any) -> str | None:
    if not isinstance(value, str):
        return "a text"
    parse_pattern(value)  # raises with the reason
    return None


def _extract(op: Op, types: Sequence[Type], params: Params) -> Type:
    gives(STRING, "string")(op, types, params)
    groups = parse_pattern(params["pattern"]).groups
    if params["group"] > groups:
        raise ExpressionError(
            f"regex_extract(): group is {params['group']}, and the pattern {params['pattern']!r} has {groups}."
        )
    return STRING


def _text(name: str, doc: str, result: Type = STRING, *params: Param) -> Op:
    return Op(name, ("argument",), gives(result, "string"), EXACT, doc, params)


OPS = (
    Op(
        "hash",
        ("*argument",),
        _hash,
        EXACT,
        "Spark's xxhash64 (seed 42) modulo buckets, of one value or several; never null. Of a list, of each element.",
        (Param("buckets", whole(1, (1 << 63) - 1)),),
    ),
    _text("lower", "In lower case, by Unicode's full mapping."),
    _text("upper", "In upper case, by Unicode's full mapping."),
    _text("strip", "Without the white space around it, which is what Python's str.strip takes for it."),
    _text("length", "How many code points.", INT64),
    _text("contains", "Whether the text is in it.", BOOL, Param("text", a_text)),
    _text("startswith", "Whether it begins with the text.", BOOL, Param("text", a_text)),
    _text("endswith", "Whether it ends with the text.", BOOL, Param("text", a_text)),
    _text(
        "replace",
        "With every occurrence of a text replaced.",
        STRING,
        Param("old", some_text),
        Param("new", a_text),
    ),
    _text("split", "The parts between separators.", list_of(STRING), Param("separator", some_text)),
    _text(
        "substring",
        "So many code points from a place on, counted from 0.",
        STRING,
        Param("start", whole(0)),
        Param("length", whole(0)),
    ),
    Op(
        "regex_extract",
        ("argument",),
        _extract,
        EXACT,
        "What a group of the pattern matched first (group 0: all of it); null where nothing matches.",
        (Param("pattern", _pattern), Param("group", whole(0))),
    ),
)
