"""The shuffle of local writes: how even and how random it is, and what it does when memory is short."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.dataset import local, spill
from penstock.dataset.shards import BlockBuilder
from penstock.dataset.spill import Buckets, shard_of
from penstock.dtypes import TensorSpec
from penstock.errors import StorageError
from penstock.wire.ragged import Ragged


def chi_square(counts: np.ndarray) -> float:
    """Standard deviations above what chance gives; a uniform draw stays below 6 nearly always."""
    mean, freedom = counts.mean(), counts.size - 1
    return float((((counts - mean) ** 2 / mean).sum() - freedom) / np.sqrt(2 * freedom))


@pytest.mark.parametrize("shards", [2, 7, 16, 100])
def test_shards_are_even_and_drawn_uniformly(shards: int) -> None:
    rows = 50_000
    owners = np.concatenate([shard_of(start, 1000, shards, seed=3) for start in range(0, rows, 1000)])
    assert np.array_equal(owners, shard_of(0, rows, shards, seed=3)), "batches must not matter"
    counts = np.bincount(owners, minlength=shards)
    assert counts.max() - counts.min() <= 1
    # Where in its run of rows a row stands tells nothing about its shard.
    whole = owners[: rows // shards * shards].reshape(-1, shards)
    table = np.stack([np.bincount(whole[:, place], minlength=shards) for place in range(shards)])
    assert chi_square(table) < 6
    if shards > 2:
        # Nor does the shard of the row before.
        steps = np.diff(whole, axis=1) % shards
        assert chi_square(np.bincount(steps.ravel(), minlength=shards)[1:]) < 6


@pytest.mark.parametrize("memory", [1 << 30, 20_000], ids=["in memory", "spilled"])
@pytest.mark.parametrize(("shards", "each"), [(1, 1), (4, 1), (3, 5)])
def test_positions_are_uniform(tmp_path: Path, shards: int, each: int, memory: int) -> None:
    rows, bins = 40_000, 20
    with Buckets(shards, each, 11, str(tmp_path), memory) as buckets:
        for start in range(0, rows, 1000):
            buckets.add(1000, [np.arange(start, start + 1000)])
        like = [np.empty(0, np.int64)]
        parts = [found[0] for shard in range(shards) for _, found in buckets.permuted(shard, like)]
        assert bool(os.listdir(tmp_path)) == (memory < 1 << 30)
    order = np.concatenate(parts)
    assert np.array_equal(np.sort(order), np.arange(rows))
    table = np.histogram2d(np.arange(rows), order, bins=(bins, bins))[0]
    assert chi_square(table) < 6
    assert abs(np.corrcoef(np.arange(rows), order)[0, 1]) < 0.03
    # Neighbours do not stay neighbours.
    assert (np.abs(np.diff(order)) == 1).sum() < 20
    assert os.listdir(tmp_path) == []


def pieces(rows: int, start: int = 0) -> list[Any]:
    numbers = np.arange(start, start + rows)
    lengths = numbers % 4
    ragged = Ragged(np.repeat(numbers, lengths), np.concatenate([[0], np.cumsum(lengths)]))
    return [numbers, np.stack([numbers, -numbers], axis=1), ragged]


def rows_of(tensors: list[Any]) -> list[tuple[int, list[int], list[int]]]:
    numbers, pairs, ragged = tensors
    return [(int(n), pairs[i].tolist(), ragged.row(i).tolist()) for i, n in enumerate(numbers)]


def test_what_is_spilled_is_what_was_dealt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dealt(folder: str, memory: int) -> list[list[tuple[int, list[int], list[int]]]]:
        os.makedirs(tmp_path / folder)
        with Buckets(3, 2, 5, str(tmp_path / folder), memory) as buckets:
            for start in range(0, 5000, 250):
                buckets.add(250, pieces(250, start))
            like = pieces(1)
            return [[row for _, t in buckets.permuted(s, like) for row in rows_of(t)] for s in range(3)]

    held, spilled = dealt("a", 1 << 30), dealt("b", 4000)
    assert held == spilled, "memory must not decide the order"
    every = sorted(row for shard in held for row in shard)
    assert every == rows_of(pieces(5000))
    monkeypatch.setattr(spill, "LARGEST_BUCKET", 20_000)
    split = dealt("c", 4000)
    assert sorted(row for shard in split for row in shard) == every
    assert [len(shard) for shard in split] == [len(shard) for shard in held]
    assert split != held
    assert split == dealt("d", 1 << 30)
    left = [file for _, _, files in os.walk(tmp_path) for file in files]
    assert left == []


def test_a_write_larger_than_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.arange(20_000)
    rows = pa.table({"a": numbers, "t": [[n] * (n % 3) for n in numbers.tolist()]})
    table = pa.Table.from_batches(rows.to_batches(max_chunksize=1000))
    whole = pk.write(table, tmp_path / "whole", {"a": "a", "t": pk.ragged("t")}, shards=3)
    flushes = []
    monkeypatch.setattr(spill, "MEMORY", 100_000)
    monkeypatch.setattr(
        Buckets, "_flush", lambda self, flush=Buckets._flush: (flushes.append(1), flush(self))
    )
    before = len(os.listdir("/proc/self/fd"))
    spilled = pk.write(table, tmp_path / "spilled", {"a": "a", "t": pk.ragged("t")}, shards=3)
    assert len(flushes) > 2
    assert spilled.fingerprint == whole.fingerprint
    assert len(os.listdir("/proc/self/fd")) <= before
    found = spilled.read()
    assert sorted(found["a"].tolist()) == numbers.tolist()
    assert all(found["t"].row(n).tolist() == [a] * (a % 3) for n, a in enumerate(found["a"].tolist()))


def test_a_stream_of_unknown_size_becomes_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SHARD_BYTES", 20_000)
    table = pa.table({"a": np.arange(20_000)})
    shuffled = pk.write(table.to_reader(max_chunksize=512), tmp_path / "shuffled")
    assert len(shuffled.shards) == 8
    ordered = pk.write(table.to_reader(max_chunksize=512), tmp_path / "ordered", shuffle=False)
    assert len(ordered.shards) == 8
    assert ordered.read()["a"].tolist() == list(range(20_000))
    for ds in (shuffled, ordered):
        assert sorted(ds.read()["a"].tolist()) == list(range(20_000))
        sizes = [shard.rows for shard in ds.shards]
        assert max(sizes) < 1.3 * np.mean(sizes)


def test_a_row_larger_than_a_bucket_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "LARGEST_BUCKET", 1000)
    rows = [[n] * (5000 if n == 3 else 1) for n in range(20)]
    ds = pk.write(pa.table({"t": rows}), tmp_path, {"t": pk.ragged("t")})
    found = ds.read()["t"]
    assert sorted(found.row(n).tolist() for n in range(20)) == sorted(rows)


def test_no_room_to_spill(tmp_path: Path) -> None:
    buckets = Buckets(2, 1, 0, str(tmp_path / "gone"), memory=10)
    with pytest.raises(StorageError, match=r"cannot write .*gone/bucket-0"), buckets:
        buckets.add(100, pieces(100))


def test_files_go_when_something_fails(tmp_path: Path) -> None:
    def deal() -> None:
        with Buckets(2, 2, 0, str(tmp_path), memory=10) as buckets:
            buckets.add(100, pieces(100))
            assert os.listdir(tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deal()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("ragged", [False, True])
def test_blocks_of_a_huge_batch_are_views(ragged: bool) -> None:
    """A batch that fills many blocks is cut, not copied, in time that grows with its rows alone."""
    rows = 400_000
    spec = TensorSpec("x", "int64", (), "ragged") if ragged else TensorSpec("x", "int64")
    values = np.arange(rows)
    packed: Any = Ragged(values, np.arange(rows + 1)) if ragged else values
    builder = BlockBuilder([spec], 1024)
    full = [*builder.add(rows, [packed]), *builder.rest()]
    assert sum(count for count, _ in full) == rows
    assert len(full) > rows * 8 // 1024 - 1
    assert max(sum(piece.nbytes for piece in tensors[0]) for _, tensors in full) <= 1024 + 8
    for _, tensors in full:
        piece = tensors[0][0]
        assert np.shares_memory(piece.values if isinstance(piece, Ragged) else piece, values)
