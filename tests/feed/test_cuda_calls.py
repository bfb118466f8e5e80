"""Calls of the driver are made in the context of the loader's device, whichever the thread that calls has, if any."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from penstock.feed.cuda.calls import DriverCalls, TorchCalls

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
