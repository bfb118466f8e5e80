"""Memory that grows without being copied, and becomes an array when it is full.

How many rows come is known only when the last has arrived. Growing an anonymous memory map moves page tables, not
bytes, so a tensor is filled in place while it grows and never held twice.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from penstock.dtypes import Array

FIRST_BYTES = 1 << 22


class Arena:
    """An append-only stretch of memory.

    `expected`: its size where that is known beforehand; else it starts large and doubles.

    >>> arena = Arena()
    >>> arena.append(b"abcd")
    >>> arena.array(np.dtype("uint8"), (4,)).tobytes()
    b'abcd'
    """

    def __init__(self, expected: int | None = None) -> None:
        self._map: mmap.mmap | None = None
        self._expected = expected
        self.used = 0

    @contextmanager
    def tail(self, count: int) -> Iterator[memoryview]:
        """The next `count` bytes, to be written by the caller; they count once the block ends without error."""
        memory = self._reserve(self.used + count)
        # Both views must be gone before the map can grow again.
        with memoryview(memory) as whole, whole[self.used : self.used + count] as view:
            yield view
        self.used += count

    def append(self, data: bytes | memoryview) -> None:
        """Copy bytes to the end."""
        with self.tail(len(data)) as view:
            view[:] = data

    def pour_into(self, other: Arena) -> None:
        """Copy all bytes to the end of another arena; this one is empty afterwards, and keeps its memory."""
        if self._map is not None and self.used:
            with memoryview(self._map) as whole, whole[: self.used] as view:
                other.append(view)
        self.used = 0

    @property
    def capacity(self) -> int:
        """Bytes it holds memory for."""
        return 0 if self._map is None else len(self._map)

    def rewind(self, used: int) -> None:
        """Forget what came after the first `used` bytes."""
        self.used = used

    def array(self, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Array:
        """All bytes as one array that owns the memory; the arena is empty afterwards."""
        memory, used = self._map, self.used
        self._map, self.used = None, 0
        if memory is None or used == 0:
            return np.empty(shape, dtype)
        _resize(memory, used)
        return np.frombuffer(memory, dtype, count=used // dtype.itemsize).reshape(shape)

    def _reserve(self, wanted: int) -> mmap.mmap:
        if self._map is None:
            self._map = _new_map(max(wanted, FIRST_BYTES if self._expected is None else self._expected, 1))
        elif len(self._map) < wanted:
            size = max(wanted, len(self._map) * 2)
            if not _resize(self._map, size):
                grown = _new_map(size)
                grown[: self.used] = self._map[: self.used]
                self._map = grown
        return self._map


class Spares:
    """Emptied arenas kept for the next frames: fresh pages cost more than copying into old ones.

    >>> spares = Spares()
    >>> arena = spares.take(100)
    >>> arena.append(b"x" * 100)
    >>> arena.rewind(0)
    >>> spares.give(arena, allowed=1000)
    >>> spares.take(90) is arena
    True
    """

    def __init__(self) -> None:
        self._arenas: list[Arena] = []
        self._bytes = 0

    def take(self, size: int) -> Arena:
        """An empty arena for so many bytes, used before if one fits and is not mostly waste."""
        for place, arena in enumerate(self._arenas):
            if size <= arena.capacity <= 2 * size:
                self._bytes -= arena.capacity
                return self._arenas.pop(place)
        return Arena(size)

    def give(self, arena: Arena, allowed: int) -> None:
        """Keep an emptied arena unless the spares then held more than `allowed` bytes."""
        if self._bytes + arena.capacity <= allowed:
            self._arenas.append(arena)
            self._bytes += arena.capacity


def _new_map(size: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    # Huge pages are not asked for: where a virtual machine's host takes freed memory back, they are the pages it has
    # taken, and each costs milliseconds to get again (one trial was 15 % slower with them).
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _resize(memory: mmap.mmap, size: int) -> bool:
    """Grow or cut in place; False where the platform cannot (no mremap)."""
    try:
        memory.resize(size)
    except (SystemError, ValueError, OSError):
        return False
    return True
