"""Shards are ordinary files: polars, DuckDB, pandas and pyarrow's datasets read the same values out of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest

import penstock as pk

ROWS = 200


@pytest.fixture(params=["arrow", "arrow zstd", "arrow lz4", "parquet", "parquet zstd", "parquet lz4"])
def ds(request: pytest.FixtureRequest, tmp_path: Path) -> pk.Dataset:
    format, _, compression = request.param.partition(" ")
    numbers = np.arange(ROWS)
    table = pa.table(
        {
            "i": numbers,
            "f": (numbers / 3).astype(np.float32),
            "u": (numbers % 200).astype(np.uint8),
            "b": numbers % 2 == 0,
            "pair": [[n, -n] for n in numbers.tolist()],
            "grid": [[[n, 1], [2, 3]] for n in numbers.tolist()],
            "tokens": [list(range(n % 4)) for n in numbers.tolist()],
            "word": [f"wört {n}" for n in numbers],
            "blob": [bytes([n % 256]) * (n % 3) for n in numbers.tolist()],
        }
    )
    tensors = {name: pk.ragged(name) if name == "tokens" else name for name in table.column_names}
    return pk.write(
        table,
        tmp_path,
        tensors,
        shards=2,
        shuffle=False,
        block_bytes=4096,
        format=format,
        compression=compression or None,
    )


def expected(ds: pk.Dataset) -> dict[str, list[Any]]:
    found = ds.read()
    tokens = found.pop("tokens")
    plain = {name: values if isinstance(values, list) else values.tolist() for name, values in found.items()}
    return {**plain, "tokens": [tokens.row(n).tolist() for n in range(ROWS)]}


def files(ds: pk.Dataset) -> list[str]:
    return [f"{ds.path}/{shard.file}" for shard in ds.shards]


def check(ds: pk.Dataset, found: dict[str, list[Any]]) -> None:
    """The same values; an Arrow shard keeps bools as bytes, which compare as the numbers they are."""
    wanted = expected(ds)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name] == values, name


def test_polars(ds: pk.Dataset) -> None:
    arrow = files(ds)[0].endswith(".arrow")
    frames = [polars.read_ipc(f) if arrow else polars.read_parquet(f) for f in files(ds)]
    check(ds, polars.concat(frames).to_dict(as_series=False))


def test_polars_lazily(ds: pk.Dataset) -> None:
    arrow = files(ds)[0].endswith(".arrow")
    scan = polars.scan_ipc(files(ds)) if arrow else polars.scan_parquet(files(ds))
    assert scan.select(polars.col("i").sum()).collect().item() == ROWS * (ROWS - 1) // 2


def test_duckdb(ds: pk.Dataset) -> None:
    if files(ds)[0].endswith(".parquet"):
        found = duckdb.read_parquet(files(ds)).to_arrow_table()
    else:
        # DuckDB reads Arrow files through pyarrow.
        rows = pa.dataset.dataset(files(ds), format="ipc")
        found = duckdb.sql("select * from rows").to_arrow_table()
        assert rows.count_rows() == ROWS
    check(ds, found.to_pydict())


def test_pandas(ds: pk.Dataset) -> None:
    read = pandas.read_feather if files(ds)[0].endswith(".arrow") else pandas.read_parquet
    frame = pandas.concat([read(file) for file in files(ds)])
    found = {name: frame[name].tolist() for name in frame.columns}
    for name in ("pair", "tokens"):
        found[name] = [row.tolist() for row in found[name]]
    found["grid"] = [[inner.tolist() for inner in row] for row in found["grid"]]
    check(ds, found)


def test_pyarrow_datasets(ds: pk.Dataset) -> None:
    format = "ipc" if files(ds)[0].endswith(".arrow") else "parquet"
    found = pa.dataset.dataset(files(ds), format=format)
    assert found.schema.field("i").type == pa.int64()
    check(ds, found.to_table().to_pydict())
    few = found.to_table(columns=["word"], filter=pa.dataset.field("i") == 7)
    assert few["word"].to_pylist() == ["wört 7"]


def test_penstock_reads_its_shards_as_plain_files(ds: pk.Dataset) -> None:
    plain = pk.open(f"{ds.path}/shards")
    assert plain.version is None
    assert plain.read()["i"].tolist() == list(range(ROWS))
