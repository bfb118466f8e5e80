"""Run by test_reader_errors.py as one rank of several: reads while a file is damaged under it, and notes the error.

    failing_rank.py DATASET FOLDER FRAMEWORK [--collective]

After a few steps it creates FOLDER/ready-R and waits for FOLDER/go; then it reads on. What goes wrong is written to
FOLDER/error-R.json and raised. With --collective every step is one of all ranks, so that they fail together.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import penstock as pk

STEPS_BEFORE = 3


def wait_for(file: Path) -> None:
    until = time.monotonic() + 150
    while not file.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{file} did not appear")
        time.sleep(0.02)


def main() -> None:
    path, folder, framework = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    collective = "--collective" in sys.argv
    if world > 1:
        dist.init_process_group("gloo")
    model = torch.nn.Linear(1, 1)
    if world > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    loader = getattr(pk.open(path), framework)(64, seed=1, lanes=6, memory=12 << 20)
    try:
        for step, batch in enumerate(loader):
            if step < STEPS_BEFORE or collective:
                model(torch.as_tensor(batch["x"])[:, :1]).sum().backward()
            if step + 1 == STEPS_BEFORE:
                (folder / f"ready-{rank}").touch()
                wait_for(folder / "go")
    except Exception as error:
        told = {"type": type(error).__name__, "message": str(error)}
        (folder / f"error-{rank}.json").write_text(json.dumps(told))
        raise


if __name__ == "__main__":
    main()
