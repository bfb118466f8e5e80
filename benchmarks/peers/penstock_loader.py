"""Penstock itself, in the environment that runs the comparison.

The rows are written in their order, so that what is mixed is mixed by the loader: blocks of many lanes, in random
order, and a permutation of the rows in flight.
"""

from __future__ import annotations

from common import Job, Way, main

import penstock as pk


def prepare(job: Job) -> None:
    pk.write(job.arrow(), job.folder, shuffle=False)


def ways(job: Job) -> list[Way]:
    shuffle = "blocks, and rows of all blocks in flight"
    ds = pk.open(job.folder)
    return [
        Way(shuffle, "ds.torch", lambda: ds.torch(job.batch, rank=0, world=1)),
        Way(shuffle, "ds.numpy", lambda: ds.numpy(job.batch, rank=0, world=1)),
    ]


if __name__ == "__main__":
    main("penstock", prepare, ways)
