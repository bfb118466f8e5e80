"""From shards in the page cache to batches in host memory: loaders beside the floor and what people write by hand.

    python benchmarks/feed_cpu.py [--gigabytes 1] [--rounds 3] [--batch 8192]

Two datasets: Criteo-shaped rows of 160 bytes (13 float32, 26 int32, 1 float32) and 1 KB rows (256 float32). The floor
is a gather of shuffled rows out of memory that holds everything, by NumPy and by torch. Penstock gathers by machine
code where numba is installed; without, by NumPy. The hand-written loop reads Arrow files block by block in random
order, permutes each block and cuts batches: it mixes far less. All ways in a random turn. A loader checks blocks when
it reads them first, so what that costs is the difference between first epochs, each of a loader of its own.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from feed_gpu import make

import penstock as pk
from penstock.feed.loader import Loader
from penstock.feed.memory import native_loops

KINDS = {"criteo": "160 B", "vector": "1 KB"}
"""Datasets, and the size of a row."""


def rows_in_memory(ds: pk.Dataset) -> dict[str, np.ndarray]:
    return ds.read()


def numpy_floor(whole: dict[str, np.ndarray], batch: int) -> Iterator[dict[str, np.ndarray]]:
    rows = len(next(iter(whole.values())))
    order = np.random.default_rng(0).permutation(rows)
    for start in range(0, rows - batch + 1, batch):
        yield {name: np.take(array, order[start : start + batch], axis=0) for name, array in whole.items()}


def torch_floor(whole: dict[str, torch.Tensor], batch: int) -> Iterator[dict[str, torch.Tensor]]:
    rows = len(next(iter(whole.values())))
    order = torch.randperm(rows)
    for start in range(0, rows - batch + 1, batch):
        yield {name: each.index_select(0, order[start : start + batch]) for name, each in whole.items()}


def by_hand(ds: pk.Dataset, batch: int) -> Iterator[dict[str, np.ndarray]]:
    """A competent loop over Arrow files: blocks in random order, rows permuted inside each."""
    generator = np.random.default_rng(0)
    files = [pa.ipc.open_file(pa.memory_map(os.path.join(ds.path, shard.file))) for shard in ds.shards]
    blocks = [(file, number) for file in files for number in range(file.num_record_batches)]
    for place in generator.permutation(len(blocks)):
        file, number = blocks[place]
        yield from _permuted_batches(ds, file.get_batch(number), generator, batch)


def _permuted_batches(
    ds: pk.Dataset, found: pa.RecordBatch, generator: np.random.Generator, batch: int
) -> Iterator[dict[str, np.ndarray]]:
    arrays = {}
    for name, column in zip(found.schema.names, found.columns, strict=True):
        shape = ds.tensors[name].shape
        flat = column.flatten() if shape else column
        arrays[name] = flat.to_numpy().reshape(-1, *shape)
    order = generator.permutation(found.num_rows)
    for start in range(0, found.num_rows - batch + 1, batch):
        yield {name: array[order[start : start + batch]] for name, array in arrays.items()}


def parquet_files(ds: pk.Dataset, folder: str) -> list[str]:
    """The same rows as Parquet, uncompressed, one row group for each block."""
    os.makedirs(folder)
    files = []
    for shard in ds.shards:
        source = pa.ipc.open_file(pa.memory_map(os.path.join(ds.path, shard.file)))
        files.append(os.path.join(folder, os.path.basename(shard.file) + ".parquet"))
        with pq.ParquetWriter(files[-1], source.schema, compression="none", use_dictionary=False) as writer:
            for number in range(source.num_record_batches):
                writer.write_batch(source.get_batch(number))
    return files


def by_hand_parquet(ds: pk.Dataset, files: list[str], batch: int) -> Iterator[dict[str, np.ndarray]]:
    """The same loop over Parquet: row groups in random order, rows permuted inside each."""
    generator = np.random.default_rng(0)
    opened = [pq.ParquetFile(file) for file in files]
    groups = [(file, number) for file in opened for number in range(file.num_row_groups)]
    for place in generator.permutation(len(groups)):
        file, number = groups[place]
        found = file.read_row_group(number).combine_chunks().to_batches()[0]
        yield from _permuted_batches(ds, found, generator, batch)


def first_epoch(ds: pk.Dataset, batch: int, verify: bool) -> Iterator[object]:
    """Of a loader that was never iterated, so that with `verify` every block is checked."""
    return iter(ds.numpy(batch, rank=0, world=1, verify=verify))


def without_numba(loader: Loader) -> Iterator[object]:
    """As where it is not installed."""
    pays, native_loops.PAYS_FROM = native_loops.PAYS_FROM, 1 << 62
    try:
        yield from loader
    finally:
        native_loops.PAYS_FROM = pays


def data_loader(whole: dict[str, torch.Tensor], batch: int) -> Iterator[object]:
    part = {name: each[:100_000] for name, each in whole.items()}
    return iter(
        torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*part.values()), batch, shuffle=True)
    )


def rate(batches: Callable[[], Iterator[object]]) -> float:
    """GB handed out per second."""
    size, began = 0, time.perf_counter()
    for batch in batches():
        values = batch.values() if isinstance(batch, dict) else batch
        size += sum(each.nbytes for each in values)
    return size / (time.perf_counter() - began) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8192)
    given = parser.parse_args()
    root = tempfile.mkdtemp(prefix="penstock-feed-")
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}")
    arguments = f"--gigabytes {given.gigabytes} --rounds {given.rounds} --batch {given.batch}"
    print(f"`python benchmarks/feed_cpu.py {arguments}`\n")
    print("| rows | way | GB/s: median (all) | of the floor |\n| --- | --- | --- | --- |")
    try:
        for kind, size in KINDS.items():
            ds = make(kind, given.gigabytes * 1e9, os.path.join(root, kind), 16 << 20)
            report(size, compare(ds, given.batch, given.rounds))
            shutil.rmtree(os.path.join(root, kind))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def compare(ds: pk.Dataset, batch: int, rounds: int) -> dict[str, list[float]]:
    """GB/s of every way, in every round."""
    whole = rows_in_memory(ds)
    files = parquet_files(ds, f"{ds.path}-parquet")
    tensors = {name: torch.from_numpy(array) for name, array in whole.items()}
    loaders = {
        "ds.numpy": ds.numpy(batch, rank=0, world=1),
        "ds.torch": ds.torch(batch, rank=0, world=1),
        'ds.torch(cache="host")': ds.torch(batch, rank=0, world=1, cache="host"),
    }
    ways: dict[str, Callable[[], Iterator[object]]] = {
        "floor: np.take out of memory": lambda: numpy_floor(whole, batch),
        "floor: torch.index_select out of memory": lambda: torch_floor(tensors, batch),
        **{name: lambda loader=loader: iter(loader) for name, loader in loaders.items()},
        "first epoch of a loader: ds.numpy": lambda: first_epoch(ds, batch, True),
        "first epoch of a loader: ds.numpy(verify=False)": lambda: first_epoch(ds, batch, False),
        "ds.numpy, without numba": lambda: without_numba(loaders["ds.numpy"]),
        "by hand: Arrow files, blocks and rows inside them permuted": lambda: by_hand(ds, batch),
        "by hand: Parquet, row groups and rows inside them permuted": lambda: by_hand_parquet(
            ds, files, batch
        ),
        "DataLoader over a TensorDataset (100,000 rows)": lambda: data_loader(tensors, batch),
    }
    return in_turns(ways, rounds)


def in_turns(ways: dict[str, Callable[[], Iterator[object]]], rounds: int) -> dict[str, list[float]]:
    """GB/s of every way, in every round but the first, which warms up; in a random turn."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    order = random.Random(7)
    for turn in range(rounds + 1):
        for name in order.sample(list(ways), len(ways)):
            measured = rate(ways[name])
            if turn:
                found[name].append(measured)
        print(".", end="", file=sys.stderr, flush=True)
    return found


def report(rows: str, found: dict[str, list[float]]) -> None:
    floor = max(statistics.median(rates) for name, rates in found.items() if name.startswith("floor"))
    for name, rates in found.items():
        every = ", ".join(f"{each:.2f}" for each in sorted(rates))
        median = statistics.median(rates)
        print(f"| {rows} | {name} | {median:.2f} ({every}) | {median / floor:.2f} x |")


if __name__ == "__main__":
    main()
