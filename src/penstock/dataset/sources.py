"""Where rows come from when they do not come from Spark: a table, a stream, or files. `local` writes them.

A source that knows its number of rows can be asked for any run of them, several threads at a time; a stream only
comes once, from the beginning.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from copy import copy
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.dataset.files import first_line, open_file
from penstock.dataset.plain import find_files, full_schema, path_columns
from penstock.dataset.stores.terms import telling
from penstock.errors import DatasetError, SelectionError
from penstock.wire.layouts import decoded

BATCH_ROWS = 65_536


class Rows(Protocol):
    """Rows as Arrow batches."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    @property
    def rows(self) -> int | None:
        """How many; None where only the end tells."""

    @property
    def bytes(self) -> int:
        """What the rows take, or 0 where only the end tells."""

    def batches(self, start: int, stop: int) -> Iterable[pa.RecordBatch]:
        """A run of rows."""

    def stream(self) -> Iterable[pa.RecordBatch]:
        """All rows, once."""

    def narrowed(self, columns: Sequence[str]) -> Rows:
        """The same rows with at least these columns: nothing else need be read."""

    def spooled(self, file: str) -> Rows:
        """The same rows, with their number known; a stream is laid down in the file first."""

    def identity(self) -> dict[str, Any] | None:
        """What proves that the rows are those of another time; None where nothing does."""


class TableRows:
    """A table in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.schema, self.rows, self.bytes = table.schema, table.num_rows, table.nbytes

    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """A run of rows, without a copy."""
        yield from self._table.slice(start, stop - start).to_batches(BATCH_ROWS)

    def stream(self) -> Iterable[pa.RecordBatch]:
        """All rows."""
        return self.batches(0, self.rows)

    def narrowed(self, columns: Sequence[str]) -> Rows:
        """The columns alone, without a copy."""
        return TableRows(self._table.select(list(columns)))

    def spooled(self, file: str) -> Rows:
        """Itself: the number is known."""
        return self

    def identity(self) -> None:
        """Nothing tells two tables in memory apart but their content."""
        return None


class StreamRows:
    """A stream; it can be read once."""

    rows = None
    bytes = 0

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self.schema = reader.schema
        self._columns = reader.schema.names

    def batches(self, start: int, stop: int) -> Iterable[pa.RecordBatch]:
        """Not of a stream."""
        raise AssertionError("a stream has no runs of rows; spool it first")

    def stream(self) -> Iterable[pa.RecordBatch]:
        """All rows, once."""
        yield from self._reader

    def narrowed(self, columns: Sequence[str]) -> Rows:
        """Itself: a stream brings what it brings."""
        self._columns = list(columns)
        return self

    def spooled(self, file: str) -> Rows:
        """Laid down in a file, because a second pass is needed."""
        with ExitStack() as opened:
            writer = None
            for batch in self._reader:
                # An Arrow file has room for one dictionary a column, and a stream may bring another with each batch.
                flat = {name: decoded(batch.column(name)) for name in self._columns}
                laid = pa.RecordBatch.from_pydict(flat)
                with telling("write", file):
                    if writer is None:
                        sink = opened.enter_context(pa.OSFile(file, "wb"))
                        writer = opened.enter_context(pa.ipc.new_file(sink, laid.schema))
                    writer.write_batch(laid)
            if writer is None:
                return TableRows(self.schema.empty_table())
        return FileRows(file)

    def identity(self) -> None:
        """A stream is gone when it was read."""
        return None


class FileRows:
    """Parquet or Arrow files: a folder or a single one, Hive-style paths included."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store, self._files = find_files(path)
        self._extra = path_columns(self._files)
        self._columns = self._files[0].schema.names
        self.schema = full_schema(self._files, self._extra)
        self.bytes = sum(file.entry.bytes for file in self._files)
        runs = [
            (place, number, rows)
            for place, file in enumerate(self._files)
            for number, rows in enumerate(file.rows)
        ]
        self._runs = [run for run in runs if run[2]]
        self._starts = np.concatenate([[0], np.cumsum([rows for _, _, rows in self._runs], dtype=np.int64)])
        self.rows = int(self._starts[-1])

    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """A run of rows, block by block."""
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        for place in range(first, len(self._runs)):
            begin, end = int(self._starts[place]), int(self._starts[place + 1])
            if begin >= stop or start >= stop:
                return
            block = self._block(*self._runs[place][:2])
            low, high = max(start - begin, 0), min(stop, end) - begin
            for offset in range(low, high, BATCH_ROWS):
                yield block.slice(offset, min(BATCH_ROWS, high - offset))

    def _block(self, place: int, number: int) -> pa.RecordBatch:
        entry = self._files[place].entry
        try:
            with self._store.open_input(entry.name) as file:
                found = open_file(file, entry.name)
                block = found.block(number, self._columns)
        except (pa.ArrowException, OSError) as error:
            raise DatasetError(
                f"{self._store.locate(entry.name)}, block {number}, cannot be read: {first_line(error)}. Check the "
                "file, or leave it out. Nothing was committed."
            ) from None
        extra = self._extra[place]
        for name, column in zip(extra.schema.names, extra.columns, strict=True):
            block = block.append_column(extra.schema.field(name), pa.repeat(column[0], block.num_rows))
        return block

    def stream(self) -> Iterable[pa.RecordBatch]:
        """All rows, in the order of the files' names."""
        return self.batches(0, self.rows)

    def narrowed(self, columns: Sequence[str]) -> Rows:
        """The same files, of which only these columns are decoded."""
        found = copy(self)
        found._columns = list(columns)
        return found

    def spooled(self, file: str) -> Rows:
        """Itself: the footers tell the number."""
        return self

    def identity(self) -> dict[str, Any]:
        """Names, sizes and times of the files."""
        listing = [[file.entry.name, file.entry.bytes, file.entry.modified] for file in self._files]
        text = repr([self._store.root, listing])
        return {"plan": "files", "files": hashlib.sha256(text.encode()).hexdigest()}


def arrow_rows(given: Any) -> Rows:
    """What a user passes to `pk.write`, as a source.

    >>> arrow_rows(pa.table({"a": [1, 2]})).rows
    2
    """
    if isinstance(given, pa.Table):
        return TableRows(given)
    if isinstance(given, pa.RecordBatch):
        return TableRows(pa.Table.from_batches([given]))
    if isinstance(given, pa.RecordBatchReader):
        return StreamRows(given)
    if hasattr(given, "__arrow_c_stream__"):
        return StreamRows(pa.RecordBatchReader.from_stream(given))
    raise SelectionError(
        f"pk.write takes a Spark DataFrame, a pyarrow Table or RecordBatchReader, or anything with __arrow_c_stream__ "
        f"(polars, duckdb, pandas), and this is {type(given).__name__}: {given!r:.200}. For files use penstock convert."
    )
