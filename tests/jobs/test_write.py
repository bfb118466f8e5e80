"""DataFrames to datasets through a real local Spark: values, order, shuffling, shards, versions, reuse."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os
import shutil
import threading
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql import types as T

import penstock as pk
from penstock.errors import (
    CastError,
    DatasetError,
    DatasetExists,
    DatasetMissing,
    NullError,
    RaggedError,
    SelectionError,
)
from penstock.wire.ragged import Ragged

ROWS = 4000


@pytest.fixture(scope="module")
def numbers(spark):
    return spark.range(0, ROWS, 1, 5).select(
        F.col("id"),
        (F.col("id") / 3).alias("third"),
        F.array("id", F.col("id") + 1).alias("pair"),
        (F.col("id") >= ROWS // 2).cast("int").alias("label"),
    )


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "ds")


def as_lists(tensor):
    return (
        [tensor.row(number).tolist() for number in range(len(tensor))]
        if isinstance(tensor, Ragged)
        else list(tensor)
    )


def stored_files(path):
    found = os.path.join(path, "shards")
    return sorted(f"shards/{name}" for name in os.listdir(found)) if os.path.isdir(found) else []


class TestValues:
    def test_every_kind_of_tensor_equals_collect(self, spark, path):
        df = (
            spark.range(0, 300, 1, 4)
            .selectExpr(
                "id",
                "cast(id % 7 as byte) as small",
                "id / 3 as x",
                "cast(id as float) as f",
                "id % 2 = 0 as even",
                "array(id, id + 1, id + 2) as triple",
                "array(array(id, 1), array(2, 3), array(4, 5)) as grid",
                "slice(array(1, 2, 3, 4, 5), 1, cast(id % 6 as int)) as tokens",
                "transform(sequence(1, 1 + cast(id % 3 as int)), i -> array(i, id)) as spans",
                "concat('ä', id) as text",
                "cast(repeat('b', cast(id % 5 as int)) as binary) as raw",
                "struct(id as a, id / 2 as b) as s",
            )
            .sortWithinPartitions("id")
        )
        request = {
            "id": "id",
            "m": ["small", "x", "s.b"],
            "f": "f",
            "even": "even",
            "triple": "triple",
            "grid": "grid",
            "tokens": pk.ragged("tokens"),
            "spans": pk.ragged("spans"),
            "text": "text",
            "raw": "raw",
        }
        ds = pk.write(df, path, request, dtype={"m": "float64"}, shuffle=False)
        ds.verify()
        got, want = ds.read(verify=True), df.collect()
        assert {name: str(spec) for name, spec in ds.tensors.items() if not spec.ragged} == {
            "id": "id: int64",
            "m": "m: float64[3]",
            "f": "f: float32",
            "even": "even: bool",
            "triple": "triple: int64[3]",
            "grid": "grid: int64[3, 2]",
        }
        assert {name: spec.kind for name, spec in ds.tensors.items() if spec.ragged} == {
            "tokens": "ragged",
            "spans": "ragged",
            "text": "string",
            "raw": "binary",
        }
        for name in ("id", "f", "even", "triple", "grid"):
            assert got[name].tolist() == [row[name] for row in want], name
        assert got["m"].tolist() == [[row.small, row.x, row.s.b] for row in want]
        for name in ("tokens", "spans"):
            assert as_lists(got[name]) == [row[name] for row in want], name
        assert got["text"] == [row.text for row in want]
        assert got["raw"] == [bytes(row.raw) for row in want]

    def test_values_are_those_of_to_numpy(self, spark, path):
        when = dt.datetime(2013, 1, 1, 5, 15, 0, 7, tzinfo=dt.UTC)
        schema = T.StructType(
            [
                T.StructField("dec", T.DecimalType(15, 2)),
                T.StructField("day", T.DateType()),
                T.StructField("at", T.TimestampType()),
                T.StructField("wall", T.TimestampNTZType()),
                T.StructField("v", VectorUDT()),
                T.StructField("d", T.DoubleType()),
            ]
        )
        rows = [
            (
                decimal.Decimal(n) / 4,
                dt.date(1970, 1, 1 + n),
                when,
                when.replace(tzinfo=None),
                Vectors.dense([n, 1.0]) if n % 2 else Vectors.sparse(2, [1], [3.0]),
                math.nan if n == 3 else -0.0,
            )
            for n in range(8)
        ]
        df = spark.createDataFrame(rows, schema).coalesce(2)
        for dtype in (None, {"d": "float32", "dec": "float16", "v": "float32"}):
            want = pk.to_numpy(df, dtype=dtype)
            got = pk.write(df, path, dtype=dtype, shuffle=False, mode="overwrite").read()
            assert {name: array.dtype for name, array in got.items()} == {
                name: array.dtype for name, array in want.items()
            }
            assert {name: array.tobytes() for name, array in got.items()} == {
                name: array.tobytes() for name, array in want.items()
            }

    @pytest.mark.timeout(120)
    @settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        rows=st.lists(
            st.tuples(
                st.integers(-(2**63), 2**63 - 1),
                st.floats(width=32),
                st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
                st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
                st.booleans(),
            ),
            max_size=30,
        ),
        partitions=st.integers(1, 5),
        shuffle=st.booleans(),
        shards=st.sampled_from([None, 1, 3]),
        compression=st.sampled_from([None, "zstd"]),
        storage=st.sampled_from(["arrow", "parquet"]),
    )
    def test_any_rows_come_back(
        self, spark, tmp_path_factory, rows, partitions, shuffle, shards, compression, storage
    ):
        df = spark.createDataFrame(
            spark.sparkContext.parallelize(rows, partitions),
            "i long, f float, t string, l array<int>, b boolean",
        )
        ds = pk.write(
            df,
            tmp_path_factory.mktemp("any") / "ds",
            {"i": "i", "f": "f", "t": "t", "l": pk.ragged("l"), "b": "b"},
            shuffle=shuffle,
            shards=shards,
            compression=compression,
            format=storage,
            block_bytes=1024,
        )
        ds.verify()
        got = ds.read()
        told = list(
            zip(
                got["i"].tolist(),
                got["f"].astype("float32").view("uint32").tolist(),
                got["t"],
                map(tuple, as_lists(got["l"])),
                got["b"].tolist(),
                strict=True,
            )
        )
        want = [
            (i, int(np.float32(f).view("uint32")), t, tuple(items), b)
            for i, f, t, items, b in (tuple(row) for row in df.collect())
        ]
        assert (Counter(told) == Counter(want)) if shuffle else (told == want)

    def test_nulls_are_refused_with_counts_or_filled(self, spark, path):
        df = spark.range(0, 40, 1, 4).selectExpr(
            "id",
            "if(id % 4 = 1, null, id / 2) as half",
            "if(id = 7, null, cast(id as string)) as text",
            "if(id = 9, null, array(id, null)) as items",
        )
        with pytest.raises(NullError) as caught:
            pk.write(df, path, {"half": "half", "text": "text"})
        assert set(caught.value.counts) <= {"half", "text"}
        assert stored_files(path) == []
        with pytest.raises(DatasetMissing):
            pk.open(path)
        ds = pk.write(
            df,
            path,
            {"half": "half", "text": "text", "items": pk.ragged("items")},
            nulls={"half": -1, "text": "?", "items": -7},
            shuffle=False,
        )
        got = ds.read()
        assert got["half"][[1, 2]].tolist() == [-1, 1]
        assert got["text"][6:9] == ["6", "?", "8"]
        assert as_lists(got["items"])[8:11] == [[8, -7], [], [10, -7]]
        filled = pk.write(df, path, "half", nulls="nan", mode="overwrite", shuffle=False).read()["half"]
        assert np.isnan(filled[1])

    def test_columns_named_like_our_own(self, spark, path):
        df = spark.range(50).selectExpr(
            "id as penstock_place", "id as p0", "id as p1", "id as `part`", "id as `a.b`"
        )
        for shuffle in (True, False):
            got = pk.write(df, path, shards=2, shuffle=shuffle, mode="overwrite").read()
            assert sorted(got) == sorted(df.columns)
            for name in df.columns:
                assert got[name].tolist() == got["p0"].tolist()


class TestShuffled:
    def test_rows_stay_whole_and_leave_their_places(self, numbers, path):
        ds = pk.write(
            numbers, path, {"x": ["id", "third"], "pair": "pair", "id": "id"}, dtype={"x": "float64"}
        )
        ds.verify()
        got = ds.read()
        ids = got["id"]
        assert sorted(ids.tolist()) == list(range(ROWS))
        assert np.array_equal(got["x"], np.stack([ids, ids / 3], 1))
        assert np.array_equal(got["pair"], ids[:, None] + [0, 1])
        assert abs(np.corrcoef(ids, np.arange(ROWS))[0, 1]) < 0.1
        assert (np.abs(np.diff(ids)) == 1).mean() < 0.01

    def test_the_seed_decides(self, numbers, tmp_path):
        again = numbers.sortWithinPartitions(F.desc("id"))
        first, same, other = (
            pk.write(df, tmp_path / str(place), "id", seed=seed).fingerprint
            for place, (df, seed) in enumerate([(numbers, 5), (again, 5), (numbers, 6)])
        )
        assert first == same, "rows in another order inside their partitions are the same input"
        assert first != other

    @pytest.mark.parametrize(("workers", "shards"), [(3, None), (None, 7), (2, 6)])
    def test_shards_are_even_though_rows_repeat(self, spark, path, workers, shards):
        df = spark.range(0, 30_000, 1, 6).selectExpr("if(id < 27000, 0, id) as v", "1 as one")
        ds = pk.write(df, path, ["v", "one"], workers=workers, shards=shards)
        rows = [shard.rows for shard in ds.shards]
        assert sum(rows) == 30_000
        assert len(rows) == shards if shards else len(rows) % 3 == 0
        assert max(rows) - min(rows) <= 0.01 * 30_000 / len(rows)

    def test_sorted_labels_spread_over_shards_and_places(self, numbers, path):
        ds = pk.write(numbers, path, "label", shards=4)
        labels = ds.read()["label"]
        ends = np.cumsum([shard.rows for shard in ds.shards])
        for part in np.split(labels, ends[:-1]):
            assert abs(part.mean() - 0.5) < 0.05
        for window in np.array_split(labels, 20):
            assert 0.3 < window.mean() < 0.7, "equal rows lie side by side"

    def test_rare_rows_among_equal_ones_spread_too(self, spark, path):
        df = spark.range(0, 20_000, 1, 3).selectExpr("cast(id >= 18000 as int) as y")
        labels = pk.write(df, path, "y", shards=2).read()["y"]
        changes = int((np.diff(labels) != 0).sum())
        assert 0.9 * 3600 < changes < 1.1 * 3600, "2 * 0.1 * 0.9 of the neighbours differ in a random order"


class TestInOrder:
    @pytest.mark.parametrize("options", [{}, {"shards": 3}, {"workers": 4}, {"shards": 1}], ids=str)
    def test_order_is_collects(self, numbers, path, options):
        df = numbers.repartition(7).sortWithinPartitions("third", ascending=False)
        ds = pk.write(df, path, "id", shuffle=False, block_bytes=2048, **options)
        assert ds.read()["id"].tolist() == [row.id for row in df.select("id").collect()]
        rows = [shard.rows for shard in ds.shards]
        if options:
            assert max(rows) - min(rows) <= 1
            assert len(rows) == options.get("shards", len(rows))
            assert len(rows) % options.get("workers", 1) == 0

    def test_even_where_spark_merges_partitions_as_it_goes(self, spark, path):
        changed = {
            "spark.sql.shuffle.partitions": "20",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1MB",
            "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        }
        before = {key: spark.conf.get(key) for key in changed}
        for key, value in changed.items():
            spark.conf.set(key, value)
        try:
            df = (
                spark.range(0, 20_000, 1, 4)
                .selectExpr("20000 - id as k", "repeat(uuid(), 20) as pad")
                .orderBy("k")
            )
            ds = pk.write(df, path, {"k": "k", "pad": "pad"}, shards=5, shuffle=False)
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)
        assert ds.read(tensors=["k"])["k"].tolist() == list(range(1, 20_001))
        assert [shard.rows for shard in ds.shards] == [4000] * 5

    def test_what_was_kept_for_cutting_is_freed(self, spark, numbers, path):
        before = set(spark.sparkContext._jsc.getPersistentRDDs())
        pk.write(numbers, path, "id", shards=2, shuffle=False)
        with pytest.raises(CastError):
            pk.write(numbers, path, "id", shards=2, shuffle=False, dtype="int8", mode="overwrite")
        assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= before


class TestSizes:
    @pytest.mark.parametrize("shuffle", [True, False])
    @pytest.mark.parametrize("options", [{}, {"workers": 2}], ids=str)
    def test_no_rows(self, spark, numbers, path, shuffle, options):
        nothing = spark.createDataFrame([], numbers.schema)
        for df in (numbers.where("id < 0"), nothing):
            ds = pk.write(
                df, path, {"m": ["id", "label"], "pair": "pair"}, shuffle=shuffle, mode="overwrite", **options
            )
            ds.verify()
            assert len(ds) == 0
            assert list(ds.shards) == []
            assert ds.read()["m"].shape == (0, 2)
            assert pk.open(path).rows == 0

    @pytest.mark.parametrize("shuffle", [True, False])
    def test_few_rows_in_many_partitions(self, numbers, path, shuffle):
        for kept in (1, 3):
            df = numbers.where(f"id < {kept}").repartition(6)
            ds = pk.write(df, path, ["id", "label"], shards=9, shuffle=shuffle, mode="overwrite")
            assert sorted(ds.read()["x"][:, 0].tolist()) == list(range(kept))
            assert all(shard.rows for shard in ds.shards)

    @pytest.mark.parametrize("storage", ["arrow", "parquet"])
    def test_blocks_are_no_larger_than_said(self, spark, path, storage):
        df = spark.range(0, 50_000, 1, 2).selectExpr(
            "id", "cast(id as double) as x", "repeat('t', 20) as text"
        )
        for tensors, row in (({"m": ["id", "x"]}, 16), ({"m": ["id", "x"], "text": "text"}, 16 + 20 + 8)):
            ds = pk.write(
                df,
                path,
                tensors,
                dtype={"m": "float64"},
                block_bytes=32_768,
                format=storage,
                mode="overwrite",
            )
            rows = ds.snapshot.index.rows
            assert rows.sum() == 50_000
            assert rows.max() * row <= 32_768 + row
            assert len(rows) <= 2 + 50_000 * row / (32_768 - 64 * row), "blocks are much smaller than said"

    def test_memory_of_a_worker_does_not_grow_with_its_partition(self, spark, path):
        df = spark.range(0, 4_000_000, 1, 1).selectExpr("id as a", "id as b", "id as c", "id as d")
        peaks: list[int] = []
        done = threading.Event()

        def watch():
            import psutil

            while not done.wait(0.02):
                for process in psutil.Process().children(recursive=True):
                    try:
                        if any("/shards/" in file.path for file in process.open_files()):
                            peaks.append(process.memory_info().rss - process.memory_info().shared)
                    except psutil.Error:
                        continue

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            ds = pk.write(df, path, ["a", "b", "c", "d"], shuffle=False, block_bytes=1 << 20)
        finally:
            done.set()
            watcher.join()
        assert ds.bytes > 120_000_000
        assert peaks, "no worker was seen at work"
        assert max(peaks) - min(peaks) < 60_000_000

    def test_parquet_and_compression(self, numbers, tmp_path):
        import pyarrow.dataset

        plain = pk.write(numbers, tmp_path / "plain", ["id", "label"], shuffle=False)
        for compression in ("zstd", "lz4"):
            small = pk.write(
                numbers, tmp_path / compression, ["id", "label"], shuffle=False, compression=compression
            )
            small.verify()
            assert small.bytes < plain.bytes / 2
            assert np.array_equal(small.read()["x"], plain.read()["x"])
        exchange = pk.write(numbers, tmp_path / "exchange", format="parquet", shuffle=False)
        exchange.verify()
        table = pyarrow.dataset.dataset(
            [os.path.join(exchange.path, shard.file) for shard in exchange.shards]
        ).to_table()
        assert isinstance(table, pa.Table)
        assert table["id"].to_pylist() == list(range(ROWS))
        assert exchange.read()["pair"].tolist() == table["pair"].to_pylist()


class TestVersions:
    def test_error_overwrite_append(self, numbers, path):
        first = pk.write(numbers, path, ["id", "label"])
        with pytest.raises(DatasetExists, match="version 1"):
            pk.write(numbers, path, ["id", "label"])
        more = pk.write(numbers.where("id < 100"), path, ["id", "label"], mode="append")
        assert (more.version, more.rows) == (2, ROWS + 100)
        assert [shard.file for shard in more.shards][: len(first.shards)] == [s.file for s in first.shards]
        new = pk.write(numbers.where("id < 7"), path, "third", mode="overwrite")
        assert (new.version, new.rows, new.versions()) == (3, 7, [1, 2, 3])
        assert np.array_equal(new.at(1).read()["x"], first.read()["x"])
        with pytest.raises(DatasetError, match="cannot be appended"):
            pk.write(numbers, path, ["id", "label"], mode="append")
        assert pk.open(path).version == 3
        new.vacuum(keep=1, older_than=0)
        assert stored_files(path) == sorted(shard.file for shard in new.shards)

    def test_a_failed_write_leaves_the_version_before(self, numbers, path):
        before = pk.write(numbers, path, "id")
        files = stored_files(path)
        for mode in ("overwrite", "append", "reuse"):
            with pytest.raises(CastError, match="column 'id' holds 128, which does not fit int8"):
                pk.write(numbers.where("id < 129"), path, "id", dtype="int8", mode=mode, shuffle=False)
        assert stored_files(path) == files
        again = pk.open(path)
        again.verify()
        assert (again.version, again.fingerprint) == (1, before.fingerprint)

    def test_two_threads_append_at_once(self, numbers, path):
        pk.write(numbers, path, "id")
        errors: list[BaseException] = []

        def work(low):
            try:
                pk.write(numbers.where(f"id >= {low}"), path, "id", mode="append")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(low,)) for low in (0, 1000, 2000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        ds = pk.open(path)
        ds.verify()
        assert (ds.version, ds.rows) == (4, ROWS + ROWS + 3000 + 2000)

    def test_the_parts_of_a_split(self, numbers, tmp_path):
        parts = pk.split(numbers, {"train": 0.8, "valid": 0.2}, by="id")
        ids = [
            set(pk.write(df, tmp_path / name, "id", workers=2).read()["id"].tolist())
            for name, df in parts.items()
        ]
        assert ids[0] | ids[1] == set(range(ROWS))
        assert not ids[0] & ids[1]
        assert 0.75 < len(ids[0]) / ROWS < 0.85


class TestReuse:
    @pytest.fixture
    def source(self, numbers, tmp_path):
        folder = str(tmp_path / "source")
        numbers.write.parquet(folder)
        return folder

    @pytest.fixture
    def write(self, spark, source, path, capsys):
        """Write with mode="reuse"; the version and what was said."""

        def call(change=lambda df: df, tensors=("id", "label"), **options):
            capsys.readouterr()
            ds = pk.write(change(spark.read.parquet(source)), path, list(tensors), mode="reuse", **options)
            return ds.version, capsys.readouterr().err

        return call

    def test_the_same_is_taken_and_said(self, write, path):
        assert write() == (1, "")
        files = stored_files(path)
        version, said = write()
        assert version == 1
        assert said == f"penstock: {path}, version 1, was reused: source, plan and options are the same.\n"
        assert stored_files(path) == files

    def test_no_write_job_runs(self, write, monkeypatch):
        write()
        monkeypatch.setattr("penstock.jobs.write._run", lambda *_: pytest.fail("a job was started"))
        assert write()[0] == 1

    @pytest.mark.parametrize(
        ("change", "options", "reason"),
        [
            (lambda df: df, {"seed": 1}, "another seed"),
            (lambda df: df, {"workers": 2, "compression": "zstd"}, "another workers and compression"),
            (lambda df: df, {"tensors": ("label",)}, "other tensors"),
            (lambda df: df, {"dtype": "float32"}, "other tensors"),
            (lambda df: df, {"nulls": 0}, "other tensors"),
            (lambda df: df.where("id < 10"), {}, "the query"),
            (lambda df: df.limit(9), {}, "a limit takes"),
            (lambda df: df.cache(), {}, "a cache"),
            (
                lambda df: df.withColumn("label", F.udf(lambda n: n, "int")("label")),
                {},
                "a function of the user",
            ),
            (lambda df: df.withColumn("label", F.rand()), {"dtype": "float32"}, "rand"),
            (lambda df: df.sparkSession.createDataFrame([(1, 2)], "id long, label long"), {}, "memory"),
        ],
    )
    def test_a_difference_or_doubt_is_written_anew_with_the_reason(
        self, spark, write, change, options, reason
    ):
        write()
        try:
            version, said = write(change, **options)
        finally:
            spark.catalog.clearCache()
        assert version == 2
        assert "is written anew: " in said
        assert reason in said

    def test_a_changed_filter_is_seen_and_then_kept(self, write):
        assert write(lambda df: df.where("id < 10"))[0] == 1
        assert write(lambda df: df.where("id < 11"))[0] == 2
        version, said = write(lambda df: df.where("id < 11"))
        assert (version, "was reused" in said) == (2, True)

    def test_a_changed_file_is_seen(self, write, source):
        write()
        file = next(f"{source}/{name}" for name in os.listdir(source) if name.endswith(".parquet"))
        os.utime(file, (time.time(), os.stat(file).st_mtime + 5))
        version, said = write()
        assert version == 2
        assert "source files have changed" in said
        shutil.copy(file, f"{source}/part-more.parquet")
        assert write()[0] == 3

    def test_files_that_change_during_the_write_prove_nothing(self, write, source, monkeypatch):
        from penstock.jobs import write as module

        run = module._run

        def meanwhile(*arguments):
            results = run(*arguments)
            file = next(f"{source}/{name}" for name in os.listdir(source) if name.endswith(".parquet"))
            os.utime(file, (time.time(), os.stat(file).st_mtime + 5))
            return results

        monkeypatch.setattr(module, "_run", meanwhile)
        assert write()[0] == 1
        monkeypatch.setattr(module, "_run", run)
        version, said = write()
        assert (version, "nothing tells the source of version 1" in said) == (2, True)

    def test_what_another_mode_wrote_is_not_taken(self, spark, write, source, path):
        pk.write(spark.read.parquet(source), path, ["id", "label"])
        version, said = write()
        assert version == 2
        assert "nothing tells the source of version 1" in said
        assert write()[0] == 2
        pk.write(spark.read.parquet(source), path, ["id", "label"], mode="append")
        assert write()[0] == 4


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"format": "csv"}, "format='csv'"),
            ({"mode": "replace"}, "mode='replace'"),
            ({"compression": "gzip"}, "compression='gzip'"),
            ({"workers": 0}, "workers=0"),
            ({"shards": 5, "workers": 2}, "say shards=6"),
            ({"recipe": "r"}, "a fitted recipe is wanted"),
            ({"block_bytes": 1}, "block_bytes=1"),
            ({"tensors": ["nope"]}, "no column 'nope'"),
        ],
    )
    def test_options_are_checked_before_anything_is_made(self, numbers, path, options, words):
        with pytest.raises(SelectionError, match=words):
            pk.write(numbers, path, **options)
        assert not os.path.exists(path)

    def test_the_path_is_checked_first(self, numbers, tmp_path):
        never = numbers.withColumn("id", F.raise_error(F.lit("a job ran")).cast("long"))
        (tmp_path / "file").write_text("mine")
        with pytest.raises(DatasetError, match="file"):
            pk.write(never, tmp_path / "file", "id")
        with pytest.raises(DatasetError, match="no Penstock dataset"):
            pk.write(never, tmp_path, "id", mode="overwrite")
        assert (tmp_path / "file").read_text() == "mine"

    def test_ragged_lists_in_one_partition_and_between_two(self, spark, path):
        inside = spark.createDataFrame([([1, 2],), ([1, 2],), ([1, 2, 3],)], "v array<int>")
        for df in (inside.coalesce(1), inside.repartition(3)):
            with pytest.raises(RaggedError, match=r"column 'v' holds a list of length .*pk\.ragged"):
                pk.write(df, path)
        assert stored_files(path) == []

    def test_relative_paths_mean_the_drivers_folder(self, numbers, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert pk.write(numbers, "here/ds", "id").rows == ROWS
        assert (tmp_path / "here" / "ds" / "shards").is_dir()
        assert pk.open("here/ds").rows == ROWS
