"""A featurisation that keeps the GPU waiting: its diagnosis, its cure, and the same numbers out of both.

A team prepares features with Python functions that Spark calls for every row. The GPU waits. What an engineer does:
1. diagnose: `pk.explain(df, analyze=True)` says where rows leave the JVM, and what that costs;
2. cure: `pk.udf` lifts the branchy part, and the arithmetic becomes a recipe, whose constants Spark learns;
3. check that the same numbers come out, and measure again.

Expect both diagnoses, how long the trainer waits for its rows each way, the largest difference of any number (0, or the
last bit of a float32), the speed-up, which grows with the rows, and what preparing and ten epochs come to.

    python examples/09_starved_gpu.py --rows 4000000
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np
import torch
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import penstock as pk

NAMES, EPOCHS = ["km", "minutes", "fare"], 10


def pace(km: float, minutes: float) -> float:
    if minutes <= 0.0:
        return 0.0
    return min(km / minutes * 60.0, 130.0)


def as_it_was(df: DataFrame) -> DataFrame:
    """Means and deviations come to the driver; then NumPy, made for millions of numbers, is called for three."""
    df = df.withColumn("pace", F.udf(pace, "double", useArrow=False)("km", "minutes"))
    logs = [F.log1p(F.coalesce(name, F.lit(0.0))) for name in NAMES]
    learned = df.select(*(f(log) for f in (F.avg, F.stddev_pop) for log in logs)).first()
    mean, deviation = np.array(learned).reshape(2, -1)

    def features(km, minutes, fare, hour, pace):
        x = np.array([km, minutes, np.nan if fare is None else fare])
        x = np.log1p(np.where(np.isnan(x), 0.0, x))
        x = np.clip((x - mean) / deviation, -3.0, 3.0)
        angle = hour * (2 * np.pi / 24)
        return np.concatenate([x, [pace / 130.0, np.sin(angle), np.cos(angle)]]).astype(np.float32).tolist()

    row = F.udf(features, "array<float>", useArrow=False)
    return df.select("id", row(*NAMES, F.hour("at"), "pace").alias("x"))


def as_it_should_be(df: DataFrame) -> DataFrame:
    """The same numbers, and no row leaves the JVM."""
    df = df.withColumn("pace", pk.udf(pace)("km", "minutes"))
    columns = [pk.col(name).fill(0.0).log1p().standardize().clip(-3, 3) for name in NAMES]
    columns += [pk.col("pace") / 130, pk.col("at").hour("UTC").cyclic(24)]
    return pk.Recipe(x=pk.stack(*columns, dtype="float32")).fit(df).transform(df, keep=["id"])


def epoch_seconds(ds: pk.Dataset) -> float:
    model = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer, began = torch.optim.SGD(model.parameters(), 1e-3), time.perf_counter()
    for batch in ds.torch(batch_size=8192, tensors=["x"], last="short"):
        optimizer.zero_grad()
        model(batch["x"]).pow(2).mean().backward()
        optimizer.step()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    columns = [f"pmod(xxhash64(id, '{name}'), 10000) / 100 as {name}" for name in NAMES[:2]]
    columns += ["if(id % 9 = 0, null, id % 500 / 7) as fare", "timestamp_seconds(1760000000 + 77 * id) as at"]
    df = pk.session().range(parser.parse_args().rows).selectExpr("id", *columns).cache()
    df.count()
    ways, took, found = (as_it_was, as_it_should_be), [], []
    with tempfile.TemporaryDirectory() as folder:
        for prepare in ways:  # what starts once, such as Spark's Python workers, is nobody's cost
            pk.write(prepare(df.limit(1000)), f"{folder}/warm", {"x": "x", "id": "id"}, mode="overwrite")
        for prepare in ways:
            print(f"{prepare.__name__}: {pk.explain(prepare(df), analyze=True).sentence}")
            began = time.perf_counter()
            ds = pk.write(prepare(df), f"{folder}/{prepare.__name__}", {"x": "x", "id": "id"}, shuffle=False)
            took.append(time.perf_counter() - began)
            found.append(ds.read())
            print(f"  the trainer waits {took[-1]:.1f} s for its rows")
        epoch = [epoch_seconds(ds) for _ in range(2)][-1]  # the first starts torch's threads
    same, apart = np.array_equal(found[0]["id"], found[1]["id"]), np.abs(found[0]["x"] - found[1]["x"]).max()
    print(f"the same rows: {same}; numbers differ by {apart:.1g} at most")
    print(f"preparing is {took[0] / took[1]:.1f} times as fast")
    total = "{:.1f} s before, {:.1f} s after".format(*(seconds + EPOCHS * epoch for seconds in took))
    print(f"preparing and {EPOCHS} epochs of {epoch:.2f} s: {total}")


if __name__ == "__main__":
    main()
