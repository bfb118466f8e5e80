"""Lists as vectors in NumPy: those of fixed length as matrices, the others by their offsets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.backends.arrow.lists import items_of, per_list, without_nulls
from penstock.backends.arrow.numbers import real
from penstock.backends.arrow.values import Flat, Lists, Text, both, with_valid
from penstock.backends.base import Kernel, Site
from penstock.dtypes import Array

EACH: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "minimum": lambda x, by: np.where(by < x, by, x),
    "maximum": lambda x, by: np.where(by > x, by, x),
    "gt": lambda x, by: (x > by).astype(np.float64),
    "if_nan": lambda x, by: np.where(np.isnan(x), by, x),
}


def _full(x: Lists, width: int) -> Lists:
    """Lists of fixed length, so that null ones hold as many items as the others."""
    return x if len(x.items) == len(x) * width else _at(x, np.arange(width))


def _each(site: Site, x: Lists) -> Lists:
    by = np.asarray(site.params["by"], np.float64)
    x = _full(x, len(by)) if by.ndim else x
    items = items_of(x)
    values = real(items).reshape(-1, len(by)) if by.ndim else real(items)
    found = EACH[site.params["function"]](values, by)
    return Lists(x.offsets, Flat(found.ravel(), items.valid), x.valid)


def _at(x: Lists, places: Array) -> Lists:
    there = (places < x.lengths[:, None]).ravel()
    at = np.where(there, (x.offsets[:-1, None] + places).ravel(), 0)
    if len(x.items):
        found: Flat | Text = x.items.take(at)
    elif isinstance(x.items, Text):
        found = Text(pa.nulls(len(at), pa.string()))
    else:
        found = Flat(np.zeros(len(at), x.items.values.dtype))
    if not there.all():
        masked = with_valid(found, both(found.valid, there))
        assert isinstance(masked, Flat | Text)
        found = masked
    return Lists(np.arange(len(x) + 1, dtype=np.int64) * len(places), found, x.valid)


def _list_multiply(site: Site, x: Lists, y: Lists) -> Lists:
    x, y = (_full(each, site.type.length or 0) for each in (x, y))
    left, right = items_of(x), items_of(y)
    found = real(left) * real(right)
    if site.params.get("absorbing"):
        found = np.where(real(left) == 0, 0.0, found)
    items = Flat(found, both(left.valid, right.valid))
    return Lists(x.offsets, items, both(x.valid, y.valid))


def _linear(site: Site, x: Lists) -> Lists:
    weights = np.array(site.params["weights"], np.float64)
    x = _full(x, weights.shape[1])
    values = real(items_of(x)).reshape(-1, weights.shape[1])
    found = values @ weights.T + np.array(site.params["bias"], np.float64)
    offsets = np.arange(len(x) + 1, dtype=np.int64) * len(weights)
    return Lists(offsets, Flat(found.ravel()), both(x.valid, without_nulls(x)))


def _softmax(site: Site, x: Lists) -> Lists:
    values = real(items_of(x))
    greatest = np.repeat(per_list(x, values, np.maximum.reduceat, 0.0), x.lengths)
    shares = np.exp(np.where(values == greatest, 0.0, values - greatest))
    sums = np.repeat(per_list(x, shares, np.add.reduceat, 1.0), x.lengths)
    return Lists(x.offsets, Flat(shares / sums), both(x.valid, without_nulls(x)))


def _argmax(site: Site, x: Lists) -> Flat:
    values = items_of(x).values
    if values.dtype == np.float64:
        values = np.where(np.isnan(values), -np.inf, values)
    best = values == np.repeat(per_list(x, values, np.maximum.reduceat, 0), x.lengths)
    within = np.arange(len(values)) - np.repeat(x.offsets[:-1], x.lengths)
    first = per_list(x, np.where(best, within, len(values)), np.minimum.reduceat, 0)
    return Flat(first, both(x.valid, without_nulls(x), x.lengths > 0))


KERNELS: dict[str, Kernel] = {
    "each": _each,
    "elements": lambda site, x: _at(x, np.array(site.params["places"])),
    "list_multiply": _list_multiply,
    "linear": _linear,
    "softmax": _softmax,
    "list_argmax": _argmax,
}
