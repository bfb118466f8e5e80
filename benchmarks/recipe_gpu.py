"""A fitted recipe on a GPU: the same values as in serving, and how fast its module is.

    python benchmarks/recipe_gpu.py [--rows 4000000] [--device cuda]

13 float columns with nulls, filled, standardized and clipped, and 26 columns of whole numbers indexed by vocabularies
of 3 to 100,000 keys. The values on the device are held against `fitted.arrow`, then whole batches are timed with the
columns already there. Needs no Spark.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import pyarrow as pa
import torch

import penstock as pk

NUMBERS, KEYS = 13, 26
SIZES = [3, 10, 25, 100, 300, 1000, 3000, 10_000, 30_000, 100_000]


def rows(count: int) -> pa.Table:
    random = np.random.default_rng(1)
    columns = {
        f"d{place}": pa.array(np.exp(random.normal(2, 1, count)), mask=random.random(count) < 0.05)
        for place in range(NUMBERS)
    }
    for place in range(KEYS):
        columns[f"c{place}"] = pa.array((random.random(count) ** 2 * SIZES[place % 10]).astype(np.int64))
    return pa.table(columns)


def recipe() -> pk.Recipe:
    dense = (pk.col(f"d{n}").fill("median").log1p().standardize().clip(-3, 3) for n in range(NUMBERS))
    return pk.Recipe(
        dense=pk.stack(*dense, dtype="float32"),
        ids=pk.stack(*(pk.col(f"c{n}").index(min_count=2) for n in range(KEYS)), dtype="int32"),
    )


def sent(table: pa.Table, device: str) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    found = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        values = torch.tensor(column.fill_null(0).to_numpy(zero_copy_only=False), device=device)
        found[name] = (values, torch.tensor(np.asarray(column.is_valid()), device=device))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    fitted = recipe().fit(rows(200_000))
    table = rows(50_000)
    on_device, in_serving = fitted.torch(sent(table, options.device)), fitted.arrow(table)
    assert on_device["ids"].cpu().tolist() == in_serving["ids"].to_pylist()
    dense = np.array(in_serving["dense"].to_pylist(), np.float32)
    differing = int((on_device["dense"].cpu().numpy() != dense).sum())
    furthest = float(np.abs(on_device["dense"].cpu().numpy() - dense).max())
    print(f"ids equal; dense: {differing} of {dense.size} differ, by at most {furthest:.2g}")
    columns, module = sent(rows(options.rows), options.device), fitted.module()
    taken = []
    for _ in range(8):
        torch.cuda.synchronize() if options.device != "cpu" else None
        begun = time.perf_counter()
        module(columns)
        torch.cuda.synchronize() if options.device != "cpu" else None
        taken.append(time.perf_counter() - begun)
    middle = statistics.median(taken[2:])
    print(
        f"{options.rows:,} rows in {middle * 1e3:.1f} ms: {options.rows / middle / 1e6:.0f} million rows a second"
    )


if __name__ == "__main__":
    main()
