"""Finds accesses to memory that nothing puts in order, though they may happen at once on a GPU.

Works as `torch.cuda._sanitizer` does there. Every stream counts what is asked of it. A clock says of every stream up to
which count it is known to be done: one is kept for what comes next on each stream, one for each event, and one for each
thread of the host, which learns that something is done only by waiting for it. An access is in order with those before
it where its clock covers them. Threads are taken to ask one after the other, as they happened to.

`host_calls` asks; which bytes torch's operations touch is told by `stream_operations`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

Clock = dict[int, int]
TOLD = 20
"""So many races are written down; one forgotten call makes thousands."""


class Where(NamedTuple):
    """Bytes of a piece of memory; where rows are given, only those, which are so wide."""

    start: int
    stop: int
    rows: Any = None
    width: int = 0

    def of(self, each_byte: Any) -> Any:
        """A view of what is noted for them, or with `rows` a copy."""
        found = each_byte[self.start : self.stop]
        return found if self.rows is None else found.reshape(-1, self.width)[self.rows]

    def set(self, each_byte: Any, value: int) -> None:
        found = each_byte[self.start : self.stop]
        if self.rows is None:
            found[:] = value
        else:
            found.reshape(-1, self.width)[self.rows] = value


class Memory:
    """One allocation: when each stream read and wrote each byte last."""

    def __init__(self, kind: str, address: int, size: int, home: int | None) -> None:
        """`home`: the stream it was allocated on, which gets it again when it is freed; None for pinned memory."""
        self.kind, self.address, self.size, self.home = kind, address, size, home
        self.users: set[int] = set()
        """Streams that the allocator was told of: it waits for them before it gives the memory to anybody."""
        self.freed = False
        self._reads: dict[int, Any] = {}
        self._writes: dict[int, Any] = {}
        self._again: dict[int, Any] = {}
        """Writes of the bytes that are there anyway."""
        self._asked: dict[int, str] = {}
        self._meant: Any = None

    def note(
        self, stream: int, count: int, where: Where, write: bool, what: str, again: bool = False
    ) -> None:
        """An access, as the stream counts."""
        kept = self._reads if not write else self._again if again else self._writes
        if stream not in kept:
            kept[stream] = np.zeros(self.size, np.int32)
        where.set(kept[stream], count)
        self._asked[id(kept[stream])] = f"{what} {'writes' if write else 'reads'}, on stream {stream}"
        if write and not again:
            for other in self._again.values():
                where.set(other, 0)

    def unordered(self, where: Where, write: bool, clock: Clock) -> Iterator[tuple[int, str]]:
        """What an access with this clock may happen before: of which streams, and in words."""
        for kept in (self._writes, self._reads, self._again) if write else (self._writes,):
            for stream, last in list(kept.items()):
                late = where.of(last) > clock.get(stream, 0)
                # Who reads may come after either of two writes of the same bytes.
                for other, again in [] if write else list(self._again.items()):
                    found = where.of(again)
                    late &= (found == 0) | (found > clock.get(other, 0))
                if late.any():
                    yield stream, self._asked[id(last)]

    def means(self, where: Where, found: Any) -> bool:
        """Once all is done, these bytes are there; whether they would be anyway."""
        if self._meant is None:
            self._meant = np.full(self.size, -1, np.int16)
        same = bool((self._meant[where.start : where.stop] == found).all())
        self._meant[where.start : where.stop] = found
        return same

    def __str__(self) -> str:
        return f"{self.kind} memory of {self.size} bytes"


class Event:
    """An event."""

    def __init__(self) -> None:
        self.clock: Clock = {}
        """Of the stream when it was recorded last."""


class StreamOrder:
    """What streams, events and threads know of each other, and the races that were found."""

    def __init__(self, one_host: bool = False) -> None:
        """`one_host`: what one thread knows all know, where they tell each other."""
        self.lock = threading.RLock()
        self.races: list[str] = []
        self._streams: list[Clock] = []
        self._threads: dict[int, Clock] = {}
        self._one_host = one_host

    def stream(self) -> int:
        with self.lock:
            self._streams.append({})
            return len(self._streams) - 1

    def thread(self) -> Clock:
        """What this thread knows to be done."""
        return self._threads.setdefault(0 if self._one_host else threading.get_ident(), {})

    def new_thread(self) -> None:
        """It began after all that the others know."""
        with self.lock:
            known: Clock = {}
            for clock in self._threads.values():
                _join(known, clock)
            self._threads[0 if self._one_host else threading.get_ident()] = known

    def ask(self, stream: int) -> Clock:
        """One thing more is asked of a stream: it comes after what the stream knows, and this thread."""
        clock = self._streams[stream]
        _join(clock, self.thread())
        clock[stream] = clock.get(stream, 0) + 1
        return dict(clock)

    def record(self, event: Event, stream: int) -> None:
        with self.lock:
            event.clock = self.ask(stream)

    def wait(self, stream: int, event: Event) -> None:
        with self.lock:
            _join(self._streams[stream], event.clock)

    def synchronize(self, event: Event) -> Clock:
        """What this thread knows then."""
        with self.lock:
            _join(self.thread(), event.clock)
            return dict(self.thread())

    def settle(self) -> Clock:
        """What this thread knows then, which is all."""
        with self.lock:
            for clock in self._streams:
                _join(self.thread(), clock)
            return dict(self.thread())

    def again(self, memory: Memory, where: Where, stream: int, clock: Clock, what: str) -> None:
        """A write of bytes that are there, or will be: whether it comes before or after makes no difference."""
        memory.note(stream, clock[stream], where, True, what, again=True)

    def access(self, memory: Memory, where: Where, write: bool, stream: int, clock: Clock, what: str) -> None:
        """By what was asked of a stream when it had this clock."""
        for _, other in memory.unordered(where, write, clock):
            self.race(f"{what} {'writes' if write else 'reads'} {memory} on stream {stream}, and {other}")
        memory.note(stream, clock[stream], where, write, what)

    def host_writes(self, memory: Memory, where: Where) -> None:
        """By this thread, at once."""
        for _, other in memory.unordered(where, True, self.thread()):
            self.race(f"the host writes {memory}, and {other}")

    def free(self, memory: Memory) -> None:
        """Somebody else may have it now: what comes next on its stream, or for pinned memory the host."""
        with self.lock:
            memory.freed = True
            clock = dict(self.thread())
            if memory.home is not None:
                _join(clock, self._streams[memory.home])
            for stream, other in memory.unordered(Where(0, memory.size), True, clock):
                if stream not in memory.users:
                    self.race(f"{memory} is given out again, and {other}")

    def race(self, what: str) -> None:
        if len(self.races) < TOLD and what not in self.races:
            self.races.append(what)


def _join(clock: Clock, other: Clock) -> None:
    for stream, count in other.items():
        if clock.get(stream, 0) < count:
            clock[stream] = count
