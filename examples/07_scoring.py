"""Scoring: a torch model over a whole DataFrame, in Spark's Python workers.

The features run as native expressions; only finished tensors cross to Python, in batches of exactly the size
asked for. Each worker process loads the model once. The result is a DataFrame like any other, computed when it is
asked for. Rows that cannot be scored fail the job with their keys, or have their error in a column.

Expect the row that could not be scored with the reason, rows a second, and the same scores as the model gives here.

    python examples/07_scoring.py --rows 1000000
"""

from __future__ import annotations

import argparse
import time

import torch

import penstock as pk


def load_model() -> torch.nn.Module:
    """In earnest: torch.load of a file, or a path given to `pk.predict` instead of this function."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1), torch.nn.Sigmoid()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    given = parser.parse_args()

    spark = pk.session()
    df = spark.range(given.rows).selectExpr(
        "id", "id % 1000 / 7 as price", f"nullif(id, {given.rows // 2}) % 80 as age", "id % 5 as kind"
    )
    recipe = pk.Recipe(
        x=pk.stack(
            pk.col("price").log1p().standardize(),
            pk.col("age").standardize(),
            pk.col("kind"),
            dtype="float32",
        )
    )
    fitted = recipe.fit(df)

    scored = pk.predict(
        df, load_model, recipe=fitted, returns="score float", keep=["id"], batch_size=4096, on_error="column"
    )
    for row in scored.where("error is not null").collect():  # now workers are up, and the model is loaded
        print(f"id {row.id}: {row.error}")
    began = time.perf_counter()
    found = scored.selectExpr("count(*) as n", "avg(score) as mean").first()
    took = time.perf_counter() - began
    print(f"{found.n:,} rows in {took:.1f} s, {found.n / took:,.0f} a second; mean score {found.mean:.4f}")

    # The same numbers as the model gives here, of rows that can be scored.
    known = df.where("age is not null").orderBy("id").limit(100)
    x = torch.tensor(fitted.arrow(known.toArrow())["x"].to_pylist())
    here = load_model()(x)[:, 0]
    there = torch.tensor(
        [row.score for row in scored.where("error is null").orderBy("id").limit(100).collect()]
    )
    print("as computed here, to", f"{(here - there).abs().max().item():.1e}")


if __name__ == "__main__":
    main()
