"""One shard: packed rows in, an Arrow file out, with the place and checksum of every buffer. What executors run.

Rows arrive as arrays of any length and leave in blocks. A fixed tensor lies in a block as its rows' bytes, one after
the other; a ragged one as offsets and values. Nothing is copied to be written: a block's buffers are handed to the
file as the pieces they arrived in. Memory is bounded by one block and the batch that completes it. `parquet` is the
same for the other format; `part` feeds both.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.dataset import checksum, ipc
from penstock.dataset.index import Block, Buffer
from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.wire.ragged import Packed, Ragged, joined_offsets

ROWS_OF_64 = 64
"""Blocks of a multiple of so many rows: every fixed tensor's bytes then fill whole aligned units."""
PADDED_PART = 64
"""Buffers are aligned to whole rows where that takes no more than one part in so many of a block."""


class Output(Protocol):
    """A file being written."""

    def write(self, pieces: Sequence[Any]) -> None:
        """Append bytes-like pieces, one after the other."""

    def close(self) -> None:
        """End the file; only then it is there."""

    def abort(self) -> None:
        """Give the file up; nothing of it stays."""


@dataclass(frozen=True)
class ShardOptions:
    """How shards are laid out; the same for all of a dataset."""

    storage: str = "arrow"
    block_bytes: int = 16 << 20
    compression: str | None = None
    checksum: str | None = None
    """The kind; None for the best the machine has."""


@dataclass(frozen=True)
class WrittenShard:
    """What a finished shard holds."""

    rows: int
    bytes: int
    checksum: str
    blocks: tuple[Block, ...]


def arrow_schema(specs: Sequence[TensorSpec]) -> pa.Schema:
    """The columns of a shard: primitive values, fixed-size lists of them, lists, strings.

    >>> arrow_schema([TensorSpec("x", "float32", (2,))]).field("x").type
    FixedSizeListType(fixed_size_list<item: float not null>[2])
    """
    return pa.schema([pa.field(spec.name, _arrow_type(spec), nullable=False) for spec in specs])


def _arrow_type(spec: TensorSpec) -> pa.DataType:
    if spec.kind == "string":
        return pa.large_string()
    if spec.kind == "binary":
        return pa.large_binary()
    found = pa.from_numpy_dtype(storage_of(spec))
    for axis in reversed(spec.shape):
        found = pa.list_(pa.field("item", found, nullable=False), axis)
    return pa.large_list(pa.field("item", found, nullable=False)) if spec.ragged else found


def storage_of(spec: TensorSpec) -> np.dtype[Any]:
    """How a value lies in a shard: as in the tensor, but bool as a byte, because Arrow's own are bits."""
    found = DTYPES[spec.dtype].storage
    return np.dtype(np.uint8) if found == np.bool_ else found


def block_rows(specs: Sequence[TensorSpec], block_bytes: int) -> int | None:
    """Rows of a full block; None where rows have lengths of their own and bytes decide.

    >>> block_rows([TensorSpec("x", "float32", (40,))], 1 << 20)
    6528
    """
    if any(spec.ragged for spec in specs):
        return None
    rows = block_bytes // max(sum(spec.row_bytes for spec in specs), 1)
    return max(rows - rows % ROWS_OF_64, 1) if rows >= ROWS_OF_64 else max(rows, 1)


def alignment(spec: TensorSpec, block_bytes: int) -> int:
    """Where a fixed tensor's buffer may start: at multiples of its rows too, so that a map of the file is an array.

    >>> (
    ...     alignment(TensorSpec("x", "float32", (250,)), 16 << 20),
    ...     alignment(TensorSpec("x", "float32", (250,)), 4096),
    ... )
    (8000, 64)
    """
    if spec.ragged or not spec.row_bytes:
        return ipc.ALIGNMENT
    whole = math.lcm(ipc.ALIGNMENT, spec.row_bytes)
    return whole if whole <= block_bytes // PADDED_PART else ipc.ALIGNMENT


class BlockBuilder:
    """Collects packed rows until they fill a block."""

    def __init__(self, specs: Sequence[TensorSpec], block_bytes: int) -> None:
        self._specs, self._bytes = specs, block_bytes
        self._rows = block_rows(specs, block_bytes)
        self._pieces: list[list[Packed]] = [[] for _ in specs]
        self._held_rows = self._held_bytes = 0

    def add(self, rows: int, tensors: Sequence[Packed]) -> list[tuple[int, list[list[Packed]]]]:
        """Take rows in; every block they complete comes out as (rows, pieces of each tensor)."""
        full = []
        start = 0
        ends = np.sum([_row_ends(packed) for packed in tensors], axis=0) if self._rows is None else None
        while start < rows:
            room = self._room(rows, start, ends)
            stop = start + room
            for held, packed in zip(self._pieces, tensors, strict=True):
                piece = packed if room == rows else packed[start:stop]
                held.append(piece)
                self._held_bytes += piece.nbytes
            self._held_rows += room
            start = stop
            if self._is_full():
                full.append(self._take())
        return full

    def rest(self) -> list[tuple[int, list[list[Packed]]]]:
        """What is left at the end, as a last block, if anything is."""
        return [self._take()] if self._held_rows else []

    def _room(self, rows: int, start: int, ends: Array | None) -> int:
        """How many of the rows from `start` on the block still takes."""
        if ends is None or self._rows is not None:
            assert self._rows is not None, "without lengths of their own, rows are counted"
            return min(rows - start, self._rows - self._held_rows)
        begin = int(ends[start - 1]) if start else 0
        fits = int(np.searchsorted(ends, begin + self._bytes - self._held_bytes, "right")) - start
        return min(max(fits, 1), rows - start)

    def _is_full(self) -> bool:
        if self._rows is not None:
            return self._held_rows >= self._rows
        return self._held_bytes >= self._bytes

    def _take(self) -> tuple[int, list[list[Packed]]]:
        found = (self._held_rows, self._pieces)
        self._pieces = [[] for _ in self._specs]
        self._held_rows = self._held_bytes = 0
        return found


def _row_ends(packed: Packed) -> Array:
    """Bytes of the rows, offsets included, added up row by row."""
    row = packed.offsets.itemsize if isinstance(packed, Ragged) else packed.nbytes // max(len(packed), 1)
    ends = np.arange(1, len(packed) + 1) * row
    if isinstance(packed, Ragged):
        element = packed.values.nbytes // max(len(packed.values), 1)
        ends += (packed.offsets[1:] - packed.offsets[0]) * element
    return ends


class ArrowShard:
    """A shard being written as an Arrow file."""

    def __init__(self, output: Output, specs: Sequence[TensorSpec], options: ShardOptions) -> None:
        self._output, self._specs, self._codec = output, specs, options.compression
        self._kind = options.checksum or checksum.best_kind()
        self._whole = checksum.new(self._kind)
        self._schema = arrow_schema(specs)
        self._alignments = [
            alignment(spec, options.block_bytes) if self._codec is None else ipc.ALIGNMENT
            for spec in specs
            for _ in range(1 + spec.ragged)
        ]
        nodes, layout = _layout(specs, 0, [(0, 0)] * len(self._alignments), [0] * len(self._alignments))
        self._framed = len(nodes), len(layout)
        self._position = self._rows = 0
        self._blocks: list[Block] = []
        self._frames: list[ipc.FramedBlock] = []
        self._write([ipc.HEAD, ipc.schema_message(self._schema)])

    def _write(self, pieces: Sequence[Any]) -> None:
        for piece in pieces:
            self._whole.update(piece)
            self._position += memoryview(piece).nbytes
        self._output.write(pieces)

    def block(self, rows: int, tensors: Sequence[Sequence[Packed]]) -> None:
        """Write one block, each tensor given in pieces."""
        contents = [
            buffer
            for spec, pieces in zip(self._specs, tensors, strict=True)
            for buffer in _buffers(spec, pieces)
        ]
        raw = [sum(piece.nbytes for piece in pieces) for pieces in contents]
        elements = [sum(len(piece) for piece in pieces) for pieces in contents]
        stored = [self._stored(pieces) for pieces in contents]
        lengths = [sum(memoryview(piece).nbytes for piece in pieces) for pieces in stored]
        start = self._position
        body = start + ipc.message_bytes(*self._framed, self._codec, start)
        places, end = [], 0
        for length, aligned in zip(lengths, self._alignments, strict=True):
            end += ipc.padding(body + end, aligned)
            places.append((end, length))
            end += length
        end += ipc.padding(end)
        nodes, layout = _layout(self._specs, rows, places, elements)
        block, pieces = (
            checksum.new(self._kind),
            [ipc.batch_message(rows, nodes, layout, end, self._codec, start)],
        )
        written, buffers = 0, []
        for (offset, length), unpacked, parts in zip(places, raw, stored, strict=True):
            buffers.append(Buffer(body + offset, length, unpacked, checksum.of(self._kind, *parts)))
            pieces += [bytes(offset - written), *parts]
            written = offset + length
        pieces.append(bytes(end - written))
        for piece in pieces:
            block.update(piece)
        self._write(pieces)
        self._frames.append(ipc.FramedBlock(start, body - start, end))
        self._blocks.append(Block(rows, start, self._position - start, block.value(), tuple(buffers)))
        self._rows += rows

    def _stored(self, pieces: list[Array]) -> list[Any]:
        flat = [memoryview(np.ascontiguousarray(piece).data).cast("B") for piece in pieces if piece.nbytes]
        if self._codec is None or not flat:
            return list(flat)
        whole = flat[0] if len(flat) == 1 else b"".join(flat)
        small = pa.compress(pa.py_buffer(whole), codec=self._codec, asbytes=True)
        size = memoryview(whole).nbytes
        if len(small) >= size:
            return [struct.pack("<q", ipc.UNCOMPRESSED), whole]
        return [struct.pack("<q", size), small]

    def abort(self) -> None:
        """Nothing is held that would outlive the file."""

    def close(self) -> WrittenShard:
        """End the file and say what it holds."""
        self._write([ipc.footer(self._schema, self._frames)])
        self._output.close()
        written = checksum.text(self._kind, self._whole.value())
        return WrittenShard(self._rows, self._position, written, tuple(self._blocks))


def _buffers(spec: TensorSpec, pieces: Sequence[Packed]) -> list[list[Array]]:
    """A tensor's buffers in a block, each in pieces: the values, or offsets and values."""
    if not spec.ragged:
        return [[piece for piece in pieces if not isinstance(piece, Ragged)]]
    ragged = [piece for piece in pieces if isinstance(piece, Ragged)]
    return [
        [joined_offsets(ragged)],
        [piece.values[piece.offsets[0] : piece.offsets[-1]] for piece in ragged],
    ]


def _layout(
    specs: Sequence[TensorSpec], rows: int, places: Sequence[tuple[int, int]], elements: Sequence[int]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Arrow's field lengths and buffers, depth first; every field has an empty validity bitmap before its own."""
    nodes: list[int] = []
    layout: list[tuple[int, int]] = []
    number = 0
    for spec in specs:
        length = rows
        nodes.append(length)
        layout.append((places[number][0], 0))
        if spec.ragged:
            layout.append(places[number])
            number += 1
            if spec.kind == "ragged":
                length = elements[number]
                nodes.append(length)
                layout.append((places[number][0], 0))
        for axis in spec.shape:
            length *= axis
            nodes.append(length)
            layout.append((places[number][0], 0))
        layout.append(places[number])
        number += 1
    return nodes, layout
