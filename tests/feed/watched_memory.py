"""The memory that tensors lie in, found by tensor or by address, noticed when freed, and copied; for `host_calls`.

Addresses come again and again, so memory is known by its storage, which is watched and not held.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import partial
from typing import Any, NamedTuple

from stream_order import Clock, Memory, StreamOrder


class Late(NamedTuple):
    """A copy that was asked for, as which count of its stream."""

    stream: int
    count: int
    target: Memory
    to: int
    source: Memory
    start: int
    size: int

    def is_over(self, clock: Clock) -> bool:
        return self.count <= clock.get(self.stream, 0)

    def source_bytes(self) -> bytes:
        return ctypes.string_at(self.source.address + self.start, self.size)

    def copy(self) -> None:
        if not (self.target.freed or self.source.freed):
            ctypes.memmove(self.target.address + self.to, self.source.address + self.start, self.size)


class WatchedMemory:
    """All that is in use, as far as anybody asked for it."""

    def __init__(self, order: StreamOrder) -> None:
        self._order = order
        self._known: dict[int, tuple[Any, Memory]] = {}
        self._pinned: dict[int, Memory] = {}

    def of(self, tensor: Any, home: int) -> Memory:
        """Memory of the device; new one belongs to this stream."""
        return self._of(tensor, "device", home)

    def pin(self, tensor: Any) -> None:
        """New memory, which is pinned."""
        memory = self._of(tensor, "pinned", None)
        self._pinned[memory.address] = memory

    def pinned(self, address: int) -> Memory | None:
        """Pinned memory that has this address in it."""
        return _around(address, list(self._pinned.values()))

    def at(self, address: int) -> Memory | None:
        """The memory that has this address in it."""
        with self._order.lock:
            known = [memory for _, memory in self._known.values()]
        return _around(address, known)

    def _of(self, tensor: Any, kind: str, home: int | None) -> Memory:
        storage = tensor.untyped_storage()
        with self._order.lock:
            found = self._known.get(storage._cdata)
            if found is None:
                memory = Memory(kind, storage.data_ptr(), storage.nbytes(), home)
                watch = weakref.ref(storage, partial(self._freed, storage._cdata))
                found = self._known[storage._cdata] = watch, memory
            return found[1]

    def _freed(self, number: int, _: object) -> None:
        with self._order.lock:
            _, memory = self._known.pop(number)
            if self._pinned.get(memory.address) is memory:
                del self._pinned[memory.address]
            self._order.free(memory)


def _around(address: int, known: list[Memory]) -> Memory | None:
    return next((each for each in known if 0 <= address - each.address < each.size), None)
