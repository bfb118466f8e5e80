"""Blocks back from storage, as the arrays they were packed from.

`NativeBlocks` reads Penstock's own Arrow shards: byte ranges straight from the index, nothing decoded. `ArrowBlocks`
reads what has to be decoded, Parquet and other people's Arrow files, through the same selection and packing that
writing uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from penstock.dataset import checksum
from penstock.dataset.files import first_line, open_file
from penstock.dataset.forks import Once
from penstock.dataset.index import Index
from penstock.dataset.ipc import UNCOMPRESSED
from penstock.dataset.manifest import Manifest, Shard
from penstock.dataset.part import known_lengths
from penstock.dataset.shards import storage_of
from penstock.dataset.store import CachedStore, Store
from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.errors import CorruptError, DatasetMissing, NullError
from penstock.wire.arrow_source import ArrowSelection, select_arrow
from penstock.wire.faults import BadValue
from penstock.wire.nulls import Nulls
from penstock.wire.pack import Packer
from penstock.wire.ragged import Packed, Ragged

CHUNK, FAR_CHUNK = 1 << 20, 8 << 20
"""A Parquet file is checked in pieces of this size, since each reader of a loader has one in memory.

From another machine they are larger: there every piece costs a request."""


class Blocks(Protocol):
    """Something that reads the blocks of a version."""

    def read(self, number: int, names: Sequence[str], verify: bool) -> dict[str, Packed]:
        """The named tensors of one block; with `verify` the stored bytes are checked first."""

    def read_rows(self, number: int, rows: slice, names: Sequence[str]) -> dict[str, Packed]:
        """Some rows of a block, unchecked; no more than their bytes is fetched, where that can be."""


@dataclass(frozen=True)
class NativeBlocks:
    """Blocks of Arrow shards that Penstock wrote."""

    store: Store
    manifest: Manifest
    index: Index

    def read(self, number: int, names: Sequence[str], verify: bool) -> dict[str, Packed]:
        """The named tensors of one block, each from its own byte ranges."""
        shard = self.manifest.shards[int(self.index.shard[number])]
        rows, buffers = int(self.index.rows[number]), self.index.buffers[number]
        wanted = [(spec, place) for spec, place in _places(self.manifest.tensors) if spec.name in names]
        chosen = [buffers[place + more] for spec, place in wanted for more in range(1 + spec.ragged)]
        ranges = [(int(each["offset"]), int(each["length"])) for each in chosen]
        stored = iter(zip(chosen, read_ranges(self.store, shard, ranges), strict=True))
        found: dict[str, Packed] = {}
        for spec, _ in wanted:
            data = [self._raw(*next(stored), shard, number, verify) for _ in range(1 + spec.ragged)]
            values = np.frombuffer(data[-1], storage_of(spec)).view(DTYPES[spec.dtype].storage)
            if not spec.ragged:
                found[spec.name] = values.reshape(rows, *spec.shape)
                continue
            offsets = np.frombuffer(data[0], np.int64)
            count = len(values) * values.itemsize // spec.row_bytes if spec.row_bytes else int(offsets[-1])
            if offsets[0] != 0 or offsets[-1] != count or (np.diff(offsets) < 0).any():
                self._refuse(shard, number, f"tensor {spec.name!r} has offsets that no lists have")
            found[spec.name] = Ragged(values.reshape(count, *spec.shape), offsets)
        return found

    def read_rows(self, number: int, rows: slice, names: Sequence[str]) -> dict[str, Packed]:
        """Some rows of a block: their bytes alone, where rows can be told apart and no cache wants whole blocks."""
        wanted = [(spec, place) for spec, place in _places(self.manifest.tensors) if spec.name in names]
        whole = self.manifest.compression is not None or any(spec.ragged for spec, _ in wanted)
        if whole or isinstance(self.store, CachedStore):
            return {name: packed[rows] for name, packed in self.read(number, names, False).items()}
        shard = self.manifest.shards[int(self.index.shard[number])]
        count = rows.stop - rows.start
        ranges = [
            (
                int(self.index.buffers[number, place]["offset"]) + rows.start * spec.row_bytes,
                count * spec.row_bytes,
            )
            for spec, place in wanted
        ]
        return {
            spec.name: np.frombuffer(data, storage_of(spec))
            .view(DTYPES[spec.dtype].storage)
            .reshape(count, *spec.shape)
            for (spec, _), data in zip(wanted, read_ranges(self.store, shard, ranges), strict=True)
        }

    def _raw(self, buffer: Any, stored: Any, shard: Shard, number: int, verify: bool) -> Any:
        if verify:
            kind, _ = checksum.parse(shard.checksum)
            if checksum.of(kind, stored) != int(buffer["checksum"]):
                self._refuse(shard, number, "a checksum is wrong")
        raw = int(buffer["raw"])
        if self.manifest.compression is None or raw == 0:
            return stored
        view = memoryview(stored)
        size = int.from_bytes(view[:8], "little", signed=True)
        kept = size == UNCOMPRESSED
        if size != raw and not (kept and view.nbytes == raw + 8):
            self._refuse(shard, number, "a buffer's length is wrong")
        if kept:
            return view[8:]
        try:
            return pa.decompress(view[8:], decompressed_size=raw, codec=self.manifest.compression)
        except (pa.ArrowException, OSError, MemoryError, OverflowError) as error:
            self._refuse(shard, number, f"a buffer cannot be unpacked ({error})")

    def _refuse(self, shard: Shard, number: int, what: str) -> NoReturn:
        raise CorruptError([block_place(self.index, shard, number)], what)


def _places(specs: Sequence[TensorSpec]) -> list[tuple[TensorSpec, int]]:
    places, place = [], 0
    for spec in specs:
        places.append((spec, place))
        place += 1 + spec.ragged
    return places


def read_ranges(store: Store, shard: Shard, ranges: Sequence[tuple[int, int]]) -> list[Any]:
    """Bytes of a shard; a missing or short file is named as damage."""
    try:
        return list(store.read_ranges(shard.file, ranges))
    except FileNotFoundError:
        raise CorruptError([shard.file], "the file is not there") from None
    except EOFError:
        raise CorruptError([shard.file], "the file ends too early") from None


def block_place(index: Index, shard: Shard, number: int) -> str:
    """How messages name a block."""
    first = int(np.searchsorted(index.shard, index.shard[number]))
    return f"{shard.file}, block {number - first}"


@dataclass(frozen=True)
class ArrowBlocks:
    """Blocks that pyarrow has to decode: row groups of Parquet files, record batches of Arrow files."""

    store: Store
    specs: tuple[TensorSpec, ...]
    shards: tuple[Shard, ...]
    index: Index
    request: Mapping[str, Any]
    """Tensor -> the columns it is made of, as a user asks for them."""
    dtypes: Mapping[str, str]
    nulls: Nulls = "error"
    extra: tuple[pa.RecordBatch, ...] = ()
    """Per shard one row of columns that the file itself lacks: the values in a Hive-style path."""
    ordinals: Array | None = None
    """Every block's number in its file, where files also hold blocks without rows."""
    checked: Once = field(default_factory=Once)
    """Files whose every byte has been checked: of readers that want that one does it."""

    def read(self, number: int, names: Sequence[str], verify: bool) -> dict[str, Packed]:
        """The named tensors of one block, decoded, cast and checked."""
        shard = self.shards[int(self.index.shard[number])]
        if verify:
            self._check(shard, number)
        specs = [spec for spec in self.specs if spec.name in names]
        selection, batch = self.batch(number, [spec.name for spec in specs])
        packer = Packer(selection.plan)
        for spec, plan in zip(specs, selection.plan.tensors, strict=True):
            # A block of nothing but null or empty lists tells no lengths, and the dataset knows them.
            packer.lengths.update(known_lengths(plan, spec.shape))
        try:
            tensors = packer.arrays(selection.prepare(batch))
        except BadValue as bad:
            raise bad.fault.to_error() from None
        if packer.nulls:
            raise NullError(packer.nulls)
        return {
            spec.name: _shaped(spec, packed, shard)
            for spec, packed in zip(specs, tensors, strict=True)
            if packed is not None
        }

    def read_rows(self, number: int, rows: slice, names: Sequence[str]) -> dict[str, Packed]:
        """Some rows of a block, all of which has to be decoded."""
        return {name: packed[rows] for name, packed in self.read(number, names, False).items()}

    def _check(self, shard: Shard, number: int) -> None:
        self.checked.do(shard.file, lambda: self._check_file(shard))
        if self.store.local is None:
            return  # files there are replaced whole or not at all: what was right as a whole needs no second reading
        kind, _ = checksum.parse(shard.checksum)
        place = (int(self.index.offset[number]), int(self.index.length[number]))
        (data,) = read_ranges(self.store, shard, [place])
        if checksum.of(kind, data) != int(self.index.checksum[number]):
            raise CorruptError([block_place(self.index, shard, number)], "a checksum is wrong")

    def _check_file(self, shard: Shard) -> None:
        """A Parquet file says in its footer how its blocks are to be read, and no block's checksum covers that."""
        kind, expected = checksum.parse(shard.checksum)
        running = checksum.new(kind)
        chunk = CHUNK if self.store.local is not None else FAR_CHUNK
        for start in range(0, shard.bytes, chunk):
            place = (start, min(chunk, shard.bytes - start))
            running.update(read_ranges(self.store, shard, [place])[0])
        if running.value() != expected:
            raise CorruptError([shard.file], "its checksum is wrong")

    def _nulls_of(self, names: Sequence[str]) -> Nulls:
        if not isinstance(self.nulls, Mapping):
            return self.nulls
        asked = [self.request[name] for name in names]
        columns = [column for each in asked for column in (each if isinstance(each, list) else [each])]
        used = {column if isinstance(column, str) else column.name for column in columns}
        return {column: value for column, value in self.nulls.items() if column in used}

    def batch(self, number: int, names: Sequence[str]) -> tuple[ArrowSelection, pa.RecordBatch]:
        """What was asked for, against the file's own columns, and the block with those columns."""
        place = int(self.index.shard[number])
        shard = self.shards[place]
        block = number - int(np.searchsorted(self.index.shard, place))
        if self.ordinals is not None:
            block = int(self.ordinals[number])
        extra = self.extra[place] if self.extra else pa.RecordBatch.from_pydict({})
        try:
            with self.store.open_input(shard.file) as file:
                source = open_file(file, shard.file, far=self.store.local is None)
                schema = pa.schema([*source.schema, *extra.schema])
                selection = select_arrow(
                    schema,
                    {name: self.request[name] for name in names},
                    {name: self.dtypes[name] for name in names if name in self.dtypes},
                    self._nulls_of(names),
                )
                own = [name for name in selection.columns if name not in extra.schema.names]
                batch = source.block(block, own)
        except FileNotFoundError:
            raise DatasetMissing(f"{self.store.locate(shard.file)} is not there any more.") from None
        except (pa.ArrowException, OSError) as error:
            raise CorruptError([block_place(self.index, shard, number)], first_line(error)) from None
        for name, column in zip(extra.schema.names, extra.columns, strict=True):
            batch = batch.append_column(extra.schema.field(name), pa.repeat(column[0], batch.num_rows))
        return selection, batch


def _shaped(spec: TensorSpec, packed: Packed, shard: Shard) -> Packed:
    values: Array = packed.values if isinstance(packed, Ragged) else packed
    if values.shape[1:] != spec.shape:
        seen = "x".join(map(str, values.shape[1:])) or "single values"
        raise CorruptError(
            [shard.file], f"tensor {spec.name!r} has rows of {seen} there, and the dataset is {spec}"
        )
    return packed
