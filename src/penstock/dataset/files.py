"""Parquet and Arrow files as pyarrow sees them, behind one small face: a schema, and blocks by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.dataset import ipc


class BlockFile(Protocol):
    """An open file of blocks."""

    schema: pa.Schema

    def rows(self) -> list[int]:
        """The rows of every block."""

    def block(self, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        """One block with the columns named (and perhaps others)."""


class ParquetBlocks:
    """A Parquet file; its row groups are the blocks."""

    def __init__(self, file: Any, far: bool) -> None:
        # Far away, the columns of a row group come in one request: one each, in turn, would wait for each.
        self._file = pq.ParquetFile(file, pre_buffer=far)
        self.schema: pa.Schema = self._file.schema_arrow

    def rows(self) -> list[int]:
        """From the footer."""
        found = self._file.metadata
        return [found.row_group(number).num_rows for number in range(found.num_row_groups)]

    def block(self, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        """One row group; only the columns named are decoded."""
        tops = [name for name in self.schema.names if any(_names(column, name) for column in columns)]
        table = self._file.read_row_group(number, columns=tops)
        batches = table.combine_chunks().to_batches()
        if len(batches) > 1:
            # Arrow's small lists and texts end at 2 GB, and the rest would stand in a batch of its own.
            whole = table.cast(pa.schema([field.with_type(_large(field.type)) for field in table.schema]))
            batches = whole.combine_chunks().to_batches()
        return batches[0]


class ArrowFileBlocks:
    """An Arrow IPC file; its record batches are the blocks."""

    def __init__(self, file: Any) -> None:
        self._bytes = file
        self._file = pa.ipc.open_file(file)
        self.schema: pa.Schema = self._file.schema

    def rows(self) -> list[int]:
        """From every batch's own metadata: its columns are neither read nor unpacked for it."""
        messages = [
            bytes(self._bytes.read_at(block.metadata_bytes, block.offset))
            for block in ipc.footer_blocks(ipc.footer_of(self._bytes))
        ]
        return [
            ipc.batch_layout(message).rows
            if message.startswith(ipc.CONTINUATION)
            else self._file.get_batch(number).num_rows  # as Arrow wrote them before 2019
            for number, message in enumerate(messages)
        ]

    def block(self, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        """One record batch, all its columns."""
        return self._file.get_batch(number)


def _large(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_field.with_type(_large(kind.value_type)))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.large_string() if pa.types.is_string(kind) else pa.large_binary()
    return kind


def first_line(error: BaseException) -> str:
    """What pyarrow has to say, less the pages it sometimes appends."""
    return str(error).partition("\n")[0].rstrip(". ")


def _names(wanted: str, column: str) -> bool:
    """Whether a request names a column, or a field inside it."""
    return wanted == column or wanted.startswith(f"{column}.")


def open_file(file: Any, name: str, far: bool = False) -> BlockFile:
    """A file as blocks, told by its name; `far` where every read is a request to another machine."""
    return ParquetBlocks(file, far) if name.endswith((".parquet", ".pq")) else ArrowFileBlocks(file)
