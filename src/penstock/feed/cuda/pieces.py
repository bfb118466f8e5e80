"""What a reader reads at a time on its way to a GPU: pieces of a file that fit its pinned memory.

A run of rows of a block lies in a file as one segment for each tensor. Segments beside each other are read together,
since every read and every copy has a price of its own, whatever its size. Pure functions; `arena` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

GAP = 4096
"""Bytes between segments that are read along; the padding of buffers is less."""


class Segment(NamedTuple):
    """Bytes of a tensor in a file."""

    offset: int
    size: int
    target: int
    """Where they go: a byte of the tensor on the device."""


class Copy(NamedTuple):
    """A part of a piece, and where it goes."""

    tensor: int
    target: int
    start: int
    """Its first byte in the piece."""
    size: int


class Piece(NamedTuple):
    """Bytes of a file that are read at once."""

    offset: int
    size: int
    copies: list[Copy]


def pieces(segments: Sequence[Segment], most: int) -> Iterator[Piece]:
    """The segments, one of each tensor, in pieces of at most so many bytes and about the same size.

    >>> for piece in pieces([Segment(0, 6, 100), Segment(8, 4, 200)], most=8):
    ...     print(piece.offset, piece.size, [tuple(copy) for copy in piece.copies])
    0 6 [(0, 100, 0, 6)]
    6 6 [(1, 200, 2, 4)]
    """
    turn = sorted(range(len(segments)), key=segments.__getitem__) if len(segments) > 1 else [0]
    group: list[int] = []
    end = 0
    for number in turn:
        segment = segments[number]
        if not segment.size:
            continue
        if group and segment.offset - end > GAP:
            yield from _cut(segments, group, end, most)
            group = []
        # The one that begins last need not be the one that ends last.
        end = max(end, segment.offset + segment.size) if group else segment.offset + segment.size
        group.append(number)
    if group:
        yield from _cut(segments, group, end, most)


def _cut(segments: Sequence[Segment], group: list[int], end: int, most: int) -> Iterator[Piece]:
    """Segments beside each other, as one stretch of the file."""
    first = segments[group[0]].offset
    size = end - first
    each = -(-size // -(-size // most))
    for start in range(first, first + size, each):
        stop = min(start + each, first + size)
        copies = []
        for number in group:
            offset, length, target = segments[number]
            low, high = max(offset, start), min(offset + length, stop)
            if low < high:
                copies.append(Copy(number, target + low - offset, low - start, high - low))
        if copies:
            yield Piece(start, stop - start, copies)
