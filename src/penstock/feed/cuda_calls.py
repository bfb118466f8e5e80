"""Copies and events of CUDA, called as cheaply as Python can: straight through the driver's own library.

Reader threads issue a copy every few hundred microseconds each. Through torch every such call gives the interpreter's
lock away and takes it back, and with several readers they then wait for each other more than they read. The driver's
calls return at once, so they are made while the lock is kept; only waiting gives it away. Where the driver's library
is not found (other vendors' builds of torch), torch does the same.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

DRIVER = "libcuda.so.1"
DISABLE_TIMING = 2


class CudaCalls(Protocol):
    """What readers need of CUDA. Streams are torch's; events are whatever `event` returns."""

    def enter(self) -> None:
        """Called once by every thread before it calls anything else."""

    def copy(self, target: Any, at: int, source: Any, start: int, size: int, stream: Any) -> None:
        """Begin to copy bytes of a pinned tensor to a place in a tensor on the device."""

    def event(self) -> Any:
        """A new event."""

    def record(self, event: Any, stream: Any) -> None:
        """The event happens when all that was asked of the stream is done."""

    def wait(self, stream: Any, event: Any) -> None:
        """What is asked of the stream from now on begins after the event."""

    def synchronize(self, event: Any) -> None:
        """Return when the event has happened; at once where it was never recorded."""


class TorchCalls:
    """By torch alone."""

    def __init__(self, device: Any) -> None:
        import torch

        self._torch, self._device = torch, device

    def enter(self) -> None:
        """Make the device this thread's own."""
        self._torch.cuda.set_device(self._device)

    def copy(self, target: Any, at: int, source: Any, start: int, size: int, stream: Any) -> None:
        """On the stream."""
        with self._torch.cuda.stream(stream):
            target[at : at + size].copy_(source[start : start + size], non_blocking=True)

    def event(self) -> Any:
        """One of torch's."""
        return self._torch.cuda.Event()  # type: ignore[no-untyped-call]

    def record(self, event: Any, stream: Any) -> None:
        """On the stream."""
        event.record(stream)

    def wait(self, stream: Any, event: Any) -> None:
        """The stream waits, not the host."""
        stream.wait_event(event)

    def synchronize(self, event: Any) -> None:
        """The host waits."""
        event.synchronize()


class DriverCalls:
    """By the driver."""

    def __init__(self, library: str = DRIVER) -> None:
        self._quick, self._waiting = ctypes.PyDLL(library), ctypes.CDLL(library)
        pointer, number = ctypes.c_void_p, ctypes.c_uint
        self._copy = self._quick.cuMemcpyHtoDAsync_v2
        self._copy.argtypes = [ctypes.c_uint64, pointer, ctypes.c_size_t, pointer]
        self._record = self._quick.cuEventRecord
        self._record.argtypes = [pointer, pointer]
        self._wait = self._quick.cuStreamWaitEvent
        self._wait.argtypes = [pointer, pointer, number]
        self._query = self._quick.cuEventQuery
        self._query.argtypes = [pointer]
        self._create = self._quick.cuEventCreate
        self._create.argtypes = [ctypes.POINTER(pointer), number]
        self._destroy = self._quick.cuEventDestroy_v2
        self._destroy.argtypes = [pointer]
        self._enter = self._quick.cuCtxSetCurrent
        self._enter.argtypes = [pointer]
        self._synchronize = self._waiting.cuEventSynchronize
        self._synchronize.argtypes = [pointer]
        self._context = pointer()
        _check("cuCtxGetCurrent", self._quick.cuCtxGetCurrent(ctypes.byref(self._context)))
        if not self._context:
            raise OSError("the driver has no context in this thread")

    def enter(self) -> None:
        """Use the context of the thread that made this."""
        _check("cuCtxSetCurrent", self._enter(self._context))

    def copy(self, target: Any, at: int, source: Any, start: int, size: int, stream: Any) -> None:
        """On the stream."""
        code = self._copy(target.data_ptr() + at, source.data_ptr() + start, size, stream.cuda_stream)
        _check("cuMemcpyHtoDAsync", code)

    def event(self) -> Any:
        """A handle that frees itself."""
        return _Event(self._create, self._destroy)

    def record(self, event: Any, stream: Any) -> None:
        """On the stream."""
        _check("cuEventRecord", self._record(event.handle, stream.cuda_stream))

    def wait(self, stream: Any, event: Any) -> None:
        """The stream waits, not the host."""
        _check("cuStreamWaitEvent", self._wait(stream.cuda_stream, event.handle, 0))

    def synchronize(self, event: Any) -> None:
        """The host waits, and other threads run meanwhile."""
        if self._query(event.handle):
            _check("cuEventSynchronize", self._synchronize(event.handle))


class _Event:
    """An event of the driver."""

    def __init__(self, create: Any, destroy: Any) -> None:
        self.handle = ctypes.c_void_p()
        self._destroy = destroy
        _check("cuEventCreate", create(ctypes.byref(self.handle), DISABLE_TIMING))

    def __del__(self) -> None:
        if self.handle:
            self._destroy(self.handle)


def _check(call: str, code: int) -> None:
    if code:
        raise RuntimeError(
            f"CUDA's {call} failed with error {code}; the device is out of order or out of memory."
        )


def cuda_calls(device: Any) -> CudaCalls:
    """The cheapest calls there are here; the device has been used by this thread before."""
    import torch

    torch.cuda.synchronize(device)
    try:
        return DriverCalls()
    except (OSError, AttributeError, RuntimeError):
        return TorchCalls(device)
