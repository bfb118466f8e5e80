"""Where batches are made: in host memory, or on a GPU; and the caches that live there as long as their loader.

A place makes arenas and knows what a row costs there. `penstock.feed.epoch` fills and empties them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.errors import SelectionError
from penstock.feed.frameworks.torch import free_on_gpu
from penstock.feed.memory.arena import Arena, Room
from penstock.feed.memory.cache import CachedSource, HostCache, RowsInPlace, Source, check_room
from penstock.feed.memory.host_arena import Buffers, Frame, HostArena
from penstock.feed.memory.leases import NoLease
from penstock.feed.memory.mapped import MappedRows, MappedSource
from penstock.feed.memory.native_loops import LoopChoice
from penstock.feed.memory.row_loops import NUMPY
from penstock.feed.memory.row_sizes import filled_bytes, row_bytes
from penstock.feed.plan.budget import Costs
from penstock.feed.reading.source import held_bytes, is_direct
from penstock.feed.shaping import Shaping

if TYPE_CHECKING:
    import torch

    from penstock.feed.cuda.cache import DeviceCache


class Place(Protocol):
    """Makes arenas of one kind."""

    def costs(self, threads: int) -> Costs:
        """What memory is used for, where so many threads read."""

    def begin(self, source: Source, rows: int, ranks: int) -> tuple[Source, RowsInPlace | None]:
        """An epoch of so many rows, as on so many ranks here: where its readers read, and the rows that need no slots.

        What is returned first is closed when the epoch ends, and the source that was given with it.
        """

    def serves(self, arena: Arena, in_place: RowsInPlace | None) -> bool:
        """Whether an arena of an earlier epoch serves one with these rows in place."""

    def arena(self, room: Room, in_place: RowsInPlace | None) -> Arena:
        """A new arena of this size."""

    def close(self) -> None:
        """Let the caches go."""


class HostPlace:
    """Host memory; batches are the framework's tensors over it."""

    def __init__(
        self,
        snapshot: Snapshot,
        specs: tuple[TensorSpec, ...],
        cache: str | None,
        shape: Shaping,
        frame: Frame,
    ) -> None:
        if cache == "device":
            raise SelectionError(
                'cache="device" is for batches on a GPU, and these are in host memory: pass cache="host", or a device.'
            )
        self._snapshot, self._specs, self._shape = snapshot, specs, shape
        self._frame, self._wanted = frame, cache
        self._cache: HostCache | None = None
        self._mapped: MappedRows | None = None
        self._buffers = Buffers()
        sizes = [spec.row_bytes for spec in specs if not spec.ragged]
        self._choice = LoopChoice(sizes, row_bytes(snapshot, specs), ragged=len(sizes) < len(specs))
        self._asked: set[bool] = set()
        """With and without narrow rows: whether it is known that they can, or cannot, be gathered out of a map."""

    def costs(self, threads: int) -> Costs:
        """Rows, their order beside them, and what readers decode."""
        row = row_bytes(self._snapshot, self._specs)
        filled = filled_bytes(self._specs, self._shape.lengths)
        # Those under way, the one that is waited for among them, and the one whose last batch the consumer still has.
        gathers = HostArena.ahead + 2
        decoded = held_bytes(self._snapshot, self._specs) * threads
        # What is filled up when it is handed over, while the consumer still has a batch of the one before.
        fillings, orders = 2 if filled else 0, 8 * len({spec.ragged for spec in self._specs})
        size, cached = HostArena.gather_bytes, self._wanted is not None
        return Costs(row, orders, size, gathers, 0, cached, decoded, filled=filled, fillings=fillings)

    def begin(self, source: Source, rows: int, ranks: int) -> tuple[Source, RowsInPlace | None]:
        """Behind the cache, or the map: where that pays from now on, and as long as it can be had."""
        self._choice.begin(rows)
        if self._wanted is not None:
            cache = self._cache = self._cache or HostCache(self._snapshot, self._specs, ranks)
            return CachedSource(source, cache), cache
        # Held here, since another thread may begin meanwhile: who opens a map closes the same one.
        mapped = self._map(narrow=self._choice.loops is not NUMPY)
        if mapped is not None:
            try:
                mapped.open()
                return MappedSource(source, mapped), mapped
            except NoLease:
                self._mapped = None
        return source, None

    def _map(self, narrow: bool) -> MappedRows | None:
        if self._mapped is None and narrow not in self._asked:
            self._mapped = MappedRows.over(self._snapshot, self._specs, narrow)
            self._asked |= {False, narrow}
        return self._mapped

    def serves(self, arena: Arena, in_place: RowsInPlace | None) -> bool:
        """Its rows lie where they do now, and its batches."""
        assert isinstance(arena, HostArena)
        return arena.buffers is self._buffers and arena.in_place is in_place

    def arena(self, room: Room, in_place: RowsInPlace | None) -> Arena:
        """Slots; or rows where they lie, with slots for the order alone."""
        cached = self._wanted is not None
        return HostArena(
            self._specs, room, self._shape, self._frame, in_place, self._buffers, self._choice, cached
        )

    def close(self) -> None:
        """Let the cache go, and what batches were gathered into."""
        self._cache, self._buffers = None, Buffers()


class CudaPlace:
    """A GPU's memory; a cache on the host or on the device."""

    def __init__(
        self,
        snapshot: Snapshot,
        specs: tuple[TensorSpec, ...],
        cache: str | None,
        shape: Shaping,
        device: torch.device,
    ) -> None:
        self._snapshot, self._specs, self._shape = snapshot, specs, shape
        self._device, self._wanted = device, cache
        self._on_host: HostCache | None = None
        self._on_device: DeviceCache | None = None
        self._choice = LoopChoice([], row_bytes(snapshot, specs), ragged=True)

    def costs(self, threads: int) -> Costs:
        """Slots and gathers on the device; for every reader pinned memory, and what it decodes."""
        from penstock.feed.cuda.arena import AT_ONCE, PINNED_BYTES, STAGES, CudaArena

        row = row_bytes(self._snapshot, self._specs)
        filled = filled_bytes(self._specs, self._shape.lengths)
        gathers, size, beside = CudaArena.ahead + 2, CudaArena.gather_bytes, 0
        if any(spec.ragged for spec in self._specs):
            # What is gathered, or filled up, in memory of the host is on the device too.
            ragged = max(row - sum(spec.row_bytes for spec in self._specs if not spec.ragged), filled)
            most = CudaArena.ragged_gather_bytes * max(row, filled) // max(ragged, 1)
            gathers, size, beside = 2 * gathers, min(size, most), 8
        pinned = STAGES * PINNED_BYTES * threads
        decoded = held_bytes(self._snapshot, self._specs) * threads
        cached, direct = self._wanted == "device", is_direct(self._snapshot, self._specs)
        at_once = AT_ONCE if direct and self._wanted != "host" else 1
        fillings = gathers if filled else 0
        return Costs(row, beside, size, gathers, pinned, cached, decoded, at_once, filled, fillings)

    def begin(self, source: Source, rows: int, ranks: int) -> tuple[Source, RowsInPlace | None]:
        """Ragged tensors are gathered on the host, and have no place on the device, so their cache is the host's."""
        self._device = _numbered(self._device)
        if any(spec.ragged for spec in self._specs):
            self._choice.begin(rows)
        on_host = tuple(spec for spec in self._specs if self._wanted == "host" or spec.ragged)
        if self._wanted is None or not on_host:
            return source, None
        if self._on_host is None:
            self._on_host = HostCache(self._snapshot, on_host, ranks)
        return CachedSource(source, self._on_host), None

    def serves(self, arena: Arena, in_place: RowsInPlace | None) -> bool:
        """For good."""
        return True

    def arena(self, room: Room, in_place: RowsInPlace | None) -> Arena:
        """Slots on the device, or the cache there."""
        from penstock.feed.cuda.arena import CudaArena
        from penstock.feed.cuda.calls import cuda_calls

        calls = cuda_calls(self._device)
        cache, choice, cached = self._device_cache(), self._choice, self._wanted is not None
        return CudaArena(self._specs, room, self._shape, self._device, calls, cache, choice, cached)

    def _device_cache(self) -> DeviceCache | None:
        if self._wanted == "device" and self._on_device is None:
            from penstock.feed.cuda.cache import DeviceCache

            fixed = tuple(spec for spec in self._specs if not spec.ragged)
            size = self._snapshot.manifest.rows * row_bytes(self._snapshot, fixed)
            check_room(size, free_on_gpu(self._device), str(self._device), "device")
            self._on_device = DeviceCache(self._snapshot, fixed, self._device)
        return self._on_device

    def close(self) -> None:
        """Let the caches go, and pinned memory; no arena is left."""
        from penstock.feed.cuda.arena import give_pinned_back

        self._on_host = self._on_device = None
        give_pinned_back()


def _numbered(device: torch.device) -> torch.device:
    """The device that is meant where no number is said: the one that is current now, and from now on the same one."""
    import torch

    return torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else device
