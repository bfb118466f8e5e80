"""Arrow's IPC file framing, written and read down to the byte.

A shard is an ordinary Arrow file, but Penstock lays the frames itself: pyarrow aligns buffers to 8 bytes, cannot say
where in the file a buffer landed, and would want each block assembled in one piece first. Here buffers start at
multiples of 64, their places are known before they are written, and `footer_blocks` finds those of any other Arrow
file. Metadata are flatbuffers, a handful of fixed tables, packed by hand because executors have pyarrow alone.
Arrow's own readers are the test. `shards` uses the writing half, `files` the reading half.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

ALIGNMENT = 64
MAGIC = b"ARROW1"
HEAD = MAGIC + b"\0\0"
CONTINUATION = b"\xff\xff\xff\xff"
END_OF_STREAM = CONTINUATION + b"\0\0\0\0"
METADATA_V5 = 4
RECORD_BATCH = 3
CODECS = {"lz4": 0, "zstd": 1}
"""Arrow's numbers for the ways a body can be compressed."""
UNCOMPRESSED = -1
"""Stands for the length of a buffer inside a compressed body that was left as it is."""


def padding(position: int, alignment: int = ALIGNMENT) -> int:
    """Bytes to the next multiple of `alignment`.

    >>> padding(65), padding(64)
    (63, 0)
    """
    return -position % alignment


@dataclass(frozen=True)
class FramedBlock:
    """Where a record batch stands in a file, as the file's footer lists it."""

    offset: int
    metadata_bytes: int
    body_bytes: int


@dataclass(frozen=True)
class BatchLayout:
    """What a record batch's metadata say: rows, and every buffer's place relative to the body."""

    rows: int
    nulls: tuple[int, ...]
    """Per field, in depth-first order."""
    buffers: tuple[tuple[int, int], ...]
    codec: str | None


def schema_message(schema: pa.Schema) -> bytes:
    """The message that opens the stream inside a file; its length is a multiple of 8."""
    return bytes(schema.serialize())


def batch_message(
    rows: int,
    nodes: Sequence[int],
    buffers: Sequence[tuple[int, int]],
    body_bytes: int,
    codec: str | None,
    position: int,
) -> bytes:
    """The message before a body, padded so that the body starts aligned when this is written at `position`.

    `nodes` holds the length of every field, depth first; no field has nulls. `buffers` are (offset, length) relative to
    the body, validity bitmaps included as empty ones.
    """
    flat = _batch_flatbuffer(rows, nodes, buffers, body_bytes, codec)
    flat += bytes(message_bytes(len(nodes), len(buffers), codec, position) - 8 - len(flat))
    return CONTINUATION + struct.pack("<i", len(flat)) + flat


def message_bytes(nodes: int, buffers: int, codec: str | None, position: int) -> int:
    """Bytes of such a message, which are the same whatever the numbers in it.

    >>> len(batch_message(3, [3], [(0, 0), (0, 12)], 64, None, 8)) == message_bytes(1, 2, None, 8)
    True
    """
    length = 8 + 96 + 16 * (nodes + buffers) + (16 if codec else 0)
    return length + padding(position + length)


def _batch_flatbuffer(
    rows: int, nodes: Sequence[int], buffers: Sequence[tuple[int, int]], body_bytes: int, codec: str | None
) -> bytes:
    node_elements, buffer_elements = 88, 96 + 16 * len(nodes)
    compression = buffer_elements + 16 * len(buffers)
    parts = [
        # Message: root offset, vtable (version, header type, header, body length), table.
        struct.pack("<I6H", 16, 12, 20, 16, 18, 4, 8),
        struct.pack("<iIqhBx", 12, 56 - 20, body_bytes, METADATA_V5, RECORD_BATCH),
        bytes(4),
        # RecordBatch: vtable (length, nodes, buffers, compression), table at 56.
        struct.pack("<6H4x", 12, 24, 16, 4, 8, 12 if codec else 0),
        struct.pack(
            "<iIIIq",
            16,
            node_elements - 4 - 60,
            buffer_elements - 4 - 64,
            compression + 8 - 68 if codec else 0,
            rows,
        ),
        struct.pack("<4xI", len(nodes)),
        b"".join(struct.pack("<qq", length, 0) for length in nodes),
        struct.pack("<4xI", len(buffers)),
        b"".join(struct.pack("<qq", offset, length) for offset, length in buffers),
    ]
    if codec:
        # BodyCompression: vtable (codec, method), table; the method is the only one there is, 0: buffer by buffer.
        parts.append(struct.pack("<4HiBBxx", 8, 6, 4, 5, 8, CODECS[codec], 0))
    return b"".join(parts)


def footer(schema: pa.Schema, blocks: Sequence[FramedBlock]) -> bytes:
    """Everything after the last body: end of stream, footer, its length, and the closing magic."""
    message = schema_message(schema)[8:]
    root = _Table(message, _u32(message, 0))
    schema_table = root.child(2)
    assert schema_table is not None, "pyarrow wrote a schema message without a schema"
    batches = 48
    blob = batches + 24 * len(blocks)
    flat = b"".join(
        [
            # Footer: root offset, vtable (version, schema, dictionaries, record batches), table at 16.
            struct.pack("<I6H", 16, 12, 20, 16, 4, 8, 12),
            struct.pack(
                "<iIIIh2x", 12, blob + schema_table.position - 20, 36 - 24, batches - 4 - 28, METADATA_V5
            ),
            struct.pack("<I4xI", 0, len(blocks)),  # no dictionaries; then the record batches
            b"".join(
                struct.pack("<qi4xq", block.offset, block.metadata_bytes, block.body_bytes)
                for block in blocks
            ),
            # Offsets inside a flatbuffer are relative: the schema message's table can be reached from here as it is.
            message,
        ]
    )
    return END_OF_STREAM + flat + struct.pack("<i", len(flat)) + MAGIC


class _Table:
    """A flatbuffer table: fields by number, absent ones as None."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position
        self._vtable = position - _i32(data, position)
        self._size = _u16(data, self._vtable)

    def field(self, number: int) -> int | None:
        """The absolute position of a field's value."""
        slot = 4 + 2 * number
        if slot + 2 > self._size:
            return None
        offset = _u16(self.data, self._vtable + slot)
        return self.position + offset if offset else None

    def child(self, number: int) -> _Table | None:
        place = self.field(number)
        return None if place is None else _Table(self.data, place + _u32(self.data, place))

    def vector(self, number: int, element: str) -> list[tuple[Any, ...]]:
        place = self.field(number)
        if place is None:
            return []
        start = place + _u32(self.data, place)
        size, count = struct.calcsize(element), _u32(self.data, start)
        found = self.data[start + 4 : start + 4 + size * count]
        return list(struct.iter_unpack(element, found))


def _u16(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<H", data, position)[0])


def _u32(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<I", data, position)[0])


def _i32(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<i", data, position)[0])


def footer_of(file: Any) -> bytes:
    """The footer's flatbuffer, out of a file that pyarrow has opened."""
    tail = len(MAGIC) + 4
    end = file.size() - tail
    length = _u32(bytes(file.read_at(tail, end)), 0)
    return bytes(file.read_at(length, end - length))


def footer_blocks(flat: bytes) -> list[FramedBlock]:
    """The record batches that a file's footer lists; `flat` is the footer's flatbuffer alone."""
    table = _Table(flat, _u32(flat, 0))
    return [FramedBlock(*found) for found in table.vector(3, "<qi4xq")]


def batch_layout(message: bytes) -> BatchLayout:
    """A record batch's message (with its 8-byte prefix) taken apart."""
    flat = message[8:]
    batch = _Table(flat, _u32(flat, 0)).child(2)
    if batch is None:
        raise ValueError("a message without a header")
    length, compression = batch.field(0), batch.child(3)
    codec = None
    if compression is not None:
        place = compression.field(0)
        number = flat[place] if place is not None else 0
        codec = next(name for name, value in CODECS.items() if value == number)
    return BatchLayout(
        rows=int(struct.unpack_from("<q", flat, length)[0]) if length is not None else 0,
        nulls=tuple(nulls for _, nulls in batch.vector(1, "<qq")),
        buffers=tuple((offset, size) for offset, size in batch.vector(2, "<qq")),
        codec=codec,
    )
