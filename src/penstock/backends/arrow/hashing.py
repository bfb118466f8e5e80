"""Spark's xxhash64 in NumPy: seed 42, each value's hash the seed of the next, nulls skipped.

Fixed widths are computed in whole arrays. Texts go through the xxhash library: once for each distinct text where
all rows have the same seed, else row by row.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from penstock.backends.arrow.values import Flat, Lists, Text, Value, is_valid
from penstock.backends.base import Site
from penstock.dtypes import Array
from penstock.expr.types import Type

SEED = 42
P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def _turn(x: Array, by: int) -> Array:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


def _finish(h: Array) -> Array:
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return np.asarray(h ^ (h >> np.uint64(32)))


def hash_4(x: Array, seed: Array) -> Array:
    """XXH64 of four bytes, given as uint64 below 2**32."""
    h = (seed + P5 + np.uint64(4)) ^ (x * P1)
    return _finish(_turn(h, 23) * P2 + P3)


def hash_8(x: Array, seed: Array) -> Array:
    """XXH64 of eight bytes."""
    h = (seed + P5 + np.uint64(8)) ^ (_turn(x * P2, 31) * P1)
    return _finish(_turn(h, 27) * P1 + P4)


def _hash_texts(x: Text, seed: Array) -> Array:
    import xxhash

    if len(x) and (seed == seed[0]).all():
        coded = pc.dictionary_encode(x.array)
        start = int(seed[0])
        table = np.array(
            [0, *(xxhash.xxh64_intdigest(word.as_buffer(), start) for word in coded.dictionary)], np.uint64
        )
        places: Array = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.asarray(table[places + 1])
    words = zip(x.array.to_pylist(), seed.tolist(), strict=True)
    return np.array(
        [xxhash.xxh64_intdigest((word or "").encode(), start) for word, start in words], np.uint64
    )


def chain(value: Flat | Text, of: Type, seed: Array) -> Array:
    """The hash of each value with its seed; the seed itself where it is null."""
    if isinstance(value, Text):
        found = _hash_texts(value, seed)
    elif of.kind == "float":
        # All NaNs are one, and so are both zeros.
        plain = np.where(np.isnan(value.values), np.nan, value.values + 0.0)
        if of.bits == 64:
            found = hash_8(plain.view(np.uint64), seed)
        else:
            found = hash_4(plain.astype(np.float32).view(np.uint32).astype(np.uint64), seed)
    elif of.kind in ("timestamp", "timestamp_ntz") or of.bits == 64:
        found = hash_8(np.ascontiguousarray(value.values).view(np.uint64), seed)
    else:
        found = hash_4(value.values.astype(np.int32).view(np.uint32).astype(np.uint64), seed)
    return np.where(is_valid(value), found, seed)


def hash_kernel(site: Site, *args: Value) -> Value:
    """A bucket of the values together, or of each element of a list."""
    first = args[0]
    if isinstance(first, Lists):
        inner = Site(site.op, (site.types[0].item,), site.type.item, site.params)
        items = hash_kernel(inner, first.items)
        assert isinstance(items, Flat)
        return Lists(first.offsets, items, first.valid)
    seed = np.full(len(first), SEED, np.uint64)
    for arg, of in zip(args, site.types, strict=True):
        assert isinstance(arg, Flat | Text)
        seed = chain(arg, of, seed)
    return Flat(seed.view(np.int64) % np.int64(site.params["buckets"]))
