"""Versions: what each mode does, what vacuum takes away, and writers that meet."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.dataset import commit
from penstock.dataset.store import open_store
from penstock.dataset.stores.local import LocalStore
from penstock.errors import DatasetError, DatasetExists, DatasetMissing, StorageError


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def seen(ds: pk.Dataset) -> list[int]:
    return sorted(ds.read()["a"].tolist())


def test_error_is_the_default(tmp_path: Path) -> None:
    pk.write(rows(1, 2), tmp_path)
    before = files(tmp_path)
    with pytest.raises(DatasetExists, match=r'holds a dataset \(version 1\) already\. Pass mode="overwrite"'):
        pk.write(rows(3), tmp_path)
    assert files(tmp_path) == before


def test_overwrite_and_the_versions_before(tmp_path: Path) -> None:
    one = pk.write(rows(1, 2), tmp_path, mode="overwrite")
    two = pk.write(rows(3), tmp_path, mode="overwrite")
    other = pk.write(pa.table({"b": ["x"]}), tmp_path, mode="overwrite")
    assert (one.version, two.version, other.version) == (1, 2, 3)
    assert other.versions() == [1, 2, 3]
    assert seen(other.at(1)) == [1, 2]
    assert seen(pk.open(tmp_path, version=2)) == [3]
    assert pk.open(tmp_path).read() == {"b": ["x"]}
    for missing in (4, 0, -1):
        with pytest.raises(DatasetMissing, match=rf"has no version {missing}; it has 1, 2, 3"):
            other.at(missing)


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_append_adds(tmp_path: Path, format: str) -> None:
    pk.write(rows(1, 2), tmp_path, format=format, mode="append", shuffle=False)
    pk.write(rows(3), tmp_path, format=format, mode="append")
    ds = pk.write(rows(4, 5, 6), tmp_path, format=format, mode="append", shards=3, shuffle=False)
    assert ds.version == 3
    assert ds.read(verify=True)["a"].tolist() == [1, 2, 3, 4, 5, 6]
    ds.verify()
    assert seen(ds.at(2)) == [1, 2, 3]
    assert [shard.rows for shard in ds.shards] == [2, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (pa.table({"b": [1]}), {}, r"tensors: there \['a: int64'\], here \['b: int64'\]"),
        (pa.table({"a": [1.5]}), {}, "a: float64"),
        (pa.table({"a": [[1, 2]]}), {}, r"a: int64\[2\]"),
        (pa.table({"a": [1], "b": [1]}), {}, "'b: int64'"),
        (rows(1), {"format": "parquet"}, "format: there arrow, here parquet"),
        (rows(1), {"compression": "zstd"}, "compression: there None, here zstd"),
    ],
)
def test_append_refuses_what_does_not_fit(tmp_path: Path, table: pa.Table, options: Any, said: str) -> None:
    pk.write(rows(1), tmp_path)
    before = files(tmp_path)
    with pytest.raises(DatasetError, match=f"cannot be appended to version 1: .*{said}"):
        pk.write(table, tmp_path, mode="append", **options)
    assert files(tmp_path) == before


def test_append_to_nothing_and_of_nothing(tmp_path: Path) -> None:
    lists = pa.table({"a": pa.array([[1, 2, 3]], pa.list_(pa.int64()))})
    pk.write(lists.slice(1), tmp_path)
    ds = pk.write(lists, tmp_path, mode="append")
    assert str(ds.tensors["a"]) == "a: int64[3]"
    ds = pk.write(lists.slice(1), tmp_path, mode="append")
    assert str(ds.tensors["a"]) == "a: int64[3]"
    assert ds.version == 3
    assert ds.read()["a"].tolist() == [[1, 2, 3]]


def test_an_appended_dataset_is_not_reused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    pq.write_table(rows(1), source / "a.parquet")
    pk.convert(source, tmp_path / "ds")
    pk.convert(source, tmp_path / "ds", mode="append")
    assert pk.convert(source, tmp_path / "ds", mode="reuse").version == 3


class TestReuse:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        (tmp_path / "source").mkdir()
        pq.write_table(pa.table({"a": [1, 2], "b": [0.5, 1.5]}), tmp_path / "source" / "one.parquet")
        pq.write_table(pa.table({"a": [3], "b": [2.5]}), tmp_path / "source" / "two.parquet")
        return tmp_path / "source"

    @pytest.mark.parametrize("first", ["error", "overwrite", "reuse"])
    def test_unchanged(self, source: Path, capsys: pytest.CaptureFixture[str], first: str) -> None:
        path = source.parent / "ds"
        made = pk.convert(source, path, mode=first)
        before = files(path)
        capsys.readouterr()
        again = pk.convert(source, path, mode="reuse")
        assert (again.version, again.fingerprint, files(path)) == (1, made.fingerprint, before)
        assert capsys.readouterr().err == (
            f"penstock: {path}, version 1, was reused: source and options are the same.\n"
        )

    def test_changed_files(self, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = source.parent / "ds"

        def version() -> int | None:
            return pk.convert(source, path, mode="reuse").version

        assert (version(), version()) == (1, 1)
        os.utime(source / "one.parquet", (1, 1))
        assert (version(), version()) == (2, 2)
        pq.write_table(pa.table({"a": [3, 4], "b": [2.5, 4.5]}), source / "two.parquet")
        assert (version(), version()) == (3, 3)
        pq.write_table(pa.table({"a": [5], "b": [5.5]}), source / "three.parquet")
        assert (version(), version()) == (4, 4)
        (source / "one.parquet").unlink()
        assert (version(), version()) == (5, 5)
        assert seen(pk.open(path)) == [3, 4, 5]
        assert "is written anew: source files have changed" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "options",
        [
            {"seed": 1},
            {"shuffle": False},
            {"shards": 2},
            {"workers": 2},
            {"format": "parquet"},
            {"compression": "zstd"},
            {"block_bytes": 1 << 20},
            {"tensors": {"x": ["a", "a"]}},
            {"tensors": ["b"]},
            {"dtype": {"b": "float32"}},
            {"nulls": 0},
        ],
    )
    def test_changed_options(self, source: Path, options: dict[str, Any]) -> None:
        path, base = source.parent / "ds", {"dtype": {"a": "int64"}} if "tensors" not in options else {}
        pk.convert(source, path, mode="reuse", **base)
        assert pk.convert(source, path, mode="reuse", **{**base, **options}).version == 2
        assert pk.convert(source, path, mode="reuse", **{**base, **options}).version == 2

    def test_rows_in_memory_are_written_anew(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pk.write(rows(1), tmp_path, mode="reuse")
        assert capsys.readouterr().err == ""
        assert pk.write(rows(1), tmp_path, mode="reuse").version == 2
        assert "is written anew: its rows come from memory" in capsys.readouterr().err


class TestVacuum:
    def test_only_what_the_newest_needs_stays(self, tmp_path: Path) -> None:
        pk.write(rows(1), tmp_path)
        first = files(tmp_path)
        ds = pk.write(rows(2), tmp_path, mode="overwrite")
        assert ds.vacuum() == [], "younger than a day"
        gone = ds.vacuum(older_than=0)
        assert set(gone) == first
        assert gone[0] == "_penstock/v000001.json", "a version goes before its shards"
        assert ds.versions() == [2]
        assert seen(pk.open(tmp_path)) == [2]
        assert ds.vacuum(older_than=0) == []

    def test_keep(self, tmp_path: Path) -> None:
        for value in range(4):
            ds = pk.write(rows(value), tmp_path, mode="overwrite")
        ds.vacuum(keep=2, older_than=0)
        assert ds.versions() == [3, 4]
        assert [seen(ds.at(version)) for version in (3, 4)] == [[2], [3]]
        assert len(files(tmp_path)) == 6
        for keep in (0, -1):
            with pytest.raises(DatasetError, match="at least the newest version stays"):
                ds.vacuum(keep=keep)
        with pytest.raises(DatasetError, match="0 or more"):
            ds.vacuum(older_than=-1)

    def test_shards_shared_by_versions_stay(self, tmp_path: Path) -> None:
        pk.write(rows(1), tmp_path)
        ds = pk.write(rows(2), tmp_path, mode="append")
        ds.vacuum(older_than=0)
        assert seen(pk.open(tmp_path)) == [1, 2]
        pk.open(tmp_path).verify()

    def test_a_young_version_keeps_its_old_shards(self, tmp_path: Path) -> None:
        pk.write(rows(1), tmp_path)
        for name in files(tmp_path):
            os.utime(tmp_path / name, (1, 1))
        pk.write(rows(2), tmp_path, mode="append")
        ds = pk.write(rows(3), tmp_path, mode="overwrite")
        gone = ds.vacuum(older_than=3600)
        assert all("v000001" in name for name in gone)
        assert ds.versions() == [2, 3]
        assert seen(ds.at(2)) == [1, 2]
        ds.at(2).verify()

    def test_debris_goes_and_strangers_stay(self, tmp_path: Path) -> None:
        ds = pk.write(rows(1), tmp_path)
        before = files(tmp_path)
        debris = [
            "shards/dead-00000-1.arrow",
            "_penstock/.v000002.json.77.tmp",
            "_penstock/faults-x/00000-1.json",
        ]
        strangers = ["README", "notes/shards/a.arrow", "shards.txt", "_penstock2/v000001.json"]
        for name in [*debris, *strangers]:
            (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / name).write_bytes(b"x")
            os.utime(tmp_path / name, (time.time() - 7200,) * 2)
        young = tmp_path / "shards" / "writing-00000-1.arrow"
        young.write_bytes(b"x")
        assert sorted(ds.vacuum(older_than=3600)) == sorted(debris)
        assert files(tmp_path) == before | set(strangers) | {"shards/writing-00000-1.arrow"}


def test_paths_that_hold_something_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match=r"a file|Not a directory"):
            pk.write(rows(1), path)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "data.csv").write_bytes(b"x")
    for mode in ("error", "overwrite", "append", "reuse"):
        with pytest.raises(DatasetError, match=r"holds files that are no Penstock dataset \('data\.csv'\)"):
            pk.write(rows(1), tmp_path / "foreign", mode=mode)
    assert files(tmp_path) == {"file", "foreign/data.csv"}
    (tmp_path / "empty").mkdir()
    assert pk.write(rows(1), tmp_path / "empty").version == 1
    assert pk.write(rows(1), tmp_path / "new" / "deep" / "path").version == 1


def test_debris_of_a_failed_write_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "dead-00000-1.arrow").write_bytes(b"x")
    with pytest.raises(DatasetError):
        pk.open(tmp_path)
    assert pk.write(rows(1), tmp_path).version == 1
    assert pk.open(tmp_path).rows == 1


def alone(code: str, *arguments: object) -> str:
    """Run code in a process of its own; what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_without_permission(tmp_path: Path) -> None:
    pk.write(rows(1), tmp_path / "ds")
    for path in [tmp_path / "ds", *(tmp_path / "ds").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for folder in [tmp_path, *tmp_path.parents[:3]]:
        folder.chmod(folder.stat().st_mode | 0o555)
    out = alone(
        """
        import os, sys
        import pyarrow as pa, pyarrow.compute, xxhash
        import penstock as pk
        from penstock.errors import StorageError
        pk.write, pk.open
        if os.geteuid() == 0:  # root may do anything, so be somebody else
            os.setegid(65534)
            os.seteuid(65534)
        ds = pk.open(sys.argv[1])
        ds.verify()
        print(ds.read()["a"].tolist())
        for call in (
            lambda: pk.write(pa.table({"a": [2]}), sys.argv[1], mode="overwrite"),
            lambda: pk.write(pa.table({"a": [2]}), sys.argv[1] + "/new"),
            lambda: ds.vacuum(older_than=0) or pk.write(pa.table({"a": [2]}), sys.argv[1], mode="append"),
        ):
            try:
                call()
                print("allowed")
            except StorageError as error:
                print(error)
        """,
        tmp_path / "ds",
    )
    read, *told = out.splitlines()
    assert read == "[1]"
    assert len(told) == 3
    assert all("Permission denied. Check the permissions" in line for line in told), out


@pytest.mark.parametrize("mode", ["error", "overwrite", "append", "reuse"])
def test_threads_that_write_at_once(tmp_path: Path, mode: str) -> None:
    def attempt(value: int) -> int | None:
        try:
            return pk.write(rows(value), tmp_path, mode=mode).version
        except DatasetExists:
            return None

    with ThreadPoolExecutor(6) as threads:
        got = list(threads.map(attempt, range(6)))
    check_race(tmp_path, mode, got)


def check_race(root: Path, mode: str, got: list[int | None]) -> None:
    ds = pk.open(root)
    ds.verify()
    winners = [version for version in got if version is not None]
    assert sorted(winners) == ds.versions()
    if mode == "error":
        assert winners == [1]
        assert seen(ds) == [got.index(1)]
    elif mode == "append":
        assert seen(ds) == list(range(len(got)))
    else:
        assert seen(ds) == [got.index(max(winners))]
    for version in ds.versions():
        ds.at(version).verify()
    needed = {
        name
        for version in ds.versions()
        for manifest in [commit.load(open_store(root), version)]
        for name in (commit.manifest_name(version), *commit.files_named(manifest))
    }
    assert files(root) == needed, "losers left something behind"


@pytest.mark.parametrize("mode", ["error", "append"])
def test_processes_that_write_at_once(tmp_path: Path, mode: str) -> None:
    code = textwrap.dedent("""
        import sys, time
        import pyarrow as pa
        import penstock as pk
        from penstock.errors import DatasetExists
        pk.write
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            ds = pk.write(pa.table({"a": [int(sys.argv[2])]}), sys.argv[1], mode=sys.argv[3])
            print(ds.version)
        except DatasetExists:
            print("lost")
    """)
    root = tmp_path / "ds"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(root), str(number), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate(timeout=120)[0].strip() for process in running]
    check_race(root, mode, [None if text == "lost" else int(text) for text in told])


class LostAnswers(LocalStore):
    """Storage whose answer to a successful creation does not arrive."""

    def __init__(self, root: str, answer: BaseException | bool) -> None:
        super().__init__(root)
        self.answer = answer

    def create(self, name: str, data: Any) -> bool:
        super().create(name, data)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [False, StorageError("create", "x", "the connection was reset"), KeyboardInterrupt()],
    ids=["taken, on asking again", "no answer", "Ctrl-C"],
)
def test_an_answer_that_is_lost_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: BaseException | bool
) -> None:
    # The moment between a commit and hearing of it cannot be met by chance.
    monkeypatch.setattr("penstock.jobs.write.open_store", lambda path: LostAnswers(str(path), answer))
    if isinstance(answer, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            pk.write(rows(1, 2), tmp_path)
    else:
        assert pk.write(rows(1, 2), tmp_path).version == 1
    ds = pk.open(tmp_path)
    assert ds.versions() == [1]
    assert seen(ds) == [1, 2]
    ds.verify()
