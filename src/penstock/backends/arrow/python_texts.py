"""What Python's strings do, done by Python's strings: what they give is what a lifted function means.

Where Arrow has the same operation it is used; the rest goes text by text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.arrow.values import Flat, Lists, Text, Value, both, is_valid
from penstock.backends.base import Kernel, Site
from penstock.expr.ops.python_texts import LONGEST_TEXT

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


def _rows(*args: Value) -> Any:
    """The arguments of each row; None for a row in which one is null."""
    columns = [arg.array.to_pylist() if isinstance(arg, Text) else _numbers(arg) for arg in args]
    return (None if None in row else row for row in zip(*columns, strict=True))


def _numbers(arg: Value) -> list[Any]:
    assert isinstance(arg, Flat)
    values: list[Any] = arg.values.tolist()
    if arg.valid is None:
        return values
    return [value if known else None for value, known in zip(values, arg.valid.tolist(), strict=True)]


def _texts(function: Callable[..., str | None]) -> Kernel:
    """A kernel that makes a text of each row; the function may give None."""
    return lambda site, *args: Text(
        pa.array([None if row is None else function(*row) for row in _rows(*args)], pa.string())
    )


def _with_params(function: Callable[..., str], *names: str) -> Kernel:
    def kernel(site: Site, x: Text) -> Text:
        given = [site.params[name] for name in names]
        found = [None if text is None else function(text, *given) for text in x.array.to_pylist()]
        return Text(pa.array(found, pa.string()))

    return kernel


def _flags(found: list[bool], x: Text) -> Flat:
    return Flat(np.array(found, bool), x.valid)


def _at(text: str, index: int) -> str | None:
    return text[index] if -len(text) <= index < len(text) else None


def _repeat(text: str, times: int) -> str | None:
    return text * times if len(text) * times <= LONGEST_TEXT else None


def _strip(site: Site, x: Text) -> Text:
    strip = {"left": str.lstrip, "right": str.rstrip, "both": str.strip}[site.params["side"]]
    characters = site.params.get("characters")
    return Text(
        pa.array([None if t is None else strip(t, characters) for t in x.array.to_pylist()], pa.string())
    )


def _pad(text: str, width: int, character: str, side: str) -> str:
    return (text.rjust if side == "left" else text.ljust)(width, character)


def _concat(site: Site, *args: Text) -> Text:
    return Text(pc.binary_join_element_wise(*(arg.array for arg in args), ""))


def _find(site: Site, x: Text, part: Text) -> Flat:
    found = [0 if row is None else row[0].find(row[1]) for row in _rows(x, part)]
    return Flat(np.array(found, np.int64), both(x.valid, part.valid))


def _count(site: Site, x: Text) -> Flat:
    part = site.params["part"]
    return Flat(np.array([0 if t is None else t.count(part) for t in x.array.to_pylist()], np.int64), x.valid)


def _is(site: Site, x: Text) -> Flat:
    test = getattr(str, site.params["test"])
    return _flags([t is not None and test(t) for t in x.array.to_pylist()], x)


def _words(site: Site, x: Text) -> Lists:
    parts = [[] if t is None else t.split() for t in x.array.to_pylist()]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Lists(offsets, Text(pa.array([word for part in parts for word in part], pa.string())), x.valid)


def _join(site: Site, x: Lists) -> Text:
    assert isinstance(x.items, Text)
    words, separator, there = x.items.array.to_pylist(), site.params["separator"], is_valid(x).tolist()
    found: list[str | None] = []
    for row, known in enumerate(there):
        part = words[x.offsets[row] : x.offsets[row + 1]]
        found.append(separator.join(part) if known and None not in part else None)
    return Text(pa.array(found, pa.string()))


def _list_at(site: Site, x: Lists, index: Flat) -> Value:
    lengths = x.lengths
    places = np.where(index.values < 0, index.values + lengths, index.values)
    inside = (places >= 0) & (places < lengths)
    valid = both(x.valid, index.valid, inside)
    if not len(x.items):
        empty = pa.nulls(len(x), pa.string())
        return (
            Text(empty) if isinstance(x.items, Text) else Flat(np.zeros(len(x), x.items.values.dtype), valid)
        )
    taken = x.items.take(np.where(inside, x.offsets[:-1] + places, 0))
    if isinstance(taken, Text):
        return Text(
            pc.if_else(pa.array(is_valid(Flat(places, valid))), taken.array, pa.scalar(None, pa.string()))
        )
    return Flat(taken.values, both(valid, taken.valid))


def _parsed(function: Callable[[str], Any], text: str | None) -> Any:
    """What a number's text gives; None where it is no such text."""
    if text is None:
        return None
    try:
        return function(text)
    except ValueError:
        return None


def _is_number(function: Callable[[str], Any]) -> Kernel:
    return lambda site, x: _flags([_parsed(function, t) is not None for t in x.array.to_pylist()], x)


def _to_int(site: Site, x: Text) -> Flat:
    found = [_parsed(int, text) for text in x.array.to_pylist()]
    fits = [number is not None and LEAST <= number <= GREATEST for number in found]
    values = [number if fine else 0 for number, fine in zip(found, fits, strict=True)]
    return Flat(np.array(values, np.int64), np.array(fits, bool))


def _to_float(site: Site, x: Text) -> Flat:
    found = [_parsed(float, text) for text in x.array.to_pylist()]
    values = np.array([0.0 if number is None else number for number in found], np.float64)
    return Flat(values, np.array([number is not None for number in found], bool))


KERNELS: dict[str, Kernel] = {
    "text_concat": _concat,
    "text_repeat": _texts(_repeat),
    "text_at": _texts(_at),
    "text_slice": _texts(lambda text, start, stop: text[start:stop]),
    "text_find": _find,
    "text_reverse": _texts(lambda text: text[::-1]),
    "text_strip": _strip,
    "text_count": _count,
    "text_pad": _with_params(_pad, "width", "character", "side"),
    "text_zfill": _with_params(str.zfill, "width"),
    "text_is": _is,
    "text_words": _words,
    "text_join": _join,
    "list_at": _list_at,
    "is_int_text": _is_number(int),
    "int_of_text": _to_int,
    "is_float_text": _is_number(float),
    "float_of_text": _to_float,
}
