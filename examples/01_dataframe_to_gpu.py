"""A Spark DataFrame becomes one tensor on the GPU, in one call.

Spark makes rows of floats, doubles and whole numbers. `pk.to_torch` brings the columns to one float32 matrix, on
the GPU where there is one and in host memory otherwise. No value is lost on the way without being told: a null or
a number that does not fit is an error that names the column.

Expect the shape, the device, and how long it took beside `toPandas()`, which is how it is usually done.

    python examples/01_dataframe_to_gpu.py --rows 2000000
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import penstock as pk

COLUMNS = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()

    spark = pk.session()  # the active session, or a local one; no Java needed on the machine
    kinds = ("float", "double", "int")
    df = spark.range(given.rows).selectExpr(
        *(f"cast(pmod(xxhash64(id, {n}), 10000) / 4 as {kinds[n % 3]}) as c{n}" for n in range(COLUMNS))
    )
    df = df.cache()
    df.count()  # Spark has the rows now, so that only the way out of Spark is timed
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pk.to_torch(df.limit(100), device=device)  # the first call starts Spark's Python workers

    began = time.perf_counter()
    x = pk.to_torch(df, df.columns, dtype="float32", device=device)
    ours = time.perf_counter() - began
    print(f"{tuple(x.shape)} {x.dtype} on {x.device} after {ours:.1f} s")

    began = time.perf_counter()
    by_pandas = torch.from_numpy(df.toPandas().to_numpy(np.float32)).to(device)
    theirs = time.perf_counter() - began
    print(f"toPandas() and .to({device!r}): {theirs:.1f} s, the same matrix: {torch.equal(x, by_pandas)}")

    # Rows are in the order of df.collect(), and the tensor is an ordinary one.
    weights = torch.linalg.lstsq(x[:, 1:], x[:, :1]).solution
    print(f"least squares over it: {weights.shape[0]} weights")


if __name__ == "__main__":
    main()
