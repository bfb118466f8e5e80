"""Rows to look at: a bounded sample of blocks spread over a dataset, or all of it where it is small.

`plan` is arithmetic, so that what is read is known before; `read` reads it, and checks the blocks it reads whole
against their checksums. `tensors` makes figures of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from penstock.dataset.snapshot import Snapshot
from penstock.errors import DataError
from penstock.wire.ragged import Packed, joined

MOST_ROWS = 1 << 17
MOST_BYTES = 64 << 20
"""Of the rows kept."""
MOST_BLOCKS = 256
MOST_READ = 512 << 20
"""Of blocks that have to be read whole for some of their rows: compressed ones, Parquet, and ragged tensors."""
THREADS = 8
"""They wait for a store that is far away."""
GOLDEN = 0.6180339887498949
"""Steps of this part of the whole never come near each other again, so that no rhythm of the data is met."""


@dataclass(frozen=True)
class Piece:
    """A run of rows of one block."""

    block: int
    start: int
    stop: int


@dataclass(frozen=True)
class Sample:
    """Some rows of every tensor, or why a tensor cannot be read."""

    rows: int
    of_rows: int
    blocks: int
    of_blocks: int
    checked: int
    """Blocks whose every byte was held against its checksum."""
    tensors: dict[str, Packed]
    refused: dict[str, str]

    @property
    def whole(self) -> bool:
        """Whether these are all rows."""
        return self.rows == self.of_rows

    def to_dict(self) -> dict[str, Any]:
        """How large it is, as plain values."""
        return {
            "rows": self.rows,
            "of_rows": self.of_rows,
            "blocks": self.blocks,
            "of_blocks": self.of_blocks,
            "checked_blocks": self.checked,
            "whole": self.whole,
        }


def plan(blocks: Sequence[int], most_rows: int, most_blocks: int) -> list[Piece]:
    """Runs of rows out of evenly spread blocks, given the blocks' rows; all rows where they are few.

    >>> plan([10, 10], most_rows=100, most_blocks=8)
    [Piece(block=0, start=0, stop=10), Piece(block=1, start=0, stop=10)]
    >>> [(piece.block, piece.stop - piece.start) for piece in plan([10] * 9, most_rows=12, most_blocks=3)]
    [(1, 4), (4, 4), (7, 4)]
    """
    most_rows, most_blocks = max(most_rows, 1), max(most_blocks, 1)
    if len(blocks) <= most_blocks and sum(blocks) <= most_rows:
        return [Piece(number, 0, rows) for number, rows in enumerate(blocks) if rows]
    count = min(len(blocks), most_blocks, most_rows)
    pieces = []
    for place in range(count):
        number = (2 * place + 1) * len(blocks) // (2 * count)
        rows = min(blocks[number], -(-most_rows // count))
        start = int((place * GOLDEN % 1) * (blocks[number] - rows + 1))
        pieces.append(Piece(number, start, start + rows))
    return pieces


def read(snapshot: Snapshot) -> Sample:
    """A sample of all tensors."""
    manifest, blocks = snapshot.manifest, [int(rows) for rows in snapshot.index.rows]
    pieces = plan(blocks, *_bounds(snapshot)) if manifest.rows else []
    names = [spec.name for spec in manifest.tensors]
    check = _checked(snapshot, pieces)
    refused: dict[str, str] = {}
    try:
        found = _read(snapshot, pieces, names, check)
    except DataError:
        # Of plain files some columns may hold nulls: the others are read all the same.
        found = {}
        for name in names:
            try:
                found |= _read(snapshot, pieces, [name], check)
            except DataError as error:
                refused[name] = str(error)
    rows = sum(piece.stop - piece.start for piece in pieces)
    return Sample(rows, manifest.rows, len(pieces), len(blocks), len(check), found, refused)


def _bounds(snapshot: Snapshot) -> tuple[int, int]:
    """The most rows, and the most blocks."""
    manifest = snapshot.manifest
    fixed = sum(spec.row_bytes for spec in manifest.tensors if not spec.ragged)
    ragged = any(spec.ragged for spec in manifest.tensors)
    whole = _read_whole(snapshot)
    row = max(fixed, -(-manifest.bytes // manifest.rows) if ragged else 0, 1)
    block = max(manifest.bytes // max(len(snapshot.index), 1), row)
    return min(MOST_ROWS, MOST_BYTES // row), min(MOST_BLOCKS, MOST_READ // block if whole else MOST_BLOCKS)


def _read_whole(snapshot: Snapshot) -> bool:
    """Whether some rows of a block cannot be had without all of it."""
    manifest = snapshot.manifest
    ragged = any(spec.ragged for spec in manifest.tensors)
    return ragged or manifest.compression is not None or manifest.storage != "arrow"


def _checked(snapshot: Snapshot, pieces: Sequence[Piece]) -> frozenset[int]:
    """Blocks that are read whole anyway, so that checking them costs no more reading."""
    rows = snapshot.index.rows
    whole = [piece.block for piece in pieces if piece.stop - piece.start == int(rows[piece.block])]
    if not snapshot.committed:
        return frozenset()  # other people's files have no checksums
    if snapshot.manifest.storage != "arrow":
        # A Parquet file is checked from end to end, which is more than a sample reads.
        return frozenset(whole if len(whole) == len(rows) else ())
    return frozenset(piece.block for piece in pieces) if _read_whole(snapshot) else frozenset(whole)


def _read(
    snapshot: Snapshot, pieces: Sequence[Piece], names: Sequence[str], check: frozenset[int]
) -> dict[str, Packed]:
    def rows(piece: Piece) -> dict[str, Packed]:
        own = slice(piece.start, piece.stop)
        if piece.block in check:
            whole = snapshot.blocks.read(piece.block, names, True)
            found = {name: packed[own] for name, packed in whole.items()}
        else:
            found = snapshot.blocks.read_rows(piece.block, own, names)
        # Copied, so that of a block that was read whole only these rows stay.
        return {name: joined([packed]) for name, packed in found.items()}

    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(rows, pieces))
    return {name: joined([part[name] for part in parts]) for name in names} if parts else {}
