"""What rows take: counted as they are unpacked, of the tensors chosen, and as they are filled up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import host_calls
import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import SelectionError
from penstock.feed.cuda.arena import CudaArena
from penstock.feed.loaders import chosen_specs, shaping
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.memory.row_sizes import row_bytes
from penstock.feed.places import CudaPlace, HostPlace
from penstock.feed.settings import Settings

ROWS, TOKENS, TEXT = 4000, 60, 500


@pytest.fixture(scope="module", params=[None, "zstd"])
def ds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    table = pa.table(
        {"id": np.arange(ROWS), "tokens": [[7] * TOKENS] * ROWS, "text": ["t" * TEXT] * ROWS},
    )
    tensors = {"id": "id", "tokens": pk.ragged("tokens"), "text": "text"}
    path, dtypes = tmp_path_factory.mktemp("sizes"), {"tokens": "int32"}
    return pk.write(table, path, tensors, dtype=dtypes, block_bytes=50_000, compression=request.param)


SIZES = {"id": 8, "tokens": 8 + 4 * TOKENS, "text": 8 + TEXT}


@pytest.mark.parametrize("names", [["id"], ["tokens"], ["text"], ["id", "text"], ["id", "tokens", "text"]])
def test_rows_are_counted_unpacked_and_only_of_the_tensors_chosen(ds: pk.Dataset, names: list[str]) -> None:
    size = sum(SIZES[name] for name in names)
    assert row_bytes(ds.snapshot, chosen_specs(ds.snapshot, names)) == size
    loader = ds.numpy(100, tensors=names, rank=0, world=1)
    for _ in loader:
        pass
    assert loader.stats.bytes == ROWS * size


def test_bytes_are_told_without_what_fills_rows_up(ds: pk.Dataset) -> None:
    loader = ds.numpy(100, tensors=["tokens"], pad=5000, rank=0, world=1)
    assert sum(len(batch["tokens"]) for batch in loader) == ROWS
    assert loader.stats.bytes == ROWS * SIZES["tokens"]


def test_a_cache_of_what_does_not_fit_unpacked_is_refused(ds: pk.Dataset, monkeypatch) -> None:
    asked = {"tensors": ["tokens"], "cache": "host", "rank": 0, "world": 1}
    monkeypatch.setattr("penstock.feed.memory.cache.free_memory", lambda: ROWS * SIZES["tokens"] - 1)
    with pytest.raises(SelectionError, match="cache='host' keeps 992"):
        next(iter(ds.numpy(100, **asked)))
    monkeypatch.setattr("penstock.feed.memory.cache.free_memory", lambda: ROWS * SIZES["tokens"])
    assert next(iter(ds.numpy(100, **asked)))


def test_no_more_rows_are_filled_up_at_once_than_are_gathered(ds: pk.Dataset, monkeypatch) -> None:
    cut, most = HostArena.cut, 0

    def noted(self: HostArena, *arguments: Any) -> list[dict[str, Any]]:
        nonlocal most
        batches = cut(self, *arguments)
        most = max(most, sum(batch["tokens"].nbytes for batch in batches))
        return batches

    monkeypatch.setattr(HostArena, "gather_bytes", 1 << 20)
    monkeypatch.setattr(HostArena, "cut", noted)
    loader = ds.numpy(10, tensors=["tokens"], pad=8192, lanes=4, rank=0, world=1)
    for _ in loader:
        pass
    assert 10 * 8192 * 4 <= most <= 1 << 20
    # Of those that are filled up there are two, the consumer's last batch among them.
    assert loader.stats.memory > 2 * most


@pytest.mark.parametrize("pad", [None, 10, 8192])
def test_a_place_counts_what_it_fills_up(ds: pk.Dataset, pad: int | None) -> None:
    specs = chosen_specs(ds.snapshot, ["id", "tokens"])
    shape = shaping(specs, Settings(10, pad=pad))
    filled = 0 if pad is None else 4 * pad + 4
    host = HostPlace(ds.snapshot, specs, None, shape, lambda array, dtype: array).costs(2)
    device = CudaPlace(ds.snapshot, specs, None, shape, host_calls.CPU).costs(2)
    for costs in (host, device):
        assert (costs.row, costs.filled) == (SIZES["id"] + SIZES["tokens"], filled)
        assert bool(costs.fillings) == bool(filled)
    # Of what passes through pinned memory only so much, whichever form is larger.
    rows = device.gather // max(device.row, filled)
    assert rows * max(SIZES["tokens"], filled) <= CudaArena.ragged_gather_bytes


def test_memory_bounds_what_is_filled_up(tmp_path: Path) -> None:
    rows = pa.table({"tokens": [[1, 2, 3]] * 2000})
    ds = pk.write(
        rows, tmp_path, {"tokens": pk.ragged("tokens")}, dtype={"tokens": "int32"}, block_bytes=4096
    )
    asked = {"rank": 0, "world": 1, "lanes": 4, "memory": 8 << 20}
    batch = next(iter(ds.numpy(10, pad=8192, **asked)))
    assert batch["tokens"].base.nbytes <= 4 << 20
    with pytest.raises(SelectionError, match="smaller batches"):
        next(iter(ds.numpy(1000, pad=8192, **asked)))
