"""Run by test_follow_write.py as one rank of several: trains with DDP on a dataset that is still being written.

    follow_rank.py DATASET FOLDER [RUN]

Each rank appends a line for every step of two epochs to FOLDER/steps-R.txt: the epoch, and the ids. Its first step
leaves FOLDER/began-R, which the tasks of the write's last partitions wait for. With RUN it checkpoints there at every
step, and goes on from what is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

import penstock as pk
from penstock.feed.checkpoint.checkpoint import Restored, checkpoint, restore


def main(dataset: str, folder: Path, run: str | None) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    loader = pk.open(dataset, follow=True, timeout=120).torch(32, last="short")
    kept = {"model": model, "optimizer": optimizer, "loader": loader}
    found = Restored() if run is None else restore(run, **kept)
    step = found.step
    with (folder / f"steps-{rank}.txt").open("a") as log:
        for epoch in range(found.epoch, 2):
            for batch in loader:
                step += 1
                # Before the ranks meet: what one of them then checkpoints, all have noted.
                log.write(f"{epoch} " + " ".join(map(str, batch["id"].tolist())) + "\n")
                log.flush()
                optimizer.zero_grad()
                # Averages gradients over the ranks: with unequal steps it would hang.
                model(batch["id"].float()[:, None]).mean().backward()
                optimizer.step()
                if run is not None:
                    checkpoint(run, **kept, step=step)
                (folder / f"began-{rank}").touch()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
