"""Whole numbers looked up in vocabularies: a search in the sorted keys."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from penstock.backends.base import Kernel, Site
from penstock.backends.torch.hashing import SEED, hash_8
from penstock.backends.torch.values import Value
from penstock.expr.vocabulary import Vocabulary


def _table(keys: Vocabulary, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The keys in their order as numbers, the place of each, and the keys' numbers in the order of their places."""
    if (
        torch.compiler.is_compiling()
    ):  # what is made while a program is traced holds no numbers: never keep it
        return _sent(keys, device)
    return _kept(keys, device)


@lru_cache(maxsize=256)
def _kept(keys: Vocabulary, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    return _sent(keys, device)


def _sent(keys: Vocabulary, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    held = keys.array.to_numpy()
    order = np.argsort(held)
    numbers = np.zeros(0) if keys.numbers is None else keys.numbers.to_numpy()
    ordered, places, results = (torch.tensor(each, device=device) for each in (held[order], order, numbers))
    return ordered, places, results


def _places(keys: Vocabulary, x: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each value, and whether it is there at all."""
    if not len(keys):
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    held, order, _ = _table(keys, x.device)
    at = torch.searchsorted(held, x.contiguous()).clamp(max=len(keys) - 1)
    return order[at], held[at] == x


def _there(x: Value) -> Tensor | None:
    """Which values, or elements of a list, have one."""
    if x.values.dim() == 1:
        return x.valid
    return x.items


def index_in(site: Site, x: Value) -> Value:
    """Null, unseen, and the vocabulary, one after the other."""
    oov, there = site.params["oov"], _there(x)
    found, known = _places(site.params["keys"], x.values)
    unseen = torch.ones_like(found)
    if oov > 1:
        unseen = 1 + torch.remainder(hash_8(x.values, torch.full_like(x.values, SEED)), oov)
    ids = torch.where(known, found + (1 + oov), unseen)
    missing = None if oov else known
    if there is not None:
        ids = torch.where(there, ids, 0)
        missing = None if missing is None else missing | ~there
    return _like(x, ids, missing)


def look_up(site: Site, x: Value) -> Value:
    """The key's number."""
    keys, there = site.params["keys"], _there(x)
    found, known = _places(keys, x.values)
    unseen = torch.full((), float(site.params["unseen"]), dtype=torch.float64, device=x.values.device)
    values = unseen.expand(x.values.shape)
    if len(keys):
        values = torch.where(known, _table(keys, x.values.device)[2][found], unseen)
    if there is not None:
        values = torch.where(there, values, float(site.params["null"]))
    return _like(x, values, None)


def _like(x: Value, values: Tensor, valid: Tensor | None) -> Value:
    return Value(values, valid) if values.dim() == 1 else Value(values, x.valid, valid)


KERNELS: dict[str, Kernel] = {
    "index_in": index_in,
    "look_up": look_up,
    # A device cannot raise: the mask that comes with the values says it.
    "demand": lambda site, x: x,
}
