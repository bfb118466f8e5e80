"""A DataFrame to files that a training cluster reads: Penstock beside Spark's own Parquet and the peers, in one run.

    python benchmarks/handoff.py [--rows 4000000] [--columns 40] [--rounds 5] [--folder DIR]

The DataFrame is cached in Spark, a mixture of float, double and int columns. Penstock writes one float32 matrix, with
checksums, index and commit. In order it is compared with `df.write.parquet`, shuffled with
`df.repartition(n).write.parquet`. Hugging Face's `Dataset.from_spark`, Mosaic's `dataframe_to_mds` and Petastorm's
converter take part where they are installed, once; slow ones get fewer rows and are scaled up, and the table says so.
Each other way is run once to warm up, then `--rounds` times in a random turn. Memory is that of the largest worker,
and workers are used again: what one way left, the next one shows. Prints Markdown for docs/results.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession
from transfer import Way, make, measure

import penstock as pk


@dataclass
class Handoff(Way):
    """A way that leaves files behind."""

    bytes: int = 0
    worker_peak: int = 0
    floor: str = ""
    """The way it is measured against."""
    watch: WorkerMemory = field(default_factory=lambda: WorkerMemory())


class WorkerMemory:
    """The largest Python worker seen while a block runs: its own memory, not what it shares."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()

    def __enter__(self) -> WorkerMemory:
        self._stop.clear()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        here = psutil.Process()
        while not self._stop.wait(0.05):
            for process in here.children(recursive=True):
                try:
                    if "python" in process.name() and process.ppid() != here.pid:
                        found = process.memory_full_info()
                        self.peak = max(self.peak, found.uss)
                except psutil.Error:
                    continue


def size_of(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def ways(
    spark: SparkSession, df: DataFrame, few: DataFrame, part: int, root: str, shards: int
) -> list[Handoff]:
    columns = df.columns

    def into(write: Callable[[str], object]) -> Callable[[], object]:
        def run() -> None:
            folder = os.path.join(root, "out")
            shutil.rmtree(folder, ignore_errors=True)
            write(folder)

        return run

    def ours(shuffle: bool, **more: object) -> Callable[[], object]:
        return into(
            lambda folder: pk.write(df, folder, columns, dtype="float32", shuffle=shuffle, **more)  # type: ignore[arg-type]
        )

    parquet, repartitioned = "df.write.parquet", f"df.repartition({shards}).write.parquet"
    found = [
        Handoff("pk.write(shuffle=False)", ours(False), floor=parquet),
        Handoff(parquet, into(lambda folder: df.write.parquet(folder)), floor=parquet),
        Handoff(
            "df.write.parquet, uncompressed",
            into(lambda folder: df.write.option("compression", "none").parquet(folder)),
            floor=parquet,
        ),
        Handoff(f"pk.write(shards={shards}), shuffled", ours(True, shards=shards), floor=repartitioned),
        Handoff(
            repartitioned,
            into(lambda folder: df.repartition(shards).write.parquet(folder)),
            floor=repartitioned,
        ),
        Handoff(
            "pk.write(shuffle=False) of a single partition",
            into(lambda folder: pk.write(df.coalesce(1), folder, columns, dtype="float32", shuffle=False)),
            floor=parquet,
        ),
        Handoff(
            "pk.write(shuffle=False, compression='zstd')", ours(False, compression="zstd"), floor=parquet
        ),
        Handoff("pk.write(shuffle=False, format='parquet')", ours(False, format="parquet"), floor=parquet),
    ]
    return found + peers(df, few, part, into, parquet)


def peers(
    df: DataFrame, few: DataFrame, part: int, into: Callable[..., Callable[[], object]], floor: str
) -> list[Handoff]:
    found = []
    try:
        from datasets import Dataset

        def hugging(folder: str) -> None:
            Dataset.from_spark(df, cache_dir=folder)

        found.append(Handoff("Hugging Face Dataset.from_spark", into(hugging), rounds=1, floor=floor))
    except ImportError as error:
        print(f"Hugging Face datasets takes no part: {error}", file=sys.stderr)
    try:
        from streaming.base.converters import dataframe_to_mds

        def mosaic(folder: str) -> None:
            kinds = {"float": "float32", "double": "float64", "int": "int32"}
            columns = {name: kinds[kind] for name, kind in few.dtypes}
            dataframe_to_mds(few, merge_index=True, mds_kwargs={"out": folder, "columns": columns})

        found.append(Handoff("Mosaic dataframe_to_mds", into(mosaic), part, 1, floor=floor))
    except ImportError as error:
        print(f"Mosaic Streaming takes no part: {error}", file=sys.stderr)
    try:
        from petastorm.spark import SparkDatasetConverter, make_spark_converter

        def petastorm(folder: str) -> None:
            os.makedirs(folder)
            df.sparkSession.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{folder}")
            make_spark_converter(df).delete()

        found.append(Handoff("Petastorm make_spark_converter", into(petastorm), rounds=1, floor=floor))
    except ImportError as error:
        print(f"Petastorm takes no part: {error}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=4_000_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--slow-part", type=int, default=20, help="slow ways get one in so many rows")
    parser.add_argument("--memory", default="8g")
    parser.add_argument("--folder", help="where to write (default: the system's temporary folder)")
    given = parser.parse_args()

    spark = pk.session(memory=given.memory)
    df = make(spark, given.rows, given.columns).cache()
    few = make(spark, given.rows // given.slow_part, given.columns).cache()
    df.count(), few.count()
    root = tempfile.mkdtemp(prefix="penstock-handoff-", dir=given.folder)
    try:
        found = ways(spark, df, few, given.slow_part, root, given.shards)
        run(found, root, given)
    finally:
        shutil.rmtree(root)
    report(found, given, spark.version)


def run(found: list[Handoff], root: str, given: argparse.Namespace) -> None:
    for way in list(found):
        try:
            measure(way)
        except Exception as error:
            print(f"{way.name} failed: {type(error).__name__}: {error!s:.300}", file=sys.stderr)
            found.remove(way)
            continue
        way.bytes = size_of(os.path.join(root, "out")) * way.part
        if way.rounds is None:
            way.forget()
    order = random.Random(7)
    for _ in range(given.rounds):
        for way in order.sample(found, len(found)):
            if way.rounds is None:
                with way.watch:
                    measure(way)
        print(".", end="", file=sys.stderr, flush=True)


def report(found: list[Handoff], given: argparse.Namespace, version: str) -> None:
    medians = {way.name: way.median for way in found}
    print(f"\n{date.today()}, {platform.machine()}, {os.cpu_count()} cores, Spark {version}")
    print(
        f"`python benchmarks/handoff.py --rows {given.rows} --columns {given.columns} --rounds {given.rounds} "
        f"--shards {given.shards}`\n"
    )
    print("| way | seconds: median (all) | against | processor s | MB on disk | largest worker MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for way in found:
        scaled = f" (1/{way.part} of the rows, scaled)" if way.part > 1 else ""
        ratio = f"{way.median / medians[way.floor]:.2f} x {way.floor}"
        worker = f"{way.watch.peak / 1e6:.0f}" if way.watch.peak else "none seen"
        print(
            f"| {way.name}{scaled} | {way.median:.2f} ({way.all_times}) | {ratio} | {way.median_processor:.1f} "
            f"| {way.bytes / 1e6:.0f} | {worker} |"
        )


if __name__ == "__main__":
    main()
