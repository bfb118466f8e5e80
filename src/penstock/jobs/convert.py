"""`pk.convert`: Parquet or Arrow files become a dataset, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.dataset.local import write_arrow
from penstock.dataset.snapshot import open_version
from penstock.dataset.sources import FileRows
from penstock.dataset.store import open_store
from penstock.dataset.writing import BLOCK_BYTES, WriteOptions, named
from penstock.feed.dataset import Dataset
from penstock.wire.nulls import Nulls
from penstock.wire.selection import Tensors

if TYPE_CHECKING:
    import os


def convert(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    tensors: Tensors = None,
    *,
    dtype: Any = None,
    format: str = "arrow",
    workers: int | None = None,
    shards: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    block_bytes: int = BLOCK_BYTES,
    compression: str | None = None,
    nulls: Nulls = "error",
    mode: str = "error",
) -> Dataset:
    """Write Parquet or Arrow files (a folder, Hive-style ones too, or a single file) as a dataset, on local threads.

    The arguments are those of `pk.write`; `source` stands for the rows.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import penstock as pk
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"a": [1, 2, 3]}), f"{folder}/part.parquet")
    >>> pk.convert(folder, tempfile.mkdtemp(), "a").rows
    3
    """
    options = WriteOptions(format, workers, shards, shuffle, seed, block_bytes, compression, mode)
    store = open_store(path)
    version = write_arrow(FileRows(source), store, named(tensors), dtype, nulls, options)
    return Dataset(open_version(store, version))
