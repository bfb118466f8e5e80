"""Features of Criteo-shaped rows: a recipe beside the MLlib pipeline that does the same, in one run.

    python benchmarks/recipe.py [--rows 2000000] [--rounds 3] [--cores 2]
    python benchmarks/recipe.py --keys 10000000 [--rows 11000000]

13 numbers with nulls are filled with their median and standardized, 26 texts with 3 to 100,000 values become ids. The
rows are cached in Spark. MLlib: Imputer, StringIndexer, StandardScaler, VectorAssembler. Both fit, and transform all
rows into nothing (`noop`), in a random turn. Then serving: batches of 1 and of 1000 rows through `fitted.arrow`, beside
one row through the fitted recipe and the MLlib model on local Spark. Prints Markdown for docs/results.md.

With `--keys`, one column of so many different texts instead: what it takes to learn them all, to keep them on disk, to
serve out of them, and to look all rows up in them on Spark; checked against serving.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import Imputer, StandardScaler, StringIndexer, VectorAssembler
from pyspark.sql import DataFrame

import penstock as pk

NUMBERS = [f"d{place}" for place in range(13)]
KEYS = [f"c{place}" for place in range(26)]
SIZES = [3, 10, 25, 100, 300, 1000, 3000, 10_000, 30_000, 100_000]


def make(rows: int) -> DataFrame:
    """Numbers with 5 % nulls; texts whose frequencies fall with the square of a uniform number."""
    spark = pk.session()
    numbers = [
        f"if(pmod(xxhash64(id, {place}), 20) = 0, null, pmod(xxhash64(id, {place}, 'v'), 100000) / 7D) as {name}"
        for place, name in enumerate(NUMBERS)
    ]
    keys = [
        f"concat('{name}-', cast(pow(pmod(xxhash64(id, '{name}'), 1000000) / 1e6, 2) * {SIZES[place % 10]} as int)) "
        f"as {name}"
        for place, name in enumerate(KEYS)
    ]
    df = spark.range(rows).selectExpr(*numbers, *keys).cache()
    df.count()
    return df


def recipe() -> pk.Recipe:
    return pk.Recipe(
        dense=pk.stack(*(pk.col(name).fill("median").standardize() for name in NUMBERS), dtype="float64"),
        ids=pk.stack(*(pk.col(name).index() for name in KEYS), dtype="float64"),
    )


def pipeline() -> Pipeline:
    filled, indexed = [f"{name}_filled" for name in NUMBERS], [f"{name}_index" for name in KEYS]
    return Pipeline(
        stages=[
            Imputer(strategy="median", inputCols=NUMBERS, outputCols=filled),
            StringIndexer(inputCols=KEYS, outputCols=indexed, handleInvalid="keep"),
            VectorAssembler(inputCols=filled, outputCol="raw"),
            StandardScaler(inputCol="raw", outputCol="dense", withMean=True),
            VectorAssembler(inputCols=["dense", *indexed], outputCol="features"),
        ]
    )


def sink(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def seconds(act: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    found = act()
    return time.perf_counter() - begun, found


def run_recipe(df: DataFrame) -> tuple[dict[str, float], pk.FittedRecipe]:
    fit, fitted = seconds(lambda: recipe().fit(df))
    transform, _ = seconds(lambda: sink(fitted.transform(df)))
    return {"fit": fit, "transform": transform, "both": fit + transform}, fitted


def run_mllib(df: DataFrame) -> tuple[dict[str, float], PipelineModel]:
    fit, model = seconds(lambda: pipeline().fit(df))
    transform, _ = seconds(lambda: sink(model.transform(df).select("features")))
    return {"fit": fit, "transform": transform, "both": fit + transform}, model


def middle(act: Callable[[], Any], times: int) -> float:
    act()
    return statistics.median(seconds(act)[0] for _ in range(times))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--keys", type=int, help="one vocabulary of this size instead")
    options = parser.parse_args()
    if options.keys:
        large_vocabulary(max(options.rows, options.keys), options.keys, options.cores)
        return
    pk.session(cores=options.cores, memory="6g")
    df = make(options.rows)
    ways: dict[str, Callable[[DataFrame], Any]] = {"Penstock": run_recipe, "MLlib": run_mllib}
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    results: dict[str, Any] = {}
    for number in range(options.rounds + 1):
        turn = list(ways)
        random.shuffle(turn)
        for way in turn:
            times, results[way] = ways[way](df)
            print(number, way, times, file=sys.stderr)
            if number:  # the first round warms up
                found[way].append(times)
    print(f"{date.today()}, {platform.machine()}, {options.cores} cores, {options.rows:,} rows cached")
    print(f"`python benchmarks/recipe.py --rows {options.rows} --rounds {options.rounds}`\n")
    print(
        "| way | fit, s | transform, s | both, s: median (all) | MLlib / this |\n| --- | --- | --- | --- | --- |"
    )
    slow = statistics.median(each["both"] for each in found["MLlib"])
    for way, all_times in found.items():
        both = statistics.median(each["both"] for each in all_times)
        parts = [
            f"{statistics.median(each[part] for each in all_times):.1f}" for part in ("fit", "transform")
        ]
        every = ", ".join(f"{each['both']:.1f}" for each in sorted(all_times, key=lambda each: each["both"]))
        print(f"| {way} | {parts[0]} | {parts[1]} | {both:.1f} ({every}) | {slow / both:.1f} x |")
    serving(df, results["Penstock"], results["MLlib"])


def large_vocabulary(rows: int, keys: int, cores: int) -> None:
    spark = pk.session(cores=cores, memory="6g")
    df = spark.range(rows).selectExpr(f"concat('user-', id % {keys}) as user")
    recipe, taken = pk.Recipe(ids=pk.col("user").index()), {}
    taken["fit"], fitted = seconds(lambda: recipe.fit(df))
    with tempfile.TemporaryDirectory() as folder:
        taken["save"], _ = seconds(lambda: fitted.save(f"{folder}/recipe.json"))
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        taken["load"], loaded = seconds(lambda: pk.load_recipe(f"{folder}/recipe.json"))
    one = {"user": ["user-5"]}
    taken["serve the first row"], _ = seconds(lambda: loaded.arrow(one))
    taken["serve a row"] = middle(lambda: loaded.arrow(one), 100)
    taken["transform all rows"], _ = seconds(lambda: sink(loaded.transform(df)))
    some = loaded.transform(df.limit(1000), keep=["user"]).toArrow()
    if loaded.arrow(some.select(["user"]))["ids"].to_pylist() != some["ids"].to_pylist():
        sys.exit("Spark and serving disagree")
    print(f"{date.today()}, {platform.machine()}, {cores} cores, {rows:,} rows of {keys:,} different texts")
    print(f"`python benchmarks/recipe.py --rows {rows} --keys {keys}`; {size / 1e6:.0f} MB on disk\n")
    print("| step | seconds |\n| --- | --- |")
    for step, each in taken.items():
        print(f"| {step} | {each:.4g} |")


def serving(df: DataFrame, fitted: pk.FittedRecipe, model: PipelineModel) -> None:
    rows = df.limit(1000).toArrow()
    one = rows.slice(0, 1)
    spark = df.sparkSession
    alone = spark.createDataFrame(one)
    ways = {
        "fitted.arrow, 1 row": middle(lambda: fitted.arrow(one), 500),
        "fitted.arrow, 1000 rows": middle(lambda: fitted.arrow(rows), 200),
        "fitted.transform on local Spark, 1 row": middle(lambda: fitted.transform(alone).toArrow(), 5),
        "MLlib model on local Spark, 1 row": middle(
            lambda: model.transform(alone).select("features").collect(), 5
        ),
    }
    print("\n| serving | median, ms | of one row by fitted.arrow |\n| --- | --- | --- |")
    for way, taken in ways.items():
        print(f"| {way} | {taken * 1e3:.2f} | {taken / ways['fitted.arrow, 1 row']:.0f} x |")


if __name__ == "__main__":
    main()
