"""A shuffle that needs no more memory than it is given: rows are dealt into buckets, and each bucket is permuted
alone.

Every shard has some buckets. Of each run of as many rows as there are shards every shard gets one, in an order of the
seed's, so shards are even to one row; which of the shard's buckets it falls into is drawn freely. What does not fit
into memory waits in files. A bucket that turns out too large to permute is dealt once more. Used by `local`; Spark has
its own exchange.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType

import numpy as np

from penstock.dataset.hashing import hashed, mix
from penstock.dataset.stores.terms import telling
from penstock.dtypes import Array
from penstock.wire.ragged import Packed, Ragged, joined, take

MEMORY = 256 << 20
LARGEST_BUCKET = 128 << 20
"""Bytes that are permuted at once, by each thread, in a few copies."""


def shard_of(start: int, rows: int, shards: int, seed: int) -> Array:
    """The shard of each of so many rows from row `start` on.

    >>> sorted(shard_of(8, 4, shards=4, seed=1).tolist())
    [0, 1, 2, 3]
    """
    first, last = start // shards, -(-(start + rows) // shards)
    keys = mix(np.arange(first * shards, last * shards), hashed(seed, 1)).reshape(-1, shards)
    begin = start - first * shards
    return np.asarray(np.argsort(keys, axis=1).reshape(-1)[begin : begin + rows])


class Buckets:
    """Rows dealt into the buckets of shards; a context manager, whose files are gone when it ends."""

    def __init__(self, shards: int, each: int, seed: int, folder: str, memory: int | None = None) -> None:
        self._shards, self._each, self._seed, self._folder = shards, each, seed, folder
        self._memory = MEMORY if memory is None else memory
        count = shards * each
        self._held: list[list[list[Packed]]] = [[] for _ in range(count)]
        self._held_bytes = 0
        self._flushed = [0] * count
        """How many times a bucket was written to its file."""
        self._bytes = [0] * count
        self._tensors = 0
        self.rows = 0

    @property
    def bytes(self) -> int:
        """What all rows take."""
        return sum(self._bytes)

    def __enter__(self) -> Buckets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for bucket, times in enumerate(self._flushed):
            if times:
                with suppress(FileNotFoundError):  # never made, where that is what failed
                    os.unlink(self._file(bucket))

    def _file(self, bucket: int) -> str:
        return os.path.join(self._folder, f"bucket-{bucket}")

    def add(self, rows: int, tensors: Sequence[Packed]) -> None:
        """Deal the next rows."""
        self._tensors = len(tensors)
        owners = shard_of(self.rows, rows, self._shards, self._seed)
        if self._each > 1:
            drawn = mix(np.arange(self.rows, self.rows + rows), hashed(self._seed, 2)) % np.uint64(self._each)
            owners = owners * self._each + drawn.astype(np.int64)
        order = np.argsort(owners, kind="stable")
        ends = np.cumsum(np.bincount(owners, minlength=len(self._held)))
        grouped = [take(packed, order) for packed in tensors]
        start = 0
        for bucket, end in enumerate(ends.tolist()):
            if end > start:
                piece = [packed[start:end] for packed in grouped]
                self._held[bucket].append(piece)
                self._bytes[bucket] += sum(packed.nbytes for packed in piece)
            start = end
        self.rows += rows
        self._held_bytes += sum(packed.nbytes for packed in grouped)
        if self._held_bytes > self._memory:
            self._flush()

    def _flush(self) -> None:
        for bucket, held in enumerate(self._held):
            if not held:
                continue
            # Opened anew each time: there may be more buckets than files a process may hold open.
            self._flushed[bucket] += 1
            with telling("write", self._file(bucket)), open(self._file(bucket), "ab") as file:
                for place in range(self._tensors):
                    whole = joined([piece[place] for piece in held])
                    for array in [whole.values, whole.offsets] if isinstance(whole, Ragged) else [whole]:
                        np.save(file, array, allow_pickle=False)
            held.clear()
        self._held_bytes = 0

    def permuted(self, shard: int, like: Sequence[Packed]) -> Iterator[tuple[int, list[Packed]]]:
        """All rows of a shard, bucket by bucket in an order of the seed's; `like` tells which tensors are ragged."""
        for bucket in range(shard * self._each, (shard + 1) * self._each):
            parts = -(-self._bytes[bucket] // LARGEST_BUCKET)
            if parts > 1:
                yield from self._in_parts(bucket, parts, like)
            elif self._held[bucket] or self._flushed[bucket]:
                yield self._whole(bucket, like)

    def _whole(self, bucket: int, like: Sequence[Packed]) -> tuple[int, list[Packed]]:
        pieces = list(self._pieces(bucket, like))
        tensors = [joined([piece[place] for piece in pieces]) for place in range(self._tensors)]
        rows = len(tensors[0])
        order = np.argsort(mix(np.arange(rows), hashed(self._seed, 3, bucket)), kind="stable")
        return rows, [take(packed, order) for packed in tensors]

    def _in_parts(
        self, bucket: int, parts: int, like: Sequence[Packed]
    ) -> Iterator[tuple[int, list[Packed]]]:
        folder = self._file(bucket) + "-parts"
        os.makedirs(folder, exist_ok=True)
        seed = hashed(self._seed, 4, bucket)
        with Buckets(parts, 1, seed, folder, min(self._memory, LARGEST_BUCKET)) as dealt:
            for piece in self._pieces(bucket, like):
                dealt.add(len(piece[0]), piece)
            for part in range(parts):
                if dealt._held[part] or dealt._flushed[part]:
                    yield dealt._whole(part, like)

    def _pieces(self, bucket: int, like: Sequence[Packed]) -> Iterator[list[Packed]]:
        if self._flushed[bucket]:
            with telling("read", self._file(bucket)), open(self._file(bucket), "rb") as file:
                for _ in range(self._flushed[bucket]):
                    piece: list[Packed] = []
                    for packed in like:
                        values = np.load(file, allow_pickle=False)
                        ragged = isinstance(packed, Ragged)
                        piece.append(Ragged(values, np.load(file, allow_pickle=False)) if ragged else values)
                    yield piece
        yield from self._held[bucket]
