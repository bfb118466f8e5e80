"""Windows in torch's memory, on the CPU or on a GPU; `penstock.feed.arena` says what an arena is.

On a GPU a reader fills pinned memory of its own and copies it over on a stream of its own; permutations and gathers
run on the device, gathers on one more stream, and the consumer's stream waits for them. A slot is written again only
after the gathers that used it: a reader's stream waits for the newest of them first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.dtypes import Array, TensorSpec
from penstock.feed.arena import RaggedSlots, Runs, host_index, order_window, trimmed
from penstock.feed.order import ROUNDS, grid, scramble
from penstock.feed.route import Need
from penstock.wire.ragged import Ragged

if TYPE_CHECKING:
    import torch


LENGTH, START, BASE, ROWS, SIDE_A, SIDE_B, KEYS = range(7)
PAIRS = KEYS + ROUNDS
STRAYS = PAIRS + ROUNDS // 2
"""The columns of a run's row in the table that goes to the device; PAIRS are the keys again, two in one number, and
strays fill the rest."""

SCRAMBLE = """
template <typename T> T scramble(T cell, T a, T b, T k0, T k1, T k2) {
    T keys[3] = {k0, k1, k2};
    T left = cell / b, right = cell - left * b;
    for (int pair = 0; pair < 3; ++pair) {
        for (int half = 0; half < 2; ++half) {
            unsigned long long key = ((unsigned long long)keys[pair] >> (32 * half)) & 0xFFFFFFFFull;
            unsigned long long x = (unsigned long long)(half ? left : right);
            x = ((x ^ key) * 0x9E3779B1ull) & 0xFFFFFFFFull;
            x = ((x ^ (x >> 15)) * 0x85EBCA77ull) & 0xFFFFFFFFull;
            x = x ^ (x >> 13);
            T share = (T)((x * (unsigned long long)(half ? b : a)) >> 32);
            if (half) {
                right += share;
                if (right >= b) right -= b;
            } else {
                left += share;
                if (left >= a) left -= a;
            }
        }
    }
    return left * b + right;
}
"""


def scramble_kernel() -> Any:
    """`order.scramble` as one kernel, compiled when first used; None where this torch cannot."""
    import torch

    make = getattr(getattr(torch.cuda, "jiterator", None), "_create_jit_fn", None)
    return make(SCRAMBLE) if make is not None and ROUNDS == 6 else None


def run_table(runs: Runs, slot_rows: int) -> Array:
    """What the device needs to know of every run, as one array of whole numbers."""
    shuffled = any(window is not None and window.need.keys is not None for window in runs.windows)
    wide = 0
    if shuffled:
        wide = max([1, *(len(window.need.strays) for window in runs.windows if window is not None)])  # type: ignore[arg-type]
    table = np.zeros((len(runs.starts), STRAYS + wide), np.int64)
    ends = np.cumsum(runs.lengths)
    table[:, LENGTH] = runs.lengths
    table[:, BASE] = [0 if window is None else window.slot * slot_rows for window in runs.windows]
    table[:, START] = runs.starts - table[:, BASE] - (ends - runs.lengths)
    table[:, ROWS] = [1 if window is None else window.need.rows for window in runs.windows]
    table[:, SIDE_A], table[:, SIDE_B] = grid(table[:, ROWS])
    for row, window in enumerate(runs.windows):
        if window is not None and window.need.keys is not None and window.need.strays is not None:
            table[row, KEYS:PAIRS] = window.need.keys
            table[row, STRAYS : STRAYS + len(window.need.strays)] = window.need.strays
    table[:, PAIRS:STRAYS] = table[:, KEYS:PAIRS:2] | (table[:, KEYS + 1 : PAIRS : 2] << 32)
    return table


def scrambled_places(runs: Runs, slot_rows: int) -> Array:
    """The rows to gather where lanes are shared, on the host: their places come in no simple pattern."""
    found = np.array(runs.starts)
    slots = found // slot_rows
    for window in runs.windows:
        if window is None or window.need.keys is None:
            continue
        need, base = window.need, window.slot * slot_rows
        chosen = np.flatnonzero(slots == window.slot)
        a, b = (int(side[0]) for side in grid(np.array([need.rows])))
        rows = scramble(found[chosen] - base, a, b, need.keys)
        beyond = rows >= need.rows
        assert need.strays is not None
        rows[beyond] = need.strays[rows[beyond] - need.rows]
        found[chosen] = rows + base
        slots[chosen] = -1
    return found


class TorchArena:
    """Windows in host memory, gathered by torch."""

    ahead = 0
    gather_bytes = 16 << 20

    def __init__(self, specs: Sequence[TensorSpec], slots: int, rows: int, device: torch.device) -> None:
        import torch

        self._torch, self._rows, self._device = torch, rows, device
        self._fixed = [spec for spec in specs if not spec.ragged]
        self._tensors = {
            spec.name: torch.empty(
                (slots * rows, *spec.shape), dtype=getattr(torch, spec.dtype), device=device
            )
            for spec in self._fixed
        }
        self._flat = {name: tensor.reshape(-1).view(torch.uint8) for name, tensor in self._tensors.items()}
        self._order = np.zeros(slots * rows, np.int64)
        self._ragged = RaggedSlots(specs, slots, rows)

    def views(self, reader: int, slot: int, place: int, rows: int) -> dict[str, memoryview]:
        """The slot's own memory."""
        return {
            spec.name: memoryview(self._room(spec, slot, place, rows).numpy().data) for spec in self._fixed
        }

    def _room(self, spec: TensorSpec, slot: int, place: int, rows: int) -> torch.Tensor:
        start = slot * self._rows + place
        return self._flat[spec.name][start * spec.row_bytes : (start + rows) * spec.row_bytes]

    def landed(self, reader: int, slot: int, place: int, rows: int) -> None:
        """Nothing to do: it was read to where it stays."""

    def put_ragged(self, name: str, slot: int, place: int, rows: Ragged) -> None:
        """A run of rows of a ragged tensor."""
        self._ragged.put(name, slot, place, rows)

    def finish(self, slot: int, need: Need) -> None:
        """Lay the window's permutation down; NumPy is as fast as torch here, and leaves torch's threads alone."""
        order_window(self._order, slot * self._rows, need)
        self._ragged.finish(slot, need)

    def gather(self, runs: Runs) -> dict[str, Any]:
        """One `index_select` per tensor."""
        found: dict[str, Any] = {}
        if self._tensors:
            index = self._index(runs)
            found = {name: tensor.index_select(0, index) for name, tensor in self._tensors.items()}
        return found | self._ragged.gather(runs)

    def cut(self, rows: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
        """One step's rows; ragged ones go to the device now."""
        return {
            name: self._placed(trimmed(each, start, stop)) if isinstance(each, Ragged) else each[start:stop]
            for name, each in rows.items()
        }

    def _placed(self, rows: Ragged) -> Ragged:
        def tensor(array: Any) -> Any:
            return self._torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

        return Ragged(tensor(rows.values), tensor(rows.offsets))

    def _index(self, runs: Runs) -> Any:
        return self._torch.from_numpy(host_index(self._order, runs))

    def hand_over(self, rows: dict[str, Any]) -> None:
        """It is there already."""

    def padded(self, batch: dict[str, Any], rows: int, wanted: int) -> dict[str, Any]:
        """Zero rows at the end."""
        torch = self._torch
        found: dict[str, Any] = {}
        for name, tensor in batch.items():
            if isinstance(tensor, Ragged):
                offsets: Any = tensor.offsets
                ends = offsets[-1:].expand(wanted - rows)
                found[name] = Ragged(tensor.values, torch.cat([offsets, ends]))
            else:
                found[name] = tensor.new_zeros((wanted, *tensor.shape[1:]))
                found[name][:rows] = tensor
        return found | {"valid": torch.arange(wanted, device=self._device) < rows}

    def close(self) -> None:
        """Let go of the memory."""
        self._tensors.clear()
        self._flat.clear()


class CudaArena(TorchArena):
    """Windows in a GPU's memory."""

    ahead = 1
    gather_bytes = 256 << 20

    def __init__(self, specs: Sequence[TensorSpec], slots: int, rows: int, device: torch.device) -> None:
        super().__init__(specs, slots, rows, device)
        cuda = self._torch.cuda
        self._row_bytes = sum(spec.row_bytes for spec in self._fixed)
        self._stages: dict[int, tuple[Any, Any]] = {}
        """Per reader: pinned memory, and a stream."""
        self._counting: Any = None
        self._kernel = scramble_kernel()
        self._stream = cuda.Stream(device)
        self._gathered = cuda.Event()
        self._under_way: deque[Any] = deque()
        """Of the gathers that were not handed over yet."""
        cuda.synchronize(device)

    def _stage(self, reader: int) -> tuple[Any, Any]:
        if reader not in self._stages:
            torch = self._torch
            size = self._rows * self._row_bytes
            pinned = torch.empty(max(size, 1), dtype=torch.uint8, pin_memory=True)
            self._stages[reader] = (pinned, torch.cuda.Stream(self._device))
        return self._stages[reader]

    def views(self, reader: int, slot: int, place: int, rows: int) -> dict[str, memoryview]:
        """The reader's own pinned memory."""
        pinned, _ = self._stage(reader)
        whole = memoryview(pinned.numpy().data)
        found, at = {}, 0
        for spec in self._fixed:
            found[spec.name] = whole[at : at + rows * spec.row_bytes]
            at += rows * spec.row_bytes
        return found

    def landed(self, reader: int, slot: int, place: int, rows: int) -> None:
        """Copy it to the slot, and wait until it is there: the pinned memory is used again."""
        torch = self._torch
        pinned, stream = self._stage(reader)
        at = 0
        with torch.cuda.stream(stream):
            stream.wait_event(self._gathered)
            for spec in self._fixed:
                size = rows * spec.row_bytes
                self._room(spec, slot, place, rows).copy_(pinned[at : at + size], non_blocking=True)
                at += size
            event = torch.cuda.Event()
            event.record(stream)
        event.synchronize()

    def finish(self, slot: int, need: Need) -> None:
        """Nothing on the device: rows are scrambled when they are gathered, of many windows at once."""
        self._ragged.finish(slot, need)

    def gather(self, runs: Runs) -> dict[str, Any]:
        """On the gathering stream."""
        torch = self._torch
        with torch.cuda.stream(self._stream):
            found = super().gather(runs)
            done = torch.cuda.Event()
            done.record(self._stream)
        self._gathered = done
        self._under_way.append(done)
        return found

    def _index(self, runs: Runs) -> Any:
        """The rows to gather, scrambled on the device: a fixed number of kernels, however many windows there are."""
        torch = self._torch
        if not runs.lanes:
            return self._send(scrambled_places(runs, self._rows))
        total = int(runs.lengths.sum())
        table = run_table(runs, self._rows)
        sent = self._send(table)
        run = torch.repeat_interleave(sent[:, LENGTH], output_size=total)
        of = sent[:, :STRAYS].index_select(0, run).t()
        found = self._numbers(total) + of[START]
        wide = table.shape[1] - STRAYS
        if wide:
            found = self._scramble(found, of)
            beyond = found - of[ROWS]
            stray = sent[:, STRAYS:].reshape(-1)[run * wide + beyond.clamp(0, wide - 1)]
            found = torch.where(beyond >= 0, stray, found)
        by_lane = (found + of[BASE]).view(runs.lanes, -1)
        return by_lane.t().reshape(-1)[runs.low : runs.high]

    def _numbers(self, count: int) -> Any:
        """0, 1, 2, ... on the device, kept from one gather to the next."""
        if self._counting is None or len(self._counting) < count:
            self._counting = self._torch.arange(count, device=self._device)
        return self._counting[:count]

    def _scramble(self, places: Any, of: Any) -> Any:
        """As `order.scramble`, in one kernel: each call of torch costs this thread a turn of the interpreter's lock."""
        if self._kernel is None:
            return scramble(places, of[SIDE_A], of[SIDE_B], of[KEYS:PAIRS])
        return self._kernel(places, of[SIDE_A], of[SIDE_B], *of[PAIRS : PAIRS + ROUNDS // 2])

    def _send(self, array: Any) -> Any:
        return self._torch.from_numpy(array).pin_memory().to(self._device, non_blocking=True)

    def hand_over(self, rows: dict[str, Any]) -> None:
        """The consumer's stream waits for the gather, and the allocator is told who uses the memory."""
        current = self._torch.cuda.current_stream(self._device)
        current.wait_event(self._under_way.popleft())
        for tensor in rows.values():
            if not isinstance(tensor, Ragged):
                tensor.record_stream(current)

    def close(self) -> None:
        """Let go of the memory, once nothing uses it."""
        self._torch.cuda.synchronize(self._device)
        super().close()
        self._stages.clear()
