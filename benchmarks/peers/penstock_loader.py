"""Penstock itself, in the environment that runs the comparison.

The rows are written in their order, so that what is mixed is mixed by the loader: blocks of many lanes, in random
order, and a permutation of the rows in flight. Beside the defaults: the dataset kept in memory, as Petastorm's loader
in memory and Ray's object store keep it; and fewer lanes and smaller blocks, chosen so that a batch still holds rows of
as many stretches, and of as many runs of neighbours, as one of Hugging Face's buffer of 32,768 rows (12 and 166 of
160-byte rows, 23 and 166 of 1 KB rows).
"""

from __future__ import annotations

from functools import partial

from common import Job, Way, main

import penstock as pk

LANES = 16
SMALL = 2 << 20
"""Bytes of the smaller blocks. For 160-byte rows alone: of 1 KB rows, 16 such blocks are fewer than that buffer."""


def prepare(job: Job) -> None:
    pk.write(job.arrow(), job.folder / "blocks", shuffle=False)
    if job.kind == "criteo":
        pk.write(job.arrow(), job.folder / "small", shuffle=False, block_bytes=SMALL)


def ways(job: Job) -> list[Way]:
    whole, fewer = "blocks, and rows of all blocks in flight", f"the same, {LANES} blocks in flight, not 64"
    kept = "the same, held in memory from the first epoch on"
    ds = pk.open(job.folder / "blocks")
    found = [
        Way(whole, "ds.torch", partial(ds.torch, job.batch, rank=0, world=1)),
        Way(whole, "ds.numpy", partial(ds.numpy, job.batch, rank=0, world=1)),
        Way(kept, 'ds.numpy(cache="host")', partial(ds.numpy, job.batch, rank=0, world=1, cache="host")),
        Way(fewer, f"ds.torch(lanes={LANES})", partial(ds.torch, job.batch, rank=0, world=1, lanes=LANES)),
        Way(fewer, f"ds.numpy(lanes={LANES})", partial(ds.numpy, job.batch, rank=0, world=1, lanes=LANES)),
    ]
    if job.kind == "criteo":
        small = pk.open(job.folder / "small")
        settings = f"ds.numpy(lanes={LANES}), blocks of {SMALL >> 20} MiB"
        found.append(Way(fewer, settings, partial(small.numpy, job.batch, rank=0, world=1, lanes=LANES)))
    return found


if __name__ == "__main__":
    main("penstock", prepare, ways)
