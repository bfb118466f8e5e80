"""Files that are others than when the dataset was opened: an error that names them, and no row of anything else.

Machine code copies rows from address to address, so that whatever it is told has to be looked at before.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.errors import CorruptError
from penstock.feed.memory import native_loops

ROWS, GROUP = 4000, 1000
BYTES_OF_OFFSETS = np.dtype(np.int32)


@pytest.fixture(params=["machine code", "NumPy"], autouse=True)
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_loops, "PAYS_FROM", 0 if request.param == "machine code" else 1 << 60)


def lists(rows: int, length: int) -> pa.Table:
    return pa.table({"r": pa.array([[row] * length for row in range(rows)], pa.list_(pa.int64()))})


def replaced(file: Path, table: pa.Table, group: int) -> None:
    file.unlink()
    pq.write_table(table, file, row_group_size=group)


def refused(ds: pk.Dataset, file: Path, *, epochs: int, match: str, **more) -> None:
    """Every epoch is refused, whatever was in the memory that an earlier one used."""
    loader = ds.numpy(100, **more)
    for _ in range(epochs):
        with pytest.raises(CorruptError, match=match) as raised:
            for _ in loader:
                pass
        assert file.name in str(raised.value)


@pytest.mark.parametrize("seen_before", [True, False])
@pytest.mark.parametrize(("rows", "group"), [(2500, 625), (3960, 990)])
def test_a_shorter_file_with_ragged_rows(tmp_path: Path, seen_before: bool, rows: int, group: int) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(lists(ROWS, 20), file, row_group_size=GROUP)
    ds = pk.open(tmp_path)
    if seen_before:
        assert sum(len(batch["r"]) for batch in ds.numpy(100)) == ROWS
    replaced(file, lists(rows, 1), group)
    refused(ds, file, epochs=2, match="rows that 'r' had when the dataset was opened")


def test_a_shorter_file_with_rows_of_one_size(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(ROWS)}), file, row_group_size=GROUP)
    ds = pk.open(tmp_path)
    # What is left of the last group is one row, which NumPy would write over all.
    replaced(file, pa.table({"x": np.arange(ROWS - GROUP + 1)}), GROUP)
    refused(ds, file, epochs=1, match="of 1,000 rows that 'x' had .* there are 1[.]", lanes=1)


def test_values_of_another_dtype(tmp_path: Path) -> None:
    bools = pa.table({"r": pa.array([[row % 2 == 0] * 4 for row in range(200)], pa.list_(pa.bool_()))})
    ds = pk.write(bools, tmp_path, {"r": pk.ragged("r")}, format="parquet", shuffle=False)
    (shard,) = ds.shards
    replaced(tmp_path / shard.file, lists(200, 4), 200)
    refused(ds, tmp_path / shard.file, epochs=1, match="'r' is int64 there, and was bool", verify=False)


@pytest.mark.parametrize("offsets", [[0, 2, 1000, 4], [0, -7, 3, 4], [0, 4, 2, 4]])
def test_rows_that_reach_past_their_values(tmp_path: Path, offsets: list[int]) -> None:
    file, right = tmp_path / "a.arrow", np.array([0, 2, 3, 4], BYTES_OF_OFFSETS)
    rows = pa.table({"r": pa.array([[7, 8], [9], [10]], pa.list_(pa.int64()))})
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_table(rows)
    ds = pk.open(tmp_path)
    data = file.read_bytes()
    assert data.count(right.tobytes()) == 1
    file.write_bytes(data.replace(right.tobytes(), np.array(offsets, BYTES_OF_OFFSETS).tobytes()))
    loader = ds.numpy(3)
    with pytest.raises(CorruptError, match=r"a\.arrow.*reach past its values"):
        next(iter(loader))
