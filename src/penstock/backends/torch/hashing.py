"""Spark's xxhash64 on tensors.

Multiplication of int64 wraps as it does for uint64; shifts to the right need a mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

from penstock.backends.base import Site
from penstock.backends.torch.values import Value
from penstock.expr.types import Type

SEED = 42


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


P1, P2, P3, P4, P5 = (
    _signed(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def _right(x: Tensor, by: int) -> Tensor:
    return (x >> by) & ((1 << (64 - by)) - 1)


def _turn(x: Tensor, by: int) -> Tensor:
    return (x << by) | _right(x, 64 - by)


def _finish(h: Tensor) -> Tensor:
    h = (h ^ _right(h, 33)) * P2
    h = (h ^ _right(h, 29)) * P3
    return h ^ _right(h, 32)


def hash_4(x: Tensor, seed: Tensor) -> Tensor:
    """XXH64 of four bytes, given as int64 from 0 to 2**32 - 1."""
    h = (seed + P5 + 4) ^ (x * P1)
    return _finish(_turn(h, 23) * P2 + P3)


def hash_8(x: Tensor, seed: Tensor) -> Tensor:
    """XXH64 of eight bytes."""
    h = (seed + P5 + 8) ^ (_turn(x * P2, 31) * P1)
    return _finish(_turn(h, 27) * P1 + P4)


def chain(values: Tensor, of: Type, seed: Tensor) -> Tensor:
    """The hash of each value with its seed."""
    if of.kind == "float":
        # All NaNs are one, and so are both zeros.
        plain = torch.where(values.isnan(), float("nan"), values + 0.0)
        if of.bits == 64:
            return hash_8(plain.view(torch.int64), seed)
        return hash_4(plain.to(torch.float32).view(torch.int32).to(torch.int64) & 0xFFFFFFFF, seed)
    if of.kind in ("timestamp", "timestamp_ntz") or of.bits == 64:
        return hash_8(values, seed)
    return hash_4(values.to(torch.int64) & 0xFFFFFFFF, seed)


def hash_kernel(site: Site, *args: Value) -> Value:
    """A bucket of the values together, or of each element of a list."""
    buckets = site.params["buckets"]
    first = args[0]
    if site.types[0].kind == "list":
        seed = torch.full_like(first.values, SEED, dtype=torch.int64)
        found = chain(first.values, site.types[0].item, seed)
        found = found if first.items is None else torch.where(first.items, found, seed)
        return Value(torch.remainder(found, buckets), first.valid)
    seed = torch.full(first.values.shape, SEED, dtype=torch.int64, device=first.values.device)
    for arg, of in zip(args, site.types, strict=True):
        found = chain(arg.values, of, seed)
        seed = found if arg.valid is None else torch.where(arg.valid, found, seed)
    return Value(torch.remainder(seed, buckets))
