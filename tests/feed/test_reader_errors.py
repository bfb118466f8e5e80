"""What is wrong with a file reaches the training loop as an error that names it; no rank hangs, and none is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from left_behind import open_below, strangers
from several_ranks import start_ranks

import penstock as pk
from penstock.errors import CorruptError, StorageError

SCRIPT = Path(__file__).parent / "failing_rank.py"
WIDTH, SHARDS = 256, 4
ROWS = SHARDS * 16 * 1024
"""16 MiB a shard in blocks of 128 KiB: a loader that was given 12 MiB has most of it before it."""
FORMATS = {"arrow": {}, "zstd": {"compression": "zstd"}, "parquet": {"format": "parquet"}}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    numbers = np.random.default_rng(0).random(ROWS * WIDTH, dtype=np.float32)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(numbers, WIDTH)})
    root = tmp_path_factory.mktemp("written")
    for name, options in FORMATS.items():
        pk.write(table, root / name, shuffle=False, shards=SHARDS, block_bytes=128 << 10, **options)
    return {name: root / name for name in FORMATS}


@pytest.fixture
def copy(written: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Datasets to damage; files are copied one by one, when they are."""
    for name, path in written.items():
        shutil.copytree(path, tmp_path / name, copy_function=os.link)
    return {name: tmp_path / name for name in written}


ENDED = {1, -signal.SIGABRT}
"""How a rank may end: by its error. gloo aborts now and then at the end of a process whose peers are gone."""


def own(path: Path, shard: int = 2) -> tuple[str, Path]:
    """A shard's name, and the file, no longer shared with the other copies."""
    name = pk.open(path).shards[shard].file
    data = (path / name).read_bytes()
    (path / name).unlink()
    (path / name).write_bytes(data)
    return name, path / name


def truncated_under(world: int, path: Path, folder: Path, *more: str) -> tuple[str, list[int], list[str]]:
    """The shard that was cut while all ranks were reading; how each of them ended, and what it said."""
    name, file = own(path)
    ranks = start_ranks(world, SCRIPT, str(path), str(folder), *more)
    try:
        until = time.monotonic() + 100
        while not all((folder / f"ready-{rank}").exists() for rank in range(world)):
            assert all(rank.poll() is None for rank in ranks), [rank.communicate() for rank in ranks]
            assert time.monotonic() < until, "the ranks did not come to the first batches"
            time.sleep(0.02)
        os.truncate(file, 4096)
        (folder / "go").touch()
        said = [rank.communicate(timeout=100)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return name, [rank.returncode for rank in ranks], said


def told(folder: Path, rank: int) -> dict[str, str]:
    return json.loads((folder / f"error-{rank}.json").read_text())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_shard_cut_under_the_readers_reaches_every_rank_by_name(copy, tmp_path: Path, world: int) -> None:
    name, ended, said = truncated_under(world, copy["arrow"], tmp_path, "torch")
    assert set(ended) <= ENDED, "\n".join(said)
    for rank in range(world):
        assert told(tmp_path, rank)["type"] == "CorruptError", "\n".join(said)
        assert name in told(tmp_path, rank)["message"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", [2, pytest.param(3, marks=pytest.mark.long)])
def test_ranks_that_wait_for_each_other_end_together(copy, tmp_path: Path, world: int) -> None:
    name, ended, said = truncated_under(world, copy["arrow"], tmp_path, "torch", "--collective")
    assert set(ended) <= ENDED, "\n".join(said)
    errors = [told(tmp_path, rank) for rank in range(world)]
    named = [error for error in errors if error["type"] == "CorruptError"]
    assert named, errors
    assert all(name in error["message"] for error in named)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "framework"),
    [("arrow", "numpy"), ("arrow", "torch"), ("zstd", "numpy"), ("parquet", "numpy"), ("parquet", "torch")],
)
def test_a_shard_cut_under_one_process_is_an_error_not_a_crash(
    copy, tmp_path: Path, kind: str, framework: str
) -> None:
    name, ended, said = truncated_under(1, copy[kind], tmp_path, framework)
    assert ended == [1], said
    assert told(tmp_path, 0)["type"] == "CorruptError"
    assert name in told(tmp_path, 0)["message"]


def read_through(path: Path, framework: str) -> None:
    try:
        for _ in getattr(pk.open(path), framework)(64, lanes=6):
            pass
    finally:
        assert strangers() == []
        assert open_below(path) == []


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_shard_that_is_gone_is_named(copy, kind: str, framework: str) -> None:
    name, file = own(copy[kind])
    file.unlink()
    with pytest.raises(CorruptError, match=rf"{name}.*not there"):
        read_through(copy[kind], framework)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_flipped_byte_is_named_by_shard_and_block(copy, kind: str, framework: str) -> None:
    name, file = own(copy[kind])
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    # Of a Parquet file the whole is checked first: its footer says how every block is read.
    where = name if kind == "parquet" else rf"{name}, block \d+"
    with pytest.raises(CorruptError, match=rf"{where}: .*checksum"):
        read_through(copy[kind], framework)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_shard_that_may_not_be_read_is_named_with_the_reason(copy, kind: str, framework: str) -> None:
    name, file = own(copy[kind])
    file.chmod(0)
    with pytest.raises(StorageError, match=rf"{name}.*[Pp]ermission"):
        read_through(copy[kind], framework)


def test_a_whole_copy_reads_through(copy) -> None:
    for path in copy.values():
        read_through(path, "numpy")
