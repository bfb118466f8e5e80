"""What `Dataset.numpy`, `.torch` and `.jax` do: the tensors asked for, a `Loader` for the framework.

`penstock.feed.frameworks.tensorflow_batches` has TensorFlow's, which is no `Loader`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.errors import DeviceError, MissingDependency, SelectionError, listed
from penstock.feed.follow.following import Following
from penstock.feed.follow.loader import FollowLoader
from penstock.feed.frameworks import jax as jax_feed
from penstock.feed.frameworks import torch as torch_feed
from penstock.feed.loader import Loader
from penstock.feed.memory.arena import Room
from penstock.feed.memory.host_arena import Frame, HostArena, as_numpy, as_torch
from penstock.feed.places import CudaPlace, HostPlace, Place
from penstock.feed.settings import Settings
from penstock.feed.shaping import Shaping, length_name, padded_lengths
from penstock.feed.world import ranks_here
from penstock.machine import cores_of_each
from penstock.wire.ragged import Ragged

VALID = "valid"
"""The tensor that tells rows from those that fill a batch up."""
DEVICE_THREADS, HOST_THREADS = 8, 4
"""Readers of one rank, where there are cores for them. On 16 cores 8 fed a GPU fastest; on the host they share cores
with the gather."""
FAR_THREADS = 16
"""Readers of one rank where each waits for another machine, so not bounded by cores. At 40 ms to the first byte and
80 MB/s a connection, two for each block of 16 MiB, they could have 1.8 GB/s; on 2 cores 0.4 to 0.6 came."""


def chosen_specs(snapshot: Snapshot, tensors: Any) -> tuple[TensorSpec, ...]:
    """The tensors named, in the dataset's order; all of them without names."""
    if tensors is None:
        return snapshot.manifest.tensors
    names = [tensors] if isinstance(tensors, str) else list(tensors)
    for name in names:
        snapshot.spec(name)
    if not names:
        there = [spec.name for spec in snapshot.manifest.tensors]
        raise SelectionError(f"tensors=[] names none; there are {listed(there)}.")
    return tuple(spec for spec in snapshot.manifest.tensors if spec.name in names)


def reader_threads(
    wanted: int | None, snapshot: Snapshot, world: int | None = None, on_device: bool = False
) -> int:
    """How many threads read for one rank: those wanted, else what suits the storage and this rank's share of the cores.

    `world` as it was said: more ranks than these are not told by anybody who says that there is one.
    """
    if wanted is not None:
        return wanted
    if snapshot.store.local is None:
        return FAR_THREADS
    cores = cores_of_each(1 if world == 1 else ranks_here(None))
    return max(min(cores, DEVICE_THREADS if on_device else HOST_THREADS), 2)


def numpy_loader(
    snapshot: Snapshot, specs: tuple[TensorSpec, ...], settings: Settings, following: Following | None = None
) -> Loader:
    """Batches of NumPy arrays."""
    shape = shaping(specs, settings)

    def place(snapshot: Snapshot) -> Place:
        return HostPlace(snapshot, specs, settings.cache, shape, as_numpy)

    if following is not None:
        return FollowLoader(following, specs, settings, place, _shaper(specs, shape, as_numpy))
    return Loader(snapshot, specs, settings, place(snapshot))


def _shaper(specs: tuple[TensorSpec, ...], shape: Shaping, frame: Frame) -> HostArena:
    """An arena without room for rows, for what it makes of those that are gathered already."""
    return HostArena(specs, Room(1, 1, 1), shape, frame)


def shaping(specs: tuple[TensorSpec, ...], settings: Settings) -> Shaping:
    """What is to become of ragged tensors; refuses names that a batch needs for itself."""
    if settings.last == "pad" and any(spec.name == VALID for spec in specs):
        raise SelectionError(
            f"last='pad' adds a tensor {VALID!r} to every batch, and there is one of that name already. Leave it out "
            "with tensors=[...], or choose another last."
        )
    dtypes = {spec.name: spec.dtype for spec in specs}
    return Shaping(dtypes, padded_lengths(settings.pad, specs), settings.nested)


def torch_loader(
    snapshot: Snapshot,
    specs: tuple[TensorSpec, ...],
    settings: Settings,
    device: Any,
    following: Following | None = None,
) -> Loader:
    """Batches of torch tensors on a device."""
    torch_feed.check([spec.dtype for spec in specs], device)
    try:
        import torch
    except ImportError as error:
        raise MissingDependency("torch", extra="torch") from error

    where = torch.device("cpu" if device is None else device)
    if where.type not in ("cpu", "cuda"):
        raise DeviceError(
            f"device {str(where)!r} is of a kind loaders do not know: they fill host memory and CUDA devices. Leave "
            "device out, and move the batches yourself."
        )
    shape = shaping(specs, settings)

    def place(snapshot: Snapshot) -> Place:
        if where.type == "cuda":
            return CudaPlace(snapshot, specs, settings.cache, shape, where)
        return HostPlace(snapshot, specs, settings.cache, shape, as_torch)

    if following is not None:
        move = _mover(where) if where.type == "cuda" else None
        return FollowLoader(following, specs, settings, place, _shaper(specs, shape, as_torch), move)
    return Loader(snapshot, specs, settings, place(snapshot))


def _mover(device: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Brings a batch from host memory to a device. The write bounds such an epoch: copies need not overlap."""

    def moved(rows: Any) -> Any:
        if isinstance(rows, Ragged):
            return Ragged(moved(rows.values), moved(rows.offsets))
        return rows.to(device)

    return lambda batch: {name: moved(rows) for name, rows in batch.items()}


def jax_loader(
    snapshot: Snapshot,
    specs: tuple[TensorSpec, ...],
    settings: Settings,
    device: Any,
    following: Following | None = None,
) -> Loader:
    """Batches of JAX arrays on a device; the user's transform sees those."""
    jax_feed.check([spec.dtype for spec in specs], device)
    dtypes = batch_dtypes(specs, settings)

    def place(batch: dict[str, Any]) -> dict[str, Any]:
        placed: dict[str, Any] = {}
        for name, rows in batch.items():
            if isinstance(rows, Ragged):
                parts: list[Any] = list(
                    jax_feed.place([rows.values, rows.offsets], [dtypes[name], "int64"], device)
                )
                placed[name] = Ragged(parts[0], parts[1])
            else:
                placed[name] = jax_feed.place([rows], [dtypes[name]], device)[0]
        return placed

    return numpy_loader(snapshot, specs, replace(settings, place=place), following)


def batch_dtypes(specs: tuple[TensorSpec, ...], settings: Settings) -> dict[str, str]:
    """Of all tensors of a batch."""
    lengths = {length_name(name): "int32" for name in padded_lengths(settings.pad, specs)}
    return {spec.name: spec.dtype for spec in specs} | lengths | {VALID: "bool"}
