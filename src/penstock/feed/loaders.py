"""What `Dataset.numpy` and `Dataset.torch` do: the tensors asked for, the arena that fits the device, a `Loader`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.errors import SelectionError, listed
from penstock.feed.arena import Arena, HostArena
from penstock.feed.loader import Loader, Settings
from penstock.machine import usable_cores

if TYPE_CHECKING:
    pass

MOST_THREADS = 12
"""Readers of one rank: on 16 cores, page cache warm, more of them read no faster."""


def chosen_specs(snapshot: Snapshot, tensors: Sequence[str] | None) -> tuple[TensorSpec, ...]:
    """The tensors named, in the dataset's order; all of them without names."""
    if tensors is None:
        return snapshot.manifest.tensors
    names = list(tensors)
    for name in names:
        snapshot.spec(name)
    if not names:
        there = [spec.name for spec in snapshot.manifest.tensors]
        raise SelectionError(f"tensors=[] names none; there are {listed(there)}.")
    return tuple(spec for spec in snapshot.manifest.tensors if spec.name in names)


def reader_threads(device: str) -> int:
    """How many threads read for one rank."""
    return min(MOST_THREADS, max(usable_cores() - 2, 2)) if device != "cpu" else min(usable_cores(), 4)


def numpy_loader(snapshot: Snapshot, specs: tuple[TensorSpec, ...], settings: Settings) -> Loader:
    """Batches of NumPy arrays."""
    return Loader(snapshot, specs, settings, HostArena, HostArena.gather_bytes)


def torch_loader(
    snapshot: Snapshot, specs: tuple[TensorSpec, ...], settings: Settings, device: Any
) -> Loader:
    """Batches of torch tensors on a device."""
    import torch

    from penstock.feed.torch_arena import CudaArena, TorchArena

    where = torch.device(device)
    kind = CudaArena if where.type == "cuda" else TorchArena

    def make(specs: tuple[TensorSpec, ...], slots: int, rows: int) -> Arena:
        return kind(specs, slots, rows, where)

    return Loader(snapshot, specs, settings, make, kind.gather_bytes)
