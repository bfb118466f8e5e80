"""Run by test_write_everywhere.py in a process of its own: the same writes on the master named on the command line.

The executors' PYTHONPATH holds a `penstock` that cannot be imported, so that whatever they run must have come with
the job.
"""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
from pyspark.sql import functions as F

import penstock as pk
from penstock.errors import CastError, DatasetExists, JobError, NullError, RaggedError, StorageError

ROWS = 6000


def penstock_is_there(batches):
    import importlib.util

    import pyarrow as pa

    for _ in batches:
        pass
    try:
        importlib.import_module("penstock.wire.pack")
        yield pa.RecordBatch.from_pydict({"found": [1]})
    except ImportError:
        yield pa.RecordBatch.from_pydict({"found": [0]})


def refused(error, call):
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError(f"no {error.__name__}")


def values_and_order(df, root: str) -> None:
    tensors = {"m": ["id", "x"], "pair": "pair", "tokens": pk.ragged("tokens"), "text": "text"}
    shuffled = pk.write(
        df, f"{root}/shuffled", tensors, dtype={"m": "float32"}, workers=2, compression="zstd"
    )
    shuffled.verify()
    got = pk.open(f"{root}/shuffled").read(verify=True)
    ids = got["m"][:, 0].astype(int)
    assert sorted(ids.tolist()) == list(range(ROWS))
    assert ids.tolist() != list(range(ROWS))
    assert np.array_equal(got["pair"], np.stack([ids, np.full(ROWS, 1.5)], 1).astype("float32"))
    assert got["text"] == [str(number) for number in ids]
    assert [len(got["tokens"].row(n)) for n in range(ROWS)] == [number % 3 for number in ids]
    rows = [shard.rows for shard in shuffled.shards]
    assert len(rows) % 2 == 0, rows
    assert max(rows) - min(rows) <= 6, rows
    again = pk.write(df, f"{root}/again", tensors, dtype={"m": "float32"}, workers=2, compression="zstd")
    assert again.fingerprint == shuffled.fingerprint

    kept = pk.write(df, f"{root}/kept", "id", shuffle=False, shards=5)
    assert kept.read()["id"].tolist() == list(range(ROWS))
    assert [shard.rows for shard in kept.shards] == [ROWS // 5] * 5
    more = pk.write(df.where("id < 10"), f"{root}/kept", "id", shuffle=False, mode="append", format="arrow")
    assert (more.version, more.rows) == (2, ROWS + 10)
    refused(DatasetExists, lambda: pk.write(df, f"{root}/kept", "id"))


def bad_rows(df, root: str) -> None:
    before = pk.write(df, f"{root}/bad", "id")
    holes = df.withColumn("id", F.when(F.col("id") != ROWS - 3, F.col("id")))
    error = refused(NullError, lambda: pk.write(holes, f"{root}/bad", "id", mode="append"))
    assert "'id' has" in str(error), error
    error = refused(CastError, lambda: pk.write(df, f"{root}/bad", "id", dtype="int8", mode="overwrite"))
    assert "column 'id' holds " in str(error), error
    assert "does not fit int8" in str(error), error
    refused(RaggedError, lambda: pk.write(df, f"{root}/bad", "tokens", mode="overwrite"))
    broken = df.select(F.udf(lambda n: 1 // (n - 5000), "long")("id").alias("id"))
    error = refused(JobError, lambda: pk.write(broken, f"{root}/bad", "id", mode="overwrite"))
    assert "ZeroDivisionError" in str(error), error
    assert "\n" not in str(error), error
    after = pk.open(f"{root}/bad")
    after.verify()
    assert (after.version, after.fingerprint) == (1, before.fingerprint)
    after.vacuum(older_than=0)
    pk.open(f"{root}/bad").verify()
    if "://" not in root:
        assert sorted(os.listdir(f"{root}/bad/shards")) == sorted(
            os.path.basename(shard.file) for shard in after.shards
        )


def storage_that_refuses(df, root: str) -> None:
    pk.write(df, f"{root}/odd", "id")
    shutil.rmtree(f"{root}/odd/shards")
    with open(f"{root}/odd/shards", "w"):
        pass  # where the folder should be
    error = refused(StorageError, lambda: pk.write(df, f"{root}/odd", "id", mode="overwrite"))
    assert f"{root}/odd/shards" in str(error), error
    assert "\n" not in str(error), error


def reuse(spark, df, root: str) -> None:
    df.select("id", "x").write.parquet(f"{root}/source")

    def again(limit: int) -> int | None:
        source = spark.read.parquet(f"{root}/source").where(f"id < {limit}")
        return pk.write(source, f"{root}/reused", ["id", "x"], dtype="float32", mode="reuse").version

    assert [again(50), again(50), again(60), again(60)] == [1, 1, 2, 2]


def main(kind: str, where: str, root: str) -> None:
    spark = (
        pk.session(remote=where)
        if kind == "remote"
        else pk.session(memory="1g", config={"spark.master": where})
    )
    settings = [f"spark.sql.execution.arrow.{name}" for name in ("maxRecordsPerBatch", "maxBytesPerBatch")]
    before = {key: spark.conf.get(key) for key in settings}
    df = spark.range(0, ROWS, 1, 6).select(
        "id",
        (F.col("id") / 7).alias("x"),
        F.array(F.col("id").cast("float"), F.lit(1.5).cast("float")).alias("pair"),
        F.expr("slice(array(7, 8, 9), 1, cast(id % 3 as int))").alias("tokens"),
        F.col("id").cast("string").alias("text"),
    )
    values_and_order(df, root)
    bad_rows(df, root)
    if "://" not in root:
        storage_that_refuses(df, root)
        reuse(spark, df, root)
    assert {key: spark.conf.get(key) for key in settings} == before
    found = spark.range(0, 4, 1, 4).mapInArrow(penstock_is_there, "found long").collect()
    assert [row.found for row in found] == [0] * 4, "the executors can import penstock, so this shows nothing"
    spark.stop()
    print("all well")


if __name__ == "__main__":
    main(*sys.argv[1:])
