"""The ragged tensors of windows, and the gather out of them; in host memory whatever the device.

Their rows have no fixed place in a slot: it holds the values of its window as they came, and where each row begins. So
a gather copies runs of values (`row_loops`), as many as there are rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.feed.memory.arena import Orders, Runs, turn_of
from penstock.feed.memory.row_loops import NUMPY, RowLoops
from penstock.feed.plan.route import Need
from penstock.wire.ragged import Ragged

Memory = Callable[[str, int, TensorSpec], Array]
"""Makes room for so many values of a tensor."""


class RaggedSlots:
    """The ragged tensors of all slots."""

    def __init__(
        self,
        specs: Sequence[TensorSpec],
        slots: int,
        rows: int,
        memory: Memory | None = None,
        cached: bool = False,
    ) -> None:
        """`memory`: where gathered values go; if that is not said, new memory. `cached`: a cache holds all rows."""
        ragged = [spec for spec in specs if spec.ragged]
        self._rows = rows
        self._tensors = {spec.name: _RaggedTensor(spec, slots, rows, cached) for spec in ragged}
        self._orders = Orders(slots if ragged else 0, rows)
        self._memory = _new_memory if memory is None else memory

    def put(self, name: str, slot: int, place: int, rows: Ragged) -> None:
        """Kept as it came until the window is whole."""
        self._tensors[name].pieces[slot][place] = rows

    def finish(self, slot: int, need: Need, loops: RowLoops = NUMPY) -> None:
        """Join a window's runs, and lay its permutation beside them."""
        if not self._tensors:
            return
        bases = np.array([slot * self._rows + fetch.place for fetch in need.fetches])
        self._orders.lay(slot, need, turn_of(need, loops), bases)
        for tensor in self._tensors.values():
            tensor.join(slot, need)

    def gather(self, runs: Runs, loops: RowLoops = NUMPY) -> dict[str, Ragged]:
        """Rows out of several slots."""
        if not self._tensors:
            return {}
        if not runs.rows:
            return {name: no_rows(tensor.spec) for name, tensor in self._tensors.items()}
        index = self._orders.index(runs, loops)
        return {name: tensor.take(index, self._memory, loops) for name, tensor in self._tensors.items()}

    def close(self) -> None:
        """Let go of the memory."""
        self._tensors, self._orders = {}, Orders(0, 0)


class _RaggedTensor:
    """One tensor's rows in all slots."""

    def __init__(self, spec: TensorSpec, slots: int, rows: int, cached: bool) -> None:
        self.spec, self._rows, self._cached = spec, rows, cached
        self.pieces: list[dict[int, Ragged]] = [{} for _ in range(slots)]
        """Per slot, what has come of a window that is not whole; by place."""
        self._values: list[Array] = [_no_values(spec) for _ in range(slots)]
        self._offsets = np.zeros((slots, rows + 1), np.int64)
        """Per slot, where rows begin among its values."""

    def join(self, slot: int, need: Need) -> None:
        """All pieces of a window have come."""
        pieces = [self.pieces[slot][fetch.place] for fetch in need.fetches]
        # Pieces of a window that was never whole may be there too.
        self.pieces[slot] = {}
        values = [piece.values[piece.offsets[0] : piece.offsets[-1]] for piece in pieces]
        # A view holds the whole block that the piece was cut from, which nobody counts, unless it is a cache's anyway.
        view = self._cached and len(values) == 1
        self._values[slot] = np.ascontiguousarray(values[0]) if view else np.concatenate(values)
        row = first = 0
        for piece in pieces:
            offsets = self._offsets[slot, row : row + len(piece) + 1]
            np.subtract(piece.offsets, piece.offsets[0] - first, out=offsets)
            row, first = row + len(piece), int(offsets[-1])

    def take(self, index: Array, memory: Memory, loops: RowLoops) -> Ragged:
        """Rows by their places, slot after slot."""
        slot = index // self._rows
        # A slot has one offset more than rows.
        at, offsets = index + slot, self._offsets.reshape(-1)
        starts = offsets[at]
        lengths = offsets[at + 1] - starts
        found = np.zeros(len(index) + 1, np.int64)
        np.cumsum(lengths, out=found[1:])
        values = memory(self.spec.name, int(found[-1]), self.spec)
        loops.take_runs(self._values, slot, starts, lengths, found[:-1], values)
        return Ragged(values, found)


def _new_memory(name: str, count: int, spec: TensorSpec) -> Array:
    return np.empty((count, *spec.shape), DTYPES[spec.dtype].storage)


def _no_values(spec: TensorSpec) -> Array:
    return np.zeros((0, *spec.shape), DTYPES[spec.dtype].storage)


def no_rows(spec: TensorSpec) -> Ragged:
    """A ragged tensor of no rows."""
    return Ragged(_no_values(spec), np.zeros(1, np.int64))
