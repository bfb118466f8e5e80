"""Windows in host memory, for NumPy and for torch; `arena` says what an arena is, `row_loops` does the gathering.

torch's own gather is not used: its threads wait for each other actively, and stall where readers want the same cores.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from penstock.dataset.forks import in_forks
from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.feed.memory.arena import OpenRun, Orders, Room, Runs, turn_of
from penstock.feed.memory.cache import RowsInPlace
from penstock.feed.memory.native_loops import LoopChoice
from penstock.feed.memory.ragged_slots import RaggedSlots
from penstock.feed.memory.row_loops import NUMPY
from penstock.feed.plan.route import Fetch, Need, Route
from penstock.feed.shaping import Shaping
from penstock.wire.ragged import Ragged

Frame = Callable[[Array, str], Any]
"""An array and the name of its dtype -> the framework's tensor, over the same memory."""
KEPT = 8
"""Buffers of each tensor that may be used again; more are in use only where batches are hoarded."""
ALIGNMENT = 64


def as_numpy(array: Array, dtype: str) -> Any:
    """NumPy's arrays are what they are."""
    return array


def as_torch(array: Array, dtype: str) -> Any:
    """A torch tensor over an array's memory."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


class Buffers:
    """Memory for what is gathered, used again once nobody holds what was handed out: new pages cost as much as rows.

    A view of an array holds a reference to it, so the count of references tells whether anybody is left.
    """

    def __init__(self) -> None:
        self._kept: dict[str, list[Array]] = {}
        self._lock = threading.Lock()
        in_forks(self)

    def forked(self) -> None:
        """Who held the lock perhaps is not there."""
        self._lock = threading.Lock()

    def take(self, name: str, rows: int, spec: TensorSpec) -> Array:
        """An array for so many rows of a tensor, or values of a ragged one."""
        size = rows * spec.row_bytes
        with self._lock:
            kept = self._kept.setdefault(name, [])
            free = [place for place in range(len(kept)) if _references(kept, place) == UNUSED]
            place = next((place for place in free if len(kept[place]) >= size + ALIGNMENT), None)
            if place is None:
                kept[:] = [each for number, each in enumerate(kept) if number not in free][-KEPT:]
                kept.append(np.empty(size + ALIGNMENT, np.uint8))
                place = len(kept) - 1
            first = -kept[place].ctypes.data % ALIGNMENT
            found = kept[place][first : first + size]
        return found.view(DTYPES[spec.dtype].storage).reshape(rows, *spec.shape)


def _references(kept: list[Array], place: int) -> int:
    return sys.getrefcount(kept[place])


UNUSED = _references([np.empty(0)], 0)
"""What is counted while nobody else has a reference; it depends on the interpreter."""


class HostArena:
    """Windows in memory of NumPy; or where rows are in place already, and slots hold their order alone."""

    ahead = 2
    gather_bytes = 32 << 20
    threads = 2
    finishes_ahead = 0

    def __init__(
        self,
        specs: Sequence[TensorSpec],
        room: Room,
        shape: Shaping,
        frame: Frame = as_numpy,
        in_place: RowsInPlace | None = None,
        buffers: Buffers | None = None,
        choice: LoopChoice | None = None,
        cached: bool = False,
    ) -> None:
        """`buffers` and `choice` may outlive it: an arena of another size takes them over. `cached`: all rows are."""
        self.room, self.most_rows = room, room.rows
        self._specs = {spec.name: spec for spec in specs}
        self._fixed = [spec for spec in specs if not spec.ragged]
        self._rows, self._shape, self._frame, self.in_place = room.rows, shape, frame, in_place
        self._tensors = {} if in_place is not None else self._slot_memory(room.slots)
        self._bytes = {
            name: memoryview(array.reshape(-1).view(np.uint8).data) for name, array in self._tensors.items()
        }
        self._orders = Orders(room.slots if self._fixed else 0, room.rows)
        self._needs: dict[int, Need] = {}
        """Where rows are in place: the windows of the slots."""
        self.buffers = Buffers() if buffers is None else buffers
        self._ragged = RaggedSlots(specs, room.slots, room.rows, self.buffers.take, cached)
        self._choice, self._loops = choice, NUMPY

    def _slot_memory(self, slots: int) -> dict[str, Array]:
        return {
            spec.name: np.empty((slots * self._rows, *spec.shape), DTYPES[spec.dtype].storage)
            for spec in self._fixed
        }

    @property
    def lasting(self) -> bool:
        """Rows that are in place may be elsewhere in the next epoch."""
        return self.in_place is None

    def begin(self, route: Route) -> bool:
        """Readers lay the order of every window down, whether or not they have to read."""
        self._needs.clear()
        if self._choice is not None:
            self._loops = self._choice.loops
        return False

    def wanted(self, fetch: Fetch) -> Fetch | None:
        """The run itself; a cache looks after whole blocks by itself."""
        return fetch

    def bring(self, reader: int, runs: Sequence[OpenRun]) -> None:
        """Into their slots."""
        for slot, fetch, straight in runs:
            for view, offset in zip(self.views(reader, slot, fetch).values(), straight.offsets, strict=True):
                straight.fill(view, offset)

    def views(self, reader: int, slot: int, fetch: Fetch) -> dict[str, memoryview]:
        """The slot's own memory."""
        if self.in_place is not None:
            return {}
        start = slot * self._rows + fetch.place
        return {
            spec.name: self._bytes[spec.name][start * spec.row_bytes : (start + fetch.rows) * spec.row_bytes]
            for spec in self._fixed
        }

    def landed(self, reader: int, slot: int, fetch: Fetch) -> None:
        """Nothing to do: it was read to where it stays."""

    def kept(self, reader: int, fetch: Fetch) -> None:
        """A cache has noted it by itself."""

    def put_ragged(self, name: str, slot: int, place: int, rows: Ragged) -> None:
        """A run of rows of a ragged tensor."""
        self._ragged.put(name, slot, place, rows)

    def finish(self, slot: int, need: Need) -> None:
        """Lay the window's order down."""
        if self._fixed:
            self._orders.lay(slot, need, turn_of(need, self._loops), self._bases(slot, need))
        if self.in_place is not None:
            self._needs[slot] = need
        self._ragged.finish(slot, need, self._loops)

    def _bases(self, slot: int, need: Need) -> Array:
        if self.in_place is not None:
            return self.in_place.bases(need)
        return np.array([slot * self._rows + fetch.place for fetch in need.fetches])

    def gather(self, runs: Runs) -> dict[str, Any]:
        """One take per tensor."""
        if self.in_place is None:
            return self._taken(runs) | self._ragged.gather(runs, self._loops)
        slots = np.unique(runs.slots[runs.windows >= 0]).tolist()
        with self.in_place.taken([self._needs[slot] for slot in slots]):
            return self._taken(runs) | self._ragged.gather(runs, self._loops)

    def _taken(self, runs: Runs) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if not self._fixed:
            return found
        index = self._orders.index(runs, self._loops)
        for spec in self._fixed:
            out = found[spec.name] = self.buffers.take(spec.name, len(index), spec)
            if self.in_place is not None:
                self.in_place.take(spec.name, index, out, self._loops)
            else:
                self._loops.take(self._tensors[spec.name], index, out)
        return found

    def freed(self, slot: int) -> None:
        """Rows that are in place may go."""
        if self.in_place is not None:
            self.in_place.forget(self._needs.pop(slot))

    def cut(self, rows: dict[str, Any], sizes: Sequence[int], padded: int | None) -> list[dict[str, Any]]:
        """Views of the rows, where nothing is added."""
        batches: list[dict[str, Any]] = [{} for _ in sizes]
        for name, each in rows.items():
            if isinstance(each, Ragged):
                parts = self._shape.ragged(name, each, sizes, padded, self._placed, self._loops)
                for batch, part in zip(batches, parts, strict=True):
                    batch |= part
                continue
            start = 0
            for batch, size in zip(batches, sizes, strict=True):
                batch[name] = self._part(name, each[start : start + size], padded)
                start += size
        if padded is not None:
            for batch, size in zip(batches, sizes, strict=True):
                batch["valid"] = self._frame(np.arange(padded) < size, "bool")
        return batches

    def _placed(self, array: Array, dtype: str) -> Any:
        return self._frame(np.ascontiguousarray(array), dtype)

    def _part(self, name: str, rows: Array, padded: int | None) -> Any:
        if padded is not None and len(rows) < padded:
            whole = np.zeros((padded, *rows.shape[1:]), rows.dtype)
            whole[: len(rows)] = rows
            rows = whole
        return self._frame(rows, self._specs[name].dtype)

    def beside(self) -> AbstractContextManager[object]:
        """The host has no other side."""
        return nullcontext()

    def meet(self) -> None:
        """It has been done already."""

    def begun(self) -> None:
        """It is there already."""

    def hand_over(self, batches: Sequence[Any]) -> None:
        """They are there already."""

    def follow(self, batch: Any) -> None:
        """It is there already."""

    def rest(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Let go of the memory."""
        self._tensors = {}
        self._bytes.clear()
        self._ragged.close()
        self._orders = Orders(0, 0)
