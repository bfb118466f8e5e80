"""The feed of one rank of several: what it costs where the number of ranks does not divide the lanes.

    python benchmarks/feed_ranks.py [--gigabytes 4] [--rounds 3] [--batch 8192]

One process takes the place of the rank in the middle of a world, for worlds that divide the 64 lanes and worlds that do
not, and reads its share of an epoch from the page cache into host memory. Beside the speed stands how much it read of
what it handed out. Rows as in `feed_cpu`, in blocks of 4 MiB, so that lanes have several each; nothing is checked,
which would have blocks read whole. Once more in the order of the files.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator
from datetime import date

from feed_cpu import KINDS, in_turns
from feed_gpu import make

import penstock as pk
from penstock.feed.loader import Loader

WORLDS = (1, 2, 3, 4, 6, 8, 12, 24, 32, 48, 96)
IN_ORDER = 8
"""Ranks that read without a shuffle."""
BLOCK_BYTES = 4 << 20


def loaders(ds: pk.Dataset, batch: int) -> dict[str, Loader]:
    """By what is told of them."""
    found = {
        f"{world} ranks": ds.numpy(batch, rank=world // 2, world=world, verify=False)
        for world in WORLDS
        if ds.rows >= batch * world
    }
    in_order = ds.numpy(batch, rank=IN_ORDER // 2, world=IN_ORDER, shuffle=False, verify=False)
    return found | {f"{IN_ORDER} ranks, shuffle=False": in_order}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8192)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    root = tempfile.mkdtemp(prefix="penstock-ranks-")
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores")
    arguments = f"--gigabytes {given.gigabytes} --rounds {given.rounds} --batch {given.batch}"
    print(f"`python benchmarks/feed_ranks.py {arguments}`\n")
    print("| rows | one of | GB/s: median (all) | read, of what was handed out |\n| --- | --- | --- | --- |")
    try:
        for kind, size in KINDS.items():
            ds = make(kind, given.gigabytes * 1e9, os.path.join(root, kind), BLOCK_BYTES)
            compare(ds, size, given.batch, given.rounds)
            shutil.rmtree(os.path.join(root, kind))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def compare(ds: pk.Dataset, size: str, batch: int, rounds: int) -> None:
    """All worlds, in a random turn."""
    every = loaders(ds, batch)
    ways: dict[str, Callable[[], Iterator[object]]] = {
        name: lambda loader=loader: iter(loader) for name, loader in every.items()
    }
    for name, rates in in_turns(ways, rounds).items():
        stats = every[name].stats
        told = ", ".join(f"{each:.2f}" for each in sorted(rates))
        print(
            f"| {size} | {name} | {statistics.median(rates):.2f} ({told}) | {stats.bytes_read / stats.bytes:.2f} |"
        )


if __name__ == "__main__":
    main()
