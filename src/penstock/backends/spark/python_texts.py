"""What Python's strings do, as Spark expressions, and the one operation that raises.

Characters are classified by Python's own tables (`penstock.expr.characters`), because Java's are of another version.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column

from penstock.backends.base import Kernel, Site
from penstock.backends.spark.columns import as_type, long, no_nulls, spelled
from penstock.backends.spark.functions import F
from penstock.backends.spark.texts import stripped
from penstock.expr.characters import decimal_digits, java_class
from penstock.expr.number_texts import FLOAT_TEXT, FLOAT_WORD, INT_TEXT, WHITE_AROUND
from penstock.expr.ops.python_texts import LONGEST_TEXT
from penstock.expr.types import INT64


def _length(x: Column) -> Column:
    return F.char_length(x).cast("bigint")


def _place(index: Column, length: Column) -> Column:
    return F.when(index < 0, index + length).otherwise(index)


def _repeat(site: Site, x: Column, times: Column) -> Column:
    count = F.greatest(F.least(as_type(times, site.types[1], INT64), long(LONGEST_TEXT + 1)), long(0))
    known = x.isNotNull() & times.isNotNull()
    return F.when(
        known & ((_length(x) == 0) | (_length(x) * count <= LONGEST_TEXT)), F.repeat(x, count.cast("int"))
    )


def _at(site: Site, x: Column, index: Column) -> Column:
    length = _length(x)
    place = _place(as_type(index, site.types[1], INT64), length)
    return F.when((place >= 0) & (place < length), F.substring(x, (place + 1).cast("int"), F.lit(1)))


def _slice(site: Site, x: Column, start: Column, stop: Column) -> Column:
    length = _length(x)

    def clamped(bound: Column) -> Column:
        return F.greatest(F.least(_place(bound, length), length), long(0))

    begin = clamped(as_type(start, site.types[1], INT64))
    count = F.greatest(clamped(as_type(stop, site.types[2], INT64)) - begin, long(0))
    known = start.isNotNull() & stop.isNotNull()  # greatest and least pass over nulls
    return F.when(known, F.substring(x, (begin + 1).cast("int"), count.cast("int")))


def _strip(site: Site, x: Column) -> Column:
    side, given = site.params["side"], site.params.get("characters")
    trim = {"left": F.ltrim, "right": F.rtrim, "both": F.btrim}[side]
    if given is not None:
        return trim(x, F.lit(given)) if given else x
    return stripped(x, side)


def _count(site: Site, x: Column) -> Column:
    part = site.params["part"]
    fewer = _length(F.replace(x, F.lit(part), F.lit("")))
    return F.call_function("div", _length(x) - fewer, long(len(part)))


def _padded(x: Column, width: int, character: str, side: str) -> Column:
    pad = F.lpad if side == "left" else F.rpad
    return F.when(F.char_length(x) < width, pad(x, width, character)).otherwise(x)


def _zfill(site: Site, x: Column) -> Column:
    width = site.params["width"]
    sign = F.substring(x, 1, 1)
    rest = F.substring(x, 2, 2**31 - 1)
    signed = F.concat(sign, _padded(rest, max(width - 1, 0), "0", "left"))
    return F.when((sign == "+") | (sign == "-"), signed).otherwise(_padded(x, width, "0", "left"))


def _words(site: Site, x: Column) -> Column:
    trimmed = stripped(x, "both")
    white = java_class("isspace")
    return F.when(trimmed == "", F.array().cast("array<string>")).otherwise(F.split(trimmed, f"{white}+", -1))


def _join(site: Site, x: Column) -> Column:
    return F.when(no_nulls(x), F.array_join(x, site.params["separator"]))


def _list_at(site: Site, x: Column, index: Column) -> Column:
    length = F.size(x).cast("bigint")
    place = _place(as_type(index, site.types[1], INT64), length)
    return F.when((place >= 0) & (place < length), F.get(x, place.cast("int")))


def _plain(x: Column) -> Column:
    """A number's text without white space around, and with ASCII digits."""
    other, plain = decimal_digits()
    return F.translate(F.btrim(x, F.lit(WHITE_AROUND)), other, plain)


def _is_int(site: Site, x: Column) -> Column:
    return _plain(x).rlike(INT_TEXT)


def _to_int(site: Site, x: Column) -> Column:
    plain = _plain(x)
    return F.when(plain.rlike(INT_TEXT), F.replace(plain, F.lit("_"), F.lit("")).try_cast("bigint"))


def _is_float(site: Site, x: Column) -> Column:
    plain = _plain(x)
    return plain.rlike(FLOAT_TEXT) | plain.rlike(FLOAT_WORD)


def _to_float(site: Site, x: Column) -> Column:
    plain = _plain(x)
    word = (
        F.when(F.lower(plain).contains("nan"), F.lit(float("nan")))
        .when(plain.startswith("-"), F.lit(float("-inf")))
        .otherwise(F.lit(float("inf")))
    )
    number = F.replace(plain, F.lit("_"), F.lit("")).try_cast("double")
    return F.when(plain.rlike(FLOAT_TEXT), number).when(plain.rlike(FLOAT_WORD), word)


def _raise_faults(site: Site, value: Column, fault: Column, *messages: Column) -> Column:
    text: Any = F
    for place, said in enumerate(site.params["faults"]):
        kind, _, message = said.partition(": ")
        shown = F.lit(said)
        if message.startswith("{") and message.endswith("}"):
            shown = F.concat(F.lit(f"{kind}: "), F.coalesce(messages[int(message[1:-1])], F.lit("None")))
        text = text.when(fault == long(place), shown)
    # Joined, because that is one of the few things Spark takes for expensive: it writes no such function into a filter,
    # where it would meet rows that another part of the filter takes out first. It costs nothing: an error comes next.
    failed = F.raise_error(F.array_join(F.array(text), "")).cast(spelled(site.type))
    # The lesser of the value and nothing is the value. What a branch of CASE uses twice Spark computes twice; arguments
    # of `least` are always computed, and their pieces once.
    return F.least(value, F.when(fault.isNotNull(), failed))


KERNELS: dict[str, Kernel] = {
    "text_concat": lambda site, *args: F.concat(*args),
    "text_repeat": _repeat,
    "text_at": _at,
    "text_slice": _slice,
    "text_find": lambda site, x, part: F.position(part, x).cast("bigint") - long(1),
    "text_reverse": lambda site, x: F.reverse(x),
    "text_strip": _strip,
    "text_count": _count,
    "text_pad": lambda site, x: _padded(
        x, site.params["width"], site.params["character"], site.params["side"]
    ),
    "text_zfill": _zfill,
    "text_is": lambda site, x: x.rlike(rf"\A{java_class(site.params['test'])}+\z"),
    "text_words": _words,
    "text_join": _join,
    "list_at": _list_at,
    "is_int_text": _is_int,
    "int_of_text": _to_int,
    "is_float_text": _is_float,
    "float_of_text": _to_float,
    "raise_faults": _raise_faults,
}
