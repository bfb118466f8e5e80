"""What the tests of recipes share: rows with everything in them, and a recipe of every operation that learns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import penstock as pk
from penstock import col

ROWS = 3000


def made(rows: int = ROWS, seed: int = 3) -> pa.Table:
    """Numbers with nulls, nan and infinities, categories with a long tail, texts, lists, times and a label."""
    random = np.random.default_rng(seed)
    price = np.exp(random.normal(2, 1.5, rows))
    odd = random.normal(-4, 9, rows)
    odd[::97] = np.nan
    odd[5::301] = np.inf
    city = np.array([f"city {number}" for number in random.zipf(1.4, rows) % 200], object)
    city[3::50] = "São Paulo"
    return pa.table(
        {
            "price": pa.array(price, mask=random.random(rows) < 0.1),
            "odd": pa.array(odd, mask=random.random(rows) < 0.05),
            "age": pa.array(random.integers(0, 90, rows).astype(np.int32), mask=random.random(rows) < 0.05),
            "small": pa.array(random.normal(0, 1, rows).astype(np.float32)),
            "city": pa.array(city, mask=random.random(rows) < 0.02),
            "shop": pa.array(random.zipf(1.2, rows) % 40_000),
            "member": pa.array(random.random(rows) < 0.3, mask=random.random(rows) < 0.01),
            "words": pa.array(
                [f"w{number % 7} w{number % 3}" if number % 11 else None for number in range(rows)]
            ),
            "same": pa.array(np.full(rows, 4.25)),
            "nothing": pa.nulls(rows, pa.float64()),
            "at": pa.array(random.integers(0, 2**31, rows) * 1_000_000, pa.timestamp("us", "UTC")),
            "clicked": pa.array(random.random(rows) < 0.2),
        }
    )


def everything() -> pk.Recipe:
    """Every operation that learns, on every kind of column it takes, some in each other."""
    return pk.Recipe(
        dense=pk.stack(
            col("price").fill("median").log1p().standardize().clip(-3, 3),
            col("odd").fill("mean").minmax(),
            col("odd").fill("mode").standardize(),
            col("odd").nan_as_null().fill("median").robust(),
            col("price").fill("mode").robust(),
            col("age").fill("median").standardize(ddof=1),
            col("age").fill("mode").winsorize(0.05, 0.95),
            col("small").standardize(),
            col("same").standardize(),
            dtype="float32",
        ),
        cat=pk.stack(
            col("city").index(min_count=3),
            col("city").lower().index(max_size=20, oov=2),
            col("shop").index(),
            col("shop").index(max_size=7),
            col("member").index(),
            col("age").fill(0).quantile_bins(10),
            col("price").fill("median").quantile_bins(4).index(),
            dtype="int32",
        ),
        shares=pk.stack(
            col("city").target_mean(col("clicked")),
            col("shop").target_mean(col("age").fill("mean"), smoothing=3),
            col("shop").count_encode().log1p().standardize(),
        ),
        hot=col("city").one_hot(max_size=5),
        tokens=col("words").fill("").split(" ").index(),
        top=col("words").fill("").split(" ").one_hot(max_size=3),
        label=col("clicked").cast("float32"),
    )
