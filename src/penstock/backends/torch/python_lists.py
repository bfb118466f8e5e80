"""What Python does with lists, on matrices: column after column, as Python goes from element to element."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from penstock.backends.base import Kernel, Site, Unsupported, unsupported
from penstock.backends.torch.lists import without_nulls
from penstock.backends.torch.numbers import real
from penstock.backends.torch.values import Value, both


def _total(site: Site, x: Value, start: Value) -> Value:
    valid = both(without_nulls(x), start.valid)
    if site.type.kind == "float":
        return Value(_added(real(x), real(start), site.params["compensated"]), valid)
    total, fine = start.values, None
    for one in x.values.to(torch.int64).unbind(dim=1):
        found = total + one
        fine = both(fine, ((total ^ found) & (one ^ found)) >= 0)
        total = found
    return Value(total, both(valid, fine))


def _added(columns: Tensor, start: Tensor, compensated: bool) -> Tensor:
    total, lost = start, torch.zeros_like(start)
    for one in columns.unbind(dim=1):
        found = total + one
        if compensated:
            kept = total.abs() >= one.abs()
            lost = lost + torch.where(kept, (total - found) + one, (one - found) + total)
        total = found
    return torch.where(lost.isfinite() & (lost != 0), total + lost, total) if compensated else total


def _best(site: Site, x: Value) -> Value:
    compare = torch.gt if site.params["which"] == "max" else torch.lt
    rows, width = x.values.shape
    best = x.values.new_zeros(rows)
    known = torch.zeros(rows, dtype=torch.bool, device=x.values.device)
    for place in range(width):
        one = x.values[:, place]
        there = torch.ones_like(known) if x.items is None else x.items[:, place]
        best = torch.where(there & (~known | compare(one, best)), one, best)
        known = known | there
    return Value(best, both(x.valid, known))


def _compared(count: Callable[[Tensor], Tensor]) -> Kernel:
    def kernel(site: Site, x: Value, value: Value) -> Value:
        same = x.values == value.values[:, None]
        if x.items is not None:
            same = same & x.items
        return Value(count(same), both(x.valid, value.valid))

    return kernel


def _first(same: Tensor) -> Tensor:
    """The place of the first that is true in each row; -1 where none is."""
    if not same.shape[1]:
        return same.new_full((same.shape[0],), -1, dtype=torch.int64)
    return torch.where(same.any(dim=1), same.to(torch.int64).argmax(dim=1), -1)


def _reverse(site: Site, x: Value) -> Value:
    return Value(x.values.flip(1), x.valid, None if x.items is None else x.items.flip(1))


KERNELS: dict[str, Kernel | Unsupported] = {
    "list_slice": unsupported(
        "slices differ in length, and a tensor's rows do not. Take a fixed number of elements: .pad(3, 0)."
    ),
    "list_reverse": _reverse,
    "list_total": _total,
    "list_best": _best,
    "list_find": _compared(_first),
    "list_count": _compared(lambda same: same.sum(dim=1)),
}
