"""Small tables to a GPU, one at every gather: through pinned memory that takes turns, to one place on the device.

torch would pin memory for each anew, which costs more than the copy. What was sent before is overwritten on the
device in the order of the stream: after whatever was asked of the stream with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.dtypes import Array
from penstock.feed.cuda.calls import Copy, CudaCalls

TURNS = 4
"""Tables that may be on their way."""


class Sends:
    """Sends arrays of 64-bit integers on a stream."""

    def __init__(self, calls: CudaCalls, stream: Any, device: Any) -> None:
        self._calls, self._stream, self._device = calls, stream, device
        self._events = [calls.event() for _ in range(TURNS)]
        self._turn = self._room = 0
        self._pinned: list[Array] = []
        self._copies: list[Copy] = []
        self._placed: Any = None

    def __call__(self, array: Array) -> Any:
        """The array on the device, until the next is sent."""
        if not self._room or array.size > self._room:
            self._grow(max(array.size, 1))
        self._turn = turn = (self._turn + 1) % TURNS
        self._calls.synchronize(self._events[turn])
        np.copyto(self._pinned[turn][: array.size].reshape(array.shape), array)
        if array.size:
            self._copies[turn](0, 0, array.nbytes)
        self._calls.record(self._events[turn], self._stream)
        return self._placed[: array.size].view(array.shape)

    def close(self) -> None:
        """Let go of the memory; nothing is under way."""
        self._room = 0
        self._pinned, self._copies, self._placed = [], [], None

    def _grow(self, size: int) -> None:
        import torch

        for event in self._events:
            self._calls.synchronize(event)
        self._room = 2 * size
        pinned = [self._calls.pinned(8 * self._room) for _ in range(TURNS)]
        self._pinned = [each.numpy().view(np.int64) for each in pinned]
        # On the stream that uses it, so that torch gives the old one to nobody else before that is done.
        with self._calls.on(self._stream):
            self._placed = torch.empty(self._room, dtype=torch.int64, device=self._device)
        placed = self._placed.view(torch.uint8)
        self._copies = [self._calls.copier(placed, each, self._stream) for each in pinned]
