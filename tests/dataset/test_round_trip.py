"""Whatever is written is read: random tables, every kind of tensor, every layout."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as pk
from penstock.wire.ragged import Ragged

RELAXED = settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
KINDS = ("scalar", "bool", "matrix", "list", "grid", "nothing", "tokens", "deep", "hollow", "word", "blob")


def make(kinds: list[str], rows: int, seed: int) -> tuple[pa.Table, dict[str, Any], dict[str, list[Any]]]:
    """A table, a request for tensors, and the rows that they should have, as plain values."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, rows)
    lengths[rows // 2 : rows // 2 + 1] = 2  # or nothing may tell how long the lists inside lists are
    numbers = rng.integers(-(1 << 30), 1 << 30, rows)
    floats = rng.normal(size=rows)
    grid = rng.integers(0, 1000, (rows, 2, 3))
    columns: dict[str, Any] = {"id": np.arange(rows, dtype=np.int32)}
    tensors: dict[str, Any] = {"id": "id"}
    expected: dict[str, list[Any]] = {"id": list(range(rows))}
    made: dict[str, tuple[pa.Array, Any, list[Any]]] = {
        "scalar": (pa.array(numbers, pa.int32()), "scalar", numbers.tolist()),
        "bool": (pa.array(numbers > 0), "bool", (numbers > 0).tolist()),
        "matrix": (
            pa.array(floats),
            ["matrix", "id"],
            [[x, float(i)] for i, x in enumerate(floats.tolist())],
        ),
        "list": (pa.array(grid[:, 0].tolist(), pa.list_(pa.int64())), "list", grid[:, 0].tolist()),
        "grid": (pa.array(grid.tolist(), pa.list_(pa.list_(pa.uint16()))), "grid", grid.tolist()),
        "nothing": (pa.array([[]] * rows, pa.list_(pa.int8())), "nothing", [[]] * rows),
        "tokens": _ragged("tokens", [grid[i, 0, :1].tolist() * n for i, n in enumerate(lengths)], pa.int32()),
        "deep": _ragged("deep", [grid[i].tolist() * n for i, n in enumerate(lengths)], pa.list_(pa.int16())),
        "hollow": _ragged("hollow", [[[]] * n for n in lengths], pa.list_(pa.int16())),
        "word": _same("word", ["é" * n + str(n) for n in lengths], pa.string()),
        "blob": _same("blob", [rng.bytes(n) for n in lengths], pa.binary()),
    }
    for kind in kinds:
        columns[kind], tensors[kind], expected[kind] = made[kind]
    return pa.table(columns), tensors, expected


def _ragged(name: str, rows: list[Any], kind: pa.DataType) -> tuple[pa.Array, Any, list[Any]]:
    return pa.array(rows, pa.list_(kind)), pk.ragged(name), rows


def _same(name: str, rows: list[Any], kind: pa.DataType) -> tuple[pa.Array, Any, list[Any]]:
    return pa.array(rows, kind), name, rows


def plain(found: dict[str, Any]) -> dict[str, list[Any]]:
    return {
        name: [values.row(i).tolist() for i in range(len(values))]
        if isinstance(values, Ragged)
        else values
        if isinstance(values, list)
        else values.tolist()
        for name, values in found.items()
    }


def by_row(found: dict[str, list[Any]]) -> list[str]:
    return [repr(row) for row in zip(*found.values(), strict=True)]


layouts = st.fixed_dictionaries(
    {
        "shuffle": st.booleans(),
        "seed": st.integers(-(1 << 70), 1 << 70),
        "format": st.sampled_from(["arrow", "parquet"]),
        "compression": st.sampled_from([None, "zstd", "lz4"]),
        "shards": st.one_of(st.none(), st.integers(1, 5)),
        "block_bytes": st.sampled_from([1024, 1500, 4096, 8 << 20]),
    }
)


@RELAXED
@given(
    kinds=st.lists(st.sampled_from(KINDS), unique=True),
    rows=st.integers(0, 300),
    layout=layouts,
    stream=st.booleans(),
    data=st.data(),
)
def test_rows_come_back(
    kinds: list[str], rows: int, layout: dict[str, Any], stream: bool, data: st.DataObject
) -> None:
    table, tensors, expected = make(kinds, rows, seed=rows)
    if rows and data.draw(st.booleans(), "in chunks"):
        at = data.draw(st.integers(0, rows), "cut")
        table = pa.concat_tables([table.slice(0, at), table.slice(at)])
    with tempfile.TemporaryDirectory() as folder:
        ds = pk.write(table.to_reader(max_chunksize=70) if stream else table, folder, tensors, **layout)
        ds.verify()
        whole = plain(ds.read(verify=True))
        assert plain(ds.read()) == whole
        if layout["shuffle"]:
            assert Counter(by_row(whole)) == Counter(by_row(expected))
        else:
            assert whole == expected
        assert ds.rows == len(ds) == sum(shard.rows for shard in ds.shards) == rows
        sizes = [shard.rows for shard in ds.shards]
        if layout["shards"] is not None:
            assert len(sizes) == min(layout["shards"], rows), "one a row at most"
            assert not sizes or max(sizes) - min(sizes) <= 1
        bounds = st.one_of(st.none(), st.integers(-rows - 5, rows + 5))
        part = slice(data.draw(bounds, "start"), data.draw(bounds, "stop"))
        names = data.draw(st.lists(st.sampled_from(list(tensors)), unique=True), "names")
        found = plain(ds.read(part, names, verify=data.draw(st.booleans(), "verify")))
        assert found == {name: whole[name][part] for name in names}


@RELAXED
@given(kinds=st.lists(st.sampled_from(KINDS), unique=True, max_size=3), layout=layouts)
def test_the_same_write_gives_the_same_bytes(kinds: list[str], layout: dict[str, Any]) -> None:
    table, tensors, _ = make(kinds, 150, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        one = pk.write(table, Path(folder, "one"), tensors, **layout)
        two = pk.write(table, Path(folder, "two"), tensors, **layout)
        assert one.fingerprint == two.fingerprint
        layout["seed"] += 1
        other = pk.write(table, Path(folder, "other"), tensors, **layout)
        assert (other.fingerprint != one.fingerprint) == layout["shuffle"]
        if layout["shuffle"]:
            assert other.read(tensors="id")["id"].tolist() != one.read(tensors="id")["id"].tolist()


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_what_is_read_belongs_to_the_caller(tmp_path: Path, format: str) -> None:
    table, tensors, expected = make(["list", "tokens"], 20, seed=3)
    ds = pk.write(table, tmp_path, tensors, format=format, shuffle=False)
    found = ds.read()
    found["list"][:] = 0
    found["tokens"].values[:] = 0
    assert plain(ds.read()) == expected


def test_a_matrix_with_a_column_of_fixed_lists(tmp_path: Path) -> None:
    lists = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2))
    table = pa.table({"a": [9.0, 8.0], "l": lists})
    for format in ("arrow", "parquet"):
        ds = pk.write(table, tmp_path / format, {"x": ["a", "l"]}, format=format, shuffle=False)
        assert ds.read()["x"].tolist() == [[9.0, 1.0, 2.0], [8.0, 3.0, 4.0]]


def test_rows_without_bytes(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([[]] * 10, pa.list_(pa.int8()))})
    for shuffle in (True, False):
        ds = pk.write(table, tmp_path / str(shuffle), shuffle=shuffle, shards=3)
        assert ds.read()["x"].shape == (10, 0)


def test_tensors_that_want_one_column_name(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "b": [3, 4]})
    request = {"x": ["a", "b"], "y": ["b", "a"], "b": "a", "a": ["a"]}
    for format in ("arrow", "parquet"):
        found = pk.write(table, tmp_path / format, request, format=format, shuffle=False).read()
        assert plain(found) == {"x": [[1, 3], [2, 4]], "y": [[3, 1], [4, 2]], "b": [1, 2], "a": [[1], [2]]}


def test_slices_with_a_step_and_other_things_are_refused(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"a": [1, 2, 3]}), tmp_path)
    with pytest.raises(pk.PenstockError, match="has the step 2; only runs of rows"):
        ds.read(slice(0, 3, 2))
    with pytest.raises(pk.PenstockError, match=r"rows=1 is no run of rows: pass a slice"):
        ds.read(1)  # type: ignore[arg-type]
    with pytest.raises(pk.PenstockError, match=r"no tensor 'b' in .*; it has 'a'"):
        ds.read(tensors=["b"])
    assert ds.read(tensors="a").keys() == {"a"}


def test_streams_of_every_origin(tmp_path: Path) -> None:
    import duckdb
    import polars

    frame = polars.DataFrame({"a": [3, 1, 2], "w": ["x", "", "zz"]})
    made = {
        "polars": frame,
        "pandas": frame.to_pandas(),
        "duckdb": duckdb.sql("select * from (values (3, 'x'), (1, ''), (2, 'zz')) t(a, w)"),
        "batch": frame.to_arrow().to_batches()[0],
        "reader": frame.to_arrow().to_reader(),
    }
    for name, rows in made.items():
        ds = pk.write(rows, tmp_path / name, shuffle=False, workers=2)
        assert plain(ds.read()) == {"a": [3, 1, 2], "w": ["x", "", "zz"]}, name
        assert len(ds.shards) == 2


def test_a_stream_whose_dictionaries_change(tmp_path: Path) -> None:
    batches = [
        pa.record_batch({"a": pa.array([word, "b"]).dictionary_encode(), "n": [[1, 2], [3, 4]]})
        for word in ("x", "y", "z")
    ]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    ds = pk.write(reader, tmp_path, shuffle=False, shards=2)
    assert ds.read()["a"] == ["x", "b", "y", "b", "z", "b"]
