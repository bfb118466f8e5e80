"""Lists in NumPy: offsets and items, computed in whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.backends.arrow.casts import narrowed, to_whole
from penstock.backends.arrow.numbers import real
from penstock.backends.arrow.values import Flat, Lists, Text, Value, both, concat, is_valid, with_valid
from penstock.backends.base import Kernel, Site
from penstock.dtypes import Array
from penstock.expr.types import FLOAT64, Type


def per_list(x: Lists, items: Array, reduce: Callable[[Array, Array], Array], empty: Any) -> Array:
    """A number for each list: `reduce(items, starts)` over those that have items, `empty` for the others."""
    lengths = x.lengths
    found = np.full(len(x), empty, items.dtype)
    full = lengths > 0
    if full.any():
        found[full] = reduce(items[: x.offsets[-1]], x.offsets[:-1][full])
    return found


def without_nulls(x: Lists) -> Array | None:
    """Which lists hold no null."""
    if x.items.valid is None:
        return None
    return ~per_list(x, ~x.items.valid, np.logical_or.reduceat, False)


def items_of(x: Lists) -> Flat:
    """The items of lists of anything but texts."""
    assert isinstance(x.items, Flat)
    return x.items


def _element(site: Site, x: Lists) -> Value:
    places = x.offsets[:-1] + site.params["index"]
    there = places < x.offsets[1:]
    valid = both(x.valid, there)
    items = x.items
    if not len(items):
        blank = pa.nulls(len(x), pa.string()) if isinstance(items, Text) else None
        return Text(blank) if blank is not None else Flat(np.zeros(len(x), items_of(x).values.dtype), valid)
    found = items.take(np.where(there, places, 0))
    return with_valid(found, both(found.valid, valid))


def _sum(site: Site, x: Lists) -> Flat:
    return Flat(per_list(x, real(items_of(x)), np.add.reduceat, 0.0), both(x.valid, without_nulls(x)))


def _mean(site: Site, x: Lists) -> Flat:
    total = _sum(site, x)
    return Flat(total.values / x.lengths, both(total.valid, x.lengths > 0))


def _extreme(function: Any) -> Kernel:
    def kernel(site: Site, x: Lists) -> Flat:
        found = per_list(x, items_of(x).values, function.reduceat, 0)
        return Flat(
            found + found.dtype.type(0), both(x.valid, without_nulls(x), x.lengths > 0)
        )  # no negative zero

    return kernel


def _pad(site: Site, x: Lists) -> Lists:
    length, value = site.params["length"], site.params["value"]
    column = np.arange(length)
    there = (column < x.lengths[:, None]).ravel()
    places = np.where(there, (x.offsets[:-1, None] + column).ravel(), len(x.items))
    if isinstance(x.items, Text):
        blank: Flat | Text = Text(pa.array([value], pa.string()))
    else:
        kind = np.float64 if site.type.item.kind == "float" else x.items.values.dtype
        blank = Flat(np.array([value], kind))
    items = concat([x.items, blank]).take(places)
    assert isinstance(items, Flat | Text)
    return Lists(np.arange(len(x) + 1, dtype=np.int64) * length, items, x.valid)


def _norms(x: Lists, p: float) -> Array:
    values = real(items_of(x))
    sizes = np.abs(values)
    if p == 2:
        return np.sqrt(per_list(x, values * values, np.add.reduceat, 0.0))
    if p == np.inf:
        return per_list(x, np.where(np.isnan(sizes), 0.0, sizes), np.maximum.reduceat, 0.0)
    if p == 1:
        return per_list(x, sizes, np.add.reduceat, 0.0)
    return np.power(per_list(x, np.power(sizes, p), np.add.reduceat, 0.0), 1.0 / p)


def _normalize(site: Site, x: Lists) -> Lists:
    values, norms = real(items_of(x)), _norms(x, site.params.get("p", 2))
    divisors = np.repeat(np.where(norms == 0, 1.0, norms), x.lengths)
    return Lists(x.offsets, Flat(values / divisors), both(x.valid, without_nulls(x)))


def _one_hot(site: Site, x: Value) -> Lists:
    size = site.params["size"]
    if isinstance(x, Lists):
        places, valid = items_of(x).values, both(x.valid, without_nulls(x))
        rows = np.repeat(np.arange(len(x)), x.lengths)
    else:
        assert isinstance(x, Flat)
        places, valid, rows = x.values, x.valid, np.arange(len(x))
    inside = (places >= 0) & (places < size)
    valid = is_valid(x) if valid is None else valid.copy()
    valid[rows[~inside]] = False
    hot = np.zeros((len(x), size))
    hot[rows[inside], places[inside]] = 1.0
    return Lists(np.arange(len(x) + 1, dtype=np.int64) * size, Flat(hot.ravel()), valid)


def _stack(site: Site, *args: Value) -> Lists:
    rows, target = len(args[0]), site.type.item
    values, masks = [], []
    for arg, of in zip(args, site.types, strict=True):
        leaf = of.item if of.kind == "list" else of
        column = _converted(items_of(arg) if isinstance(arg, Lists) else arg, leaf, target)
        width = (of.length if of.kind == "list" else 1) or 0
        values.append(column.values.reshape(rows, width))
        mask = is_valid(column).reshape(rows, width)
        masks.append(mask & is_valid(arg)[:, None] if isinstance(arg, Lists) else mask)
    joined = np.concatenate(masks, axis=1)
    items = Flat(np.concatenate(values, axis=1).ravel(), None if joined.all() else joined.ravel())
    return Lists(np.arange(rows + 1, dtype=np.int64) * (site.type.length or 0), items)


def _converted(x: Value, source: Type, target: Type) -> Flat:
    assert isinstance(x, Flat)
    if target.kind == "int":
        return to_whole(x, source, target)
    return Flat(real(x) if target == FLOAT64 else narrowed(x.values, target), x.valid)


KERNELS: dict[str, Kernel] = {
    "element": _element,
    "list_length": lambda site, x: Flat(x.lengths.astype(np.int64), x.valid),
    "list_sum": _sum,
    "list_mean": _mean,
    "list_max": _extreme(np.maximum),
    "list_min": _extreme(np.minimum),
    "pad": _pad,
    "normalize": _normalize,
    "one_hot": _one_hot,
    "stack": _stack,
}
