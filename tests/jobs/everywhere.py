"""Run by test_everywhere.py in a process of its own: the same transfers on the master named on the command line.

The executors' PYTHONPATH holds a `penstock` that cannot be imported, so that whatever they run must have come with
the job.
"""

from __future__ import annotations

import sys

import numpy as np
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

import penstock as pk
from penstock.errors import CastError, NullError, TooLarge
from penstock.jobs import transfer


def workers_cannot_import_penstock(batches):
    import importlib

    import pyarrow as pa

    for _ in batches:
        pass
    try:
        importlib.import_module("penstock.wire.pack")
        yield pa.RecordBatch.from_pydict({"found": [1]})
    except ImportError:
        yield pa.RecordBatch.from_pydict({"found": [0]})


def main(kind: str, where: str, blobs: bool) -> None:
    spark = (
        pk.session(remote=where)
        if kind == "remote"
        else pk.session(memory="1g", config={"spark.master": where})
    )
    assert pk.session() is spark
    ways: list[bool] = []
    reachable = transfer._reachable
    transfer._reachable = lambda spark, door: ways.append(reachable(spark, door)) or (ways[-1] and not blobs)
    if blobs:
        transfer._same_machine = lambda spark: False

    df = spark.range(0, 5000, 1, 6).select(
        "id",
        (F.col("id") / 7).alias("x"),
        F.array(F.col("id").cast("float"), F.lit(1.5).cast("float")).alias("pair"),
        F.when(F.col("id") % 1000 != 3, F.col("id")).alias("holes"),
        F.timestamp_micros("id").alias("at"),
    )
    matrix = pk.to_numpy(df, ["id", "x", "pair"], dtype="float32")
    assert matrix.shape == (5000, 4)
    assert np.array_equal(matrix[:, 0], np.arange(5000, dtype=np.float32))
    assert np.array_equal(pk.to_numpy(df, "at"), np.arange(5000))
    # Sorted, because two executors' shuffle files come in another order each time.
    shuffled = df.repartition(5, "id").sortWithinPartitions("x", ascending=False)
    assert pk.to_numpy(shuffled, "id").tolist() == [row.id for row in shuffled.select("id").collect()]
    assert pk.to_torch(df.where("id < 0"), ["id", "x"], dtype="float32").shape == (0, 2)
    assert pk.to_numpy(df, "holes", nulls=-5)[[2, 3]].tolist() == [2, -5]
    vectors = spark.createDataFrame([(Vectors.dense([1.0, 2.0]),), (Vectors.sparse(2, [1], [3.0]),)], ["v"])
    assert pk.to_numpy(vectors, "v").tolist() == [[1, 2], [0, 3]]
    for error, call in (
        (NullError, lambda: pk.to_numpy(df, "holes")),
        (CastError, lambda: pk.to_numpy(df, "id", dtype="int8")),
        (TooLarge, lambda: pk.to_numpy(df, "id", max_bytes=1000)),
    ):
        try:
            call()
        except error:
            continue
        raise AssertionError(f"no {error.__name__}")
    if kind == "remote" or blobs:
        assert ways, "nobody asked whether the driver can be reached"
        assert all(ways), "a server on this machine should reach the driver"
    found = spark.range(0, 4, 1, 4).mapInArrow(workers_cannot_import_penstock, "found long").collect()
    assert [row.found for row in found] == [0] * 4, "the executors can import penstock, so this shows nothing"
    spark.stop()
    print("all well")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], blobs=sys.argv[3:] == ["blobs"])
