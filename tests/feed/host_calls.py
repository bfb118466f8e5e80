"""What `penstock.feed.cuda.calls` does, in host memory and at once: the GPU's arena then runs where there is no GPU."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

CPU = torch.device("cpu")


class HostCalls:
    """Every call is done when it returns. Counts what is under way, so that tests can tell what was forgotten."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.copied = 0

    def enter(self) -> None:
        self.threads.add(threading.get_ident())

    def stream(self) -> Any:
        return object()

    def on(self, stream: Any) -> AbstractContextManager[object]:
        return nullcontext()

    def current(self) -> Any:
        return self

    def current_number(self) -> int:
        return 0

    def pinned(self, size: int) -> Any:
        return torch.zeros(max(size, 1), dtype=torch.uint8)

    def copier(self, target: Any, source: Any, stream: Any) -> Any:
        to, out_of = target.numpy(), source.numpy()

        def copy(at: int, start: int, size: int) -> None:
            to[at : at + size] = out_of[start : start + size]
            self.copied += size

        return copy

    def bringer(self, targets: Any, sources: Any, events: Any, stream: Any) -> Any:
        return None

    def event(self) -> Any:
        return object()

    def record(self, event: Any, stream: Any) -> None:
        pass

    def wait(self, stream: Any, event: Any) -> None:
        pass

    def synchronize(self, event: Any) -> None:
        pass

    def settle(self) -> None:
        pass
