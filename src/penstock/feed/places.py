"""Where batches are made: in host memory, or on a GPU; and the caches that live there as long as their loader.

A place makes arenas and knows what a row costs there. `penstock.feed.epoch` fills and empties them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.errors import SelectionError
from penstock.feed.arena import Arena, Room
from penstock.feed.budget import Costs
from penstock.feed.cache import CachedSource, HostCache, Source, check_room, row_bytes
from penstock.feed.host_arena import Frame, HostArena
from penstock.feed.shaping import Shaping

if TYPE_CHECKING:
    import torch

    from penstock.feed.device_cache import DeviceCache


class Place(Protocol):
    """Makes arenas of one kind."""

    def costs(self, threads: int) -> Costs:
        """What memory is used for, where so many threads read."""

    def arena(self, room: Room) -> Arena:
        """A new arena of this size."""

    def source(self, source: Source) -> Source:
        """Where readers read: behind a cache in host memory, where one is wanted."""

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

    def costs(self, threads: int) -> Costs:
        """Rows, and their order beside them."""
        row = row_bytes(self._snapshot, self._specs)
        gathers = HostArena.ahead + 2
        return Costs(row, 8, HostArena.gather_bytes, gathers, 0, cached=self._wanted is not None)

    def arena(self, room: Room) -> Arena:
        """Slots, or the cache with slots for the order alone."""
        return HostArena(self._specs, room, self._shape, self._frame, self._host_cache())

    def source(self, source: Source) -> Source:
        """Behind the cache."""
        cache = self._host_cache()
        return source if cache is None else CachedSource(source, cache)

    def _host_cache(self) -> HostCache | None:
        if self._wanted is not None and self._cache is None:
            self._cache = HostCache(self._snapshot, self._specs)
        return self._cache

    def close(self) -> None:
        """Let the cache go."""
        self._cache = None


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

    def costs(self, threads: int) -> Costs:
        """Slots and gathers on the device, and pinned memory for every reader."""
        from penstock.feed.cuda_arena import STAGE_BYTES, STAGES, CudaArena

        row, gathers = row_bytes(self._snapshot, self._specs), CudaArena.ahead + 2
        pinned = STAGES * STAGE_BYTES * threads
        return Costs(row, 0, CudaArena.gather_bytes, gathers, pinned, self._wanted == "device")

    def arena(self, room: Room) -> Arena:
        """Slots on the device, or the cache there."""
        from penstock.feed.cuda_arena import CudaArena

        return CudaArena(self._specs, room, self._shape, self._device, self._device_cache())

    def _device_cache(self) -> DeviceCache | None:
        if self._wanted == "device" and self._on_device is None:
            import torch

            from penstock.feed.device_cache import DeviceCache

            fixed = tuple(spec for spec in self._specs if not spec.ragged)
            size = self._snapshot.manifest.rows * row_bytes(self._snapshot, fixed)
            check_room(size, torch.cuda.mem_get_info(self._device)[0], str(self._device), "device")
            self._on_device = DeviceCache(self._snapshot, fixed, self._device)
        return self._on_device

    def source(self, source: Source) -> Source:
        """Ragged tensors have no place on the device, so their cache is the host's."""
        on_host = tuple(spec for spec in self._specs if self._wanted == "host" or spec.ragged)
        if self._wanted is None or not on_host:
            return source
        if self._on_host is None:
            self._on_host = HostCache(self._snapshot, on_host)
        return CachedSource(source, self._on_host)

    def close(self) -> None:
        """Let the caches go."""
        self._on_host = self._on_device = None
