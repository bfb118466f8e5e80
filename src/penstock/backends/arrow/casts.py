"""Casts in NumPy and Arrow: what does not fit becomes null.

Texts are numbers by one rule, which Spark follows too: `NUMBER` for floats, `WHOLE` for integers, and the words for
nan and infinity.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.arrow.values import Flat, Lists, Text, Value, both, is_valid
from penstock.backends.base import Site
from penstock.dtypes import Array
from penstock.expr.plain_numbers import NUMBER, WHOLE, WORDS
from penstock.expr.types import FLOAT16, FLOAT32, Type, int_range


def cast(site: Site, x: Value) -> Value:
    """As the site's type."""
    return _cast(x, site.types[0], site.type)


def _cast(x: Value, source: Type, target: Type) -> Value:
    if isinstance(x, Lists):
        items = _cast(x.items, source.item, target.item)
        assert isinstance(items, Flat | Text)
        return Lists(x.offsets, items, x.valid)
    if isinstance(x, Text):
        return x if target.kind == "string" else _from_text(x, target)
    if target.kind == "string":
        plain = pa.array(x.values, mask=None if x.valid is None else ~x.valid)
        return Text(plain.cast(pa.string()))
    if target.kind == "bool":
        known = both(x.valid, ~np.isnan(x.values) if source.kind == "float" else None)
        return Flat(x.values != 0, known)
    if target.kind == "int":
        return to_whole(x, source, target)
    return Flat(narrowed(x.values, target), x.valid)


def to_whole(x: Flat, source: Type, target: Type) -> Flat:
    """Numbers as whole numbers of a width; null where they do not fit."""
    low, high = int_range(target)
    if source.kind != "float":
        if source.kind == "bool" or source.bits <= target.bits:
            return Flat(x.values.astype(np.int64), x.valid)
        return Flat(x.values, both(x.valid, (x.values >= low) & (x.values <= high)))
    cut = np.trunc(x.values)
    # `high` + 1 is a power of two, so it is exact as a float where `high` itself may not be.
    fits = (cut >= float(low)) & (cut < float(high + 1))
    return Flat(np.where(fits, cut, 0).astype(np.int64), both(x.valid, fits))


def narrowed(values: Array, target: Type) -> Array:
    """Numbers rounded to a floating-point type, held as float64."""
    if target in (FLOAT16, FLOAT32):
        return values.astype(np.float16 if target == FLOAT16 else np.float32).astype(np.float64)
    return values.astype(np.float64)


def _from_text(x: Text, target: Type) -> Flat:
    if target.kind == "bool":
        lower = pc.ascii_lower(x.array).fill_null("")
        yes, no = (pc.equal(lower, word).to_numpy(zero_copy_only=False) for word in ("true", "false"))
        return Flat(yes, both(x.valid, yes | no))
    if target.kind == "int":
        return _whole_from_text(x, target)
    values = np.full(len(x), np.nan)
    fits = np.zeros(len(x), bool)
    plain = pc.match_substring_regex(x.array, NUMBER).fill_null(False).to_numpy(zero_copy_only=False)
    values[plain] = pc.cast(
        pc.replace_substring_regex(x.array.filter(pa.array(plain)), r"\A\+", ""), pa.float64()
    )
    fits |= plain
    lower = pc.ascii_lower(x.array).fill_null("")
    for word, number in WORDS.items():
        found = pc.equal(lower, word).to_numpy(zero_copy_only=False)
        values[found] = number
        fits |= found
    return Flat(narrowed(values, target), both(x.valid, fits))


def _whole_from_text(x: Text, target: Type) -> Flat:
    low, high = int_range(target)
    values, fits = np.zeros(len(x), np.int64), np.zeros(len(x), bool)
    plain = pc.match_substring_regex(x.array, WHOLE).fill_null(False).to_numpy(zero_copy_only=False)
    short = plain & (pc.binary_length(x.array).fill_null(0).to_numpy(zero_copy_only=False) <= 18)
    stripped = pc.replace_substring_regex(x.array.filter(pa.array(short)), r"\A\+", "")
    values[short] = pc.cast(stripped, pa.int64())
    fits |= short
    for place in np.flatnonzero(plain & ~short):
        found = int(re.sub(r"^([+-]?)0+(?=\d)", r"\1", x.array[int(place)].as_py())[:4300])
        if low <= found <= high:
            values[place], fits[place] = found, True
    fits &= (values >= low) & (values <= high)
    return Flat(values, both(is_valid(x), fits))
