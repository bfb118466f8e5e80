"""A cached dataset gives the same batches, bit for bit, and reads its files once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import SelectionError

ROWS = 2000


@pytest.fixture(scope="module", params=[{}, {"compression": "zstd"}, {"format": "parquet"}], ids=str)
def ds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "v": pa.FixedSizeListArray.from_arrays(np.repeat(np.arange(ROWS, dtype=np.float32), 3), 3),
            "tokens": [list(range(row % 5)) for row in range(ROWS)],
        }
    )
    tensors = {"id": "id", "v": "v", "tokens": pk.ragged("tokens")}
    return pk.write(table, tmp_path_factory.mktemp("cache"), tensors, block_bytes=3000, **request.param)


def lists(batch: dict) -> dict:
    return {
        name: [np.asarray(each.row(row)).tolist() for row in range(len(each))]
        if isinstance(each, type(batch.get("tokens"))) and name == "tokens"
        else np.asarray(each).tolist()
        for name, each in batch.items()
    }


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("tensors", [None, ["id", "v"]])
def test_the_batches_are_the_same(ds, framework, window, tensors) -> None:
    settings = {"lanes": 8, "window": window, "rank": 0, "world": 1, "tensors": tensors, "last": "short"}
    plain = getattr(ds, framework)(64, **settings)
    cached = getattr(ds, framework)(64, cache="host", **settings)
    read = []
    for _ in range(3):
        for ours, theirs in zip(plain, cached, strict=True):
            assert lists(ours) == lists(theirs)
        read.append((plain.stats.bytes_read, cached.stats.bytes_read))
    assert read[-1][1] == 0, "the last epoch read nothing"
    # So small a dataset may be read whole ahead of its epoch, while the one before ends.
    assert sum(streamed for streamed, _ in read) >= 2 * sum(kept for _, kept in read) > 0


def test_an_epoch_that_was_left_early_is_completed_by_the_next(ds) -> None:
    cached = ds.numpy(64, cache="host", lanes=8, rank=0, world=1, tensors=["id"])
    plain = ds.numpy(64, lanes=8, rank=0, world=1, tensors=["id"])
    assert next(iter(cached))["id"].tolist() == next(iter(plain))["id"].tolist()
    for _ in range(2):
        ours, theirs = ([batch["id"].tolist() for batch in loader] for loader in (cached, plain))
        assert ours == theirs
        assert len({number for batch in ours for number in batch}) == ROWS // 64 * 64


def test_ranks_that_meet_other_blocks_in_other_epochs_read_them_then(ds) -> None:
    seen: list[list[int]] = [[], [], []]
    for rank in range(2):
        loader = ds.numpy(50, cache="host", lanes=8, rank=rank, world=2, tensors=["id"])
        for epoch in range(3):
            for batch in loader:
                seen[epoch] += batch["id"].tolist()
    for epoch in seen:
        assert sorted(epoch) == list(range(ROWS))


def test_files_that_are_gone_are_not_missed(tmp_path) -> None:
    table = pa.table({"id": np.arange(100)})
    ds = pk.write(table, tmp_path, block_bytes=1024)
    cached = ds.numpy(10, cache="host", lanes=4, rank=0, world=1)
    first = sorted(np.concatenate([batch["id"] for batch in cached]).tolist())
    for shard in ds.shards:
        (tmp_path / shard.file).unlink()
    assert sorted(np.concatenate([batch["id"] for batch in cached]).tolist()) == first
    cached.close()
    with pytest.raises(pk.PenstockError):
        next(iter(cached))


def test_what_does_not_fit_is_refused_before_anything_is_read(tmp_path, monkeypatch) -> None:
    ds = pk.write(pa.table({"id": np.arange(1000)}), tmp_path)
    monkeypatch.setattr("penstock.feed.memory.cache.free_memory", lambda: 1000)
    with pytest.raises(SelectionError, match=r"8\.0 kB .* 1\.0 kB free.*Leave cache out"):
        next(iter(ds.numpy(10, cache="host", rank=0, world=1)))


def test_other_caches_are_refused(tmp_path) -> None:
    ds = pk.write(pa.table({"id": [1]}), tmp_path)
    with pytest.raises(SelectionError, match="cache='disk'"):
        ds.numpy(1, cache="disk")
    with pytest.raises(SelectionError, match="device"):
        ds.numpy(1, cache="device")


def test_ranks_of_one_machine_share_its_memory(tmp_path, monkeypatch) -> None:
    ds = pk.write(pa.table({"id": np.arange(1000)}), tmp_path)
    monkeypatch.setattr("penstock.feed.memory.cache.free_memory", lambda: 12_000)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(SelectionError, match=r"8\.0 kB in memory on each of 2 ranks \(16\.0 kB together\)"):
        next(iter(ds.numpy(10, cache="host", rank=0, world=4)))
    assert next(iter(ds.numpy(10, cache="host", rank=0, world=1)))
