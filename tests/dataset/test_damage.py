"""Files that a disk has changed or lost: verifying names the place, and a verified read never gives wrong rows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as pk
from penstock.errors import CorruptError, DatasetError, DatasetMissing, PenstockError

TENSORS = {"x": ["a", "b"], "t": pk.ragged("t"), "w": "w"}


def table(rows: int = 100) -> pa.Table:
    return pa.table(
        {
            "a": np.arange(rows, dtype=np.int32),
            "b": np.arange(rows) * 0.5,
            "t": [[n] * (n % 3) for n in range(rows)],
            "w": [f"w{n}" for n in range(rows)],
        }
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pk.write(table(), tmp_path / "ds", TENSORS, shards=2, block_bytes=1024)
    return tmp_path / "ds"


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_buffers_that_lie(tmp_path: Path, compression: str | None) -> None:
    """Bytes that are wrong while all checksums are right, or nobody looks: an error, and never Python's own."""
    root = tmp_path / "ds"
    ds = pk.write(table(), root, TENSORS, shuffle=False, block_bytes=1024, compression=compression)
    shard = root / ds.shards[0].file
    whole = shard.read_bytes()
    blocks = pa.ipc.open_file(next((root / "_penstock").glob("*.arrow"))).read_all().to_pylist()
    offsets, values = blocks[0]["buffers"][1], blocks[0]["buffers"][2]
    words = blocks[0]["buffers"][4]
    refused = 0
    for buffer in (offsets, values, words):
        for junk in (b"\xff", b"\x7f", b"\x00", b"\x01"):
            data = bytearray(whole)
            data[buffer["offset"] : buffer["offset"] + buffer["length"]] = junk * buffer["length"]
            shard.write_bytes(data)
            with pytest.raises(CorruptError):
                pk.open(root).read(verify=True)
            try:
                pk.open(root).read()
            except CorruptError:
                refused += 1
    assert refused >= 4


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_files_that_are_not_there(tmp_path: Path, format: str) -> None:
    root = tmp_path / "ds"
    ds = pk.write(table(), root, TENSORS, shards=3, block_bytes=1024, format=format)
    first, second, _ = (root / shard.file for shard in ds.shards)
    whole = second.read_bytes()
    first.unlink()
    second.write_bytes(whole[:-1])
    with pytest.raises(CorruptError) as caught:
        pk.open(root).verify()
    assert caught.value.places == [
        f"{ds.shards[0].file} (missing)",
        f"{ds.shards[1].file} ({len(whole) - 1} bytes instead of {len(whole)})",
    ]
    for verify in (True, False):
        with pytest.raises(DatasetError, match=re.escape(ds.shards[0].file)):
            ds.read(slice(0, 1), verify=verify)
    second.write_bytes(whole[: len(whole) // 3])
    rows = slice(ds.shards[0].rows, ds.shards[0].rows + ds.shards[1].rows)
    for verify in (True, False):
        with pytest.raises(CorruptError, match=re.escape(ds.shards[1].file)):
            pk.open(root).read(rows, verify=verify)
    shutil.rmtree(root / "shards")
    with pytest.raises(CorruptError, match=r"\(missing\)"):
        pk.open(root).verify()
    shutil.rmtree(root / "_penstock")
    with pytest.raises(DatasetMissing):
        pk.open(root)


def test_verify_names_each_bad_block(root: Path) -> None:
    ds = pk.open(root)
    blocks = pa.ipc.open_file(next((root / "_penstock").glob("*.arrow"))).read_all().to_pylist()
    expected = []
    for place in (0, len(blocks) - 1):
        shard = ds.shards[blocks[place]["shard"]]
        data = bytearray((root / shard.file).read_bytes())
        data[blocks[place]["offset"] + blocks[place]["length"] // 2] ^= 4
        (root / shard.file).write_bytes(data)
        first = next(n for n, block in enumerate(blocks) if block["shard"] == blocks[place]["shard"])
        expected.append(f"{shard.file}, block {place - first}")
    with pytest.raises(CorruptError) as caught:
        ds.verify()
    assert caught.value.places == expected
    data = bytearray((root / ds.shards[0].file).read_bytes())
    data[blocks[0]["offset"] + blocks[0]["length"] // 2] ^= 4
    data[-1] ^= 1
    (root / ds.shards[0].file).write_bytes(data)
    with pytest.raises(CorruptError) as caught:
        ds.verify()
    assert caught.value.places[0] == f"{ds.shards[0].file}, between its blocks"


@pytest.fixture(scope="module", params=["arrow", "zstd", "parquet"])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp(request.param) / "ds"
    format = "parquet" if request.param == "parquet" else "arrow"
    compression = "zstd" if request.param == "zstd" else None
    pk.write(table(20), root, TENSORS, shards=2, block_bytes=1024, format=format, compression=compression)
    return root


@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_flipped_bit_is_found_or_does_no_harm(small: Path, data: st.DataObject) -> None:
    expected = repr(pk.open(small).read())
    files = sorted(path for path in small.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files), "file")
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1), "byte")
    changed = bytearray(whole)
    changed[place] ^= 1 << data.draw(st.integers(0, 7), "bit")
    path.write_bytes(changed)
    try:
        try:
            ds = pk.open(small)
            assert repr(ds.read(verify=True)) == expected
        except PenstockError:
            return
        try:
            ds.verify()
        except CorruptError:
            # Bytes between an Arrow shard's blocks are no rows: reading does not look at them, verifying does.
            assert path.parent.name == "shards"
        else:
            assert path.suffix == ".json", "a changed shard or index was believed"
    finally:
        path.write_bytes(whole)
