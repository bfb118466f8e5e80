"""Rows of the table: what Python's strings do, for lifted functions. Like `python`, null where Python would raise.

Texts are counted in code points, as Python does. What a digit or a letter is stands in Python's own tables
(`penstock.expr.characters`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.expr.characters import TESTS
from penstock.expr.ops.base import EXACT, Op, Param, Params, Wrong, a_text, demand, gives, some_text, whole
from penstock.expr.types import BOOL, FLOAT64, INT64, STRING, Type, list_of

SIDES = ("left", "right", "both")
LONGEST_TEXT = 10_000_000
"""Code points that a repeated or padded text may have."""


def _one_of(*words: str) -> Any:
    return lambda value: None if value in words else f"one of {', '.join(words)}"


def _a_character(value: Any) -> str | None:
    return None if a_text(value) is None and len(value) == 1 else "one character"


def _then_ints(result: Type) -> Any:
    """A rule: a text, and whole numbers behind it."""

    def rule(op: Op, types: Sequence[Type], params: Params) -> Type:
        demand(op, types[:1], ("string",), "string")
        for position, seen in enumerate(types[1:], 1):
            if seen.kind != "int":
                raise Wrong(op, position, seen, "a whole number")
        return result

    return rule


def _list_at(op: Op, types: Sequence[Type], params: Params) -> Type:
    if types[0].kind != "list":
        raise Wrong(op, 0, types[0], "a list")
    if types[1].kind != "int":
        raise Wrong(op, 1, types[1], "a whole number")
    return types[0].item


def _texts_list(op: Op, types: Sequence[Type], params: Params) -> Type:
    if types[0] != list_of(STRING) and not (types[0].kind == "list" and types[0].item == STRING):
        raise Wrong(op, 0, types[0], "a list of strings")
    return STRING


def _text(name: str, doc: str, result: Type = STRING, *params: Param) -> Op:
    return Op(name, ("argument",), gives(result, "string"), EXACT, doc, params)


OPS = (
    Op("text_concat", ("*argument",), gives(STRING, "string"), EXACT, "One after the other."),
    Op(
        "text_repeat",
        ("argument", "times"),
        _then_ints(STRING),
        EXACT,
        "So many times; '' for less than one.",
    ),
    Op("text_at", ("argument", "index"), _then_ints(STRING), EXACT, "s[index]; null out of range."),
    Op("text_slice", ("argument", "start", "stop"), _then_ints(STRING), EXACT, "s[start:stop]."),
    Op(
        "text_find",
        ("argument", "part"),
        gives(INT64, "string"),
        EXACT,
        "Where the part first begins; -1 where it does not.",
    ),
    _text("text_reverse", "s[::-1], by code points."),
    _text(
        "text_strip",
        "Without these characters at its side; without white space where none are given.",
        STRING,
        Param("side", _one_of(*SIDES)),
        Param("characters", a_text, required=False),
    ),
    _text("text_count", "How often the part is in it, none overlapping.", INT64, Param("part", some_text)),
    _text(
        "text_pad",
        "Filled up to a width, at its left or its right.",
        STRING,
        Param("width", whole(0, LONGEST_TEXT)),
        Param("character", _a_character),
        Param("side", _one_of("left", "right")),
    ),
    _text(
        "text_zfill",
        "str.zfill(width): zeros behind the sign.",
        STRING,
        Param("width", whole(0, LONGEST_TEXT)),
    ),
    _text("text_is", "str.isdigit() and the like.", BOOL, Param("test", _one_of(*TESTS))),
    _text("text_words", "str.split(): the parts between white space.", list_of(STRING)),
    Op(
        "text_join",
        ("argument",),
        _texts_list,
        EXACT,
        "separator.join(list); null of a list that holds a null.",
        (Param("separator", a_text),),
    ),
    Op(
        "list_at",
        ("argument", "index"),
        _list_at,
        EXACT,
        "The element, from the end where negative; null out of range.",
    ),
    _text("is_int_text", "Whether int(text) takes it.", BOOL),
    _text("int_of_text", "int(text); null where it is none, and where it leaves 64 bits.", INT64),
    _text("is_float_text", "Whether float(text) takes it.", BOOL),
    _text("float_of_text", "float(text); null where it is none.", FLOAT64),
)
