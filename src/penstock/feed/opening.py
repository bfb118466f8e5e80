"""`pk.open`: what lies at a path, as a `Dataset`: a version, plain files, or a write that is followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.dataset import commit
from penstock.dataset.plain import is_file, open_plain
from penstock.dataset.snapshot import open_version
from penstock.dataset.store import disk_cache, open_store, with_cache
from penstock.dataset.writing import named
from penstock.errors import DatasetError
from penstock.feed.dataset import Dataset
from penstock.feed.follow.joining import find
from penstock.wire.nulls import Nulls
from penstock.wire.selection import Tensors

if TYPE_CHECKING:
    import os

PATIENCE = 1800.0
"""Seconds in which a write that is followed must get on."""


def open(
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    tensors: Tensors = None,
    dtype: Any = None,
    nulls: Nulls = "error",
    cache_dir: str | os.PathLike[str] | None = None,
    cache_bytes: int | None = None,
    follow: bool = False,
    timeout: float = PATIENCE,
) -> Dataset:
    """Open a dataset, or any folder of Parquet or Arrow files, or one such file.

    `version`: the newest, unless said. `tensors`, `dtype`, `nulls`: for plain files only, which columns become which
    tensors, as in `to_numpy`; without them every column becomes a tensor of its own, lists ragged ones.

    `cache_dir`: a folder of this machine that keeps what is read from an object store, so that later epochs and later
    runs need not fetch it again; all ranks of a machine share it, and datasets may. It takes up to `cache_bytes`
    (half of what the disk has free, unless said), then what was used longest ago makes room. What comes from it is
    checked each time; a full disk is told of once and read past. For a path of this machine it does nothing.

    `follow`: train while the dataset is written by `pk.write(..., follow=True)`, which may begin later. The first epoch
    takes the parts as they land, every row once and equal steps on all ranks, and has no `len()`; the others are
    those of any dataset. A write that fails, ends without a word or does not get on for `timeout` seconds is an error.
    Where none is under way and there is a version, that is taken, and a line on stderr says so. `version` names the
    one meant: while it is not there, older ones do not count and the next write is waited for, so a training that is
    started before `pk.write(..., mode="overwrite", follow=True)` passes the newest version's number and one more.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> import penstock as pk
    >>> path = tempfile.mkdtemp()
    >>> _ = pk.write(pa.table({"a": [1, 2, 3]}), path)
    >>> pk.open(path).rows
    3
    >>> _ = pk.write(pa.table({"a": [1, 2, 3]}), "memory://far/away", shuffle=False)  # as "s3://bucket/train"
    >>> ds = pk.open("memory://far/away", cache_dir=path, cache_bytes=200 << 30)
    >>> ds.read()["a"].tolist()
    [1, 2, 3]
    """
    cache = disk_cache(cache_dir, cache_bytes)
    store = with_cache(open_store(path), cache)
    if follow:
        if (tensors, dtype, nulls) != (None, None, "error"):
            raise DatasetError("follow=True opens a write: leave tensors, dtype and nulls out.")
        return Dataset(find(store, timeout, version))
    found = [] if is_file(path) else commit.versions(store)
    if not found:
        if version is not None:
            commit.load(store, version)
        one_dtype = None if isinstance(dtype, Mapping) else dtype
        return Dataset(
            open_plain(path, named(tensors), dtype, nulls, cache),
            reopen=lambda others: open_plain(path, others, one_dtype, nulls, cache),
        )
    if tensors is not None or dtype is not None or nulls != "error":
        raise DatasetError(
            f"{path} is a Penstock dataset, whose tensors are decided; tensors, dtype and nulls are for plain files."
        )
    return Dataset(open_version(store, version if version is not None else found[-1]))
