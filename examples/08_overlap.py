"""Training begins while Spark still writes.

The first half of a GPU's day is often spent waiting for the last partition of a table. With `follow=True` every
partition becomes a shard that a training may read as soon as it is whole: `pk.write(..., follow=True)` in one
process, `pk.open(path, follow=True)` in the other (here, two threads). The first epoch takes parts as they land,
every row once; later epochs are shuffled as usual.

Expect the first step long before the write ends, and an end that is little later than the write's.

    python examples/08_overlap.py --rows 160000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import torch

import penstock as pk

PARTITIONS = 12


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As a slow source would be: half a second for each partition."""
    time.sleep(0.5)
    yield from batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=120_000)
    given = parser.parse_args()

    spark = pk.session(cores=2)
    df = spark.range(0, given.rows, 1, PARTITIONS).selectExpr(
        "id", "array_repeat(cast(id % 97 as float), 32) as x"
    )
    df = df.mapInArrow(slowly, df.schema)
    torch.set_num_threads(1)  # the other cores are Spark's
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)

    with tempfile.TemporaryDirectory() as path, ThreadPoolExecutor(1) as spark_side:
        began, first, seen = time.perf_counter(), 0.0, set()
        writing = spark_side.submit(
            lambda: (pk.write(df, path, {"x": "x", "id": "id"}, follow=True), time.perf_counter())
        )
        loader = pk.open(path, follow=True).torch(batch_size=256, last="short")
        for batch in loader:
            optimizer.zero_grad()
            model(batch["x"]).pow(2).mean().backward()
            optimizer.step()
            first = first or time.perf_counter()
            seen.update(batch["id"].tolist())
        ended = time.perf_counter()
        ds, written = writing.result()
        print(f"first step after {first - began:.1f} s; Spark had written after {written - began:.1f} s;")
        print(
            f"the epoch ended after {ended - began:.1f} s, with all {len(seen):,} rows: {len(seen) == given.rows}"
        )
        print(loader.verdict())
        print("the second epoch is like any other:", len(loader), "batches;", ds.rows, "rows")


if __name__ == "__main__":
    main()
