"""Lists and times on tensors. A list is a row of a matrix, so all lists of a column are of one length."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from penstock.backends.base import Kernel, Site
from penstock.backends.torch.numbers import converted, real
from penstock.backends.torch.values import Value, both, lookup
from penstock.expr import calendar
from penstock.expr.ops.times import CLOCKED, DATED
from penstock.expr.zones import CYCLE, REPEATS, offsets_of


def without_nulls(x: Value) -> Tensor | None:
    """Which lists have a value and hold no null."""
    return both(x.valid, None if x.items is None else x.items.all(dim=1))


def never(x: Value) -> Tensor:
    """A mask of rows of which none has a value."""
    return torch.zeros(x.values.shape[0], dtype=torch.bool, device=x.values.device)


def _element(site: Site, x: Value) -> Value:
    index = site.params["index"]
    if index >= x.values.shape[1]:
        return Value(x.values.new_zeros(x.values.shape[0]), never(x))
    return Value(x.values[:, index], both(x.valid, None if x.items is None else x.items[:, index]))


def _length(site: Site, x: Value) -> Value:
    rows, width = x.values.shape
    return Value(torch.full((), width, dtype=torch.int64, device=x.values.device).expand(rows), x.valid)


def _divided(values: Tensor, by: float) -> Tensor:
    """Divided, on a GPU too: by a bare number torch multiplies by its reciprocal there, which rounds twice."""
    return values / torch.full((), by, dtype=torch.float64, device=values.device)


def _mean(site: Site, x: Value) -> Value:
    if x.values.shape[1] == 0:
        return Value(real(x).sum(dim=1), never(x))
    return Value(_divided(real(x).sum(dim=1), x.values.shape[1]), without_nulls(x))


def _extreme(function: Callable[..., Tensor]) -> Kernel:
    def kernel(site: Site, x: Value) -> Value:
        if x.values.shape[1] == 0:
            return Value(x.values.new_zeros(x.values.shape[0]), never(x))
        found = function(x.values, dim=1)
        return Value(
            found + 0 if found.dtype == torch.int64 else found + 0.0, without_nulls(x)
        )  # no negative zero

    return kernel


def _pad(site: Site, x: Value) -> Value:
    length, value = site.params["length"], site.params["value"]
    values = real(x) if site.type.item.kind == "float" else x.values
    rows, width = values.shape
    kept = min(width, length)
    blank = torch.full((rows, length - kept), value, dtype=values.dtype, device=values.device)
    items = None
    if x.items is not None:
        items = torch.cat([x.items[:, :kept], torch.ones_like(blank, dtype=torch.bool)], dim=1)
    return Value(torch.cat([values[:, :kept], blank], dim=1), x.valid, items)


def _norms(values: Tensor, p: float) -> Tensor:
    if p == 2:
        return (values * values).sum(dim=1, keepdim=True).sqrt()
    sizes = values.abs()
    if p == math.inf:
        numbers = torch.where(sizes.isnan(), 0.0, sizes)
        return numbers.amax(dim=1, keepdim=True) if values.shape[1] else numbers.sum(dim=1, keepdim=True)
    if p == 1:
        return sizes.sum(dim=1, keepdim=True)
    return sizes.pow(p).sum(dim=1, keepdim=True).pow(1.0 / p)


def _normalize(site: Site, x: Value) -> Value:
    values = real(x)
    norms = _norms(values, site.params.get("p", 2))
    return Value(values / torch.where(norms == 0, 1.0, norms), without_nulls(x))


def _one_hot(site: Site, x: Value) -> Value:
    size = site.params["size"]
    places = x.values if x.values.dim() == 2 else x.values[:, None]
    inside = (places >= 0) & (places < size)
    hot = torch.zeros((places.shape[0], size), dtype=torch.float64, device=places.device)
    # What lies outside adds 0 at place 0; its row is null anyway.
    hot = hot.scatter_reduce(1, torch.where(inside, places, 0), inside.to(torch.float64), "amax")
    fits = inside if x.items is None else inside & x.items
    return Value(hot, both(x.valid, fits.all(dim=1)))


def _stack(site: Site, *args: Value) -> Value:
    target = site.type.item
    values, masks, all_valid = [], [], True
    for arg, of in zip(args, site.types, strict=True):
        found = converted(arg, of.item if of.kind == "list" else of, target)
        wide = found.values if found.values.dim() == 2 else found.values[:, None]
        mask = both(found.items, None if found.valid is None else found.valid[:, None])
        all_valid = all_valid and mask is None
        values.append(wide)
        masks.append(torch.ones_like(wide, dtype=torch.bool) if mask is None else mask.expand(wide.shape))
    return Value(torch.cat(values, dim=1), None, None if all_valid else torch.cat(masks, dim=1))


def local(micros: Tensor, zone: str) -> Tensor:
    """What clocks in a zone show, as microseconds."""
    if zone == "UTC":
        return micros
    starts, offsets = (lookup(part, torch.int64, micros.device) for part in offsets_of(zone))
    seconds = micros // calendar.SECOND
    cycles = ((seconds - REPEATS) // CYCLE + 1).clamp(min=0)
    places = torch.searchsorted(starts, (seconds - cycles * CYCLE).contiguous(), right=True) - 1
    return micros + offsets[places.clamp(min=0)] * calendar.SECOND


def _field(site: Site, x: Value) -> Value:
    if site.types[0].kind == "date":
        return Value(calendar.field(site.op, x.values, 0), x.valid)
    micros = local(x.values, site.params["zone"]) if "zone" in site.params else x.values
    days = micros // calendar.DAY
    return Value(calendar.field(site.op, days, micros - days * calendar.DAY), x.valid)


def _epoch(site: Site, x: Value) -> Value:
    if site.types[0].kind == "date":
        return Value((x.values * 86_400).to(torch.float64), x.valid)
    return Value(_divided(x.values.to(torch.float64), 1e6), x.valid)


def _between(site: Site, left: Value, right: Value) -> Value:
    return _epoch(site, Value(left.values - right.values, both(left.valid, right.valid)))


KERNELS: dict[str, Kernel] = {
    "element": _element,
    "list_length": _length,
    "list_sum": lambda site, x: Value(real(x).sum(dim=1), without_nulls(x)),
    "list_mean": _mean,
    "list_max": _extreme(torch.amax),
    "list_min": _extreme(torch.amin),
    "pad": _pad,
    "normalize": _normalize,
    "one_hot": _one_hot,
    "stack": _stack,
    **dict.fromkeys((*DATED, *CLOCKED), _field),
    "epoch_seconds": _epoch,
    "date_of": lambda site, x: Value(x.values // calendar.DAY, x.valid),
    "microsecond": lambda site, x: Value(x.values % calendar.SECOND, x.valid),
    "seconds_between": _between,
}
