"""Rows that cannot become what was asked for, and writes that are cut short: an error, and nothing stays behind."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.errors import CastError, DataError, DatasetError, NullError, RaggedError, SelectionError

ROWS = 3000


def late(values: list[Any], bad: Any, kind: pa.DataType | None = None) -> pa.Table:
    """A table with one bad value near its end."""
    return pa.table(
        {"ok": np.arange(ROWS), "x": pa.array([*values[: ROWS - 5], bad, *values[ROWS - 4 :]], kind)}
    )


NUMBERS = [float(n % 100) for n in range(ROWS)]
LISTS = [[n, n + 1] for n in range(ROWS)]
CASES: dict[str, tuple[pa.Table, dict[str, Any], type[Exception], str]] = {
    "null": (late(NUMBERS, None), {}, NullError, "'x' has 1"),
    "null in a list": (late(LISTS, [1, None]), {}, NullError, "'x' has 1"),
    "null list": (late(LISTS, None), {}, NullError, "'x' has 1"),
    "null text": (late([str(n) for n in NUMBERS], None), {}, NullError, "'x' has 1"),
    "NaN": (
        late(NUMBERS, np.nan),
        {"dtype": {"x": "int32"}},
        CastError,
        "'x' holds nan, which does not fit int32",
    ),
    "overflow": (late(NUMBERS, 1e9), {"dtype": {"x": "int8"}}, CastError, r"'x' holds 1000000000.0, .* int8"),
    "lengths": (late(LISTS, [1, 2, 3]), {}, RaggedError, "'x' holds a list of length 3 where .* have 2"),
    "two for bool": (late([1] * ROWS, 2), {"dtype": {"x": "bool"}}, CastError, "'x' holds 2, .* bool"),
    "inner lengths": (
        late([[[1, 2]] * (n % 3) for n in range(ROWS)], [[1, 2, 3]]),
        {"tensors": {"x": pk.ragged("x")}},
        RaggedError,
        "'x' holds a list of length 3 where .* have 2",
    ),
}
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"shuffle": False},
    {"shards": 3},
    {"shards": 3, "shuffle": False},
    {"format": "parquet", "shuffle": False},
]


def nothing_left(root: Path) -> bool:
    return not [path for path in root.rglob("*") if path.is_file()] and not leftovers()


def leftovers() -> list[str]:
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("penstock-")]


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.mark.parametrize("name", CASES)
def test_a_bad_value_in_a_late_row(tmp_path: Path, name: str) -> None:
    table, options, kind, said = CASES[name]
    for number, layout in enumerate(LAYOUTS):
        for given in (table, table.to_reader(max_chunksize=500)):
            root = tmp_path / str(number)
            with pytest.raises(kind, match=said):
                pk.write(given, root, block_bytes=4096, **layout, **options)
            assert nothing_left(root), layout
    files = tmp_path / "files"
    files.mkdir()
    pq.write_table(table, files / "a.parquet", row_group_size=700)
    with pytest.raises(kind, match=said):
        pk.convert(files, tmp_path / "converted", **options)
    assert nothing_left(tmp_path / "converted")


def test_all_nulls_are_counted(tmp_path: Path) -> None:
    table = pa.table(
        {"a": [None if n % 3 == 0 else n for n in range(ROWS)], "b": [n or None for n in range(ROWS)]}
    )
    for layout in LAYOUTS:
        with pytest.raises(NullError) as caught:
            pk.write(table, tmp_path, **layout)
        assert caught.value.counts == {"a": ROWS // 3, "b": 1}


def test_the_version_before_stays_as_it_was(tmp_path: Path) -> None:
    pk.write(pa.table({"x": [1.0]}), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for mode in ("overwrite", "append", "reuse"):
        with pytest.raises(NullError):
            pk.write(late(NUMBERS, None).select(["x"]), tmp_path, mode=mode)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


class Boom(Exception):
    """What a user's stream raises."""


@pytest.mark.parametrize("error", [Boom("the source broke"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_stream_that_breaks(tmp_path: Path, error: BaseException, layout: dict[str, Any]) -> None:
    schema = pa.schema([("a", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            yield pa.record_batch([np.arange(1000) + number], schema=schema)
        raise error

    threads = threading.active_count()
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(type(error)):
        pk.write(pa.RecordBatchReader.from_batches(schema, batches()), tmp_path, block_bytes=4096, **layout)
    assert nothing_left(tmp_path)
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_a_file_that_breaks(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"a": np.arange(5000)}), source / f"{number}.parquet", row_group_size=1000)
    data = bytearray((source / "1.parquet").read_bytes())
    data[4:3000] = bytes(2996)
    (source / "1.parquet").write_bytes(data)
    for layout in LAYOUTS:
        with pytest.raises(
            DatasetError, match=r"1\.parquet, block 0, cannot be read: .*Nothing was committed"
        ):
            pk.convert(source, tmp_path / "ds", **layout)
        assert nothing_left(tmp_path / "ds")


def test_null_lists_with_a_value(tmp_path: Path) -> None:
    kind = pa.list_(pa.float32())
    table = pa.table({"x": pa.array([None, None, [1, 2], None], kind)})
    ds = pk.write(table, tmp_path / "told", nulls=0, shuffle=False)
    assert ds.read()["x"].tolist() == [[0, 0], [0, 0], [1, 2], [0, 0]]
    silent = pa.table({"x": pa.array([None, None], kind)})
    for layout in LAYOUTS:
        with pytest.raises(
            DataError, match="column 'x' holds no list that could tell its length, only nulls"
        ):
            pk.write(silent, tmp_path / "silent", nulls=0, **layout)
        assert nothing_left(tmp_path / "silent")
    ds = pk.write(silent, tmp_path / "ragged", {"x": pk.ragged("x")}, nulls=0)
    assert ds.read()["x"].offsets.tolist() == [0, 0, 0]


def test_ragged_lists_that_are_all_empty(tmp_path: Path) -> None:
    flat = pa.table({"x": pa.array([[], [], []], pa.list_(pa.int16()))})
    for format in ("arrow", "parquet"):
        ds = pk.write(flat, tmp_path / format, {"x": pk.ragged("x")}, format=format)
        found = ds.read(verify=True)["x"]
        assert (found.values.tolist(), found.offsets.tolist()) == ([], [0, 0, 0, 0])
    nested = pa.table({"x": pa.array([[], []], pa.list_(pa.list_(pa.int16())))})
    with pytest.raises(DataError, match="column 'x' holds no list that could tell its length"):
        pk.write(nested, tmp_path / "nested", {"x": pk.ragged("x")})


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("told", [0, 70, 199])
def test_lengths_that_one_row_tells(tmp_path: Path, layout: dict[str, Any], told: int) -> None:
    """Whole batches and whole shards of empty or null lists, before and after the only row that has some."""
    nested: list[Any] = [[]] * 200
    fixed: list[Any] = [None] * 200
    nested[told], fixed[told] = [[1, 2, 3]], [4, 5]
    kinds = pa.list_(pa.list_(pa.int16())), pa.list_(pa.int16())
    table = pa.table({"n": pa.array(nested, kinds[0]), "f": pa.array(fixed, kinds[1])})
    tensors = {"n": pk.ragged("n"), "f": "f"}
    for name, given in (("table", table), ("stream", table.to_reader(max_chunksize=10))):
        ds = pk.write(given, tmp_path / name, tensors, nulls=0, **layout)
        found = ds.read(verify=True)
        assert found["n"].values.tolist() == [[1, 2, 3]]
        assert found["f"].sum(axis=0).tolist() == [4, 5]
        assert len(ds.shards) == layout.get("shards", 1)
        ds.verify()
        whole = [path.name for path in (tmp_path / name / "shards").iterdir()]
        assert sorted(whole) == sorted(shard.file.removeprefix("shards/") for shard in ds.shards)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("stream", [False, True])
def test_few_rows_or_none(tmp_path: Path, layout: dict[str, Any], stream: bool) -> None:
    table = pa.table({"a": [7, 8], "w": ["x", "y"], "l": [[1, 2], [3, 4]]})
    for count in (0, 1, 2):
        some = table.slice(0, count)
        ds = pk.write(some.to_reader() if stream else some, tmp_path, mode="overwrite", **layout)
        assert len(ds) == count
        assert len(ds.shards) <= count, "a shard has at least one row"
        assert sorted(ds.read()["a"].tolist()) == [7, 8][:count]
        assert len(ds.read()["w"]) == len(ds.read()["l"]) == count
        assert repr(ds).startswith(f"Dataset('{tmp_path}', version {count + 1}: {count} rows, ")
        ds.verify()
        assert pk.open(tmp_path).rows == count


def test_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="no tensors were asked for"):
        pk.write(pa.table({}), tmp_path / "ds")
    with pytest.raises(
        SelectionError, match=r"pk\.write takes a Spark DataFrame, .* and this is list: \[1\]"
    ):
        pk.write([1], tmp_path / "ds")
    assert not (tmp_path / "ds").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "csv"}, "format='csv': choose one of 'arrow', 'parquet'"),
        ({"mode": "delete"}, "mode='delete': choose one of 'error', 'overwrite', 'append', 'reuse'"),
        ({"compression": "gzip"}, "compression='gzip': choose one of None, 'zstd', 'lz4'"),
        ({"shards": 0}, "shards=0: a whole number of at least 1"),
        ({"workers": True}, "workers=True: a whole number"),
        ({"workers": 2.0}, r"workers=2\.0: a whole number"),
        ({"workers": 4, "shards": 6}, r"shards=6 is not a multiple of workers=4.*say shards=8"),
        ({"seed": 1.5}, r"seed=1\.5: a whole number"),
        ({"block_bytes": 10}, "block_bytes=10: blocks have between 1024"),
        ({"block_bytes": "8M"}, "block_bytes='8M': "),
        ({"recipe": "r"}, "recipe='r': a fitted recipe is wanted"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SelectionError, match=said):
        pk.write(pa.table({"a": [1]}), tmp_path / "ds", **options)
    assert not (tmp_path / "ds").exists()
