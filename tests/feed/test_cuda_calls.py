"""Calls of the driver are made in the context of the loader's device, whichever the thread that calls has, if any."""

from __future__ import annotations

import ctypes
import math
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from penstock.dtypes import DTYPES
from penstock.feed.cuda.calls import DriverCalls, TorchCalls
from penstock.feed.memory.host_arena import as_torch

OURS, USUAL = 7, 0
"""The context of the loader's device, and the number of torch's usual stream, which every device has."""


class Driver:
    """Keeps the contexts of a thread as the driver does, and notes in which one it was called."""

    def __init__(self) -> None:
        self.contexts: list[int] = []
        self.called: list[tuple[str, int | None, int]] = []

    def push(self, context: ctypes.c_void_p) -> int:
        self.contexts.append(context.value or 0)
        return 0

    def pop(self, context: object) -> int:
        self.contexts.pop()
        return 0

    def wait(self, stream: int, event: object, flags: int) -> int:
        return self._note("wait", stream)

    def record(self, event: object, stream: int) -> int:
        return self._note("record", stream)

    def _note(self, name: str, stream: int) -> int:
        self.called.append((name, self.contexts[-1] if self.contexts else None, stream))
        return 0


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def calls(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> DriverCalls:
    found = object.__new__(DriverCalls)
    found._context = ctypes.c_void_p(OURS)
    found._push, found._pop, found._wait, found._record = driver.push, driver.pop, driver.wait, driver.record
    monkeypatch.setattr(TorchCalls, "on", lambda self, stream: nullcontext())
    return found


@pytest.mark.parametrize("there", [[], [3]])
def test_a_stream_waits_on_the_device_of_the_loader(
    calls: DriverCalls, driver: Driver, there: list[int]
) -> None:
    driver.contexts = list(there)
    calls.wait(SimpleNamespace(cuda_stream=USUAL), SimpleNamespace(handle=None))
    assert driver.called == [("wait", OURS, USUAL)]
    assert driver.contexts == there


@pytest.mark.parametrize("there", [[], [3]])
def test_what_is_asked_of_a_stream_is_asked_of_its_device(
    calls: DriverCalls, driver: Driver, there: list[int]
) -> None:
    driver.contexts = list(there)
    with calls.on(SimpleNamespace(cuda_stream=5)):
        calls.record(SimpleNamespace(handle=None), SimpleNamespace(cuda_stream=5))
    assert driver.called == [("record", OURS, 5)]
    assert driver.contexts == there


@pytest.fixture
def torch_calls(monkeypatch: pytest.MonkeyPatch) -> TorchCalls:
    """To a device that is host memory, and with nothing pinned."""
    found = object.__new__(TorchCalls)
    found._torch, found._device = torch, torch.device("cpu")
    monkeypatch.setattr(found, "pinned", lambda size: torch.zeros(max(size, 1), dtype=torch.uint8))
    return found


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (1,), (0,), (0, 3), (2, 0)])
def test_what_is_sent_is_what_was_given(torch_calls: TorchCalls, dtype: str, shape: tuple[int, ...]) -> None:
    given = (np.arange(math.prod(shape)).reshape(shape) % 2).astype(DTYPES[dtype].storage)
    sent = torch_calls.sent(given, dtype)
    assert sent.dtype == getattr(torch, dtype)
    assert sent.shape == shape
    assert torch.equal(sent, as_torch(given.copy(), dtype))
    assert not sent.numel() or sent.data_ptr() != given.ctypes.data


def test_pinned_memory_is_sent_as_it_is(torch_calls: TorchCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.arange(5)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: True)
    assert torch_calls.sent(given, "int64").data_ptr() == given.ctypes.data


@pytest.mark.parametrize("there", [True, False])
def test_the_allocator_is_told_of_memory_on_the_device_alone(torch_calls: TorchCalls, there: bool) -> None:
    told: list[object] = []
    torch_calls.uses("stream", SimpleNamespace(is_cuda=there, record_stream=told.append))
    assert told == (["stream"] if there else [])
