"""Windows in a GPU's memory; `penstock.feed.memory.arena` says what an arena is.

A reader fills pinned memory and copies it over on a stream of its own, reading on while the copy runs. Rows are
scrambled and gathered on the device, on one more stream; the consumer's stream waits for them. A slot is written again
only after the gathers that used it: a reader's stream waits for the newest of them first.

With a cache all rows of the dataset lie on the device in the order of the files, and windows are looked up there.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.feed.cuda.batch_tensors import plain_tensors
from penstock.feed.cuda.cache import DeviceCache
from penstock.feed.cuda.calls import CudaCalls
from penstock.feed.cuda.native_reads import FAILED
from penstock.feed.cuda.pieces import Piece, Segment, pieces
from penstock.feed.cuda.sends import Sends
from penstock.feed.cuda.windows import DeviceWindows, row_kernel
from penstock.feed.memory.arena import OpenRun, Room, Runs
from penstock.feed.memory.native_loops import LoopChoice
from penstock.feed.memory.ragged_slots import RaggedSlots
from penstock.feed.memory.row_loops import NUMPY
from penstock.feed.plan.route import Fetch, Need, Route
from penstock.feed.reading.source import Straight
from penstock.feed.shaping import Shaping
from penstock.wire.ragged import Ragged

if TYPE_CHECKING:
    import torch

STAGES = 2
"""Pinned buffers of each reader: one is filled while the other is copied."""
STAGE_BYTES = (8 << 20) + (64 << 10)
"""Of each. Small enough that all stay in the processor's cache: with 16 MiB an H200's host fed it a quarter slower. The
little more takes the padding of a block of 16 MiB, which is two pieces then and not three."""
AT_ONCE = 4
"""Runs that a reader brings at a time. Where whoever trains kept the interpreter busy for 0.1 ms in each step of 8 MB,
an H200 was fed at 38 GB/s, and at 27 with one. More of them need more memory, and were no better."""
PINNED_BYTES = 1 << (STAGE_BYTES - 1).bit_length()
"""What one takes: torch pins powers of two."""


class Stage:
    """One reader's pinned buffers, which take turns, and its stream."""

    def __init__(self, calls: CudaCalls, size: int, targets: Sequence[Any]) -> None:
        """`targets`: the tensors on the device, as bytes."""
        self._calls = calls
        self._thread: threading.Thread | None = None
        self.enter()
        self.stream: Any = calls.stream()
        pinned = [calls.pinned(size) for _ in range(STAGES)]
        self._views = [memoryview(each.numpy().data) for each in pinned]
        self._copies = [[calls.copier(target, each, self.stream) for target in targets] for each in pinned]
        self._copied = [calls.event() for _ in range(STAGES)]
        self._bring = calls.bringer(targets, pinned, self._copied, self.stream)
        self._pinned = pinned
        """Held, since the one above knows addresses alone."""
        self._turn = 0
        self._followed = 0
        self.newest: Any = None
        """The event after the newest copy."""

    def enter(self) -> None:
        """A thread uses it; every epoch has threads of its own."""
        if self._thread is not threading.current_thread():
            self._thread = threading.current_thread()
            self._calls.enter()

    def follow(self, number: int, gathered: Any) -> None:
        """Let copies begin after the newest gather, which may use what they overwrite."""
        if number != self._followed:
            self._followed = number
            self._calls.wait(self.stream, gathered)

    def begin(self) -> memoryview:
        """The next buffer, once its last copy is over."""
        self._turn = (self._turn + 1) % STAGES
        self._calls.synchronize(self._copied[self._turn])
        return self._views[self._turn]

    def copy(self, tensor: int, target: int, start: int, size: int) -> None:
        """Begin to copy bytes of the buffer to the device."""
        self._copies[self._turn][tensor](target, start, size)

    def copied(self) -> None:
        """All copies of the buffer have been asked for."""
        self.newest = self._copied[self._turn]
        self._calls.record(self.newest, self.stream)

    def bring(self, parts: Sequence[tuple[Straight, Piece]]) -> None:
        """Read pieces of files, and begin to copy them."""
        reads = [(straight.file, piece) for straight, piece in parts]
        turn = FAILED if self._bring is None else self._bring(self._turn, reads)
        if turn != FAILED:
            self._turn, self.newest = turn, self._copied[turn]
            return
        # Without the one call for all, or after it failed: this tells what is wrong.
        for straight, piece in parts:
            straight.fill(self.begin()[: piece.size], piece.offset)
            for tensor, target, start, size in piece.copies:
                self.copy(tensor, target, start, size)
            self.copied()

    def settle(self) -> None:
        """Wait for all copies."""
        for event in self._copied:
            self._calls.synchronize(event)


class CudaArena:
    """Windows in a GPU's memory."""

    ahead = 1
    gather_bytes = 256 << 20
    ragged_gather_bytes = 32 << 20
    """Of ragged tensors, which pass through pinned memory."""
    threads = 0
    finishes_ahead = 1
    """Enough for the device to have it done in time, and no more: each is as large as the transform makes it."""

    def __init__(
        self,
        specs: Sequence[TensorSpec],
        room: Room,
        shape: Shaping,
        device: torch.device,
        calls: CudaCalls,
        cache: DeviceCache | None = None,
        choice: LoopChoice | None = None,
        cached: bool = False,
    ) -> None:
        """`choice`: of the loops for ragged tensors, which are gathered on the host; `cached`: from a cache there."""
        import torch

        self.room, self._shape, self._calls = room, shape, calls
        self._torch, self._rows, self._device, self._cache = torch, room.rows, device, cache
        self._specs = {spec.name: spec for spec in specs}
        self._fixed = [spec for spec in specs if not spec.ragged]
        self._tensors = cache.tensors if cache is not None else self._slot_memory(room.slots)
        # Readers write on streams of their own, and torch may still have work with this memory on the current one: of
        # who had it before, or, where it is to be deterministic, filling it.
        calls.settle()
        self._flat = [self._tensors[spec.name].reshape(-1).view(torch.uint8) for spec in self._fixed]
        self._row_bytes = [spec.row_bytes for spec in self._fixed]
        self._stages: dict[int, Stage] = {}
        row = max(sum(self._row_bytes), 1)
        self.most_rows = max(STAGE_BYTES // row, 1)
        self._stage_bytes = max(row, STAGE_BYTES)
        self._kernel = row_kernel(device)
        self._windows: DeviceWindows | None = None
        self._ragged = RaggedSlots(specs, room.slots, room.rows, partial(_pinned_values, calls), cached)
        self._choice, self._loops = choice, NUMPY
        self._stream: Any = calls.stream()
        self._sends = Sends(calls, self._stream, device)
        self._gathered = calls.event()
        """Of the newest gather: recorded anew at each."""
        self._gathers = 0
        self._landed: dict[int, Any] = {}
        """Per reader, its newest copy to the device that no gather has waited for yet."""
        self._under_way: deque[Any] = deque()
        """Of the gathers that were not handed over yet; of single steps, where batches are transformed."""
        self._ready: Any = None
        self._taken_by: int | None = None

    def _slot_memory(self, slots: int) -> dict[str, Any]:
        torch = self._torch
        return {
            spec.name: torch.empty(
                (slots * self._rows, *spec.shape), dtype=getattr(torch, spec.dtype), device=self._device
            )
            for spec in self._fixed
        }

    def _stage(self, reader: int) -> Stage:
        found = self._stages.get(reader)
        if found is None:
            found = self._stages[reader] = Stage(self._calls, self._stage_bytes, self._flat)
        found.enter()
        return found

    @property
    def lasting(self) -> bool:
        """Slots; a cache has rows of its own accord."""
        return self._cache is None

    def begin(self, route: Route) -> bool:
        """All is there where the cache has every block; but ragged tensors still pass through slots."""
        if self._choice is not None:
            self._loops = self._choice.loops
        starts = self._cache.starts if self._cache is not None else None
        with self.beside():
            self._windows = DeviceWindows(
                route, self._device, self._kernel, self._rows, starts, self._sends, self._calls.sent
            )
        return self._cache is not None and self._cache.whole and len(self._fixed) == len(self._specs)

    def wanted(self, fetch: Fetch) -> Fetch | None:
        """The run itself; with a cache its whole block, unless it is there."""
        return fetch if self._cache is None else self._cache.wanted(fetch)

    def bring(self, reader: int, runs: Sequence[OpenRun]) -> None:
        """Through pinned memory of the reader's own, piece by piece."""
        stage, parts = self._stage(reader), []
        for slot, fetch, straight in runs:
            first, rows = self._first_row(slot, fetch), fetch.rows
            segments = [
                Segment(offset, rows * size, first * size)
                for offset, size in zip(straight.offsets, self._row_bytes, strict=True)
            ]
            parts += [(straight, piece) for piece in pieces(segments, self._stage_bytes)]
        # Whatever gathers used the slots were asked for before they were given out.
        stage.follow(self._gathers, self._gathered)
        if parts:  # rows may have no bytes
            stage.bring(parts)
            self._landed[reader] = stage.newest

    def _first_row(self, slot: int, fetch: Fetch) -> int:
        """Where a run of rows belongs."""
        return slot * self._rows + fetch.place if self._cache is None else self._cache.place(fetch)

    def views(self, reader: int, slot: int, fetch: Fetch) -> dict[str, memoryview]:
        """Pinned memory of the reader's own."""
        whole, found, at = self._stage(reader).begin(), {}, 0
        for spec in self._fixed:
            found[spec.name] = whole[at : at + fetch.rows * spec.row_bytes]
            at += fetch.rows * spec.row_bytes
        return found

    def landed(self, reader: int, slot: int, fetch: Fetch) -> None:
        """Begin to copy it to where it belongs."""
        stage, first, at = self._stages[reader], self._first_row(slot, fetch), 0
        stage.follow(self._gathers, self._gathered)
        for tensor, size in enumerate(self._row_bytes):
            stage.copy(tensor, first * size, at, fetch.rows * size)
            at += fetch.rows * size
        stage.copied()
        self._landed[reader] = stage.newest

    def kept(self, reader: int, fetch: Fetch) -> None:
        """Its bytes were found right: once the copy is over, whoever looks finds the block in the cache."""
        if self._cache is not None:
            self._stages[reader].settle()
            self._cache.landed(fetch)

    def put_ragged(self, name: str, slot: int, place: int, rows: Ragged) -> None:
        """A run of rows of a ragged tensor."""
        self._ragged.put(name, slot, place, rows)

    def finish(self, slot: int, need: Need) -> None:
        """Nothing on the device: its rows are scrambled when they are gathered."""
        self._ragged.finish(slot, need, self._loops)

    def gather(self, runs: Runs) -> dict[str, Any]:
        """On the gathering stream, which is the current one (`beside`)."""
        found: dict[str, Any] = {}
        while self._landed:
            self._calls.wait(self._stream, self._landed.popitem()[1])
        if self._fixed and self._windows is not None:
            index = self._windows.index(runs)
            found = {name: tensor.index_select(0, index) for name, tensor in self._tensors.items()}
        self._calls.record(self._gathered, self._stream)
        self._gathers += 1
        return found | self._ragged.gather(runs, self._loops)

    def freed(self, slot: int) -> None:
        """The slot is written again when it is needed."""

    def cut(self, rows: dict[str, Any], sizes: Sequence[int], padded: int | None) -> list[dict[str, Any]]:
        """Views of the rows, where nothing is added; ragged ones go to the device now."""
        fixed = {name: each for name, each in rows.items() if not isinstance(each, Ragged)}
        parts = {name: each.split(list(sizes)) for name, each in fixed.items()}
        batches = [dict(zip(parts, each, strict=True)) for each in zip(*parts.values(), strict=True)]
        batches = batches or [{} for _ in sizes]
        if padded is not None:
            batches = [self._padded(batch, size, padded) for batch, size in zip(batches, sizes, strict=True)]
        for name in rows.keys() - fixed.keys():
            shaped = self._shape.ragged(name, rows[name], sizes, padded, self._placed, self._loops)
            for batch, part in zip(batches, shaped, strict=True):
                batch |= part
        return batches

    def _placed(self, array: Array, dtype: str) -> Any:
        """On the gathering stream, from pinned memory, so that the host goes on."""
        return self._calls.sent(array, dtype)

    def _padded(self, batch: dict[str, Any], size: int, padded: int) -> dict[str, Any]:
        torch = self._torch
        found: dict[str, Any] = {}
        for name, tensor in batch.items():
            if size == padded:
                found[name] = tensor
                continue
            found[name] = tensor.new_zeros((padded, *tensor.shape[1:]))
            found[name][:size] = tensor
        return found | {"valid": torch.arange(padded, device=self._device) < size}

    def beside(self) -> AbstractContextManager[object]:
        """The gathering stream."""
        return self._calls.on(self._stream)

    def meet(self) -> None:
        """Mark the place on the consumer's stream that the gathering one has to wait for."""
        stream, asked = self._calls.current(), self._calls.event()
        with self._calls.on(stream):
            self._calls.record(asked, stream)
        self._calls.wait(self._stream, asked)

    def begun(self) -> None:
        """Mark the place on the gathering stream that the consumer has to wait for."""
        done = self._calls.event()
        self._calls.record(done, self._stream)
        self._under_way.append(done)

    def hand_over(self, batches: Sequence[Any]) -> None:
        """The consumer's stream waits for what was begun first, and the allocator is told who uses the memory."""
        self._ready, self._taken_by = self._under_way.popleft(), self._calls.current_number()
        self._give(batches)

    def follow(self, batch: Any) -> None:
        """A consumer may take some batches of one gather on another stream."""
        if self._calls.current_number() != self._taken_by:
            self._give([batch])

    def _give(self, batches: Sequence[Any]) -> None:
        stream = self._calls.current()
        self._calls.wait(stream, self._ready)
        told: set[int] = set()
        for tensor in itertools.chain.from_iterable(map(plain_tensors, batches)):
            # Batches of one gather share its memory: telling once is enough.
            memory = tensor.untyped_storage().data_ptr()
            if memory not in told:
                told.add(memory)
                self._calls.uses(stream, tensor)

    def rest(self) -> None:
        """Wait for the readers' copies: whoever frees this memory later need not know of them."""
        # In the context of the device: this may be a thread that has none.
        with self.beside():
            for stage in self._stages.values():
                stage.settle()

    def close(self) -> None:
        """Let go of the memory, once nothing uses it."""
        self._calls.settle()
        self._tensors = {}
        self._flat.clear()
        self._stages.clear()
        self._landed.clear()
        self._under_way.clear()
        self._ragged.close()
        self._sends.close()
        self._windows = None


def _pinned_values(calls: CudaCalls, name: str, count: int, spec: TensorSpec) -> Array:
    """Where ragged values are gathered: out of torch's pool, which gets it back after the copy."""
    size = count * spec.row_bytes
    found = calls.pinned(size)[:size].numpy().view(DTYPES[spec.dtype].storage)
    return np.asarray(found.reshape(count, *spec.shape))


def give_pinned_back() -> None:
    """Have torch give the system the pinned memory that nobody uses; by itself it keeps all it ever had for later."""
    import torch

    empty = getattr(getattr(torch, "accelerator", None), "empty_host_cache", None)
    empty = empty or getattr(torch._C, "_host_emptyCache", None)
    # A loader that never came to the device has pinned nothing.
    if empty is not None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        empty()
