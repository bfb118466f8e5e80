"""Where windows lie while their rows are handed out: slots in one block of memory per tensor, and the gather out of
them.

`HostArena` is NumPy; `penstock.feed.torch_arena` the same in torch, on the CPU and on a GPU. A slot holds one window.
Readers write a window's rows as they lie on storage; its permutation is kept beside it, so that a batch is one gather
per tensor: positions in the order of lanes -> rows by the permutation -> the order of the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.feed.order import permutation
from penstock.feed.route import Need
from penstock.feed.stages import Ready
from penstock.wire.ragged import Ragged, joined, take


class Arena(Protocol):
    """Memory for windows on some device."""

    ahead: int
    """How many gathers are begun before the first of them is handed out."""
    gather_bytes: int
    """What is gathered at once: small batches then cost next to nothing each."""

    def views(self, reader: int, slot: int, place: int, rows: int) -> dict[str, memoryview]:
        """Memory for a run of rows of every fixed tensor, for a reader to fill."""

    def landed(self, reader: int, slot: int, place: int, rows: int) -> None:
        """The reader has filled it."""

    def put_ragged(self, name: str, slot: int, place: int, rows: Ragged) -> None:
        """A run of rows of a ragged tensor."""

    def finish(self, slot: int, need: Need) -> None:
        """The window in the slot is whole."""

    def padded(self, batch: dict[str, Any], rows: int, wanted: int) -> dict[str, Any]:
        """A batch with zero rows added up to `wanted`, and a bool tensor `valid` that tells them apart."""

    def gather(self, runs: Runs) -> dict[str, Any]:
        """The rows, in the order of the epoch, in memory of their own."""

    def cut(self, rows: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
        """Some of the rows that were gathered, as views."""

    def hand_over(self, rows: dict[str, Any]) -> None:
        """What was gathered is about to be used: wait for it where that is needed."""

    def close(self) -> None:
        """Give the memory up."""


class Runs:
    """Which rows to gather: per lane runs of places in slots, and how the lanes interleave.

    With `lanes`, the runs of each lane add up to equally many rows, lane after lane; row i of the result is row i // L
    of lane i % L, and of those the ones from `low` to `high`. With `lanes` 0, `starts` are the places themselves.
    """

    def __init__(
        self,
        starts: Array,
        lengths: Array,
        lanes: int,
        low: int,
        high: int,
        windows: Sequence[Ready | None],
    ) -> None:
        self.starts, self.lengths, self.lanes, self.low, self.high = starts, lengths, lanes, low, high
        self.windows = windows
        """The window of each run; None where a run only fills up, and is not handed out."""

    @property
    def rows(self) -> int:
        """How many rows come out."""
        return self.high - self.low


class RaggedSlots:
    """The ragged tensors of the windows, in host memory whatever the device: their rows have no fixed place there."""

    def __init__(self, specs: Sequence[TensorSpec], slots: int, rows: int) -> None:
        self._rows = rows
        self._slots: dict[str, list[dict[int, Ragged]]] = {
            spec.name: [{} for _ in range(slots)] for spec in specs if spec.ragged
        }
        self._order = np.zeros(slots * rows if self._slots else 0, np.int64)

    def put(self, name: str, slot: int, place: int, rows: Ragged) -> None:
        """Kept as it came until the window is whole."""
        self._slots[name][slot][place] = rows

    def finish(self, slot: int, need: Need) -> None:
        """Join a window's runs, and lay its permutation beside them."""
        if self._slots:
            order_window(self._order, slot * self._rows, need)
        for slots in self._slots.values():
            whole = joined([slots[slot][place] for place in sorted(slots[slot])])
            assert isinstance(whole, Ragged)
            slots[slot] = {0: whole}

    def gather(self, runs: Runs) -> dict[str, Ragged]:
        """Rows out of several slots: taken slot by slot, then put into order."""
        if not self._slots:
            return {}
        index = host_index(self._order, runs)
        owner = index // self._rows
        chosen = [(slot, np.flatnonzero(owner == slot)) for slot in np.unique(owner).tolist()]
        back = np.empty(len(index), np.int64)
        back[np.concatenate([where for _, where in chosen])] = np.arange(len(index))
        found = {}
        for name, slots in self._slots.items():
            parts = [take(slots[slot][0], index[where] - slot * self._rows) for slot, where in chosen]
            whole = take(joined(parts), back)
            assert isinstance(whole, Ragged)
            found[name] = whole
        return found


def order_window(order: Array, start: int, need: Need) -> None:
    """Lay a window's permutation down, as numbers of rows of the whole arena."""
    turn = np.arange(need.rows) if need.keys is None else permutation(need.rows, need.keys, need.strays)
    order[start : start + need.rows] = turn + start


def host_index(order: Array, runs: Runs) -> Array:
    """The rows of the arena to gather, in the order of the epoch."""
    if not runs.lanes:
        return np.asarray(order[runs.starts])
    ends = np.cumsum(runs.lengths)
    places = np.repeat(runs.starts - (ends - runs.lengths), runs.lengths) + np.arange(ends[-1])
    by_lane = order[places].reshape(runs.lanes, -1)
    return np.ascontiguousarray(by_lane.T).reshape(-1)[runs.low : runs.high]


def trimmed(rows: Ragged, start: int, stop: int) -> Ragged:
    """Some rows, with values of their own and offsets from 0."""
    part = rows[start:stop]
    return Ragged(part.values[part.offsets[0] : part.offsets[-1]], part.offsets - part.offsets[0])


class HostArena:
    """Windows in NumPy's memory."""

    ahead = 0
    gather_bytes = 16 << 20

    def __init__(self, specs: Sequence[TensorSpec], slots: int, rows: int) -> None:
        self._fixed = [spec for spec in specs if not spec.ragged]
        self._rows = rows
        self._tensors = {
            spec.name: np.empty((slots * rows, *spec.shape), DTYPES[spec.dtype].storage)
            for spec in self._fixed
        }
        self._bytes = {
            name: memoryview(array.reshape(-1).view(np.uint8).data) for name, array in self._tensors.items()
        }
        self._order = np.zeros(slots * rows, np.int64)
        self._ragged = RaggedSlots(specs, slots, rows)

    def views(self, reader: int, slot: int, place: int, rows: int) -> dict[str, memoryview]:
        """The slot's own memory."""
        start = slot * self._rows + place
        return {
            spec.name: self._bytes[spec.name][start * spec.row_bytes : (start + rows) * spec.row_bytes]
            for spec in self._fixed
        }

    def landed(self, reader: int, slot: int, place: int, rows: int) -> None:
        """Nothing to do: it was read to where it stays."""

    def put_ragged(self, name: str, slot: int, place: int, rows: Ragged) -> None:
        """A run of rows of a ragged tensor."""
        self._ragged.put(name, slot, place, rows)

    def finish(self, slot: int, need: Need) -> None:
        """Lay the window's permutation down."""
        order_window(self._order, slot * self._rows, need)
        self._ragged.finish(slot, need)

    def gather(self, runs: Runs) -> dict[str, Any]:
        """One `take` per tensor."""
        found: dict[str, Any] = {}
        if self._tensors:
            index = host_index(self._order, runs)
            found = {name: np.take(array, index, axis=0) for name, array in self._tensors.items()}
        return found | self._ragged.gather(runs)

    def cut(self, rows: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
        """One step's rows."""
        return {
            name: trimmed(each, start, stop) if isinstance(each, Ragged) else each[start:stop]
            for name, each in rows.items()
        }

    def hand_over(self, rows: dict[str, Any]) -> None:
        """It is there already."""

    def padded(self, batch: dict[str, Any], rows: int, wanted: int) -> dict[str, Any]:
        """Zero rows at the end; ragged ones are empty."""
        found: dict[str, Any] = {}
        for name, tensor in batch.items():
            if isinstance(tensor, Ragged):
                ends = np.full(wanted - rows, tensor.offsets[-1])
                found[name] = Ragged(tensor.values, np.concatenate([tensor.offsets, ends]))
            else:
                found[name] = np.zeros((wanted, *tensor.shape[1:]), tensor.dtype)
                found[name][:rows] = tensor
        return found | {"valid": np.arange(wanted) < rows}

    def close(self) -> None:
        """Let go of the memory."""
        self._tensors.clear()
        self._bytes.clear()
