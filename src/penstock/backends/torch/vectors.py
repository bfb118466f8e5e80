"""Lists as vectors on tensors: rows of a matrix, and constants that are sent to the device once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from penstock.backends.base import Kernel, Site
from penstock.backends.torch.lists import never, without_nulls
from penstock.backends.torch.numbers import real
from penstock.backends.torch.values import Value, both, lookup

EACH: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "minimum": lambda x, by: torch.where(by < x, by, x),
    "maximum": lambda x, by: torch.where(by > x, by, x),
    "gt": lambda x, by: (x > by).to(torch.float64),
    "if_nan": lambda x, by: torch.where(x.isnan(), by, x),
}


def _each(site: Site, x: Value) -> Value:
    values, by = real(x), site.params["by"]
    if isinstance(by, tuple):
        numbers = lookup(by, torch.float64, values.device)
    else:
        numbers = torch.full((), by, dtype=torch.float64, device=values.device)
    return Value(EACH[site.params["function"]](values, numbers), x.valid, x.items)


def _elements(site: Site, x: Value) -> Value:
    places, width = site.params["places"], x.values.shape[1]
    there = all(place < width for place in places)
    if not width:
        blank = x.values.new_zeros((x.values.shape[0], len(places)))
        return Value(blank, x.valid, torch.zeros_like(blank, dtype=torch.bool))
    at = lookup(tuple(place if place < width else 0 for place in places), torch.int64, x.values.device)
    items = None if x.items is None else x.items[:, at]
    if not there:
        inside = lookup(tuple(place < width for place in places), torch.bool, x.values.device)
        items = both(items, inside.expand(x.values.shape[0], len(places)))
    return Value(x.values[:, at], x.valid, items)


def _list_multiply(site: Site, x: Value, y: Value) -> Value:
    found = real(x) * real(y)
    if site.params.get("absorbing"):
        found = torch.where(x.values == 0, 0.0, found)
    return Value(found, both(x.valid, y.valid), both(x.items, y.items))


def _linear(site: Site, x: Value) -> Value:
    values = real(x)
    weights, bias = (lookup(site.params[each], torch.float64, values.device) for each in ("weights", "bias"))
    return Value(values @ weights.T + bias, without_nulls(x))


def _softmax(site: Site, x: Value) -> Value:
    values = real(x)
    if not values.shape[1]:
        return Value(values, x.valid)
    greatest = values.amax(dim=1, keepdim=True)
    shares = torch.where(values == greatest, 0.0, values - greatest).exp()
    return Value(shares / shares.sum(dim=1, keepdim=True), without_nulls(x))


def _argmax(site: Site, x: Value) -> Value:
    values, width = x.values, x.values.shape[1]
    if not width:
        return Value(torch.zeros(values.shape[0], dtype=torch.int64, device=values.device), never(x))
    if values.dtype.is_floating_point:
        values = torch.where(values.isnan(), -torch.inf, values)
    best = values == values.amax(dim=1, keepdim=True)
    # Of several that are greatest argmax may give any.
    places = torch.arange(width, device=values.device).expand(values.shape)
    return Value(torch.where(best, places, width).amin(dim=1), without_nulls(x))


KERNELS: dict[str, Kernel] = {
    "each": _each,
    "elements": _elements,
    "list_multiply": _list_multiply,
    "linear": _linear,
    "softmax": _softmax,
    "list_argmax": _argmax,
}
