"""Training while Spark still writes, against write-then-train: time to the first step and to the end, in one run.

    python benchmarks/overlap.py [--parts 16] [--rows 20000] [--columns 40] [--wait 1.0] [--work 30] [--passes 4]
                                 [--batch 512] [--rounds 3] [--folder DIR]

Spark (2 tasks at once) writes `parts` partitions; each waits `--wait` seconds, as for a slow source, or computes
(`--work` sorts of its columns). Two ranks (`pk.launch`, DistributedDataParallel over gloo) train one epoch of a small
network on the CPU, with one thread each; `--passes` makes a step longer, and in one case the passes are chosen so that
the training alone takes about as long as the write alone. Processes and libraries are up before the clock starts.
Measured: the write alone, the training alone on what was written, one after the other, and both at once with
follow=True. The bound is the longer of the two alone. Ways come in a random turn, after one write to warm up;
medians of `--rounds`. Prints Markdown for docs/results.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock as pk

RANKS = 2


@dataclass(frozen=True)
class Run:
    """Seconds from the beginning of the write (or of the training, where it is alone)."""

    first: float
    """To the end of the first step; of a write alone, 0."""
    end: float


def rows(spark: Any, given: argparse.Namespace, computes: bool) -> Any:
    """A DataFrame whose partitions take their time."""
    wait, work = given.wait, given.work
    columns = ", ".join(f"cast(rand({number}) as float) as c{number}" for number in range(given.columns))
    df = spark.range(0, given.parts * given.rows, 1, given.parts).selectExpr("id", *columns.split(", "))

    def waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(wait)
        yield from batches

    def takes_work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np

        for batch in batches:
            for _ in range(work):
                for column in batch.columns[1:]:
                    np.sort(column.to_numpy())
            yield batch

    return df.mapInArrow(takes_work if computes else waits, df.schema)


def write(df: Any, path: str, follow: bool) -> None:
    """The write; without followers as anybody would, so with the shuffle over all partitions."""
    pk.write(df, path, {"x": [name for name in df.columns if name != "id"], "id": "id"}, follow=follow)


class Trainer:
    """Two ranks that train one epoch when they are told to."""

    def __init__(self, given: argparse.Namespace, passes: int) -> None:
        self._folder = tempfile.mkdtemp(prefix="penstock-overlap-ranks-")
        self._pool = ThreadPoolExecutor(1)
        self._trained = self._pool.submit(
            lambda: pk.launch(train, given.columns, passes, given.batch, self._folder, workers=RANKS)
        )
        while len(list(Path(self._folder).glob("ready-*"))) < RANKS:
            if self._trained.done():
                self._trained.result()
            time.sleep(0.05)

    def go(self, path: str, follow: bool) -> None:
        said = Path(self._folder, "go.part")
        said.write_text(json.dumps([path, follow]))
        said.rename(said.with_name("go"))

    def result(self) -> tuple[float, float, int]:
        """When the slowest rank's first step ended, and its last, and how many rows were seen, each once."""
        first, end, seen = self._trained.result()
        self._pool.shutdown()
        shutil.rmtree(self._folder)
        return first, end, seen


def train(columns: int, passes: int, batch_size: int, folder: str) -> tuple[float, float, int] | None:
    """What each rank does; rank 0 tells of all."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    network = torch.nn.Sequential(torch.nn.Linear(columns, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    model = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        optimizer.step()

    with tempfile.TemporaryDirectory() as small:  # loads what torch and Penstock load on first use
        warm = pk.write(pa.table({"x": [[0.0] * columns] * 64}), small, dtype="float32")
        for batch in warm.torch(32, rank=0, world=1):
            step(batch["x"])
    Path(folder, f"ready-{dist.get_rank()}").touch()
    said = Path(folder, "go")
    while not said.exists():
        time.sleep(0.01)
    path, follow = json.loads(said.read_text())
    first, seen = 0.0, []
    for batch in pk.open(path, follow=follow).torch(batch_size, last="short"):
        for _ in range(passes):
            step(batch["x"])
        seen += batch["id"].tolist()
        first = first or time.time()
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, (first, time.time(), seen))
    dist.destroy_process_group()
    rows = [number for _, _, seen in every for number in seen]
    assert len(rows) == len(set(rows)), "a row came twice"
    return max(first for first, _, _ in every), max(end for _, end, _ in every), len(rows)


def measure(way: str, df: Any, given: argparse.Namespace, passes: int, folder: str) -> Run:
    path = os.path.join(folder, way.replace(" ", "-"))
    if way != "the training alone":
        shutil.rmtree(path, ignore_errors=True)
    if way == "the write alone":
        began = time.time()
        write(df, path, follow=False)
        return Run(0.0, time.time() - began)
    trainer = Trainer(given, passes)
    if way == "the training alone":
        began = time.time()
        trainer.go(os.path.join(folder, "the-write-alone"), follow=False)
    elif way == "write, then train":
        began = time.time()
        write(df, path, follow=False)
        trainer.go(path, follow=False)
    else:
        began = time.time()
        trainer.go(path, follow=True)
        write(df, path, follow=True)
    first, end, seen = trainer.result()
    assert seen == given.parts * given.rows, f"{seen} rows were seen"
    return Run(first - began, end - began)


def passes_for(seconds: float, df: Any, given: argparse.Namespace, folder: str) -> int:
    """So many passes a step that the training alone takes about so long; from two lengths, to leave the feed out."""
    few, more = given.passes, 2 * given.passes
    took = [measure("the training alone", df, given, passes, folder).end for passes in (few, more)]
    each = max(took[1] - took[0], 1e-3) / (more - few)
    return max(1, round(few + (seconds - took[0]) / each))


WAYS = ("the write alone", "the training alone", "write, then train", "train while it is written")


def report(name: str, found: dict[str, list[Run]]) -> None:
    middle = {
        way: Run(statistics.median(run.first for run in runs), statistics.median(run.end for run in runs))
        for way, runs in found.items()
    }
    bound = max(middle[WAYS[0]].end, middle[WAYS[1]].end)
    print(
        f"\n{name}\n\n| way | first step, s | end, s | end / longer of the two alone |\n| --- | --- | --- | --- |"
    )
    for way, run in middle.items():
        first = f"{run.first:.1f}" if run.first else ""
        spread = f"{min(each.end for each in found[way]):.1f} to {max(each.end for each in found[way]):.1f}"
        print(f"| {way} | {first} | {run.end:.1f} ({spread}) | {run.end / bound:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("parts", 16), ("rows", 20_000), ("columns", 40), ("work", 30)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("passes", 4), ("batch", 512), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--wait", type=float, default=1.0)
    parser.add_argument("--folder")
    given = parser.parse_args()
    spark = pk.session(cores=2)
    folder = tempfile.mkdtemp(prefix="penstock-overlap-", dir=given.folder)
    try:
        print(
            f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, Spark {spark.version}, Python "
            f"{platform.python_version()}: {given.parts} partitions of {given.rows:,} rows x {given.columns} columns, "
            f"{RANKS} ranks, batches of {given.batch} on each, {given.rounds} rounds"
        )
        for computes, equal in ((False, False), (False, True), (True, False)):
            df = rows(spark, given, computes)
            alone = measure("the write alone", df, given, given.passes, folder)
            passes = passes_for(alone.end, df, given, folder) if equal else given.passes
            found: dict[str, list[Run]] = {way: [] for way in WAYS}
            for _ in range(given.rounds):
                for way in random.sample(WAYS, len(WAYS)):
                    found[way].append(measure(way, df, given, passes, folder))
            what = f"computes ({given.work} sorts)" if computes else f"waits ({given.wait:g} s a partition)"
            long = ", and a training about as long" if equal else ""
            report(f"A writer that {what}{long}; {passes} passes a step:", found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        spark.stop()


if __name__ == "__main__":
    main()
