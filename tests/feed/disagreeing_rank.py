"""Run by test_ranks.py as one of two ranks that do not agree; notes the errors.

    disagreeing_rank.py DATASET OTHER FOLDER

Rank 1 reads another dataset, then another seed, then another batch size than rank 0; then ranks are said by hand that
are not the group's; then the environment tells both another rank than the process group does. What each says goes to
FOLDER/rank-R.json.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch.distributed as dist

import penstock as pk


def told(loader: object) -> str:
    try:
        next(iter(loader))
    except pk.PenstockError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def main() -> None:
    path, other, folder = sys.argv[1:4]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    different = pk.open(other if rank else path)
    ds = pk.open(path)
    found = {
        "fingerprint": told(different.torch(16, lanes=12)),
        "seed": told(ds.torch(16, lanes=12, seed=rank)),
        "batch": told(ds.torch(16 + rank, lanes=12)),
        "alone": told(ds.torch(16 + rank, lanes=12, rank=0, world=1)),
        "other ranks": told(ds.torch(16 + rank, lanes=12, rank=1 - rank, world=4)),
        "agreed": told(ds.torch(16, lanes=12)),
    }
    os.environ["RANK"] = str(1 - rank)
    found["contradiction"] = told(ds.torch(16, lanes=12))
    (Path(folder) / f"rank-{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
