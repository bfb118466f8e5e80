"""Keys looked up in vocabularies, and the demand that nothing is null.

For a few rows a dictionary that is built once; for many, Arrow's own hash table, which it builds anew every time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.arrow.hashing import hash_kernel
from penstock.backends.arrow.values import Flat, Lists, Text, Value
from penstock.backends.base import Kernel, Site
from penstock.dtypes import Array
from penstock.errors import NullReached
from penstock.expr.types import FLOAT64, INT64
from penstock.expr.vocabulary import Vocabulary

FEW = 256
"""Rows up to which the dictionary is always quicker."""


def places(keys: Vocabulary, x: Flat | Text) -> Array:
    """The place of each row in the vocabulary; -1 where it is not there. What it is of nulls has no meaning."""
    if not len(keys):
        return np.full(len(x), -1)
    if len(x) < max(FEW, len(keys)):
        rows = x.array.to_pylist() if isinstance(x, Text) else x.values.tolist()
        at = keys.places.get
        return np.fromiter((at(row, -1) for row in rows), np.int64, len(rows))
    rows = x.array if isinstance(x, Text) else pa.array(np.ascontiguousarray(x.values))
    found = pc.index_in(rows, value_set=keys.array).fill_null(-1)
    return np.asarray(found).astype(np.int64)


def index_in(site: Site, x: Value) -> Value:
    """Null, unseen, and the vocabulary, one after the other."""
    if isinstance(x, Lists):
        return _of_items(index_in, site, x)
    keys, oov = site.params["keys"], site.params["oov"]
    found = places(keys, x)
    known = found >= 0
    ids = found + (1 + oov)
    if oov > 1 and not known.all():
        ids = np.where(known, ids, 1 + _spread(site, x, oov))
    elif oov == 1:
        ids = np.where(known, ids, 1)
    valid = known if oov == 0 and not known.all() else None
    if x.valid is not None:
        ids = np.where(x.valid, ids, 0)
        valid = None if valid is None else valid | ~x.valid
    return Flat(ids, valid)


def _spread(site: Site, x: Flat | Text, oov: int) -> Array:
    # As a number of 64 bits, whatever its width, so that a column that becomes wider keeps its ids.
    of = site.types[0] if site.types[0].kind == "string" else INT64
    found = hash_kernel(Site("hash", (of,), INT64, {"buckets": oov}), x)
    assert isinstance(found, Flat)
    return found.values


def look_up(site: Site, x: Value) -> Value:
    """The key's number."""
    if isinstance(x, Lists):
        return _of_items(look_up, site, x)
    keys = site.params["keys"]
    found = places(keys, x)
    numbers = np.append(keys.numbers.to_numpy(), float(site.params["unseen"]))  # -1 is the last
    values = numbers[found]
    return Flat(values if x.valid is None else np.where(x.valid, values, float(site.params["null"])))


def _of_items(kernel: Kernel, site: Site, x: Lists) -> Lists:
    of = INT64 if site.op == "index_in" else FLOAT64
    items = kernel(Site(site.op, (site.types[0].item,), of, site.params), x.items)
    return Lists(x.offsets, items, x.valid)


def demand(site: Site, x: Value) -> Value:
    """The value, if nothing of it is null."""
    if site.type.kind == "vector":
        _check_vectors(site, x)
        return x
    rows = x.valid is not None and not x.valid.all()
    if rows or (isinstance(x, Lists) and _null_items(x)):
        raise NullReached(site.params["message"])
    return x


def _check_vectors(site: Site, x: Any) -> None:
    """Vectors of MLlib pass as Arrow has them: lists."""
    if x.null_count or pc.list_flatten(x).null_count:
        raise NullReached(site.params["message"])


def _null_items(x: Lists) -> bool:
    valid = x.items.valid
    return valid is not None and not valid[x.offsets[0] : x.offsets[-1]].all()


KERNELS: dict[str, Kernel] = {"index_in": index_in, "look_up": look_up, "demand": demand}
