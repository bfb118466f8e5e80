"""The loops over single rows in host memory: a window's order, the rows that a gather takes, and the taking.

NumPy runs them (`NUMPY`), or machine code that numba makes of the same loops (`native_loops`, which also says when).
Both give the same to the bit, and let other threads run meanwhile. A GPU has kernels of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock.dtypes import Array
from penstock.feed.plan.order import permutation


@dataclass(frozen=True, eq=False)
class Blocks:
    """A tensor's rows, in blocks that lie apart. A row's number is the same for all tensors of a dataset."""

    bits: int
    """Of the row in its block; above them is the block."""
    array: Array
    """All rows, and whatever lies between blocks."""
    first_rows: Array
    """Where blocks begin in the array."""
    addresses: Array
    """Where they begin in memory."""


class RowLoops(Protocol):
    """What a host arena does row by row."""

    def permutation(self, rows: int, keys: Array) -> Array:
        """As `order.permutation`."""

    def interleaved(
        self, numbers: Array, starts: Array, lengths: Array, lanes: int, low: int, high: int
    ) -> Array:
        """Numbers of some lanes in turn: item i is number i // L of lane i % L; of those the ones from `low` to `high`.

        A lane's numbers are runs of `numbers`, lane after lane, and equally many in each lane.
        """

    def take(self, source: Array, index: Array, out: Array) -> None:
        """Rows of the source into `out`. The index is the arena's own, and names no row that is not there."""

    def take_of_blocks(self, blocks: Blocks, index: Array, out: Array) -> None:
        """Likewise rows of blocks, by their numbers."""

    def take_runs(
        self,
        sources: Sequence[Array],
        numbers: Array,
        starts: Array,
        lengths: Array,
        targets: Array,
        out: Array,
    ) -> None:
        """Runs of values into `out`: the i-th is `lengths[i]` values of source `numbers[i]`, from `starts[i]` on, and
        goes to `targets[i]` and following. All those values are there, and no two runs overlap in `out`."""


class NumpyLoops:
    """By NumPy: few calls, each over many rows."""

    def permutation(self, rows: int, keys: Array) -> Array:
        """By tables of a grid's sides."""
        return permutation(rows, keys)

    def interleaved(
        self, numbers: Array, starts: Array, lengths: Array, lanes: int, low: int, high: int
    ) -> Array:
        """Lane after lane, then turned over.

        >>> NUMPY.interleaved(np.arange(10), np.array([0, 5]), np.array([3, 3]), 2, 1, 6).tolist()
        [5, 1, 6, 2, 7]
        """
        ends = np.cumsum(lengths)
        places = np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])
        by_lane = np.take(numbers, places, mode="clip").reshape(lanes, -1)
        return np.ascontiguousarray(by_lane.T).reshape(-1)[low:high]

    def take(self, source: Array, index: Array, out: Array) -> None:
        """`numpy.take`; clipped, since the other modes copy once more."""
        np.take(source, index, axis=0, out=out, mode="clip")

    def take_of_blocks(self, blocks: Blocks, index: Array, out: Array) -> None:
        """As rows of the array."""
        rows = np.take(blocks.first_rows, index >> blocks.bits)
        rows += index & ((1 << blocks.bits) - 1)
        self.take(blocks.array, rows, out)

    def take_runs(
        self,
        sources: Sequence[Array],
        numbers: Array,
        starts: Array,
        lengths: Array,
        targets: Array,
        out: Array,
    ) -> None:
        """Source after source, value by value.

        >>> out = np.zeros(5, int)
        >>> NUMPY.take_runs(
        ...     [np.array([1, 2, 3])],
        ...     np.zeros(2, int),
        ...     np.array([1, 0]),
        ...     np.array([2, 1]),
        ...     np.array([0, 3]),
        ...     out,
        ... )
        >>> out.tolist()
        [2, 3, 0, 1, 0]
        """
        if not len(numbers):
            return
        turn = np.argsort(numbers, kind="stable")
        found, firsts = np.unique(numbers[turn], return_index=True)
        for number, runs in zip(found.tolist(), np.split(turn, firsts[1:]), strict=True):
            sizes = lengths[runs]
            ends = np.cumsum(sizes)
            steps, before = np.arange(ends[-1]), ends - sizes
            places = np.repeat(starts[runs] - before, sizes) + steps
            out[np.repeat(targets[runs] - before, sizes) + steps] = sources[number][places]


NUMPY: RowLoops = NumpyLoops()
