"""Copies and events of CUDA, called as cheaply as Python can: straight through the driver's own library.

Reader threads issue a copy every few hundred microseconds each. Through torch every such call gives the interpreter's
lock away and takes it back, and with several readers they then wait for each other more than they read. The driver's
calls return at once, so they are made while the lock is kept; only waiting gives it away. Where the driver's library
is not found (other vendors' builds of torch), torch does the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np

from penstock.dtypes import Array
from penstock.feed.cuda.native_reads import Functions, compiled, native_bring
from penstock.feed.cuda.pieces import Piece
from penstock.feed.memory.host_arena import as_torch

DRIVER = "libcuda.so.1"
DISABLE_TIMING = 2
CAPTURE_RELAXED = 2
"""Without it, a training that captures a graph forbids all other threads to wait for an event."""


Copy = Callable[[int, int, int], None]
"""Begins a copy: to which byte of the one tensor, from which byte of the other, how many."""


Bring = Callable[[int, Sequence[tuple[int, Piece]]], int]
"""Reads pieces of files and begins to copy them, after the buffer used last: that buffer's number then, or FAILED."""


class CudaCalls(Protocol):
    """What an arena needs of CUDA. Streams are torch's; events are whatever `event` returns."""

    def enter(self) -> None:
        """Called once by every thread before it calls anything else."""

    def stream(self) -> Any:
        """A new stream."""

    def on(self, stream: Any) -> AbstractContextManager[object]:
        """What torch is asked for meanwhile runs on the stream."""

    def current(self) -> Any:
        """The stream that torch uses in this thread now."""

    def current_number(self) -> int:
        """A number that tells it from any other; asked at every batch, so without torch's own detours."""

    def pinned(self, size: int) -> Any:
        """Bytes of pinned memory, as a tensor."""

    def copier(self, target: Any, source: Any, stream: Any) -> Copy:
        """Copies bytes of a pinned tensor to places in a tensor of bytes on the device; both stay where they are."""

    def bringer(
        self, targets: Sequence[Any], sources: Sequence[Any], events: Sequence[Any], stream: Any
    ) -> Bring | None:
        """Reads pieces of files into pinned tensors by turns, and copies them; None where Python has to."""

    def event(self) -> Any:
        """A new event."""

    def record(self, event: Any, stream: Any) -> None:
        """The event happens when all that was asked of the stream is done."""

    def wait(self, stream: Any, event: Any) -> None:
        """What is asked of the stream from now on begins after the event."""

    def synchronize(self, event: Any) -> None:
        """Return when the event has happened; at once where it was never recorded."""

    def settle(self) -> None:
        """Return when all that was asked of the device is done."""

    def sent(self, array: Array, dtype: str) -> Any:
        """An array as a tensor on the device, by the current stream; whoever gave it may drop it at once."""

    def uses(self, stream: Any, tensor: Any) -> None:
        """Tell the allocator that the stream uses the tensor's memory, which is another one's."""


class TorchCalls:
    """By torch alone."""

    def __init__(self, device: Any) -> None:
        import torch

        self._torch, self._device = torch, device
        self.current_number = _current_number(torch, device)

    def enter(self) -> None:
        """Make the device this thread's own."""
        self._torch.cuda.set_device(self._device)

    def stream(self) -> Any:
        """One of torch's."""
        return self._torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]

    def on(self, stream: Any) -> AbstractContextManager[object]:
        """torch's own."""
        found: AbstractContextManager[object] = self._torch.cuda.stream(stream)
        return found

    def current(self) -> Any:
        """torch's own."""
        return self._torch.cuda.current_stream(self._device)

    def pinned(self, size: int) -> Any:
        """Out of torch's pool."""
        return self._torch.empty(max(size, 1), dtype=self._torch.uint8, pin_memory=True)

    def settle(self) -> None:
        """The host waits."""
        self._torch.cuda.synchronize(self._device)

    def sent(self, array: Array, dtype: str) -> Any:
        """Out of torch's pool, which keeps what is dropped until the copy is over."""
        tensor = as_torch(array, dtype)
        if not tensor.is_pinned():
            pinned = self.pinned(array.nbytes)[: array.nbytes].numpy().view(array.dtype)
            np.copyto(pinned.reshape(array.shape), array)
            tensor = as_torch(pinned.reshape(array.shape), dtype)
        return tensor.to(self._device, non_blocking=True)

    def uses(self, stream: Any, tensor: Any) -> None:
        """What a transform returned may be in host memory, too."""
        if tensor.is_cuda:
            tensor.record_stream(stream)

    def copier(self, target: Any, source: Any, stream: Any) -> Copy:
        """By slices."""

        def copy(at: int, start: int, size: int) -> None:
            with self._torch.cuda.stream(stream):
                target[at : at + size].copy_(source[start : start + size], non_blocking=True)

        return copy

    def bringer(
        self, targets: Sequence[Any], sources: Sequence[Any], events: Sequence[Any], stream: Any
    ) -> Bring | None:
        """Events of torch are no handles."""
        return None

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


class DriverCalls(TorchCalls):
    """By the driver, as far as readers call it again and again."""

    def __init__(self, device: Any, library: str = DRIVER) -> None:
        super().__init__(device)
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
        self._exchange_mode = self._quick.cuThreadExchangeStreamCaptureMode
        self._exchange_mode.argtypes = [ctypes.POINTER(ctypes.c_int)]
        self._push = self._quick.cuCtxPushCurrent_v2
        self._push.argtypes = [pointer]
        self._pop = self._quick.cuCtxPopCurrent_v2
        self._pop.argtypes = [ctypes.POINTER(pointer)]
        self._synchronize = self._waiting.cuEventSynchronize
        self._synchronize.argtypes = [pointer]
        self._context = pointer()
        _check("cuCtxGetCurrent", self._quick.cuCtxGetCurrent(ctypes.byref(self._context)))
        if not self._context:
            raise OSError("the driver has no context in this thread")

    def enter(self) -> None:
        """Use the context of the thread that made this, also while another thread captures a graph."""
        _check("cuCtxSetCurrent", self._enter(self._context))
        mode = ctypes.c_int(CAPTURE_RELAXED)
        _check("cuThreadExchangeStreamCaptureMode", self._exchange_mode(ctypes.byref(mode)))

    def copier(self, target: Any, source: Any, stream: Any) -> Copy:
        """By addresses, which are asked for once."""
        to, out_of, handle, begin = target.data_ptr(), source.data_ptr(), stream.cuda_stream, self._copy

        def copy(at: int, start: int, size: int) -> None:
            code = begin(to + at, out_of + start, size, handle)
            if code:
                _check("cuMemcpyHtoDAsync", code)

        return copy

    def bringer(
        self, targets: Sequence[Any], sources: Sequence[Any], events: Sequence[Any], stream: Any
    ) -> Bring | None:
        """One call for all pieces, in which nobody has the interpreter's lock."""
        functions = Functions(
            *map(_address, (ctypes.CDLL(None).pread, self._synchronize, self._copy, self._record))
        )
        loop = compiled(functions)
        if loop is None:
            return None
        return native_bring(
            loop,
            [target.data_ptr() for target in targets],
            [source.data_ptr() for source in sources],
            [event.handle.value for event in events],
            stream.cuda_stream,
        )

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """This device, whichever is the thread's own, and whether or not it has one."""
        _check("cuCtxPushCurrent", self._push(self._context))
        try:
            yield
        finally:
            self._pop(ctypes.byref(ctypes.c_void_p()))

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        """torch's own, and the driver's calls are meant for its device."""
        with super().on(stream), self._on_device():
            yield

    def event(self) -> Any:
        """A handle that frees itself."""
        with self._on_device():
            return _Event(self._create, self._destroy)

    def record(self, event: Any, stream: Any) -> None:
        """On the stream."""
        _check("cuEventRecord", self._record(event.handle, stream.cuda_stream))

    def wait(self, stream: Any, event: Any) -> None:
        """The stream waits, not the host. Every device has a stream 0, torch's usual one."""
        with self._on_device():
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


def _address(function: Any) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


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
        # The driver's calls are made in the context of the device that is current.
        with torch.cuda.device(device):
            return DriverCalls(device)
    except (OSError, AttributeError, RuntimeError):
        return TorchCalls(device)


def _current_number(torch: Any, device: Any) -> Callable[[], int]:
    number = torch.cuda.current_device() if device.index is None else device.index
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is None:
        return lambda: int(torch.cuda.current_stream(device).cuda_stream)
    return lambda: int(raw(number))
