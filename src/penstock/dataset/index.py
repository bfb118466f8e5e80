"""The index of a version: one row per block, with the place and the checksum of every tensor's bytes.

Written once as an Arrow file beside the manifest, read into flat NumPy arrays: memory grows with blocks, never with
rows. Like a manifest it is checked before it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dataset import checksum
from penstock.dataset.manifest import IndexFile, Manifest
from penstock.dtypes import Array, TensorSpec
from penstock.errors import CorruptError

OFFSET_BYTES = 8
BUFFER_FIELDS = ("offset", "length", "raw", "checksum")
BUFFER = pa.struct(
    [pa.field(name, pa.uint64() if name == "checksum" else pa.int64(), False) for name in BUFFER_FIELDS]
)
SCHEMA = pa.schema(
    [
        pa.field("shard", pa.int32(), False),
        pa.field("rows", pa.int64(), False),
        pa.field("offset", pa.int64(), False),
        pa.field("length", pa.int64(), False),
        pa.field("checksum", pa.uint64(), False),
        pa.field("buffers", pa.list_(pa.field("item", BUFFER, False)), False),
    ]
)


@dataclass(frozen=True)
class Buffer:
    """A tensor's bytes inside a block: their place in the shard, and the checksum of the stored bytes."""

    offset: int
    length: int
    raw: int
    """Bytes after decompression; equal to `length` where there is none."""
    checksum: int


@dataclass(frozen=True)
class Block:
    """One block: a run of rows that is read, checked and shuffled as a whole.

    `offset` and `length` are the block's bytes in its shard, framing included. `buffers` holds, in the order of the
    manifest's tensors, one entry for a fixed tensor and two, offsets and values, for any other; none in Parquet.
    """

    rows: int
    offset: int
    length: int
    checksum: int
    buffers: tuple[Buffer, ...] = ()


@dataclass(frozen=True)
class Index:
    """All blocks of a version, as arrays; `buffers` is blocks x buffers of a block."""

    shard: Array
    rows: Array
    offset: Array
    length: Array
    checksum: Array
    buffers: Array

    def __len__(self) -> int:
        return len(self.shard)

    @property
    def starts(self) -> Array:
        """The number of the first row of every block, and the number of all rows at the end."""
        return np.concatenate([[0], np.cumsum(self.rows)])

    def block(self, number: int) -> Block:
        """One block as a value."""
        buffers = tuple(Buffer(*(int(value) for value in found)) for found in self.buffers[number])
        return Block(
            rows=int(self.rows[number]),
            offset=int(self.offset[number]),
            length=int(self.length[number]),
            checksum=int(self.checksum[number]),
            buffers=buffers,
        )


BUFFER_DTYPE = np.dtype([(name, np.uint64 if name == "checksum" else np.int64) for name in BUFFER_FIELDS])


def buffers_of(specs: Sequence[TensorSpec]) -> int:
    """How many buffers a block of these tensors has.

    >>> buffers_of([TensorSpec("x", "float32", (4,)), TensorSpec("tokens", "int32", (), "ragged")])
    3
    """
    return sum(2 if spec.ragged else 1 for spec in specs)


def table(shards: Iterable[tuple[int, Sequence[Block]]]) -> pa.Table:
    """The blocks of shards, given with their numbers, as the table an index file holds."""
    rows: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for number, blocks in shards:
        for block in blocks:
            rows["shard"].append(number)
            for name in ("rows", "offset", "length", "checksum"):
                rows[name].append(getattr(block, name))
            rows["buffers"].append([vars(buffer) for buffer in block.buffers])
    return pa.table(rows, schema=SCHEMA)


def renumbered(parts: Sequence[pa.Table]) -> pa.Table:
    """Tables of one shard each, put together; the n-th becomes shard n."""
    columns = [
        part.set_column(0, SCHEMA.field("shard"), pa.array(np.full(len(part), number, np.int32)))
        for number, part in enumerate(parts)
    ]
    return pa.concat_tables(columns) if columns else SCHEMA.empty_table()


def to_bytes(found: pa.Table) -> bytes:
    """An index as the bytes of an Arrow file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_table(found.combine_chunks())
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    """A table out of an Arrow file's bytes, unchecked: from a task of ours, not from storage."""
    return pa.ipc.open_file(pa.BufferReader(data)).read_all()


def file_for(name: str, data: bytes) -> IndexFile:
    """What the manifest says about an index file."""
    kind = checksum.best_kind()
    return IndexFile(name, len(data), checksum.text(kind, checksum.of(kind, data)))


def read_table(data: bytes, manifest: Manifest, where: str) -> pa.Table:
    """The index's table out of its file's bytes, once its checksum is right."""
    kind, expected = checksum.parse(manifest.index.checksum)
    if len(data) != manifest.index.bytes or checksum.of(kind, data) != expected:
        raise CorruptError([f"the index {where}"], "its bytes are not those that were written")
    try:
        found = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        found.validate(full=True)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise CorruptError([f"the index {where}"], str(error).partition("\n")[0]) from None
    if found.schema != SCHEMA:
        raise CorruptError([f"the index {where}"], f"its columns are {found.schema.names!r:.200}")
    if _has_nulls(found):
        raise CorruptError([f"the index {where}"], "it holds nulls")
    return found


def _has_nulls(found: pa.Table) -> bool:
    lists = found["buffers"]
    entries = [part for chunk in lists.chunks for part in chunk.flatten().flatten()]
    return any(column.null_count for column in [*found.columns, *entries]) or any(
        chunk.flatten().null_count for chunk in lists.chunks
    )


def parse(found: pa.Table, manifest: Manifest, where: str) -> Index:
    """An index as arrays, checked against its manifest."""
    columns = {name: found[name].to_numpy() for name in SCHEMA.names[:-1]}
    lists = found["buffers"].combine_chunks()
    flat = lists.flatten()
    each = buffers_of(manifest.tensors) if manifest.storage == "arrow" else 0
    if (np.diff(lists.offsets.to_numpy()) != each).any():
        raise CorruptError([f"the index {where}"], f"it has blocks with more or fewer than {each} buffers")
    buffers = np.empty(len(flat), BUFFER_DTYPE)
    for name in BUFFER_FIELDS:
        buffers[name] = flat.field(name).to_numpy()
    index = Index(**columns, buffers=buffers.reshape(len(found), each))
    wrong = _wrong(index, manifest)
    if wrong:
        raise CorruptError([f"the index {where}"], wrong)
    return index


def _wrong(index: Index, manifest: Manifest) -> str | None:
    count = len(manifest.shards)
    sizes = np.array([shard.bytes for shard in manifest.shards], np.int64)
    if len(index) and (
        index.shard.min() < 0 or index.shard.max() >= count or (np.diff(index.shard) < 0).any()
    ):
        return "its blocks name shards that are not there, or in the wrong order"
    if len(index) and (index.rows.min() <= 0 or index.offset.min() < 0 or index.length.min() <= 0):
        return "it holds blocks without rows or bytes"
    if (index.offset > sizes[index.shard] - index.length).any():
        return "it holds blocks that reach past their shard's end"
    if index.rows.sum(dtype=np.float64) > 1.01 * manifest.rows:  # before whole numbers could wrap around
        return "it holds more rows than the dataset has"
    starts, first = index.starts, np.searchsorted(index.shard, np.arange(count + 1))
    for number, shard in enumerate(manifest.shards):
        blocks = int(first[number + 1] - first[number])
        rows = int(starts[first[number + 1]] - starts[first[number]])
        if rows != shard.rows or blocks != shard.blocks:
            return (
                f"it has {blocks} blocks of {rows} rows in {shard.file}, and the manifest says {shard.blocks} of "
                f"{shard.rows}"
            )
    buffers = index.buffers
    if buffers.size:
        start, end = index.offset[:, None], (index.offset + index.length)[:, None]
        inside = (buffers["offset"] >= start) & (buffers["length"] >= 0) & (buffers["raw"] >= 0)
        inside &= buffers["offset"] <= end - buffers["length"]
        if not inside.all():
            return "it holds buffers outside their blocks"
        if _overlapping(buffers):
            return "it holds buffers that lie over each other"
    return _wrong_sizes(index, manifest)


def _overlapping(buffers: Array) -> bool:
    """Whether bytes of a block belong to two of its buffers: no writer does that, and readers may rely on it."""
    turn = np.argsort(buffers["offset"], axis=1, kind="stable")
    offset, length = (np.take_along_axis(buffers[name], turn, axis=1) for name in ("offset", "length"))
    # Those without bytes may lie anywhere.
    ends = np.maximum.accumulate(np.where(length > 0, offset + length, 0), axis=1)
    return bool(((offset[:, 1:] < ends[:, :-1]) & (length[:, 1:] > 0)).any())


def _wrong_sizes(index: Index, manifest: Manifest) -> str | None:
    """A fixed tensor's bytes follow from its rows, as offsets do; values are whole elements."""
    if not index.buffers.size:
        return None
    raw = index.buffers["raw"]
    if manifest.compression is None and (raw != index.buffers["length"]).any():
        return "it holds buffers that would change their size, and nothing is compressed"
    place = 0
    for spec in manifest.tensors:
        first = (index.rows + 1) * OFFSET_BYTES if spec.ragged else index.rows * spec.row_bytes
        wrong = (raw[:, place] != first).any()
        if spec.ragged:
            element = spec.row_bytes
            values = raw[:, place + 1]
            wrong |= (values % element).any() if element else values.any()
        if wrong:
            return f"it gives tensor {spec.name!r} another size than its rows have"
        place += 2 if spec.ragged else 1
    return None
