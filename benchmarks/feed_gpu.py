"""From shards in the page cache to batches on a GPU: correctness first, then GB/s beside the floors of the same run.

    python benchmarks/feed_gpu.py [--gigabytes 8] [--folder DIR] [--epochs 3]

Two datasets: 1 KB rows (256 float32) and Criteo-shaped rows of 160 bytes (13 float32, 26 int32, 1 float32). The floors
are a copy from pinned memory, and `preadv` into pinned memory by as many threads as the loader has readers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time

import numpy as np
import pyarrow as pa
import torch

import penstock as pk
from penstock.feed.loader import Settings
from penstock.feed.loaders import chosen_specs, numpy_loader, torch_loader


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
    copies = max(int(size / part.nbytes), 1)
    return pk.write(
        pa.concat_tables([part] * copies),
        folder,
        shuffle=False,
        shards=16,
        block_bytes=block,
        mode="overwrite",
    )


def check(folder: str) -> None:
    """The same rows as on the host, bit for bit, for several seeds, batch sizes and worlds."""
    rows = 100_003
    numbered = pa.table(
        {
            "id": np.arange(rows),
            "v": pa.FixedSizeListArray.from_arrays(
                np.random.default_rng(1).random(rows * 7, dtype=np.float32), 7
            ),
            "b": np.arange(rows) % 3 == 0,
        }
    )
    ds = pk.write(numbered, folder, shards=5, block_bytes=100_000, mode="overwrite")
    snapshot = ds._snapshot
    specs = chosen_specs(snapshot, None)
    for seed in range(4):
        for batch, world, last in ((1000, 1, "drop"), (333, 2, "short"), (64, 3, "pad")):
            for rank in range(world):
                settings = Settings(batch, seed=seed, rank=rank, world=world, last=last, lanes=16, threads=8)
                host = numpy_loader(snapshot, specs, settings)
                device = torch_loader(snapshot, specs, settings, "cuda")
                for epoch in range(2):
                    for steps, (ours, theirs) in enumerate(zip(host, device, strict=True)):
                        for name, array in ours.items():
                            if not np.array_equal(array, theirs[name].cpu().numpy()):
                                sys.exit(
                                    f"wrong: {name}, seed {seed}, epoch {epoch}, step {steps}, rank {rank}"
                                )
    print("the batches on the device are those on the host, bit for bit")


def floors(ds: pk.Dataset, threads: int) -> tuple[float, float]:
    pinned = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(pinned, device="cuda")
    for _ in range(3):
        device.copy_(pinned, non_blocking=True)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(50):
        device.copy_(pinned, non_blocking=True)
    torch.cuda.synchronize()
    copy = 50 * pinned.numel() / (time.perf_counter() - began) / 1e9

    files = [os.path.join(ds.path, shard.file) for shard in ds.shards]
    jobs = iter([(file, at) for file in files for at in range(0, os.path.getsize(file), 8 << 20)])
    lock, done = threading.Lock(), [0] * threads

    def read(number: int) -> None:
        mine = memoryview(torch.empty(8 << 20, dtype=torch.uint8, pin_memory=True).numpy())
        handles = {file: os.open(file, os.O_RDONLY) for file in files}
        ready.wait()
        while True:
            with lock:
                job = next(jobs, None)
            if job is None:
                break
            done[number] += os.preadv(handles[job[0]], [mine], job[1])
        for handle in handles.values():
            os.close(handle)

    ready = threading.Barrier(threads + 1)
    workers = [threading.Thread(target=read, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    return copy, sum(done) / (time.perf_counter() - began) / 1e9


def epoch(ds: pk.Dataset, batch: int, threads: int, seed: int, verify: bool = False) -> tuple[float, float]:
    snapshot = ds._snapshot
    settings = Settings(batch, seed=seed, rank=0, world=1, threads=threads, verify=verify)
    loader = torch_loader(snapshot, chosen_specs(snapshot, None), settings, "cuda")
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in loader:
        pass
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    return loader.stats.bytes / seconds / 1e9, loader.stats.waited / seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=8)
    parser.add_argument("--folder")
    parser.add_argument("--epochs", type=int, default=3)
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
                    copy, read = floors(ds, threads)
                    print(
                        f"{kind}, {threads} threads: pinned copy {copy:.1f}, preadv {read:.1f} GB/s (floors)"
                    )
                    for batch in (8192, 65536):
                        rates = [epoch(ds, batch, threads, seed) for seed in range(given.epochs)]
                        shown = ", ".join(f"{rate:.1f} ({wait:.0%} in gather)" for rate, wait in rates)
                        print(f"  batch {batch}, blocks {block >> 20} MiB: {shown}", flush=True)
                    rate, _ = epoch(ds, 8192, threads, 0, verify=True)
                    kind_of_sum = ds.shards[0].checksum.partition(":")[0]
                    print(f"  batch 8192, every block's {kind_of_sum} checked: {rate:.1f}", flush=True)
                shutil.rmtree(os.path.join(root, kind))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
