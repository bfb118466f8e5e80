"""Arithmetic, mathematics, comparison and logic in NumPy. What these kernels compute is what the operations mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc

from penstock.backends.arrow.values import Flat, Text, Value, both, concat, is_valid
from penstock.backends.base import Kernel, Site
from penstock.dtypes import Array
from penstock.expr.types import Type


def real(value: Flat) -> Array:
    """Numbers as float64."""
    return value.values.astype(np.float64, copy=False)


def of_reals(function: Callable[..., Array]) -> Kernel:
    """A kernel that computes in float64, null in and null out."""

    def kernel(site: Site, *args: Flat) -> Flat:
        return Flat(function(*(real(arg) for arg in args)), both(*(arg.valid for arg in args)))

    return kernel


def _sign(x: Array) -> Array:
    return np.where(x == 0, x, np.sign(x))  # np.sign loses the sign of a zero


def _pow(x: Array, y: Array) -> Array:
    # NumPy takes the square root where a constant exponent is 0.5, and pow differs from that at -inf and -0.0.
    return np.power(np.where(y == 0.5, np.where(x == -np.inf, np.inf, x + 0.0), x), y)


def _comparison(name: str) -> Kernel:
    compare: Any = getattr(
        np, {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}.get(name, name)
    )
    of_texts = getattr(
        pc, {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}.get(name, name)
    )

    def kernel(site: Site, left: Value, right: Value) -> Flat:
        valid = both(left.valid, right.valid)
        if isinstance(left, Text) and isinstance(right, Text):
            found = of_texts(left.array, right.array).fill_null(False)
            return Flat(found.to_numpy(zero_copy_only=False), valid)
        assert isinstance(left, Flat)
        assert isinstance(right, Flat)
        if {side.kind for side in site.types} == {"int", "float"}:
            return Flat(compare(real(left), real(right)), valid)
        return Flat(compare(left.values, right.values), valid)

    return kernel


def _and(site: Site, left: Flat, right: Flat) -> Flat:
    no = (~left.values & is_valid(left)) | (~right.values & is_valid(right))
    valid = both(left.valid, right.valid)
    return Flat(left.values & right.values & ~no, None if valid is None else valid | no)


def _or(site: Site, left: Flat, right: Flat) -> Flat:
    yes = (left.values & is_valid(left)) | (right.values & is_valid(right))
    valid = both(left.valid, right.valid)
    return Flat(yes, None if valid is None else valid | yes)


def _extreme(beats: Callable[[Array, Array], Array]) -> Kernel:
    """The first of the best; a nan, once there, stays."""

    def kernel(site: Site, *args: Flat) -> Flat:
        values = [arg.values if site.type.kind == "int" else real(arg) for arg in args]
        best = values[0]
        for value in values[1:]:
            best = np.where(beats(value, best) | (value != value), value, best)
        return Flat(best, both(*(arg.valid for arg in args)))

    return kernel


def _clip(site: Site, x: Flat) -> Flat:
    low, high = site.params["low"], site.params["high"]
    if site.type.kind == "int":
        return Flat(np.clip(x.values, low, high), x.valid)
    values = real(x)
    return Flat(np.where(values < low, float(low), np.where(values > high, float(high), values)), x.valid)


def _nan_as_null(site: Site, x: Flat) -> Flat:
    values = real(x)
    known = ~np.isnan(values)
    return Flat(values, x.valid if known.all() else known if x.valid is None else known & x.valid)


def _bucketize(site: Site, x: Flat) -> Flat:
    edges = np.array(site.params["edges"], np.float64)
    values = real(x)
    places = np.searchsorted(edges, values, side="right").astype(np.int64)
    known = ~np.isnan(values)
    return Flat(places, known if x.valid is None else known & x.valid)


def held(value: Value, source: Type, target: Type) -> Value:
    """A value as another type of the same family holds it: whole numbers become floats."""
    if isinstance(value, Flat) and source.kind == "int" and target.kind == "float":
        return Flat(real(value), value.valid)
    if not isinstance(value, Flat | Text) and source.item.kind == "int" and target.item.kind == "float":
        items = held(value.items, source.item, target.item)
        assert isinstance(items, Flat)
        return type(value)(value.offsets, items, value.valid)
    return value


def choose(values: list[Value], which: Array) -> Value:
    """Of each row the value whose number `which` says."""
    if all(isinstance(value, Flat) for value in values):
        best = values[-1]
        for place in range(len(values) - 2, -1, -1):
            one = values[place]
            assert isinstance(one, Flat)
            assert isinstance(best, Flat)
            chosen = which == place
            valid = None
            if one.valid is not None or best.valid is not None:
                valid = np.where(chosen, is_valid(one), is_valid(best))
            best = Flat(np.where(chosen, one.values, best.values), valid)
        return best
    return concat(values).take(which * len(which) + np.arange(len(which)))


def _when(site: Site, *args: Value) -> Value:
    conditions, values = args[:-1:2], [*args[1::2], args[-1]]
    kinds = [*site.types[1::2], site.types[-1]]
    which = np.full(len(args[0]), len(values) - 1)
    for place in range(len(conditions) - 1, -1, -1):
        condition = conditions[place]
        assert isinstance(condition, Flat)
        which[condition.values & is_valid(condition)] = place
    return choose([held(v, kind, site.type) for v, kind in zip(values, kinds, strict=True)], which)


def _coalesce(site: Site, *args: Value) -> Value:
    which = np.full(len(args[0]), len(args) - 1)
    for place in range(len(args) - 1, -1, -1):
        which[is_valid(args[place])] = place
    return choose([held(arg, kind, site.type) for arg, kind in zip(args, site.types, strict=True)], which)


def _fill(site: Site, x: Value) -> Value:
    value = site.params["value"]
    if isinstance(x, Text):
        return Text(x.array.fill_null(value))
    if isinstance(x, Flat):
        if x.valid is None:
            return held(x, site.types[0], site.type)
        return Flat(np.where(x.valid, x.values, np.asarray(value, x.values.dtype)))
    inner = Site(site.op, (site.types[0].item,), site.type.item, site.params)
    items = _fill(inner, x.items)
    assert isinstance(items, Flat | Text)
    return type(x)(x.offsets, items, x.valid)


def _is_null(site: Site, x: Value) -> Flat:
    return Flat(~is_valid(x))


def _is_nan(site: Site, x: Flat) -> Flat:
    return Flat(np.isnan(real(x)) & is_valid(x))


KERNELS: dict[str, Kernel] = {
    "add": of_reals(np.add),
    "subtract": of_reals(np.subtract),
    "multiply": of_reals(np.multiply),
    "divide": of_reals(np.divide),
    "negate": of_reals(np.negative),
    "abs": of_reals(np.abs),
    "sign": of_reals(_sign),
    "round": of_reals(np.rint),
    "floor": of_reals(np.floor),
    "ceil": of_reals(np.ceil),
    "sqrt": of_reals(np.sqrt),
    "log": of_reals(np.log),
    "log1p": of_reals(np.log1p),
    "log10": of_reals(np.log10),
    "exp": of_reals(np.exp),
    "expm1": of_reals(np.expm1),
    "sin": of_reals(np.sin),
    "cos": of_reals(np.cos),
    "tanh": of_reals(np.tanh),
    "pow": of_reals(_pow),
    "minimum": _extreme(np.less),
    "maximum": _extreme(np.greater),
    "clip": _clip,
    "bucketize": _bucketize,
    "nan_as_null": _nan_as_null,
    "eq": _comparison("eq"),
    "ne": _comparison("ne"),
    "lt": _comparison("lt"),
    "le": _comparison("le"),
    "gt": _comparison("greater"),
    "ge": _comparison("greater_equal"),
    "and": _and,
    "or": _or,
    "not": lambda site, x: Flat(~x.values, x.valid),
    "when": _when,
    "is_null": _is_null,
    "is_nan": _is_nan,
    "coalesce": _coalesce,
    "fill": _fill,
}
