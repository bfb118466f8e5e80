"""Run by test_agreement.py as one of several ranks, of which rank 0 begins loaders that the others begin late or never.

    waiting_rank.py DATASET FOLDER PORT

The others begin the first loader when rank 0 has warned of them. The second they do not begin, until rank 0 has given
up; then they begin another one. Then all meet in a new process group, at another port. What each says goes to
FOLDER/rank-R.json.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from disagreeing_rank import told

import penstock as pk
from penstock.feed import agreement


def main() -> None:
    path, folder, port = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    agreement.PATIENCE = 0.3
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    ds = pk.open(path)
    found: dict[str, object] = {}
    warned: list[dict[str, str]] = []

    def show(message: Warning, category: object, filename: str, *_: object) -> None:
        warned.append({"text": str(message), "file": filename})
        (folder / "warned").touch()

    warnings.showwarning = show
    if rank:
        agreement.PATIENCE = 60.0
        wait_for(folder / "warned")
    found["late"] = told(ds.torch(16))
    found["warnings"] = list(warned)
    if rank == 0:
        agreement._store().set_timeout(timedelta(seconds=1))
        found["never"] = told(ds.torch(16))
        agreement._store().set_timeout(timedelta(seconds=60))
        (folder / "given-up").touch()
    else:
        wait_for(folder / "given-up")
        found["other"] = told(ds.torch(16, seed=1))
    dist.barrier()
    dist.destroy_process_group()
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo")
    found["again"] = told(ds.torch(16))
    (folder / f"rank-{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.01)


if __name__ == "__main__":
    main()
