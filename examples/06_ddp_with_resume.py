"""Training on several ranks that is killed, and goes on with another number of ranks.

`pk.launch` runs a function as ranks of torch's DistributedDataParallel. Every few steps `pk.checkpoint` keeps model,
optimizer and loader together. The first run fails on purpose in the middle of an epoch; the second has another number
of ranks, and `pk.restore` puts it where the last checkpoint stood. The loader's state is a number of rows, which fits
any number of ranks.

Expect the failing rank's error, the step at which the second run goes on, and that the ids of all rows that the
weights have seen add up as if nothing had happened.

    python examples/06_ddp_with_resume.py --rows 60000
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as pk

BATCH = 500


def train(dataset: str, run: str, epochs: int, every: int, fail_at: int | None) -> dict[str, int]:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")  # rank and world are in the environment
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    loader = pk.open(dataset).torch(batch_size=BATCH, seed=7, last="short")
    found = pk.restore(run, model=model, optimizer=optimizer, loader=loader)
    step, seen = found.step, torch.tensor((found.extra or {"seen": 0})["seen"])
    for _ in range(found.epoch, epochs):
        for batch in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(batch["x"])[:, 0], batch["y"]).backward()
            optimizer.step()
            here = batch["id"].sum()
            dist.all_reduce(here)
            step, seen = step + 1, seen + here
            if step % every == 0:
                kept = {"model": model, "optimizer": optimizer, "loader": loader}
                pk.checkpoint(run, **kept, step=step, extra={"seen": seen.item()})
            if step == fail_at and dist.get_rank() == 1:
                raise RuntimeError("a machine went away")
    return {"began": found.step, "ended": step, "ranks": dist.get_world_size(), "seen": seen.item()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=30_000)
    given = parser.parse_args()

    x = np.random.default_rng(0).normal(size=(given.rows, 4)).astype(np.float32)
    table = pa.table(
        {"x": pa.FixedSizeListArray.from_arrays(x.ravel(), 4), "y": x.sum(1), "id": np.arange(given.rows)}
    )
    with tempfile.TemporaryDirectory() as folder:
        dataset, run = str(Path(folder, "train")), str(Path(folder, "run"))
        pk.write(table, dataset)
        steps = -(-given.rows // (2 * BATCH))
        every = max(steps // 3, 1)
        fail_at = steps + steps // 2  # in the middle of the second epoch
        try:
            pk.launch(train, dataset, run, 2, every, fail_at, workers=2)
        except pk.PenstockError as error:
            print(f"two ranks, step {fail_at}:", str(error).splitlines()[0])
        done = pk.launch(train, dataset, run, 2, every, None, workers=1)
    print(f"one rank went on at step {done['began']} and ended at step {done['ended']}")
    print("every row came once an epoch:", done["seen"] == given.rows * (given.rows - 1))


if __name__ == "__main__":
    main()
