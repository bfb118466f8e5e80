"""What a log costs: the same epochs without one, with one, and with numbers noted; in turns, into host memory.

    python benchmarks/log.py [--rows 4000000] [--rounds 15] [--batch 128 8192]

Rows of 160 bytes (40 float32) out of the page cache, and a consumer that does nothing: whatever a step costs shows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as pk
from penstock.feed.loader import Loader

NOTED = 100
"""Every so many steps a number is noted."""


def epoch(loader: Loader, noted: bool) -> tuple[float, float]:
    """Seconds on the clock, and of the processor."""
    clock, busy = time.perf_counter(), time.process_time()
    if noted:
        for step, _ in enumerate(loader):
            if step % NOTED == 0:
                loader.note({"loss": 0.5})
    else:
        for _ in loader:
            pass
    return time.perf_counter() - clock, time.process_time() - busy


def measure(ds: pk.Dataset, batch: int, rounds: int, folder: Path) -> None:
    ways = {
        "no log": ds.torch(batch),
        "log": ds.torch(batch, log=folder / f"log-{batch}.jsonl"),
        "log and notes": ds.torch(batch, log=folder / f"noted-{batch}.jsonl"),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        names = list(ways)
        for name in names[turn % 3 :] + names[: turn % 3]:
            took = epoch(ways[name], name == "log and notes")
            if turn:  # the first one checks every block, and makes its memory
                found[name].append(took)
    print(f"batches of {batch}: {ds.rows // batch:,} steps an epoch, {rounds} epochs each")
    for name, took in found.items():
        clock, busy = (sorted(each) for each in zip(*took, strict=True))
        print(
            f"  {name:14} {statistics.median(clock):.3f} s ({clock[0]:.3f} to {clock[-1]:.3f}), "
            f"processor {statistics.median(busy):.3f} s ({busy[0]:.3f} to {busy[-1]:.3f})"
        )
    lines = [json.loads(line) for line in (folder / f"noted-{batch}.jsonl").read_text().splitlines()]
    notes = sum(line["line"] == "note" for line in lines)
    assert notes == (rounds + 1) * -(-(ds.rows // batch) // NOTED), "every note was written"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 8192])
    asked = parser.parse_args()
    values = np.random.default_rng(0).random(asked.rows * 40, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        table = pa.table({"x": pa.FixedSizeListArray.from_arrays(values, 40)})
        ds = pk.write(table, Path(folder) / "ds", shards=4)
        for batch in asked.batch:
            measure(ds, batch, asked.rounds, Path(folder))


if __name__ == "__main__":
    main()
