"""A small model over a DataFrame: `pk.predict` beside the usual ways, in one run.

    python benchmarks/predict.py [--rows 2000000] [--columns 40] [--rounds 5] [--batch-size 4096]

The DataFrame is cached in Spark: an id and float columns. The model is a small MLP of torch, one thread in each
worker. All ways write their result to Spark's "noop" sink, which computes every row and keeps none; each first
proves that its scores are those of the model itself. Every way is run once to warm up, then `--rounds` times, all in
a random turn. Prints Markdown for docs/results.md.

`predict_batch_udf` is given its columns in both forms it takes, `struct` and `array`; ratios are against the faster.
"crossing alone" sends the packed columns to the workers and returns a constant: no way through Python can be faster.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import torch
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import pandas_udf
from pyspark.sql.types import FloatType

import penstock as pk

HIDDEN = 64
KEEP_ID, KEEP_ALL = "the id kept", "all columns kept"


def model(columns: int) -> torch.nn.Module:
    """The same weights everywhere."""
    torch.manual_seed(7)
    layers = torch.nn.Sequential(
        torch.nn.Linear(columns, HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, 1),
    )
    return layers.eval()


def make(spark: SparkSession, rows: int, columns: int, partitions: int) -> DataFrame:
    chosen = [
        ((F.xxhash64(F.col("id"), F.lit(place)) % 1000) / 500).cast("float").alias(f"c{place}")
        for place in range(columns)
    ]
    return spark.range(0, rows, 1, partitions).select("id", *chosen)


@dataclass
class Way:
    """One way to the scores, what it keeps, and what it took."""

    name: str
    kept: str
    scored: DataFrame
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def all_times(self) -> str:
        return ", ".join(f"{seconds:.1f}" for seconds in sorted(self.seconds))


def scorer(columns: int) -> Callable[[np.ndarray], np.ndarray]:
    """What everybody writes by hand, in a worker."""
    torch.set_num_threads(1)
    layers = model(columns)

    def scores(x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return layers(torch.from_numpy(x)).numpy()[:, 0]

    return scores


def ways(df: DataFrame, columns: int, size: int) -> list[Way]:
    names = [f"c{place}" for place in range(columns)]
    packed, together = F.array(*names), F.struct(*names)

    def predict_fn() -> Callable[[np.ndarray], np.ndarray]:
        scores = scorer(columns)
        return lambda x: scores(np.ascontiguousarray(x, np.float32))

    def batch_udf(shapes: list[list[int]] | None) -> Callable[..., object]:
        return predict_batch_udf(
            predict_fn, return_type=FloatType(), batch_size=size, input_tensor_shapes=shapes
        )

    @pandas_udf(FloatType())
    def by_hand(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        scores = scorer(columns)
        for batch in batches:
            x = np.stack([column.to_numpy() for column in batch], 1)
            yield pd.Series(np.concatenate([scores(x[at : at + size]) for at in range(0, len(x), size)]))

    def map_by_hand(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scores = scorer(columns)
        for batch in batches:
            x = batch.column(1).flatten().to_numpy().reshape(-1, columns)
            found = [scores(x[at : at + size].copy()) for at in range(0, len(x), size)]
            yield pa.RecordBatch.from_arrays(
                [batch.column(0), pa.array(np.concatenate(found))], names=["id", "score"]
            )

    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            zeros = pa.array(np.zeros(batch.num_rows, np.float32))
            yield pa.RecordBatch.from_arrays([batch.column(0), zeros], names=["id", "score"])

    def ours(keep: list[str] | None) -> DataFrame:
        return pk.predict(
            df, lambda: model(columns), tensors=names, returns="score float", batch_size=size, keep=keep
        )

    beside = df.select("id", packed.alias("x"))
    found = [
        Way("pk.predict", KEEP_ID, ours(["id"])),
        Way(
            "predict_batch_udf(struct(...))",
            KEEP_ID,
            df.select("id", batch_udf(None)(together).alias("score")),
        ),
        Way(
            "predict_batch_udf(array(...))",
            KEEP_ID,
            df.select("id", batch_udf([[columns]])(packed).alias("score")),
        ),
        Way("iterator pandas_udf, by hand", KEEP_ID, df.select("id", by_hand(*names).alias("score"))),
        Way(
            "mapInArrow of a packed column, by hand",
            KEEP_ID,
            beside.mapInArrow(map_by_hand, "id long, score float"),
        ),
        Way("crossing alone", KEEP_ID, beside.mapInArrow(nothing, "id long, score float")),
        Way("pk.predict", KEEP_ALL, ours(None)),
        Way(
            "predict_batch_udf(struct(...))",
            KEEP_ALL,
            df.select("*", batch_udf(None)(together).alias("score")),
        ),
        Way(
            "predict_batch_udf(array(...))",
            KEEP_ALL,
            df.select("*", batch_udf([[columns]])(packed).alias("score")),
        ),
        Way("iterator pandas_udf, by hand", KEEP_ALL, df.select("*", by_hand(*names).alias("score"))),
    ]
    return found


def check(all_ways: list[Way], df: DataFrame, columns: int, size: int, part: int) -> None:
    """Scores of some rows, against the model's own; bit for bit from `pk.predict`, whose batches are known."""
    layers = model(columns)
    few = df.where(F.col("id") < part)
    ids, x = pk.to_numpy(few, "id"), pk.to_numpy(few, [f"c{place}" for place in range(columns)])
    with torch.inference_mode():
        wanted = dict(zip(ids.tolist(), layers(torch.from_numpy(x)).numpy()[:, 0].tolist(), strict=True))
    for way in all_ways:
        if way.name == "crossing alone":
            continue
        rows = way.scored.where(F.col("id") < part).select("id", "score").collect()
        seen = {row.id: row.score for row in rows}
        if seen.keys() != wanted.keys():
            sys.exit(f"{way.name} has other rows")
        worst = max(abs(seen[key] - wanted[key]) for key in wanted)
        if not worst < 1e-5:
            sys.exit(f"{way.name} differs from the model by {worst}")
    one = few.coalesce(1)
    ours = pk.predict(
        one,
        lambda: model(columns),
        tensors=[f"c{place}" for place in range(columns)],
        returns="score float",
        batch_size=size,
        keep=[],
    )
    got = np.array([row.score for row in ours.collect()], np.float32)
    x = pk.to_numpy(one, [f"c{place}" for place in range(columns)])
    torch.set_num_threads(1)
    with torch.inference_mode():
        exact = [layers(torch.from_numpy(x[at : at + size]))[:, 0] for at in range(0, len(x), size)]
    if not np.array_equal(got, torch.cat(exact).numpy()):
        sys.exit("pk.predict is not the model's own output, bit for bit")


def processor_seconds() -> float:
    here = psutil.Process()
    total = 0.0
    for process in (here, *here.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def measure(way: Way) -> None:
    processor, began = processor_seconds(), time.perf_counter()
    way.scored.write.format("noop").mode("overwrite").save()
    way.seconds.append(time.perf_counter() - began)
    way.processor.append(processor_seconds() - processor)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--memory", default="6g")
    parser.add_argument("--only", help="ways whose names contain this, beside predict_batch_udf")
    given = parser.parse_args()

    spark = pk.session(memory=given.memory)
    df = make(spark, given.rows, given.columns, given.partitions).cache()
    df.count()
    all_ways = ways(df, given.columns, given.batch_size)
    if given.only:
        all_ways = [way for way in all_ways if given.only in way.name or "predict_batch_udf" in way.name]
    check(all_ways, df, given.columns, given.batch_size, min(given.rows, 50_000))
    for way in all_ways:
        measure(way)
        way.seconds.clear()
        way.processor.clear()
    order = random.Random(7)
    for _ in range(given.rounds):
        for way in order.sample(all_ways, len(all_ways)):
            measure(way)
        print(".", end="", file=sys.stderr, flush=True)
    report(all_ways, spark, given)
    spark.stop()


def report(all_ways: list[Way], spark: SparkSession, given: argparse.Namespace) -> None:
    cores = f"{os.cpu_count()} cores"
    print(
        f"\n{date.today()}, {platform.machine()}, {cores}, Spark {spark.version}, torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )
    print(
        f"`python benchmarks/predict.py --rows {given.rows} --columns {given.columns} --rounds {given.rounds} "
        f"--batch-size {given.batch_size}`"
    )
    for kept in (KEEP_ID, KEEP_ALL):
        mine = [way for way in all_ways if way.kept == kept]
        udf = min(
            (way for way in mine if way.name.startswith("predict_batch_udf")), key=lambda way: way.median
        )
        print(
            f"\n| way, {kept} | seconds: median (all) | faster than predict_batch_udf: median, best | processor s |"
        )
        print("| --- | --- | --- | --- |")
        for way in mine:
            best = min(udf.seconds) / min(way.seconds)
            print(
                f"| {way.name} | {way.median:.2f} ({way.all_times}) | {udf.median / way.median:.2f} x, {best:.2f} x "
                f"| {statistics.median(way.processor):.1f} |"
            )


if __name__ == "__main__":
    main()
