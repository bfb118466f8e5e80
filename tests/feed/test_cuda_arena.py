"""The arena of a GPU, run in host memory: the batches are those of the host's own arena, however rows come to it.

`benchmarks/feed_gpu.py` checks the same on a GPU, with streams and events that are real.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import host_calls
import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as pk
from penstock.errors import SelectionError
from penstock.feed.cuda import arena as cuda_arena
from penstock.feed.cuda import calls as cuda_calls
from penstock.feed.loader import Loader
from penstock.feed.loaders import chosen_specs, numpy_loader, shaping
from penstock.feed.places import CudaPlace
from penstock.feed.settings import Settings

ROWS = 5003


@pytest.fixture(autouse=True)
def host_instead_of_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[host_calls.HostCalls]:
    calls = host_calls.HostCalls()
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 40, 1 << 40))
    with calls.instead_of_cuda(monkeypatch):
        yield calls


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    random = np.random.default_rng(1)
    rows = pa.table(
        {
            "id": np.arange(ROWS),
            "v": pa.FixedSizeListArray.from_arrays(random.random(ROWS * 7, dtype=np.float32), 7),
            "b": np.arange(ROWS) % 3 == 0,
            "tokens": [list(range(row % 5)) for row in range(ROWS)],
        }
    )
    tensors = {"id": "id", "v": "v", "b": "b", "tokens": pk.ragged("tokens")}
    return pk.write(rows, tmp_path_factory.mktemp("arena"), tensors, shards=3, block_bytes=5000)


def on_the_device(ds: pk.Dataset, settings: Settings, tensors: list[str]) -> Loader:
    specs = chosen_specs(ds.snapshot, tensors)
    place = CudaPlace(ds.snapshot, specs, settings.cache, shaping(specs, settings), host_calls.CPU)
    return Loader(ds.snapshot, specs, settings, place)


def on_the_host(ds: pk.Dataset, settings: Settings, tensors: list[str]) -> Loader:
    return numpy_loader(ds.snapshot, chosen_specs(ds.snapshot, tensors), settings)


def assert_same(ds: pk.Dataset, settings: Settings, tensors: list[str], epochs: int = 3) -> None:
    ours = on_the_device(ds, settings, tensors)
    host = on_the_host(ds, replace(settings, cache=None), tensors)
    calls: Any = cuda_calls.cuda_calls(host_calls.CPU)
    calls.twice = settings.cache == "device"
    for _ in range(epochs):
        for mine, theirs in zip(ours, host, strict=True):
            assert mine.keys() == theirs.keys()
            calls.use(mine)
            for name, array in theirs.items():
                if name == "tokens":
                    assert np.array_equal(mine[name].values.numpy(), array.values)
                    assert np.array_equal(mine[name].offsets.numpy(), array.offsets)
                else:
                    assert np.array_equal(mine[name].numpy(), array), name
    ours.close()


@pytest.mark.parametrize("tensors", [["id", "v", "b"], ["v"], ["id", "b"], ["v", "tokens"], ["tokens"]])
@pytest.mark.parametrize("cache", [None, "host", "device"])
def test_the_same_rows_as_on_the_host(dataset: pk.Dataset, tensors: list[str], cache: str | None) -> None:
    for batch, world, last in ((100, 1, "drop"), (33, 2, "short"), (16, 3, "pad")):
        for rank in range(world):
            settings = Settings(
                batch,
                seed=2,
                rank=rank,
                world=world,
                last=last,
                lanes=8,
                threads=3,
                cache=cache,
                window=world,
            )
            assert_same(dataset, settings, tensors)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("cache", [None, "device"])
def test_ranks_that_share_lanes(dataset: pk.Dataset, shuffle: bool, cache: str | None) -> None:
    for batch, world, last in ((33, 3, "drop"), (20, 5, "short"), (7, 12, "pad")):
        for rank in range(0, world, 2):
            same = Settings(batch, rank=rank, world=world, lanes=8, threads=2, shuffle=shuffle)
            assert_same(dataset, replace(same, last=last, cache=cache, verify=rank > 2), ["id", "v", "b"])


@pytest.mark.parametrize("stage", [64, 1000, 4096])
@pytest.mark.parametrize("verify", [True, False])
def test_pieces_of_any_size(
    dataset: pk.Dataset, monkeypatch: pytest.MonkeyPatch, stage: int, verify: bool
) -> None:
    monkeypatch.setattr(cuda_arena, "STAGE_BYTES", stage)
    settings = Settings(100, rank=0, world=1, lanes=4, threads=2, verify=verify)
    assert_same(dataset, settings, ["id", "v", "b"])


def test_rows_are_copied_once_an_epoch(
    dataset: pk.Dataset, host_instead_of_cuda: host_calls.HostCalls, tmp_path: Path
) -> None:
    settings = Settings(100, rank=0, world=1, lanes=4, threads=2, last="short", verify=False)
    loader = on_the_device(dataset, settings, ["v"])
    before = host_instead_of_cuda.copied
    assert sum(len(batch["v"]) for batch in loader) == ROWS
    # The tables of the windows are copied too, and are small.
    assert ROWS * 28 <= host_instead_of_cuda.copied - before < ROWS * 28 * 1.5
    assert loader.stats.bytes_read == ROWS * 28


def test_memory_that_torch_holds_unused_counts_as_free(
    dataset: pk.Dataset, host_instead_of_cuda: host_calls.HostCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader that is made late, when models have come and gone, finds most of it there."""
    host_instead_of_cuda.twice = True
    settings, size = Settings(100, rank=0, world=1, cache="device"), ROWS * 28
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (size // 2, 1 << 40))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 10_000)
    for reserved, fits in ((10_000, False), (9_000 + size // 2, False), (11_000 + size // 2, True)):
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device, reserved=reserved: reserved)
        loader = on_the_device(dataset, settings, ["v"])
        if fits:
            assert len(list(loader)) == len(loader)
        else:
            with pytest.raises(SelectionError, match=r"cpu has .* free"):
                next(iter(loader))
        loader.close()


@pytest.mark.parametrize("lanes", [63, 64])
@pytest.mark.parametrize("last", ["short", "pad"])
def test_a_rank_that_gets_no_rows(tmp_path: Path, lanes: int, last: str) -> None:
    ds = pk.write(pa.table({"id": np.arange(1)}), tmp_path)
    for rank in range(2):
        assert_same(ds, Settings(1, rank=rank, world=2, last=last, lanes=lanes), ["id"])


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("tensors", [["none"], ["id", "none"]])
def test_rows_without_bytes(
    tmp_path: Path,
    host_instead_of_cuda: host_calls.HostCalls,
    monkeypatch: pytest.MonkeyPatch,
    tensors: list[str],
    verify: bool,
) -> None:
    wait_for = host_instead_of_cuda.wait

    def wait(stream: object, event: object) -> None:
        assert event is not None
        wait_for(stream, event)

    monkeypatch.setattr(host_instead_of_cuda, "wait", wait)
    rows = pa.table({"id": np.arange(500), "none": pa.array([[]] * 500, pa.list_(pa.float32(), 0))})
    ds = pk.write(rows, tmp_path, block_bytes=1024)
    assert_same(ds, Settings(10, rank=0, world=1, lanes=4, verify=verify), tensors)


def test_a_closed_loader_holds_no_memory_before_the_collector_comes(dataset: pk.Dataset) -> None:
    loader = on_the_device(dataset, Settings(100, rank=0, world=1, lanes=4), ["id", "v"])
    gc.collect()
    gc.disable()
    try:
        for _ in loader:
            pass
        ((arena, _),) = loader._kept._held
        sends, windows = weakref.ref(arena._sends._pinned[0]), weakref.ref(arena._windows)
        loader.close()
        assert sends() is None
        assert windows() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("tensors", [["id", "v"], ["tokens"]])
@pytest.mark.parametrize("left", ["whole", "early", "under way"])
@pytest.mark.parametrize("where", ["host", "device"])
def test_memory_is_freed_when_an_epoch_ends_however_it_does(
    dataset: pk.Dataset, tensors: list[str], left: str, where: str
) -> None:
    """Not when the collector comes, which trainings turn off. A whole epoch's is kept until the loader is closed."""
    settings = Settings(100, rank=0, world=1, lanes=4)
    make = {"host": on_the_host, "device": on_the_device}[where]
    loader = make(dataset, settings, tensors)
    gc.collect()
    gc.disable()
    try:
        batches = iter(loader)
        next(batches)
        # What only the epoch under way has: its generator's frame knows it.
        epoch = batches.gi_frame.f_locals["epoch"]
        held = weakref.ref(epoch), weakref.ref(epoch._arena._ragged._orders), weakref.ref(epoch._readers)
        del epoch
        if left == "under way":
            loader.close()
        if left != "early":
            for _ in batches:
                pass
        if left == "whole":
            loader.close()
        batches.close()
        del batches
        assert [each() for each in held] == [None, None, None]
    finally:
        gc.enable()


def test_pinned_memory_is_counted_as_torch_takes_it(dataset: pk.Dataset) -> None:
    """In powers of two."""
    assert cuda_arena.STAGE_BYTES <= cuda_arena.PINNED_BYTES < 2 * cuda_arena.STAGE_BYTES
    assert cuda_arena.PINNED_BYTES.bit_count() == 1
    place = on_the_device(dataset, Settings(100), ["id"])._place
    assert place.costs(3).staged == 3 * cuda_arena.STAGES * cuda_arena.PINNED_BYTES
