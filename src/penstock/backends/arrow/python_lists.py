"""What Python does with lists, done by Python, element by element: what it gives is what a lifted function means."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.backends.arrow.values import Flat, Lists, Text, Value, both, is_valid
from penstock.backends.base import Kernel, Site
from penstock.dtypes import Array

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


def _plain(column: Flat | Text) -> list[Any]:
    if isinstance(column, Text):
        found: list[Any] = column.array.to_pylist()
        return found
    values: list[Any] = column.values.tolist()
    if column.valid is None:
        return values
    return [value if known else None for value, known in zip(values, column.valid.tolist(), strict=True)]


def _rows(x: Lists) -> Iterator[list[Any] | None]:
    """The lists, None for null."""
    items, offsets = _plain(x.items), x.offsets.tolist()
    for row, known in enumerate(is_valid(x).tolist()):
        yield items[offsets[row] : offsets[row + 1]] if known else None


def _places(x: Lists, bound: Flat) -> Array:
    """Where a bound of a slice lies, inside the list."""
    lengths = x.lengths
    return np.clip(np.where(bound.values < 0, bound.values + lengths, bound.values), 0, lengths)


def _slice(site: Site, x: Lists, start: Flat, stop: Flat) -> Lists:
    begin = _places(x, start)
    counts = np.maximum(_places(x, stop) - begin, 0)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    items = x.items.take(np.repeat(x.offsets[:-1] + begin, counts) + within)
    return Lists(offsets, items, both(x.valid, start.valid, stop.valid))


def _reverse(site: Site, x: Lists) -> Lists:
    lengths = x.lengths
    within = np.arange(x.offsets[-1]) - np.repeat(x.offsets[:-1], lengths)
    return Lists(x.offsets, x.items.take(np.repeat(x.offsets[1:] - 1, lengths) - within), x.valid)


def added(numbers: Iterable[Any], start: Any, compensated: bool) -> Any:
    """sum(numbers, start) of whole numbers or of floats; None where whole numbers leave 64 bits on the way.

    >>> added([0.1] * 10, 0.0, compensated=False), added([0.1] * 10, 0.0, compensated=True)
    (0.9999999999999999, 1.0)
    """
    total, lost = start, 0.0
    for number in numbers:
        before, total = total, total + number
        if isinstance(total, int) and not LEAST <= total <= GREATEST:
            return None
        if compensated and isinstance(total, float):  # Neumaier's, as in CPython's bltinmodule.c
            small, large = (number, before) if abs(before) >= abs(number) else (before, number)
            lost += (large - total) + small
    return total + lost if compensated and lost and math.isfinite(lost) else total


def _total(site: Site, x: Lists, start: Flat) -> Flat:
    found = [
        None if row is None or first is None or None in row else added(row, first, site.params["compensated"])
        for row, first in zip(_rows(x), _plain(start), strict=True)
    ]
    return _flat(found, np.float64 if site.type.kind == "float" else np.int64)


def _flat(found: list[Any], dtype: Any) -> Flat:
    known = np.array([one is not None for one in found], bool)
    values = np.array([0 if one is None else one for one in found], dtype)
    return Flat(values, None if known.all() else known)


def _best(site: Site, x: Lists) -> Value:
    function = {"max": max, "min": min}[site.params["which"]]
    found = [
        None if row is None else function((one for one in row if one is not None), default=None)
        for row in _rows(x)
    ]
    if isinstance(x.items, Text):
        return Text(pa.array(found, pa.string()))
    return _flat(found, x.items.values.dtype)


def _first(row: list[Any], value: Any) -> int:
    return next((place for place, one in enumerate(row) if one == value), -1)


def _count(row: list[Any], value: Any) -> int:
    return sum(one == value for one in row)  # list.count() takes one nan for itself


def _compared(function: Callable[[list[Any], Any], int]) -> Kernel:
    def kernel(site: Site, x: Lists, value: Flat | Text) -> Flat:
        pairs = zip(_rows(x), _plain(value), strict=True)
        return _flat(
            [None if row is None or one is None else function(row, one) for row, one in pairs], np.int64
        )

    return kernel


KERNELS: dict[str, Kernel] = {
    "list_slice": _slice,
    "list_reverse": _reverse,
    "list_total": _total,
    "list_best": _best,
    "list_find": _compared(_first),
    "list_count": _compared(_count),
}
