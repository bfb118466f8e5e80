"""Quantiles of a stream of numbers in bounded memory: exact while few, then within a stated rank error.

Sorted runs of equal length stand for ever more rows each: two that stand for the same number become one that takes
every second element of both (Munro and Paterson's scheme). Each such step moves a rank by at most half of what a run's
element stands for, so that n rows are off by at most levels / (2 * LENGTH) of n: one in ten thousand at a billion rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.dtypes import Array

LENGTH = 1 << 17
"""Of a run; up to so many numbers quantiles are exact."""


class QuantileSketch:
    """Takes numbers in, and says which lie at given shares of them.

    >>> sketch = QuantileSketch()
    >>> sketch.add(np.arange(1, 101.0))
    >>> sketch.at([0.0, 0.5, 0.99, 1.0])
    (1.0, 50.0, 99.0, 100.0)
    """

    def __init__(self, length: int = LENGTH) -> None:
        self._length = length
        self._loose: list[Array] = []
        self._levels: list[Array | None] = []
        """At place k a sorted run whose elements stand for 2**k rows each, or none."""
        self.count = 0

    def add(self, numbers: Array) -> None:
        """More numbers; no nan among them."""
        self.count += len(numbers)
        self._loose.append(numbers)
        if sum(map(len, self._loose)) < self._length:
            return
        everything = np.concatenate(self._loose)
        whole = len(everything) // self._length * self._length
        for start in range(0, whole, self._length):
            self._carry(np.sort(everything[start : start + self._length]))
        self._loose = [everything[whole:]]

    def _carry(self, run: Array) -> None:
        level = 0
        while level < len(self._levels) and (other := self._levels[level]) is not None:
            self._levels[level] = None
            both = np.sort(np.concatenate([other, run]), kind="stable")
            # From the first or from the second in turn, so that errors do not add up on one side.
            run = both[level % 2 :: 2]
            level += 1
        self._levels += [None] * (level + 1 - len(self._levels))
        self._levels[level] = run

    def at(self, shares: Sequence[float]) -> tuple[float, ...]:
        """For each share the least number that at least so large a part of all is not above; () without any."""
        if not self.count:
            return ()
        runs = [(np.concatenate(self._loose), 1)] if self._loose else []
        runs += [(run, 1 << level) for level, run in enumerate(self._levels) if run is not None]
        numbers = np.concatenate([run for run, _ in runs])
        weights = np.concatenate([np.full(len(run), weight) for run, weight in runs])
        order = np.argsort(numbers, kind="stable")
        ranks = np.cumsum(weights[order])
        wanted = [min(max(math.ceil(share * self.count), 1), self.count) for share in shares]
        places = np.minimum(np.searchsorted(ranks, wanted), len(numbers) - 1)
        return tuple(numbers[order][places].tolist())
