"""`memory=` is a bound that holds: an epoch over twenty times as much data, measured from outside the library."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import SelectionError

SCRIPT = Path(__file__).parent / "measured_epoch.py"
WIDTH, BLOCK, LANES, BATCH = 256, 256 << 10, 8, 64
MEMORY = 10 << 20
ROWS = 20 * MEMORY // (4 * WIDTH)
ALLOWANCE = 5 << 20
"""What a process needs beside: threads' stacks and heaps, and the order's tables."""
GIVING_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""What is freed goes back to the system at once, so that the measure is what the loader holds. Left alone, glibc and
Arrow's pool keep up to about 10 MiB more for later, however small `memory` is."""

KINDS = {"arrow": {}, "zstd": {"compression": "zstd"}, "parquet": {"format": "parquet"}}

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A large and a small one of every kind."""
    root = tmp_path_factory.mktemp("memory")
    for kind, options in KINDS.items():
        for name, rows in (("large", ROWS), ("small", 1000)):
            numbers = (np.arange(rows * WIDTH, dtype=np.int64) * 2654435761 % 65521).astype(np.float32)
            table = pa.table({"x": pa.FixedSizeListArray.from_arrays(numbers, WIDTH)})
            pk.write(table, root / kind / name, shuffle=False, shards=4, block_bytes=BLOCK, **options)
    return root


def epoch(
    dataset: Path, framework: str, memory: int, lanes: int = LANES, batch: int = BATCH, **options: object
) -> dict[str, int]:
    paths = [str(dataset / "large"), str(dataset / "small")]
    command = [sys.executable, str(SCRIPT), *paths, framework, str(memory), str(lanes), str(batch)]
    command += [json.dumps(options)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env={**os.environ, **GIVING_BACK}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("framework", ["numpy", pytest.param("torch", marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_stays_within_its_memory(datasets: Path, kind: str, framework: str) -> None:
    found = epoch(datasets / kind, framework, MEMORY)
    assert found["rows"] == ROWS
    assert found["said"] <= MEMORY
    assert found["grown"] <= MEMORY + ALLOWANCE, f"{found['grown'] / 2**20:.1f} MiB of {MEMORY >> 20}"
    # Maps show pages that the system keeps for all, and by the 2 MiB where it keeps them so: no memory of the loader's.
    assert found["mapped"] <= 5 * MEMORY, f"{found['mapped'] / 2**20:.1f} MiB of {20 * MEMORY >> 20} at once"


LARGE_BLOCK, LARGE_ROWS, LARGE_LANES, LARGE_MEMORY = 8 << 20, 20 * 8192, 2, 60 << 20


@pytest.mark.parametrize("kind", ["zstd", pytest.param("parquet", marks=pytest.mark.long)])
def test_blocks_that_are_being_decoded_count(tmp_path: Path, kind: str) -> None:
    """Every reader holds one as it is stored and as it is decoded; with large blocks that is a good part of it all."""
    for name, rows in (("large", LARGE_ROWS), ("small", 1000)):
        numbers = (np.arange(rows * WIDTH, dtype=np.int64) * 2654435761 % 65521).astype(np.float32)
        table = pa.table({"x": pa.FixedSizeListArray.from_arrays(numbers, WIDTH)})
        pk.write(table, tmp_path / name, shuffle=False, shards=2, block_bytes=LARGE_BLOCK, **KINDS[kind])
    found = epoch(tmp_path, "numpy", LARGE_MEMORY, LARGE_LANES)
    assert found["rows"] == LARGE_ROWS
    assert found["said"] <= LARGE_MEMORY
    assert found["grown"] <= LARGE_MEMORY + ALLOWANCE, f"{found['grown'] / 2**20:.1f} MiB"


TOKENS, RAGGED_ROWS, RAGGED_MEMORY, PAD = 200, 100_000, 16 << 20, 1024


@pytest.fixture(scope="module")
def ragged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of tokens, of lengths of their own, which are compressed to a tenth; and a tensor that is left out."""
    root, random = tmp_path_factory.mktemp("ragged"), np.random.default_rng(5)
    for name, rows in (("large", RAGGED_ROWS), ("small", 1000)):
        offsets = np.concatenate([[0], np.cumsum(random.integers(TOKENS // 2, TOKENS * 3 // 2, rows))])
        values = random.integers(0, 4, int(offsets[-1]), np.int32)
        tokens = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))
        tensors = {"x": pk.ragged("x"), "text": "text"}
        table = pa.table({"x": tokens, "text": ["left out"] * rows})
        pk.write(table, root / name, tensors, shuffle=False, shards=4, block_bytes=BLOCK, compression="zstd")
    return root


@pytest.mark.parametrize("pad", [None, PAD])
def test_ragged_rows_count_as_they_are_unpacked_and_filled_up(ragged: Path, pad: int | None) -> None:
    options = {"tensors": ["x"], **({"pad": pad} if pad else {})}
    found = epoch(ragged, "numpy", RAGGED_MEMORY, lanes=16, **options)
    assert found["rows"] == RAGGED_ROWS
    assert found["said"] <= RAGGED_MEMORY
    assert found["grown"] <= RAGGED_MEMORY + ALLOWANCE, f"{found['grown'] / 2**20:.1f} MiB"


def test_the_measure_sees_what_a_loader_takes(datasets: Path) -> None:
    found = epoch(datasets / "arrow", "numpy", 1 << 40)
    assert found["said"] // 2 < found["grown"] + found["mapped"] < ROWS * WIDTH * 4


def test_too_little_memory_names_what_would_fit(datasets: Path) -> None:
    ds = pk.open(datasets / "arrow" / "large")
    with pytest.raises(SelectionError, match=rf"lanes={LANES} and window=1.*memory=1\.0 MB") as refused:
        next(iter(ds.numpy(BATCH, lanes=LANES, memory=1_000_000)))
    needed = re.search(r"needs ([0-9.]+) MB", str(refused.value))
    assert needed is not None
    enough = int((float(needed[1]) + 0.06) * 1e6)  # the message rounds to 0.1
    assert next(iter(ds.numpy(BATCH, lanes=LANES, memory=enough)))


def test_a_batch_larger_than_the_dataset_takes_no_more_than_its_rows(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"a": np.arange(1000)}), tmp_path)
    many = {"batch_size": 10**8, "memory": 64 << 20, "rank": 0, "world": 1}
    assert [len(batch["a"]) for batch in ds.numpy(last="short", **many)] == [1000]
    assert list(ds.numpy(**many)) == []
    with pytest.raises(SelectionError, match="the loader needs"):
        next(iter(ds.numpy(last="pad", **many)))


def test_a_small_dataset_takes_little_whatever_a_gather_may_hold(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"a": np.arange(1000)}), tmp_path, block_bytes=1024)
    loader = ds.numpy(batch_size=10)
    for _ in range(2):
        assert len(list(loader)) == 100
        assert loader.stats.memory < 1 << 20
