"""From shards in the page cache to batches on a GPU: correctness first, then GB/s beside the floors of the same run.

    python benchmarks/feed_gpu.py [--gigabytes 8] [--folder DIR] [--epochs 3]

Two datasets: 1 KB rows (256 float32) and Criteo-shaped rows of 160 bytes (13 float32, 26 int32, 1 float32). The floors
are a copy from pinned memory; `preadv` into pinned memory by as many threads as the loader has readers; and the same
threads reading and copying, without a loader. These machines drift by a third within minutes, so the last two are taken
anew before every epoch.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import tempfile
import time
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from feed_gpu_checks import check
from feed_gpu_floors import bare_floor, copy_floor, read_floor

import penstock as pk
from penstock.feed.loaders import chosen_specs, torch_loader
from penstock.feed.settings import Settings


def table(kind: str, rows: int) -> pa.Table:
    random = np.random.default_rng(0)
    if kind == "vector":
        values = random.random(rows * 256, dtype=np.float32)
        return pa.table({"x": pa.FixedSizeListArray.from_arrays(values, 256)})
    dense = random.random(rows * 13, dtype=np.float32)
    cat = random.integers(0, 1 << 20, rows * 26, dtype=np.int32)
    return pa.table(
        {
            "dense": pa.FixedSizeListArray.from_arrays(dense, 13),
            "cat": pa.FixedSizeListArray.from_arrays(cat, 26),
            "label": random.random(rows, dtype=np.float32),
        }
    )


def make(kind: str, size: float, folder: str, block: int) -> pk.Dataset:
    rows = 500_000 if kind == "vector" else 2_000_000
    part = table(kind, rows)
    copies = math.ceil(size / part.nbytes)  # at least as much as asked for
    return pk.write(
        pa.concat_tables([part] * copies),
        folder,
        shuffle=False,
        shards=16,
        block_bytes=block,
        mode="overwrite",
    )


class Measured(NamedTuple):
    """An epoch."""

    rate: float
    """GB/s."""
    waited: float
    """The share of it that the consumer waited."""
    read: float = math.nan
    """GB/s of `preadv` right before it, where that was asked for."""
    bare: float = math.nan
    """Likewise of reading and copying."""
    start: float = math.nan
    """Seconds until the first batch was there."""
    later: float = math.nan
    """GB/s of the second half of its steps."""


def epochs(
    ds: pk.Dataset,
    batch: int,
    threads: int,
    count: int,
    *,
    verify: bool = False,
    cache: str | None = None,
    beside_floors: bool = False,
    busy: float = 0.0,
) -> list[Measured]:
    """Every epoch of one loader. `busy`: seconds of Python in each step, in which the interpreter does nothing else."""
    snapshot = ds.snapshot
    settings = Settings(batch, rank=0, world=1, threads=threads, verify=verify, cache=cache)
    loader = torch_loader(snapshot, chosen_specs(snapshot, None), settings, "cuda")
    found = []
    for _ in range(count):
        floors = (read_floor(ds, threads), bare_floor(ds, threads)) if beside_floors else ()
        torch.cuda.synchronize()
        began, steps, first, half = time.perf_counter(), len(loader), math.nan, math.nan
        for number, _ in enumerate(loader):
            if not number:
                torch.cuda.synchronize()
                first = time.perf_counter()
            if number == steps // 2:
                half = time.perf_counter()
            until = time.perf_counter() + busy
            while busy and time.perf_counter() < until:
                pass
        torch.cuda.synchronize()
        ended, size, waited = time.perf_counter(), loader.stats.bytes / 1e9, loader.stats.waited
        found.append(
            Measured(
                size / (ended - began),
                waited / (ended - began),
                *(floors or (math.nan, math.nan)),
                first - began,
                size * (1 - (steps // 2) / steps) / (ended - half),
            )
        )
    loader.close()
    return found


class ParquetRows(torch.utils.data.IterableDataset):
    """A reader as people write them: row groups in random order, rows of each permuted, batches cut from it."""

    def __init__(self, files: list[str], batch: int) -> None:
        self._files, self._batch = files, batch

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        mine = self._files[worker.id :: worker.num_workers] if worker else self._files
        for file in mine:
            parquet = pq.ParquetFile(file)
            for group in np.random.permutation(parquet.num_row_groups):
                found = parquet.read_row_group(group)
                arrays = []
                for column in found.columns:
                    whole = column.combine_chunks()
                    flat = whole.flatten() if pa.types.is_fixed_size_list(whole.type) else whole
                    arrays.append(flat.to_numpy(zero_copy_only=False).reshape(len(whole), -1))
                order = np.random.permutation(len(found))
                for start in range(0, len(order) - self._batch + 1, self._batch):
                    rows = order[start : start + self._batch]
                    yield [torch.from_numpy(array[rows]) for array in arrays]


def baselines(kind: str, folder: str, batch: int = 8192) -> None:
    """torch's DataLoader over the same kind of rows, onto the device; a million rows, or as many as are in 1 GB."""
    part = table(kind, 1_000_000)
    os.makedirs(folder)
    for number in range(16):
        rows = len(part) // 16
        pq.write_table(
            part.slice(number * rows, rows), os.path.join(folder, f"{number}.parquet"), row_group_size=rows
        )
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    tensors = []
    for column in part.columns:
        whole = column.combine_chunks()
        flat = whole.flatten() if pa.types.is_fixed_size_list(whole.type) else whole
        tensors.append(torch.from_numpy(flat.to_numpy().reshape(len(whole), -1)))
    loader = torch.utils.data.DataLoader
    for workers in (0, 8):
        more = {"num_workers": workers, "pin_memory": True}
        ways = {
            "a TensorDataset": loader(
                torch.utils.data.TensorDataset(*[each[:200_000] for each in tensors]),
                batch,
                shuffle=True,
                **more,
            ),
            "a hand-written Parquet reader": loader(ParquetRows(files, batch), None, **more),
        }
        for name, way in ways.items():
            torch.cuda.synchronize()
            began, size = time.perf_counter(), 0
            for found in way:
                placed = [each.to("cuda", non_blocking=True) for each in found]
                size += sum(each.nbytes for each in placed)
            torch.cuda.synchronize()
            rate = size / (time.perf_counter() - began) / 1e9
            print(f"  DataLoader over {name}, {workers} workers: {rate:.2f} GB/s", flush=True)


def training(ds: pk.Dataset, batch: int = 8192) -> None:
    """A training whose step takes longer than its read: what the feed costs it."""
    weights = torch.randn(256, 16384, device="cuda")
    back = torch.randn(16384, 256, device="cuda")

    def step(x: torch.Tensor) -> None:
        for _ in range(2):
            x = torch.relu(x @ weights) @ back

    loader = ds.torch(batch, device="cuda", rank=0, world=1, verify=False)
    constant = torch.randn(batch, 256, device="cuda")
    for turn in range(2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(len(loader)):
            step(constant)
        torch.cuda.synchronize()
        without = time.perf_counter() - began
        began = time.perf_counter()
        for found in loader:
            step(found["x"])
        torch.cuda.synchronize()
        fed = time.perf_counter() - began
        if turn:
            waited = loader.stats.waited / fed
            print(
                f"  training at {loader.stats.bytes / fed / 1e9:.1f} GB/s: {fed / without - 1:.1%} longer than on one "
                f"constant batch; the consumer waited {waited:.1%} of the time; {loader.verdict()}",
                flush=True,
            )


def show(name: str, found: list[Measured]) -> None:
    shown = ", ".join(f"{each.rate:.1f} ({each.waited:.0%} waited)" for each in found)
    print(f"  {name}: {shown}", flush=True)
    for column, what in ((2, "preadv"), (3, "reading and copying alone")):
        if not math.isnan(found[0][column]):
            rate, floor = (statistics.median(each[at] for each in found) for at in (0, column))
            later, beside = (statistics.median(each[at] for each in found[1:]) for at in (0, column))
            floors = ", ".join(f"{each[column]:.1f}" for each in found)
            print(
                f"    {what} before each: {floors}; of its median {rate / floor:.0%}, without the first epoch "
                f"{later / beside:.0%}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=8)
    parser.add_argument("--folder")
    parser.add_argument("--epochs", type=int, default=3, help="of each loader, at least 2")
    parser.add_argument("--threads", type=int, nargs="+", default=[8, 12])
    parser.add_argument("--blocks", type=int, nargs="+", default=[16 << 20])
    given = parser.parse_args()
    root = tempfile.mkdtemp(prefix="penstock-feed-", dir=given.folder)
    try:
        check(os.path.join(root, "check"))
        for kind in ("vector", "criteo"):
            for block in given.blocks:
                ds = make(kind, given.gigabytes * 1e9, os.path.join(root, kind), block)
                for threads in given.threads:
                    print(f"{kind}, {threads} threads: pinned copy {copy_floor():.1f} GB/s (floor)")
                    for batch in (8192, 65536):
                        name = f"batch {batch}"
                        show(name, epochs(ds, batch, threads, given.epochs, beside_floors=True))
                    show("batch 8192, 0.1 ms of Python in each step", epochs(ds, 8192, threads, 3, busy=1e-4))
                    (checked,) = epochs(ds, 8192, threads, 1, verify=True)
                    show("batch 8192, every block checked", [checked])
                    print(
                        f"    first batch after {checked.start:.2f} s, second half {checked.later:.1f} GB/s",
                        flush=True,
                    )
                threads = given.threads[-1]
                show("batch 8192, cached on the host", epochs(ds, 8192, threads, 3, cache="host"))
                for batch in (8192, 65536):
                    name = f"batch {batch}, cached on the device"
                    show(name, epochs(ds, batch, threads, given.epochs, cache="device"))
                if kind == "vector":
                    training(ds)
                shutil.rmtree(os.path.join(root, kind))
            baselines(kind, os.path.join(root, f"{kind}-parquet"))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
