"""Run by test_ranks.py as one rank of several: reads a dataset as a training would, and notes what it saw.

    one_rank.py DATASET FOLDER [STATE [STEPS]] [--die] [--stay]

Each step's ids go to FOLDER/rank-R.txt, one line a step; the state after each step to FOLDER/state-R.json. With --die
the process kills itself after STEPS steps, as a machine that is lost. With --stay it waits after LAST_STEP steps, to be
killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import penstock as pk

LAST_STEP = 24


def main() -> None:
    arguments = [each for each in sys.argv[1:] if not each.startswith("--")]
    path, folder = arguments[0], Path(arguments[1])
    die, stay = "--die" in sys.argv, "--stay" in sys.argv
    steps = int(arguments[3]) if len(arguments) > 3 else None
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = pk.open(path).torch(batch_size=16, seed=5, last="short", lanes=12)
    if len(arguments) > 2 and arguments[2] != "-":
        loader.load_state_dict(json.loads(Path(arguments[2]).read_text()))
    weight = torch.nn.Linear(1, 1)
    model = torch.nn.parallel.DistributedDataParallel(weight)
    with (folder / f"rank-{rank}.txt").open("a") as log:
        for step, batch in enumerate(loader):
            # Every step is a collective: ranks with unequal numbers of steps would hang here.
            model(batch["id"].float()[:, None]).sum().backward()
            log.write(" ".join(map(str, batch["id"].tolist())) + "\n")
            log.flush()
            state = folder / f"state-{rank}.json"
            state.with_suffix(".part").write_text(json.dumps(loader.state_dict()))
            state.with_suffix(".part").rename(state)
            if stay and step + 1 == LAST_STEP:
                time.sleep(600)
            if steps is not None and step + 1 == steps:
                if die:
                    os.kill(os.getpid(), signal.SIGKILL)
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
