"""Arrow batches to arrays of rows, with the bad rows set aside.

`Incoming` is an Arrow batch that waits for its results; `Packing` finds its bad rows and packs the others, which
`batches` then cuts to size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.dtypes import Array
from penstock.scoring.job import Job, Kept
from penstock.wire.faults import BadValue, Fault
from penstock.wire.layouts import decoded, row_offsets
from penstock.wire.pack import Packer
from penstock.wire.plan import Piece

SHOWN = 3
"""Kept columns that name a row in messages."""
UNKNOWN = "Fill it with lists of the right length, or drop it from the selection."


@dataclass
class Incoming:
    """An Arrow batch on its way: the columns that go back, and why rows are left out."""

    columns: list[pa.Array]
    """All that crossed."""
    rows: int
    first: int
    """The number of its first row in the partition."""
    faults: dict[int, str] = field(default_factory=dict)
    """By row."""

    @property
    def good(self) -> int:
        """The rows that go to the model."""
        return self.rows - len(self.faults)

    def good_rows(self) -> Array:
        """The numbers of those rows."""
        return np.flatnonzero(self.good_mask())

    def good_mask(self) -> Array:
        """Which rows go to the model."""
        mask = np.ones(self.rows, bool)
        mask[list(self.faults)] = False
        return mask

    def named(self, row: int, kept: Sequence[Kept], partition: int) -> str:
        """A row as people find it again: its first kept columns, and where it was."""
        values = []
        for column in kept[:SHOWN]:
            value = self.columns[column.place][row].as_py()
            values.append(
                f"{column.name}={_short(value if column.element is None else value[column.element])}"
            )
        where = f"number {self.first + row} of partition {partition}"
        return f"{', '.join(values)} ({where})" if values else where


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Packing:
    """Packs the Arrow batches of one partition, and finds the rows that cannot be packed."""

    def __init__(self, job: Job) -> None:
        self._plan, self._recipe, self._pieces = job.plan, job.recipe, job.pieces
        self._packer = Packer(job.plan)

    def pack(self, batch: Incoming) -> list[Array]:
        """The arrays of a batch's good rows, none where none is good; the bad rows are noted in the batch."""
        columns = batch.columns[: self._pieces]
        try:
            arrays = self._arrays(columns)
            if arrays is not None:
                return arrays
        except BadValue:
            pass
        batch.faults.update(self._null_rows(columns))
        rows = batch.good_rows()
        try:
            return self._taken(columns, rows)
        except BadValue:
            left = [column.take(pa.array(rows)) for column in columns]
            for place, fault in self._bad_rows(left, 0, len(rows)):
                batch.faults[int(rows[place])] = fault
        return self._taken(columns, batch.good_rows())

    def again(self, batch: Incoming, first: int, count: int) -> list[Array]:
        """Some of a batch's good rows once more, as they were before a model saw them."""
        return self._taken(batch.columns[: self._pieces], batch.good_rows()[first : first + count])

    def _taken(self, columns: Sequence[pa.Array], rows: Array) -> list[Array]:
        if not len(rows):
            return []
        arrays = self._arrays([column.take(pa.array(rows)) for column in columns])
        assert arrays is not None, "rows with nulls were left out"
        return arrays

    def _arrays(self, columns: Sequence[pa.Array]) -> list[Array] | None:
        """None where there are nulls that must not be. Rows that are refused teach the packer nothing."""
        packer, before = self._packer, dict(self._packer.lengths)
        try:
            arrays = packer.arrays(pa.RecordBatch.from_arrays(list(columns), names=[""] * len(columns)))
            if packer.nulls:
                packer.lengths = before
                return None
            for tensor, array in zip(self._plan.tensors, arrays, strict=True):
                if array is None:
                    raise BadValue(Fault("unknown-length", tensor.columns[0], remedy=UNKNOWN))
        except BadValue:
            packer.lengths = before
            raise
        finally:
            packer.nulls.clear()
        return arrays

    def _bad_rows(self, columns: Sequence[pa.Array], start: int, rows: int) -> Iterator[tuple[int, str]]:
        """The rows that cannot be packed, found by halves; the first good one tells the length of lists."""
        try:
            self._arrays([column.slice(start, rows) for column in columns])
        except BadValue as bad:
            if rows == 1:
                yield start, str(bad.fault.to_error())
                return
            half = rows // 2
            yield from self._bad_rows(columns, start, half)
            yield from self._bad_rows(columns, start + half, rows - half)

    def _null_rows(self, columns: Sequence[pa.Array]) -> dict[int, str]:
        found: dict[int, str] = {}
        pieces = [(tensor.name, piece) for tensor in self._plan.tensors for piece in tensor.pieces]
        for (tensor, piece), crossed in zip(pieces, columns, strict=True):
            for column, mask in null_masks(piece, crossed):
                source = f"tensor {tensor!r}, from {column}" if self._recipe else f"column {column!r}"
                for row in np.flatnonzero(mask):
                    found.setdefault(int(row), f"null in {source}")
        return found


def null_masks(piece: Piece, column: pa.Array) -> Iterator[tuple[str, Array]]:
    """For each of a piece's columns in which nulls are refused: the rows that have one.

    >>> piece = Piece(("a", "b"), (None, 0), packed=True)
    >>> [(name, mask.tolist()) for name, mask in null_masks(piece, pa.array([[1, None], [None, 2]]))]
    [('a', [False, True])]
    """
    column = decoded(column)
    if piece.packed:
        width = len(piece.columns)
        empty = column.is_null().to_numpy(zero_copy_only=False)
        missing = np.ones((len(column), width), bool)
        missing[~empty] = column.flatten().is_null().to_numpy(zero_copy_only=False).reshape(-1, width)
        for place, (name, fill) in enumerate(zip(piece.columns, piece.fills, strict=True)):
            if fill is None:
                yield name, missing[:, place]
    elif piece.fills[0] is None:
        yield piece.columns[0], _null_inside(column, piece.depth)


def _null_inside(column: pa.Array, depth: int) -> Array:
    column = decoded(column)
    mask: Array = column.is_null().to_numpy(zero_copy_only=False).copy()
    if depth:
        inside = np.flatnonzero(_null_inside(column.flatten(), depth - 1))
        mask[np.searchsorted(row_offsets(column), inside, side="right") - 1] = True
    return mask
