"""Features declared once: fitted by Spark, computed natively, served without a JVM, with the same numbers.

A recipe names tensors and says how each is computed from columns. `fit` learns means, medians and vocabularies in
a few aggregates. The fitted recipe is plain data. It becomes native Spark expressions for training, and runs over
Arrow for a web service, where a row takes about a millisecond.

Expect what was learned, the plan's verdict (no row leaves the JVM), and the largest difference between Spark's
values and those of serving: none, or the last digit of a logarithm.

    python examples/03_features.py --rows 200000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import penstock as pk

RECIPE = pk.Recipe(
    dense=pk.stack(
        pk.col("price").fill("median").log1p().standardize().clip(-3, 3),
        pk.col("age").nan_as_null().fill("mean").standardize(),
        pk.col("at").hour("UTC").cyclic(24),
        dtype="float32",
    ),
    ids=pk.stack(
        pk.col("city").index(min_count=10), pk.cross(pk.col("city"), pk.col("kind")).hash(1000), dtype="int32"
    ),
    label=pk.col("clicked").cast("float32"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    given = parser.parse_args()

    spark = pk.session()
    df = spark.range(given.rows).selectExpr(
        "if(id % 50 = 0, null, pmod(xxhash64(id, 'price'), 100000) / 100) as price",
        "if(id % 70 = 0, double('nan'), 18 + id % 60) as age",
        "concat('city ', cast(sqrt(pmod(xxhash64(id, 'city'), 10000)) as int)) as city",
        "id % 3 as kind",
        "timestamp_seconds(1760000000 + 77 * id) as at",
        "id % 4 = 0 as clicked",
    )
    parts = pk.split(df, {"train": 0.9, "valid": 0.1})
    fitted = RECIPE.fit(parts["train"])
    print(fitted.report())
    print("embeddings need", fitted.outputs["ids"].ids, "rows")

    tensors = fitted.transform(parts["valid"], keep=["price", "age", "city", "kind", "at", "clicked"])
    print(pk.explain(tensors).sentence)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "recipe.json")
        fitted.save(path)
        server = pk.load_recipe(path)  # in another process, on a machine without Java
    rows = tensors.limit(1000).toArrow()
    served = server.arrow(rows)
    by_spark = np.array(rows["dense"].to_pylist(), np.float32)
    by_server = np.array(served["dense"].to_pylist(), np.float32)
    print("serving and Spark differ by", np.abs(by_spark - by_server).max(), "at most; ids are equal:",
          rows["ids"].to_pylist() == served["ids"].to_pylist())  # fmt: skip

    online, one = server.only("dense", "ids"), rows.slice(0, 1)
    began = time.perf_counter()
    for _ in range(100):
        online.arrow(one)
    print(f"one row: {(time.perf_counter() - began) * 10:.1f} ms")


if __name__ == "__main__":
    main()
