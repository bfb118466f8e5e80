"""The figures of docs/boundaries.md: small versions of the benchmarks beside this file, in one run.

    python benchmarks/boundaries_page.py [--rows 2000000] [--gigabytes 0.5] [--rounds 5]

Measures what each of the three boundaries costs here, beside the usual ways (functions over twice the rows, being
quick), and writes docs/figures: figures.json with every number, and a drawing of each. Then it puts the tables into
docs/boundaries.md. `boundaries_figures.py` draws and writes; a test holds page and JSON against each other. For figures
that count run the benchmarks themselves, on an idle machine, and at their own size.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import boundaries_figures
import feed_cpu
import handoff
import psutil
import torch
import transfer
from feed_gpu import make as make_shards
from pyspark.sql import SparkSession

import penstock as pk
from penstock.tools.bench_boundary import bench_boundary

COLUMNS, SHARDS, BATCH, SLOW_PART = 40, 8, 8192, 20
LEFT_OUT = ("Hugging Face", "Mosaic", "Petastorm", "single partition", "uncompressed")
"""Ways of the hand-off that docs/results.md has, and a small run would tell little of."""


def language(spark: SparkSession, rows: int, rounds: int) -> dict[str, Any]:
    found = bench_boundary(rows, spark=spark, rounds=rounds).to_dict()
    kept = ("rows", "rounds", "ways", "scan_seconds", "curves", "recommended_batch_rows")
    return {key: found[key] for key in kept}


def rounds_of(ways: list[Any], rounds: int) -> list[dict[str, Any]]:
    """Every way once to warm up, then in a random turn; seconds scaled to all rows."""
    for way in ways:
        transfer.measure(way)
        way.forget()
    order = random.Random(7)
    for turn in range(rounds):
        for way in order.sample(ways, len(ways)):
            if way.rounds is None or turn < way.rounds:
                transfer.measure(way)
        print(".", end="", file=sys.stderr, flush=True)
    return [
        {"way": way.name, "part": way.part, "seconds": [s * way.part for s in way.seconds]} for way in ways
    ]


def tensors(spark: SparkSession, rows: int, rounds: int) -> dict[str, Any]:
    df = transfer.make(spark, rows, COLUMNS).cache()
    slow = transfer.make(spark, rows // SLOW_PART, COLUMNS).cache()
    df.count(), slow.count()
    found = rounds_of(transfer.ways(spark, df, slow, SLOW_PART, remote=False), rounds)
    slow.unpersist()
    df.unpersist()
    return {"rows": rows, "columns": COLUMNS, "ways": found}


def shards(spark: SparkSession, rows: int, rounds: int) -> dict[str, Any]:
    df = transfer.make(spark, rows, COLUMNS).cache()
    df.count()
    root = tempfile.mkdtemp(prefix="penstock-figures-")
    try:
        ways = handoff.ways(spark, df, df, 1, root, SHARDS)
        ways = [way for way in ways if not any(word in way.name for word in LEFT_OUT)]
        return {"rows": rows, "columns": COLUMNS, "ways": rounds_of(ways, rounds)}
    finally:
        shutil.rmtree(root)
        df.unpersist()


def feed(gigabytes: float, rounds: int) -> dict[str, Any]:
    root = tempfile.mkdtemp(prefix="penstock-figures-")
    found = {}
    try:
        for kind, size in feed_cpu.KINDS.items():
            ds = make_shards(kind, gigabytes * 1e9, os.path.join(root, kind), 16 << 20)
            rates = feed_cpu.compare(ds, BATCH, rounds)
            found[size] = [{"way": name, "gigabytes_per_second": each} for name, each in rates.items()]
            shutil.rmtree(ds.path)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return {"gigabytes": gigabytes, "batch": BATCH, "rows": found}


def busy_seconds() -> float:
    """Of all processors, whoever used them."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system


def own_seconds() -> float:
    """Of this program and what it started, also of what has ended since."""
    here = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in (here, *here.children(recursive=True)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--gigabytes", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", default="4g")
    given = parser.parse_args()
    docs = Path(__file__).resolve().parents[1] / "docs"
    began, busy = time.perf_counter(), busy_seconds()
    spark = pk.session(memory=given.memory)
    found = {
        "date": str(date.today()),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": f"Spark {spark.version}, Python {platform.python_version()}, torch {torch.__version__}",
        "command": f"python benchmarks/boundaries_page.py --rows {given.rows} --gigabytes {given.gigabytes:g} "
        f"--rounds {given.rounds}",
        "language": language(spark, given.rows * 2, given.rounds),
        "tensors": tensors(spark, given.rows, given.rounds),
        "shards": shards(spark, given.rows, given.rounds),
        "feed": feed(given.gigabytes, given.rounds),
    }
    others = busy_seconds() - busy - own_seconds()
    found["others"] = round(max(others, 0.0) / (os.cpu_count() * (time.perf_counter() - began)), 2)
    spark.stop()
    (docs / "figures" / "figures.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    boundaries_figures.draw(found, docs / "figures")
    boundaries_figures.put(found, docs / "boundaries.md")


if __name__ == "__main__":
    main()
