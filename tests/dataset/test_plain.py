"""Folders that Penstock did not write, opened as they are and converted; and all of it on S3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.errors import CastError, DatasetError, DatasetMissing, NullError, RaggedError, SelectionError
from penstock.wire.ragged import Ragged


def plain(found: dict[str, Any]) -> dict[str, list[Any]]:
    return {
        name: [values.row(n).tolist() for n in range(len(values))]
        if isinstance(values, Ragged)
        else list(values if isinstance(values, list) else values.tolist())
        for name, values in found.items()
    }


def parquet(path: Path, columns: dict[str, Any], **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)


@pytest.fixture
def spark_like(tmp_path: Path) -> Path:
    root = tmp_path / "out"
    parquet(root / "part-00000-x.snappy.parquet", {"a": [1, 2], "w": ["x", "y"]})
    parquet(root / "part-00001-x.snappy.parquet", {"a": [3], "w": ["z"]})
    for name in ("_SUCCESS", "._SUCCESS.crc", ".part-00000-x.snappy.parquet.crc", "notes.txt"):
        (root / name).write_bytes(b"junk")
    (root / "_temporary" / "0").mkdir(parents=True)
    (root / "_temporary" / "0" / "part-00009.parquet").write_bytes(b"junk")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "a.parquet").write_bytes(b"junk")
    return root


def test_what_spark_writes(spark_like: Path) -> None:
    ds = pk.open(spark_like)
    assert plain(ds.read()) == {"a": [1, 2, 3], "w": ["x", "y", "z"]}
    assert plain(ds.read(slice(1, 3), ["a"])) == {"a": [2, 3]}
    assert (ds.version, ds.versions(), len(ds.shards), len(ds)) == (None, [], 2, 3)
    assert [shard.rows for shard in ds.shards] == [2, 1]
    assert "plain files: 3 rows, 2 shards" in repr(ds)
    for call in (ds.verify, ds.vacuum, lambda: ds.at(1), lambda: ds.read(verify=True)):
        with pytest.raises(DatasetError, match=r"folder of plain files, .*penstock convert"):
            call()
    assert plain(pk.open(f"file://{spark_like}").read()) == plain(ds.read())


def test_hive_folders(tmp_path: Path) -> None:
    for day, city, value in ((1, "a%20b", 0.5), (2, "__HIVE_DEFAULT_PARTITION__", 1.5), (10, "z%2Fy", 3)):
        parquet(tmp_path / f"day={day}" / f"city={city}" / f"ratio={value}" / "f.parquet", {"a": [day, day]})
    with pytest.raises(NullError, match="'city' has 2"):
        pk.open(tmp_path).read()
    ds = pk.open(tmp_path, nulls={"city": "?"})
    assert plain(ds.read()) == {
        "a": [1, 1, 10, 10, 2, 2],
        "day": [1, 1, 10, 10, 2, 2],
        "city": ["a b", "a b", "z/y", "z/y", "?", "?"],
        "ratio": [0.5, 0.5, 3.0, 3.0, 1.5, 1.5],
    }
    only = pk.open(tmp_path, tensors={"y": "day", "m": ["day", "a"]})
    assert plain(only.read()) == {"y": [1, 1, 10, 10, 2, 2], "m": [[n, n] for n in (1, 1, 10, 10, 2, 2)]}
    assert pk.open(tmp_path, tensors="day").read()["day"].tolist() == [1, 1, 10, 10, 2, 2]
    made = pk.convert(tmp_path, tmp_path.parent / "made", nulls={"city": "?"}, shuffle=False)
    assert plain(made.read(verify=True)) == plain(ds.read())


def test_hive_folders_of_different_depths(tmp_path: Path) -> None:
    parquet(tmp_path / "day=1" / "f.parquet", {"a": [1]})
    parquet(tmp_path / "g.parquet", {"a": [1]})
    with pytest.raises(DatasetError, match=r"day=1/f.parquet and g.parquet differ in 'day'"):
        pk.open(tmp_path)


def test_nested_folders_and_single_files(tmp_path: Path) -> None:
    parquet(tmp_path / "a" / "b" / "one.parquet", {"a": [1]})
    parquet(tmp_path / "a" / "two.pq", {"a": [2]})
    assert plain(pk.open(tmp_path).read()) == {"a": [1, 2]}
    for path in (tmp_path / "a" / "two.pq", str(tmp_path / "a" / "two.pq"), f"file://{tmp_path}/a/two.pq"):
        assert plain(pk.open(path).read()) == {"a": [2]}
    made = pk.convert(tmp_path / "a" / "two.pq", tmp_path / "made")
    assert plain(made.read()) == {"a": [2]}


def test_a_single_file_is_found_without_looking_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet(tmp_path / "one.parquet", {"a": [1]})
    monkeypatch.setattr("os.walk", lambda *_, **__: pytest.fail("the folder was listed"))
    assert pk.open(tmp_path / "one.parquet").rows == 1


@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "lz4"])
def test_arrow_and_feather_files(tmp_path: Path, compression: str) -> None:
    table = pa.table({"a": np.arange(100), "w": [str(n) for n in range(100)]})
    pa.feather.write_feather(table, tmp_path / "a.feather", compression=compression, chunksize=30)
    with pa.ipc.new_file(tmp_path / "b.arrow", table.schema) as writer:
        for batch in table.to_batches(max_chunksize=40):
            writer.write_batch(batch)
    ds = pk.open(tmp_path)
    assert ds.read()["a"].tolist() == [*range(100), *range(100)]
    assert ds.read(slice(95, 105))["w"] == [str(n % 100) for n in range(95, 105)]


def test_files_that_differ(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", {"a": [1], "b": [1]})
    parquet(tmp_path / "b.parquet", {"a": [1.5], "b": [1]})
    with pytest.raises(DatasetError, match=r"a\.parquet and b\.parquet differ in 'a'\. Rewrite them alike"):
        pk.open(tmp_path)


def test_groups_without_rows(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3]})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for part in (table.slice(0, 0), table.slice(0, 1), table.slice(0, 0), table.slice(1)):
            writer.write_table(part)
    parquet(tmp_path / "b.parquet", table.slice(0, 0))
    ds = pk.open(tmp_path)
    assert plain(ds.read()) == {"a": [1, 2, 3]}
    assert plain(ds.read(slice(1, 3))) == {"a": [2, 3]}
    assert sorted(pk.convert(tmp_path, tmp_path / "made").read()["a"].tolist()) == [1, 2, 3]
    (tmp_path / "a.parquet").unlink()
    assert pk.open(tmp_path / "b.parquet").rows == 0


def test_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.csv").write_bytes(b"a,b")
    for path in ("empty", "missing", "missing.parquet"):
        with pytest.raises(
            DatasetMissing, match=f"{path} holds neither a Penstock dataset nor Parquet or Arrow"
        ):
            pk.open(tmp_path / path)
        with pytest.raises(DatasetMissing, match=path):
            pk.convert(tmp_path / path, tmp_path / "made")
    with pytest.raises(
        DatasetMissing, match=r"other\.csv is a file that is read neither as Parquet nor as Arrow"
    ):
        pk.open(tmp_path / "other.csv")
    with pytest.raises(DatasetMissing, match="has no version 3; it is no Penstock dataset"):
        pk.open(tmp_path / "empty", version=3)
    assert not (tmp_path / "made").exists()


def test_junk_under_a_good_name(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.arrow"):
        for junk in (b"", b"PAR1", b"ARROW1", b"x" * 500):
            (tmp_path / name).write_bytes(junk)
            with pytest.raises(DatasetError, match=rf"{name} cannot be read as \w+: ") as caught:
                pk.open(tmp_path / name)
            assert "\n" not in str(caught.value)


def test_what_becomes_of_columns(tmp_path: Path) -> None:
    columns = {"a": [1, 2], "b": [0.5, None], "even": [[1, 2], [3, 4]], "odd": [[1], []], "w": ["x", None]}
    parquet(tmp_path / "f.parquet", columns)
    with pytest.raises(NullError):
        pk.open(tmp_path).read()
    ds = pk.open(
        tmp_path,
        tensors={"x": ["a", "b"], "even": "even", "odd": pk.ragged("odd"), "w": "w"},
        dtype={"x": "float32", "odd": "int8"},
        nulls={"b": -1, "w": ""},
    )
    assert plain(ds.read()) == {
        "x": [[1, 0.5], [2, -1]],
        "even": [[1, 2], [3, 4]],
        "odd": [[1], []],
        "w": ["x", ""],
    }
    assert [str(spec) for spec in ds.tensors.values()] == [
        "x: float32[2]",
        "even: int64[2]",
        "odd: int8[*]",
        "w: string",
    ]
    assert plain(ds.read(tensors=["odd"])) == {"odd": [[1], []]}
    with pytest.raises(RaggedError, match="'odd' holds a list of length 0 where the rows before it have 1"):
        pk.open(tmp_path, tensors="odd").read()
    with pytest.raises(CastError):
        pk.open(tmp_path, tensors="a", dtype="bool").read()
    with pytest.raises(SelectionError, match="no column 'nope'"):
        pk.open(tmp_path, tensors="nope")


def test_shapes_that_a_late_row_tells(tmp_path: Path) -> None:
    kind = pa.list_(pa.list_(pa.int16()))
    columns = {
        "d": pa.array([[], [], [[1, 2]], []], kind),
        "l": pa.array([None, None, [1, 2], None], kind.value_type),
    }
    parquet(tmp_path / "f.parquet", columns, row_group_size=1)
    ds = pk.open(tmp_path, tensors={"d": pk.ragged("d"), "l": "l"}, nulls=0)
    found = ds.read()
    assert plain(found) == {"d": [[], [], [[1, 2]], []], "l": [[0, 0], [0, 0], [1, 2], [0, 0]]}
    assert found["d"].values.shape == (1, 2)
    parquet(tmp_path / "f.parquet", columns)
    ds = pk.open(tmp_path, tensors={"d": pk.ragged("d"), "l": "l"}, nulls=0)
    assert plain(ds.read()) == plain(found)


def test_a_dataset_does_not_take_what_is_for_plain_files(tmp_path: Path) -> None:
    pk.write(pa.table({"a": [1]}), tmp_path)
    for options in ({"tensors": "a"}, {"dtype": "int8"}, {"nulls": 0}):
        with pytest.raises(DatasetError, match="whose tensors are decided"):
            pk.open(tmp_path, **options)


def test_only_the_columns_asked_for_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet(tmp_path / "f.parquet", {"a": [1, 2], "b": [3, 4], "s": [{"x": 5, "y": 6}, {"x": 7, "y": 8}]})
    read: list[Any] = []
    whole = pq.ParquetFile.read_row_group

    def noted(self: Any, number: int, columns: Any = None, **options: Any) -> pa.Table:
        read.append(columns)
        return whole(self, number, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    ds = pk.convert(tmp_path / "f.parquet", tmp_path / "made", {"x": ["a", "s.y"]}, shuffle=False)
    assert plain(ds.read()) == {"x": [[1, 6], [2, 8]]}
    assert read == [["a", "s"]]


class TestS3:
    def test_everything(self, s3_bucket: str, spark_like: Path, capsys: pytest.CaptureFixture[str]) -> None:
        root = f"s3://{s3_bucket}/train"
        for format in ("arrow", "parquet"):
            path = f"{root}/{format}"
            table = pa.table({"a": np.arange(500), "t": [[n] * (n % 3) for n in range(500)]})
            tensors = {"a": "a", "t": pk.ragged("t")}
            ds = pk.write(table, path, tensors, shards=2, block_bytes=2048, format=format, shuffle=False)
            ds.verify()
            assert ds.read(verify=True)["a"].tolist() == list(range(500))
            assert ds.read(slice(250, 253))["t"].row(1).tolist() == [251, 251]
            ds = pk.write(table, path, tensors, mode="append", format=format, shuffle=False)
            assert (ds.version, len(ds)) == (2, 1000)
            assert pk.open(path, version=1).rows == 500
            assert ds.vacuum(older_than=0)
            assert ds.versions() == [2]
            ds.verify()
        made = pk.convert(spark_like, f"{root}/made", shuffle=False)
        assert plain(made.read()) == {"a": [1, 2, 3], "w": ["x", "y", "z"]}
        capsys.readouterr()
        assert pk.convert(spark_like, f"{root}/made", shuffle=False, mode="reuse").version == 1
        assert "was reused" in capsys.readouterr().err

    def test_plain_files(self, s3_bucket: str, spark_like: Path) -> None:
        from penstock.dataset.store import open_store

        store = open_store(f"s3://{s3_bucket}/out")
        for file in spark_like.rglob("*"):
            if file.is_file():
                store.put(str(file.relative_to(spark_like)), file.read_bytes())
        ds = pk.open(f"s3://{s3_bucket}/out")
        assert plain(ds.read()) == {"a": [1, 2, 3], "w": ["x", "y", "z"]}
        one = pk.open(f"s3://{s3_bucket}/out/part-00001-x.snappy.parquet")
        assert plain(one.read()) == {"a": [3], "w": ["z"]}
        made = pk.convert(f"s3://{s3_bucket}/out", f"s3://{s3_bucket}/made", {"y": "a"}, workers=2)
        assert sorted(made.read()["y"].tolist()) == [1, 2, 3]
        with pytest.raises(DatasetMissing, match=r"nowhere holds neither"):
            pk.open(f"s3://{s3_bucket}/nowhere")
        with pytest.raises(DatasetMissing, match=r"nowhere\.parquet holds neither"):
            pk.open(f"s3://{s3_bucket}/nowhere.parquet")

    def test_damage(self, s3_bucket: str) -> None:
        from penstock.dataset.store import open_store

        ds = pk.write(pa.table({"a": np.arange(100)}), f"s3://{s3_bucket}/ds", shards=2)
        store = open_store(ds.path)
        data = bytearray(store.read(ds.shards[0].file))
        data[len(data) // 2] ^= 1
        store.put(ds.shards[0].file, bytes(data))
        store.delete([ds.shards[1].file])
        with pytest.raises(DatasetError, match=r"block 0; .*\(missing\)"):
            ds.verify()
        with pytest.raises(DatasetError, match="the file is not there"):
            ds.read(slice(50, 100))
