"""Documents of unequal lengths from shards in the page cache to batches in host memory, and on a GPU if there is one.

    python benchmarks/feed_tokens.py [--gigabytes 1] [--rounds 3] [--batch 1024]

Rows are lists of int32 tokens, of 300 on average (log-normal lengths: half have fewer than 180). GB/s of tokens that
were handed out. The floor is Arrow's own gather of shuffled lists out of memory that holds everything. The
hand-written loops read Arrow files block by block in random order, permute the lists of each block and cut batches,
which mixes far less. All ways in a random turn.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import torch
from feed_cpu import in_turns, report, without_numba

import penstock as pk
from penstock.feed.loader import Loader
from penstock.wire.ragged import Ragged

MEAN, SPREAD = 300, 1.0
DENSE = 512


def documents(size: float) -> pa.Table:
    generator = np.random.default_rng(0)
    lengths = generator.lognormal(np.log(MEAN) - SPREAD**2 / 2, SPREAD, int(size / 4 / MEAN)).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = generator.integers(0, 50_000, offsets[-1], np.int32)
    return pa.table({"tokens": pa.LargeListArray.from_arrays(offsets, tokens)})


def tokens_of(batches: Iterator[dict[str, Ragged]]) -> Iterator[list[np.ndarray]]:
    """What is counted: values and offsets."""
    for batch in batches:
        yield [batch["tokens"].values, batch["tokens"].offsets]


def on_device(batches: Iterator[list[np.ndarray]]) -> Iterator[list[np.ndarray]]:
    """All that was asked of the device is waited for."""
    yield from batches
    torch.cuda.synchronize()


def values_of(found: pa.LargeListArray) -> list[np.ndarray]:
    values = found.flatten().to_numpy()
    return [values, found.offsets.to_numpy() - found.offsets[0].as_py()]


def floor(whole: pa.LargeListArray, batch: int) -> Iterator[list[np.ndarray]]:
    order = np.random.default_rng(0).permutation(len(whole))
    for start in range(0, len(whole) - batch + 1, batch):
        yield values_of(whole.take(pa.array(order[start : start + batch])))


def by_hand(ds: pk.Dataset, batch: int) -> Iterator[list[np.ndarray]]:
    generator = np.random.default_rng(0)
    files = [pa.ipc.open_file(pa.memory_map(os.path.join(ds.path, shard.file))) for shard in ds.shards]
    blocks = [(file, number) for file in files for number in range(file.num_record_batches)]
    for place in generator.permutation(len(blocks)):
        file, number = blocks[place]
        column = file.get_batch(number).column("tokens")
        order = generator.permutation(len(column))
        for start in range(0, len(column) - batch + 1, batch):
            yield values_of(column.take(pa.array(order[start : start + batch])))


def data_loader(whole: pa.LargeListArray, batch: int, workers: int) -> Iterator[list[torch.Tensor]]:
    """As people write it: a dataset of rows, and a collate function that concatenates them."""
    part = whole[:50_000]
    tokens, offsets = part.flatten().to_numpy(), part.offsets.to_numpy() - part.offsets[0].as_py()

    def collate(rows: list[np.ndarray]) -> list[torch.Tensor]:
        lengths = np.array([len(row) for row in rows])
        return [torch.from_numpy(np.concatenate(rows)), torch.from_numpy(np.cumsum(lengths))]

    rows = [tokens[start:stop] for start, stop in itertools.pairwise(offsets)]
    return iter(
        torch.utils.data.DataLoader(rows, batch, shuffle=True, collate_fn=collate, num_workers=workers)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=1024)
    given = parser.parse_args()
    root = tempfile.mkdtemp(prefix="penstock-tokens-")
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}")
    arguments = f"--gigabytes {given.gigabytes} --rounds {given.rounds} --batch {given.batch}"
    print(f"`python benchmarks/feed_tokens.py {arguments}`\n")
    print("| rows | way | GB/s: median (all) | of the floor |\n| --- | --- | --- | --- |")
    try:
        table = documents(given.gigabytes * 1e9)
        ds = pk.write(table, root, {"tokens": pk.ragged("tokens")}, shuffle=False, shards=4)
        whole, batch = table.column("tokens").combine_chunks(), given.batch
        whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole

        def loaded(loader: Loader) -> Iterator[list[np.ndarray]]:
            return tokens_of(iter(loader))

        plain, dense = ds.numpy(batch, rank=0, world=1), ds.numpy(batch, rank=0, world=1, pad=DENSE)
        kept = ds.torch(batch, rank=0, world=1, cache="host")
        ways = {
            "floor: pyarrow take out of memory": lambda: floor(whole, batch),
            "ds.numpy": lambda: loaded(plain),
            'ds.torch(cache="host")': lambda: loaded(kept),
            "ds.numpy, without numba": lambda: tokens_of(without_numba(plain)),
            f"ds.numpy(pad={DENSE}), zeros counted": lambda: iter(dense),
            "by hand: Arrow files, blocks and rows inside them permuted": lambda: by_hand(ds, batch),
            "DataLoader, 0 workers (50,000 rows)": lambda: data_loader(whole, batch, 0),
            "DataLoader, 2 workers (50,000 rows)": lambda: data_loader(whole, batch, 2),
        }
        if torch.cuda.is_available():
            there = ds.torch(batch, device="cuda", rank=0, world=1)
            ways['ds.torch(device="cuda")'] = lambda: on_device(loaded(there))
        report("documents", in_turns(ways, given.rounds))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
