"""Rows collected to batches of exactly one size, across Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.dtypes import Array
from penstock.scoring.calls import Runner
from penstock.wire.plan import Plan


class Batches:
    """Rows collected to batches of exactly one size, each in memory that the model's runner gives."""

    def __init__(self, plan: Plan, size: int, runner: Runner) -> None:
        self._dtypes = [tensor.dtype for tensor in plan.tensors]
        self._size, self._runner = size, runner
        self._filling: list[Array] = []
        self._filled = 0

    def add(self, arrays: Sequence[Array]) -> Iterator[list[Array]]:
        """Take rows in; the batches that are full now."""
        rows, taken = len(arrays[0]), 0
        while taken < rows:
            if not self._filling:
                self._filling = [
                    self._runner.memory((self._size, *array.shape[1:]), dtype)
                    for array, dtype in zip(arrays, self._dtypes, strict=True)
                ]
            count = min(rows - taken, self._size - self._filled)
            for target, array in zip(self._filling, arrays, strict=True):
                target[self._filled : self._filled + count] = array[taken : taken + count]
            taken += count
            self._filled += count
            if self._filled == self._size:
                yield self._take()

    def rest(self) -> Iterator[list[Array]]:
        """The last batch, which may be smaller."""
        if self._filled:
            yield self._take()

    def _take(self) -> list[Array]:
        whole = [array[: self._filled] for array in self._filling]
        self._filling, self._filled = [], 0
        return whole
