"""What `penstock.feed.cuda.calls` does, in host memory: the GPU's arena then runs where there is no GPU.

Copies are done as late as they may be on a GPU, so that what does not wait for them meets what was there before. And
whatever may happen at once on a GPU, though it must not, is in `races` (`stream_order` finds it), which
`instead_of_cuda` expects to be empty at the end.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from stream_operations import Watch, extent, plain, touched, unwatched
from stream_order import Clock, Event, Memory, StreamOrder, Where
from watched_memory import Late, WatchedMemory

from penstock.feed.cuda import arena as cuda_arena
from penstock.feed.cuda import calls as cuda_calls
from penstock.feed.cuda.windows import _rows
from penstock.feed.memory.host_arena import as_torch

CPU = torch.device("cpu")


class HostCalls:
    """Streams are numbers; 0 is the one that is current where nobody said another."""

    def __init__(self, one_host: bool = False) -> None:
        self.order = StreamOrder(one_host)
        self.memory = WatchedMemory(self.order)
        self.default = self.order.stream()
        self.copied = 0
        """Bytes, by readers and of tables."""
        self.twice = False
        """Whether readers may bring the same bytes to one place, as those of a cache do at a block that lanes share."""
        self.late: list[Late] = []
        """Copies that nothing had to wait for yet."""
        self._sources: list[tuple[Late, bytes]] = []
        """Copies that the host does not know to be over, and what it wrote for them."""
        self._own = threading.local()

    @contextmanager
    def instead_of_cuda(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Loaders are served by this, and everything has to be in order."""
        monkeypatch.setattr(cuda_calls, "cuda_calls", lambda device: self)
        monkeypatch.setattr(cuda_arena, "row_kernel", self.row_kernel)
        with self.watched():
            yield
        assert self.races == []

    @property
    def races(self) -> list[str]:
        return self.order.races

    def enter(self) -> None:
        self._own.entered = True
        self.order.new_thread()

    def stream(self) -> Any:
        return self.order.stream()

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        before, entered = self.current(), getattr(self._own, "entered", False)
        self._own.stream, self._own.entered = stream, True
        try:
            with self.watched():
                yield
        finally:
            self._own.stream, self._own.entered = before, entered

    @contextmanager
    def watched(self) -> Iterator[None]:
        """What this thread asks torch for is seen, on whichever stream."""
        with ExitStack() as stack:
            if not getattr(self._own, "watched", False):
                self._own.watched = True
                stack.callback(setattr, self._own, "watched", False)
                stack.enter_context(Watch(self._run))
            yield

    def current(self) -> Any:
        return getattr(self._own, "stream", self.default)

    def current_number(self) -> int:
        return int(self.current())

    def pinned(self, size: int) -> Any:
        found = torch.from_numpy(np.zeros(max(size, 1), np.uint8))
        self.memory.pin(found)
        return found

    def copier(self, target: Any, source: Any, stream: Any) -> Any:
        """Knows addresses alone, and holds nothing."""
        of, out_of = (self.memory.of(each, self.current()) for each in (target, source))
        to, first = target.data_ptr() - of.address, source.data_ptr() - out_of.address

        def copy(at: int, start: int, size: int) -> None:
            self.copy(of, to + at, out_of, first + start, size, stream)

        return copy

    def copy(self, target: Memory, to: int, source: Memory, start: int, size: int, stream: Any) -> None:
        """What is copied was written by this thread just before."""
        self._needs_device("copy")
        with self.order.lock:
            if target.freed or source.freed:
                self.order.race("a copy is asked for of memory, or to memory, that was freed")
                return
            read, written = Where(start, start + size), Where(to, to + size)
            self.order.host_writes(source, read)
            clock = self.order.ask(stream)
            self.order.access(source, read, False, stream, clock, "a copy")
            late = Late(stream, clock[stream], target, to, source, start, size)
            sent = late.source_bytes()
            if target.means(written, np.frombuffer(sent, np.uint8)) and self.twice:
                self.order.again(target, written, stream, clock, "a copy")
            else:
                self.order.access(target, written, True, stream, clock, "a copy")
            self.late.append(late)
            self._sources.append((late, sent))
            self.copied += size

    def bringer(self, targets: Any, sources: Any, events: Any, stream: Any) -> Any:
        return None

    def event(self) -> Any:
        return Event()

    def record(self, event: Any, stream: Any) -> None:
        self._needs_device("record")
        self.order.record(event, stream)

    def wait(self, stream: Any, event: Any) -> None:
        self.order.wait(stream, event)

    def synchronize(self, event: Any) -> None:
        self._needs_device("synchronize")
        self._host_knows(self.order.synchronize(event))

    def settle(self) -> None:
        self._host_knows(self.order.settle())

    def sent(self, array: Any, dtype: str) -> Any:
        """As torch does: it keeps pinned memory whose first byte the array's is, until the copy is over."""
        memory = self.memory.pinned(array.ctypes.data)
        if memory is None and array.size:
            pinned = self.pinned(array.nbytes)[: array.nbytes].numpy().view(array.dtype)
            pinned.reshape(array.shape)[:] = array
            return self.sent(pinned.reshape(array.shape), dtype)
        if memory is not None:
            self._access(memory, Where(0, array.nbytes), False, self._asked(), "an array's way to the device")
            if memory.address == array.ctypes.data:
                memory.users.add(self.current())
        return as_torch(array, dtype).clone()

    def uses(self, stream: Any, tensor: Any) -> None:
        self.memory.of(tensor, self.current()).users.add(stream)

    def use(self, batch: Any) -> None:
        """The consumer's work, on the stream that is current: reads all of a batch."""
        with self.watched():
            for tensor in plain(batch):
                tensor.clone()

    def row_kernel(self, device: Any) -> Any:
        """As `penstock.feed.cuda.windows.row_kernel`: one operation, which knows the table's address alone."""

        def kernel(numbers: Any, *, first: int, table: int, windows: int, wide: int, **others: int) -> Any:
            clock, size, memory = self._asked(), 8 * windows * wide, self.memory.at(table)
            if memory is not None:
                where = Where(table - memory.address, table - memory.address + size)
                self._access(memory, where, False, clock, "the kernel")
            there = np.frombuffer((ctypes.c_uint8 * size).from_address(table), np.int64)
            rows, shuffled = torch.from_numpy(there.reshape(windows, wide)), bool(others["shuffled"])
            with unwatched():
                given = (others[name] for name in ("modulus", "below", "stride"))
                found = _rows(numbers + first, *given, rows, shuffled)
            for tensor, write in ((numbers, False), (found, True)):
                if tensor.numel():
                    memory = self.memory.of(tensor, self.current())
                    self._access(memory, extent(tensor), write, clock, "the kernel")
            return found

        return kernel

    def _run(self, operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """An operation of torch, on the stream that is current."""
        clock, what = self._asked(), f"torch's {operation._opname}"
        found = operation(*args, **kwargs)
        for tensor, where, write in touched(operation, args, kwargs, found):
            self._access(self.memory.of(tensor, self.current()), where, write, clock, what)
        return found

    def _access(self, memory: Memory, where: Where, write: bool, clock: Clock, what: str) -> None:
        with self.order.lock:
            self.order.access(memory, where, write, self.current(), clock, what)

    def _asked(self) -> Clock:
        """Something that is done at once is asked of the stream that is current.

        Not after a race: whoever goes on with wrong bytes may do so for ever.
        """
        assert self.races == []
        with self.order.lock:
            clock = self.order.ask(self.current())
            self._catch_up(clock)
            return clock

    def _host_knows(self, clock: Clock) -> None:
        """Until now it was to leave what is copied as it was."""
        with self.order.lock:
            self._catch_up(clock)
            sources, self._sources = self._sources, []
            for late, sent in sources:
                if not late.is_over(clock):
                    self._sources.append((late, sent))
                elif not late.source.freed and late.source_bytes() != sent:
                    self.order.race(f"the host wrote {late.source} before it knew that a copy was over")

    def _catch_up(self, clock: Clock) -> None:
        """Do the copies that are over by now, in the order in which they were asked for."""
        with self.order.lock:
            asked, self.late = self.late, []
            for late in asked:
                if late.is_over(clock):
                    late.copy()
                else:
                    self.late.append(late)

    def _needs_device(self, what: str) -> None:
        if not getattr(self._own, "entered", False):
            self.order.race(f"{what} in a thread that has no device, {threading.current_thread().name}")
