"""What loaders with batches on a GPU go through, as `host_calls` stands in for one; each is a function of the calls.

A consumer uses every batch on the stream it took it on. `test_cuda_order` runs all of them, and `test_cuda_forgotten`
runs them with something forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from host_calls import CPU, HostCalls

import penstock as pk
from penstock.feed.cuda import arena as cuda_arena
from penstock.feed.cuda.arena import CudaArena
from penstock.feed.loader import Loader
from penstock.feed.loaders import chosen_specs, numpy_loader, shaping
from penstock.feed.places import CudaPlace
from penstock.feed.settings import Settings

ROWS = 1203
PLAIN = Settings(50, rank=0, world=1, lanes=4, threads=3)


def written(folder: Path) -> pk.Dataset:
    values = np.random.default_rng(1).random(ROWS * 7, dtype=np.float32)
    rows = {
        "id": np.arange(ROWS),
        "v": pa.FixedSizeListArray.from_arrays(values, 7),
        "b": np.arange(ROWS) % 3 == 0,
        "tokens": [list(range(row % 5)) for row in range(ROWS)],
    }
    tensors = {"id": "id", "v": "v", "b": "b", "tokens": pk.ragged("tokens")}
    return pk.write(pa.table(rows), folder, tensors, shards=3, block_bytes=1500)


def small(monkeypatch: pytest.MonkeyPatch, stage: int = 512, gather: int = 6000) -> None:
    """Many pieces take turns in pinned memory, and an epoch has many gathers."""
    monkeypatch.setattr(cuda_arena, "STAGE_BYTES", stage)
    monkeypatch.setattr(CudaArena, "gather_bytes", gather)
    monkeypatch.setattr(CudaArena, "ragged_gather_bytes", gather)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 40, 1 << 40))


def loader_on(ds: pk.Dataset, settings: Settings, tensors: list[str]) -> Loader:
    specs = chosen_specs(ds.snapshot, tensors)
    place = CudaPlace(ds.snapshot, specs, settings.cache, shaping(specs, settings), CPU)
    return Loader(ds.snapshot, specs, settings, place)


def expected(ds: pk.Dataset, settings: Settings, tensors: list[str]) -> Loader:
    plain = replace(settings, cache=None, transform=None, nested=False)
    return numpy_loader(ds.snapshot, chosen_specs(ds.snapshot, tensors), plain)


def same(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name, wanted in theirs.items():
        found = mine[name]
        if name != "tokens" or isinstance(wanted, np.ndarray):
            assert np.array_equal(found.numpy(), wanted), name
        elif isinstance(found, torch.Tensor):
            rows = np.split(wanted.values, wanted.offsets[1:-1])
            assert [row.tolist() for row in found.unbind()] == [row.tolist() for row in rows]
        else:
            assert np.array_equal(found.values.numpy(), wanted.values)
            assert np.array_equal(found.offsets.numpy(), wanted.offsets)


def epochs(
    calls: HostCalls, ds: pk.Dataset, settings: Settings, tensors: Iterable[str] = ("id", "v"), count: int = 3
) -> None:
    """Each batch is used, compared and dropped."""
    names = list(tensors)
    calls.twice = settings.cache == "device" and settings.threads > 1
    loader, host = loader_on(ds, settings, names), expected(ds, settings, names)
    for _ in range(count):
        for mine, theirs in zip(loader, host, strict=True):
            calls.use(mine)
            same(mine, theirs)
            del mine
    loader.close()


def streamed(calls: HostCalls, ds: pk.Dataset) -> None:
    """The first epoch checks what it reads, the second reads into pinned memory, the third was begun by it."""
    epochs(calls, ds, PLAIN, ["id", "v", "b"])


def little_memory(calls: HostCalls, ds: pk.Dataset) -> None:
    epochs(calls, ds, replace(PLAIN, verify=False, threads=1, lanes=2), ["v"])


def in_the_order_of_the_files(calls: HostCalls, ds: pk.Dataset) -> None:
    epochs(calls, ds, replace(PLAIN, shuffle=False, last="pad"))


def shared_lanes(calls: HostCalls, ds: pk.Dataset) -> None:
    for rank, last in enumerate(("drop", "short", "pad")):
        epochs(calls, ds, replace(PLAIN, rank=rank, world=3, last=last), count=2)


def cached_on_the_host(calls: HostCalls, ds: pk.Dataset) -> None:
    epochs(calls, ds, replace(PLAIN, cache="host"), ["id", "tokens"])


def cached_on_the_device(calls: HostCalls, ds: pk.Dataset) -> None:
    epochs(calls, ds, replace(PLAIN, cache="device"))
    epochs(calls, ds, replace(PLAIN, cache="device", threads=1, last="pad"), ["v", "tokens"])


def ragged(calls: HostCalls, ds: pk.Dataset) -> None:
    epochs(calls, ds, PLAIN, ["id", "tokens"], count=2)
    epochs(calls, ds, replace(PLAIN, last="short"), ["tokens"], count=1)


def filled_up(calls: HostCalls, ds: pk.Dataset) -> None:
    epochs(calls, ds, replace(PLAIN, last="pad", pad=3), ["id", "tokens"], count=2)


def nested(calls: HostCalls, ds: pk.Dataset) -> None:
    epochs(calls, ds, replace(PLAIN, nested=True), ["id", "tokens"], count=2)


def held_to_the_end(calls: HostCalls, ds: pk.Dataset) -> None:
    """Used only when the loader is closed."""
    for cache in (None, "device"):
        calls.twice = cache is not None
        loader, host = (
            loader_on(ds, replace(PLAIN, cache=cache), ["id", "v"]),
            expected(ds, PLAIN, ["id", "v"]),
        )
        for _ in range(2):
            held = list(loader)
            for mine, theirs in zip(held, host, strict=True):
                calls.use(mine)
                same(mine, theirs)
        loader.close()
        calls.use(held)


def another_stream(calls: HostCalls, ds: pk.Dataset) -> None:
    """Steps of one gather are taken on two streams by turns, and never on the first one in the second epoch."""
    loader, host = loader_on(ds, PLAIN, ["id", "v"]), expected(ds, PLAIN, ["id", "v"])
    streams = [calls.default, calls.stream(), calls.stream()]
    for epoch in range(2):
        ours, theirs = iter(loader), iter(host)
        for step in range(len(loader)):
            with calls.on(streams[step % 2 + epoch]):
                batch = next(ours)
                calls.use(batch)
                same(batch, next(theirs))
                del batch
        assert next(ours, None) is None
        assert next(theirs, None) is None


def left_midway(calls: HostCalls, ds: pk.Dataset) -> None:
    """What is under way then is freed with the arena; what is held stays."""
    loader, host = loader_on(ds, PLAIN, ["id", "v"]), expected(ds, PLAIN, ["id", "v"])
    for steps in (3, 1, 1000, 2, 1000):
        held = []
        for step, (mine, theirs) in enumerate(zip(loader, host, strict=False)):
            calls.use(mine)
            held.append(mine)
            same(mine, theirs)
            if step == steps:
                break
        calls.use(held)


def closed_under_way(calls: HostCalls, ds: pk.Dataset) -> None:
    loader = loader_on(ds, PLAIN, ["id", "v"])
    list(loader)
    batches = iter(loader)
    held = [next(batches), next(batches)]
    loader.close()
    held += list(batches)
    calls.use(held)


def dropped_ahead(calls: HostCalls, ds: pk.Dataset) -> None:
    """What was read ahead is of an epoch that does not come: other readers write to those slots."""
    loader, host = loader_on(ds, PLAIN, ["id", "v"]), expected(ds, PLAIN, ["id", "v"])
    for epoch in (0, 1, 5, 6, 2):
        loader.set_epoch(epoch)
        host.set_epoch(epoch)
        for mine, theirs in zip(loader, host, strict=True):
            calls.use(mine)
            same(mine, theirs)


def two_at_once(calls: HostCalls, ds: pk.Dataset) -> None:
    loader, host = loader_on(ds, PLAIN, ["id", "v"]), expected(ds, PLAIN, ["id", "v"])
    for (a, b), (c, d) in zip(zip(loader, loader, strict=True), zip(host, host, strict=True), strict=True):
        calls.use([a, b])
        same(a, c)
        same(b, d)


Scenario = Callable[[HostCalls, pk.Dataset], None]
SCENARIOS: list[Scenario] = [
    streamed,
    little_memory,
    in_the_order_of_the_files,
    shared_lanes,
    cached_on_the_host,
    cached_on_the_device,
    ragged,
    filled_up,
    nested,
    held_to_the_end,
    another_stream,
    left_midway,
    closed_under_way,
    dropped_ahead,
    two_at_once,
]
