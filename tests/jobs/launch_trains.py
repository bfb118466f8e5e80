"""Functions that test_launch*.py launch as ranks, kept where ranks can import them from."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import penstock as pk
from penstock.feed.checkpoint.checkpoint import checkpoint, restore


def train_ddp(dataset: str, folder: str, epochs: int = 1) -> dict[str, object]:
    """Train a tiny model over gloo; returns rank 0's view, and notes every rank's ids."""
    import torch
    import torch.distributed as dist

    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    loader = pk.open(dataset).torch(batch_size=32, seed=5, last="short", lanes=4)
    with Path(folder, f"rank-{dist.get_rank()}.txt").open("a") as log:
        for _ in range(epochs):
            for batch in loader:
                optimizer.zero_grad()
                model(batch["id"].float()[:, None]).pow(2).mean().backward()
                optimizer.step()
                log.write(" ".join(map(str, batch["id"].tolist())) + "\n")
    weights = [torch.zeros(1, 1) for _ in range(dist.get_world_size())]
    dist.all_gather(weights, model.module.weight.detach())
    print(f"rank {dist.get_rank()} is done", flush=True)
    dist.destroy_process_group()
    return {"world": len(weights), "equal": all(torch.equal(weights[0], each) for each in weights)}


def train_killed(
    dataset: str, folder: str, run: str, epochs: int, die: tuple[int, int, float] | None
) -> dict[str, int]:
    """As above with checkpoints every few steps; `die` is a rank that is killed, a step of this run, and seconds
    after.

    Each step is a line of FOLDER/RUN-rank-R.txt: the step's number over all runs, the epoch, and the ids.
    """
    import torch
    import torch.distributed as dist

    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = pk.open(dataset).torch(batch_size=8, seed=5, last="short", lanes=4)
    found = restore(Path(folder, "run"), model=model, optimizer=optimizer, loader=loader)
    step, here = found.step, 0
    with Path(folder, f"{run}-rank-{rank}.txt").open("a") as log:
        for epoch in range(found.epoch, epochs):
            for batch in loader:
                step, here = step + 1, here + 1
                # Before the ranks meet: what one of them then checkpoints, all have noted.
                log.write(f"{step} {epoch} " + " ".join(map(str, batch["id"].tolist())) + "\n")
                log.flush()
                optimizer.zero_grad()
                model(batch["id"].float()[:, None]).mean().backward()
                optimizer.step()
                if die is not None and (rank, here) == die[:2]:
                    threading.Timer(die[2], os.kill, (os.getpid(), signal.SIGKILL)).start()
                if die is not None and (rank, here) == (die[0], die[1] + 5):
                    time.sleep(600)  # the timer is late, and the training must not end before it
                if step % 3 == 0:
                    checkpoint(
                        Path(folder, "run"),
                        model=model,
                        optimizer=optimizer,
                        loader=loader,
                        step=step,
                        keep=2,
                    )
    checkpoint(Path(folder, "run"), model=model, optimizer=optimizer, loader=loader, step=step, keep=2)
    dist.destroy_process_group()
    return {"began": found.step, "ended": step}


def fail_on(rank: int) -> None:
    """One rank raises while the others wait for it."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    if dist.get_rank() == rank:
        raise ValueError(f"bad weights on rank {rank}")
    dist.all_reduce(torch.ones(1))


def sleep_with_a_child(folder: str, seconds: float = 100) -> None:
    """Note the processes and wait; the rank has a child of its own."""
    import subprocess

    child = subprocess.Popen(["sleep", str(seconds)])
    path = Path(folder, f"pids-{os.environ['RANK']}")
    path.with_suffix(".part").write_text(f"{os.getpid()} {child.pid}")
    path.with_suffix(".part").rename(path)
    time.sleep(seconds)


def reduce_tensorflow() -> list[float]:
    """A sum over all workers of a tf.distribute strategy, which finds them in TF_CONFIG."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    world = strategy.num_replicas_in_sync

    @tf.function
    def step() -> tf.Tensor:
        def one() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            return context.all_reduce("sum", tf.constant(1.0))

        return strategy.run(one)

    return [world, float(step())]
