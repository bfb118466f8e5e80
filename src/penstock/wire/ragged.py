"""Rows of unequal lengths as two arrays: all values one after the other, and where each row begins.

`packed[start:stop]` cuts rows out without copying values. Arrow lists, strings and bytes become this in `pack`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.dtypes import Array


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[offsets[i]:offsets[i + 1]]`.

    >>> rows = Ragged(np.array([1, 2, 3]), np.array([0, 2, 2, 3]))
    >>> len(rows), rows[1:3].row(1).tolist()
    (3, [3])
    """

    values: Array
    offsets: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice) -> Ragged:
        start, stop, _ = rows.indices(len(self))
        return Ragged(self.values, self.offsets[start : max(stop, start) + 1])

    def row(self, number: int) -> Array:
        """The values of one row."""
        return np.asarray(self.values[self.offsets[number] : self.offsets[number + 1]])

    @property
    def nbytes(self) -> int:
        """Bytes of these rows' values and offsets."""
        if not len(self.values):
            return int(self.offsets.nbytes)
        element = self.values.nbytes // len(self.values)
        return int(self.offsets[-1] - self.offsets[0]) * element + int(self.offsets.nbytes)


Packed = Array | Ragged
"""A tensor's rows, ready to be written or sent."""


def take(packed: Packed, rows: Array) -> Packed:
    """The rows of these numbers, in that order.

    >>> take(Ragged(np.array([1, 2, 3]), np.array([0, 2, 2, 3])), np.array([2, 0])).values.tolist()
    [3, 1, 2]
    """
    if not isinstance(packed, Ragged):
        return np.asarray(packed[rows])
    starts, lengths = packed.offsets[rows], packed.offsets[rows + 1] - packed.offsets[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Ragged(packed.values[places], offsets)


def joined(pieces: Sequence[Packed]) -> Packed:
    """Pieces of one tensor, one after the other.

    >>> joined([np.array([1]), np.array([2])]).tolist()
    [1, 2]
    """
    ragged = [piece for piece in pieces if isinstance(piece, Ragged)]
    if not ragged:
        return np.concatenate([piece for piece in pieces if not isinstance(piece, Ragged)])
    values = [piece.values[piece.offsets[0] : piece.offsets[-1]] for piece in ragged]
    return Ragged(np.concatenate(values), joined_offsets(ragged))


def joined_offsets(pieces: Sequence[Ragged]) -> Array:
    """The offsets of pieces one after the other, from 0."""
    lengths = [np.diff(piece.offsets) for piece in pieces]
    return np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
