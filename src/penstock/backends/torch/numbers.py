"""Arithmetic, mathematics, comparison, logic and casts on tensors, equal to `penstock.backends.arrow.numbers`."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from penstock.backends.base import Kernel, Site
from penstock.backends.torch.values import Value, both, is_valid, lookup
from penstock.expr.types import FLOAT16, FLOAT32, Type, int_range


def real(value: Value) -> Tensor:
    """Numbers as float64."""
    return value.values.to(torch.float64)


def of_reals(function: Callable[..., Tensor]) -> Kernel:
    """A kernel that computes in float64, null in and null out."""

    def kernel(site: Site, *args: Value) -> Value:
        return Value(function(*(real(arg) for arg in args)), both(*(arg.valid for arg in args)))

    return kernel


def _sign(x: Tensor) -> Tensor:
    return torch.where((x == 0) | x.isnan(), x, x.sign())  # sign alone makes 0 of nan and of -0.0


def _pow(x: Tensor, y: Tensor) -> Tensor:
    found = torch.pow(x, y)
    one = (x == 1) | ((x == -1) & y.isinf())  # C says so, and not every device does
    return torch.where(one, 1.0, found)


def _comparison(compare: Callable[[Tensor, Tensor], Tensor]) -> Kernel:
    def kernel(site: Site, left: Value, right: Value) -> Value:
        valid = both(left.valid, right.valid)
        if {side.kind for side in site.types} == {"int", "float"}:
            return Value(compare(real(left), real(right)), valid)
        return Value(compare(left.values, right.values), valid)

    return kernel


def _and(site: Site, left: Value, right: Value) -> Value:
    no = (~left.values & is_valid(left)) | (~right.values & is_valid(right))
    valid = both(left.valid, right.valid)
    return Value(left.values & right.values & ~no, None if valid is None else valid | no)


def _or(site: Site, left: Value, right: Value) -> Value:
    yes = (left.values & is_valid(left)) | (right.values & is_valid(right))
    valid = both(left.valid, right.valid)
    return Value(yes, None if valid is None else valid | yes)


def _extreme(beats: Callable[[Tensor, Tensor], Tensor]) -> Kernel:
    """The first of the best; a nan, once there, stays."""

    def kernel(site: Site, *args: Value) -> Value:
        values = [arg.values if site.type.kind == "int" else real(arg) for arg in args]
        best = values[0]
        for value in values[1:]:
            best = torch.where(beats(value, best) | (value != value), value, best)
        return Value(best, both(*(arg.valid for arg in args)))

    return kernel


def _clip(site: Site, x: Value) -> Value:
    low, high = site.params["low"], site.params["high"]
    if site.type.kind == "int":
        return Value(x.values.clamp(low, high), x.valid)
    values = real(x)
    return Value(
        torch.where(values < low, float(low), torch.where(values > high, float(high), values)), x.valid
    )


def _nan_as_null(site: Site, x: Value) -> Value:
    values = real(x)
    known = ~values.isnan()
    return Value(values, known if x.valid is None else known & x.valid)


def _bucketize(site: Site, x: Value) -> Value:
    values = real(x).contiguous()
    edges = lookup(tuple(map(float, site.params["edges"])), torch.float64, values.device)
    places = torch.bucketize(values, edges, right=True)
    known = ~values.isnan()
    return Value(places, known if x.valid is None else known & x.valid)


def widened(value: Value, source: Type, target: Type) -> Value:
    """A value as another type of the same family is held: whole numbers become floats."""
    leaf, goal = (one.item if one.kind == "list" else one for one in (source, target))
    return (
        Value(real(value), value.valid, value.items) if (leaf.kind, goal.kind) == ("int", "float") else value
    )


def choose(condition: Tensor, first: Value, second: Value) -> Value:
    """The first where the condition holds, else the second."""
    wide = condition[:, None] if first.values.dim() == 2 else condition
    valid = items = None
    if first.valid is not None or second.valid is not None:
        valid = torch.where(condition, is_valid(first), is_valid(second))
    if first.items is not None or second.items is not None:
        items = torch.where(wide, _items(first), _items(second))
    return Value(torch.where(wide, first.values, second.values), valid, items)


def _items(value: Value) -> Tensor:
    return value.items if value.items is not None else torch.ones_like(value.values, dtype=torch.bool)


def _when(site: Site, *args: Value) -> Value:
    best = widened(args[-1], site.types[-1], site.type)
    for place in range(len(args) - 3, -1, -2):
        condition, value = args[place], widened(args[place + 1], site.types[place + 1], site.type)
        best = choose(condition.values & is_valid(condition), value, best)
    return best


def _coalesce(site: Site, *args: Value) -> Value:
    values = [widened(arg, of, site.type) for arg, of in zip(args, site.types, strict=True)]
    best = values[-1]
    for value in reversed(values[:-1]):
        best = value if value.valid is None else choose(value.valid, value, best)
    return best


def _fill(site: Site, x: Value) -> Value:
    value = site.params["value"]
    if site.type.kind == "list":
        return x if x.items is None else Value(torch.where(x.items, x.values, _like(value, x)), x.valid)
    return x if x.valid is None else Value(torch.where(x.valid, x.values, _like(value, x)))


def _like(value: bool | int | float, x: Value) -> Tensor:
    """A constant in the dtype of a value: a bare number would be read as float32."""
    return torch.full((), value, dtype=x.values.dtype, device=x.values.device)


def cast(site: Site, x: Value) -> Value:
    """As another type; what does not fit becomes null."""
    source, target = (one.item if one.kind == "list" else one for one in (site.types[0], site.type))
    return converted(x, source, target)


def converted(x: Value, source: Type, target: Type) -> Value:
    """Values, or elements of lists, as another type."""
    if target.kind == "bool":
        return _where_fits(x.values != 0, ~x.values.isnan() if source.kind == "float" else None, x)
    if target.kind == "int":
        low, high = int_range(target)
        if source.kind != "float":
            narrow = source.kind == "int" and source.bits > target.bits
            fits = (x.values >= low) & (x.values <= high) if narrow else None
            return _where_fits(x.values.to(torch.int64), fits, x)
        cut = x.values.trunc()
        fits = (cut >= float(low)) & (cut < float(high + 1))  # high + 1 is exact as a float
        return _where_fits(torch.where(fits, cut, 0.0).to(torch.int64), fits, x)
    if target == FLOAT32:
        return Value(x.values.to(torch.float32).to(torch.float64), x.valid, x.items)
    if target == FLOAT16:
        return Value(_halves(x.values.to(torch.float64)), x.valid, x.items)
    return Value(x.values.to(torch.float64), x.valid, x.items)


def _where_fits(values: Tensor, fits: Tensor | None, x: Value) -> Value:
    if x.values.dim() == 2:
        return Value(values, x.valid, both(x.items, fits))
    return Value(values, both(x.valid, fits))


def _halves(x: Tensor) -> Tensor:
    """Rounded to float16 in one step; torch itself goes through float32, and rounds twice."""
    _, exponent = torch.frexp(x)
    step = torch.ldexp(torch.ones_like(x), (exponent - 11).clamp(min=-24))
    rounded = torch.where(x.isfinite(), (x / step).round() * step, x)
    return torch.where(rounded.abs() >= 65536.0, torch.copysign(torch.full_like(x, math.inf), x), rounded)


KERNELS: dict[str, Kernel] = {
    "add": of_reals(torch.add),
    "subtract": of_reals(torch.sub),
    "multiply": of_reals(torch.mul),
    "divide": of_reals(torch.div),
    "negate": of_reals(torch.neg),
    "abs": of_reals(torch.abs),
    "sign": of_reals(_sign),
    "round": of_reals(torch.round),
    "floor": of_reals(torch.floor),
    "ceil": of_reals(torch.ceil),
    "sqrt": of_reals(torch.sqrt),
    "log": of_reals(torch.log),
    "log1p": of_reals(torch.log1p),
    "log10": of_reals(torch.log10),
    "exp": of_reals(torch.exp),
    "expm1": of_reals(torch.expm1),
    "sin": of_reals(torch.sin),
    "cos": of_reals(torch.cos),
    "tanh": of_reals(torch.tanh),
    "pow": of_reals(_pow),
    "minimum": _extreme(torch.lt),
    "maximum": _extreme(torch.gt),
    "clip": _clip,
    "bucketize": _bucketize,
    "nan_as_null": _nan_as_null,
    "eq": _comparison(torch.eq),
    "ne": _comparison(torch.ne),
    "lt": _comparison(torch.lt),
    "le": _comparison(torch.le),
    "gt": _comparison(torch.gt),
    "ge": _comparison(torch.ge),
    "and": _and,
    "or": _or,
    "not": lambda site, x: Value(~x.values, x.valid),
    "when": _when,
    "is_null": lambda site, x: Value(~is_valid(x)),
    "is_nan": lambda site, x: Value(real(x).isnan() & is_valid(x)),
    "coalesce": _coalesce,
    "fill": lambda site, x: _fill(site, widened(x, site.types[0], site.type)),
    "cast": cast,
}
