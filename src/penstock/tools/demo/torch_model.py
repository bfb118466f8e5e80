"""The demo's PyTorch model and its training, as a user would write them: `train` runs as ranks of `pk.launch`.

A killed training goes on at its last checkpoint and ends with the weights of one that was never stopped: the loader
goes on at the step, and what chance there is (dropout) depends on the step alone.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy
from torch.nn.parallel import DistributedDataParallel

import penstock as pk
from penstock.tools.demo.training import (
    BATCH,
    DROPOUT,
    EMBEDDING,
    LEARNING_RATE,
    SCORED_AT_ONCE,
    SEED,
    WIDTH,
    Task,
    Trained,
    Watch,
)


class DelayModel(nn.Module):
    """How likely a flight is late: embeddings of the ids beside the numbers, and two layers over both."""

    def __init__(self, recipe: Any) -> None:
        super().__init__()
        numbers, sizes = recipe.outputs["x"].type.length, recipe.outputs["ids"].ids
        tables = [nn.Embedding(size, min(EMBEDDING, (size + 1) // 2)) for size in sizes]
        for each in tables:
            nn.init.normal_(each.weight, std=0.05)
        self.embeddings = nn.ModuleList(tables)
        width = numbers + sum(each.embedding_dim for each in tables)
        self.layers = nn.Sequential(
            *(nn.Linear(width, WIDTH), nn.ReLU(), nn.Dropout(DROPOUT)),
            *(nn.Linear(WIDTH, WIDTH // 2), nn.ReLU(), nn.Dropout(DROPOUT)),
            *(nn.Linear(WIDTH // 2, 1), nn.Sigmoid()),
        )

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        """The probability, for each row."""
        places = [embedding(ids[:, place]) for place, embedding in enumerate(self.embeddings)]
        found: Tensor = self.layers(torch.cat([x, *places], 1))
        return found.squeeze(1)


def train(task: Task) -> Trained | None:
    """Train as one of several ranks; rank 0 returns the model."""
    rank, world, device = join(task.device)
    ds = pk.open(f"{task.folder}/train")
    torch.manual_seed(SEED)
    model = DistributedDataParallel(DelayModel(ds.recipe).to(device))
    loader = ds.torch(BATCH // world, seed=SEED, device=device, log=f"{task.folder}/log.jsonl")
    watch = Watch(task.epochs * len(loader), rank, world, task.dies)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=watch.steps)
    state: dict[str, Any] = {"model": model, "optimizer": [optimizer, schedule], "loader": loader}

    at = pk.restore(f"{task.folder}/run", **state)  # step 0 where there is nothing to restore
    step = at.step
    for _ in range(at.epoch, task.epochs):
        for batch in loader:
            step += 1
            torch.manual_seed(SEED + step * world + rank)  # dropout depends on the step alone
            optimizer.zero_grad()
            loss = binary_cross_entropy(model(batch["x"], batch["ids"]), batch["late"])
            loss.backward()
            optimizer.step()
            schedule.step()
            if watch.tells(step):
                loader.note({"loss": loss.item()})
                watch.tell(step, loss.item())
            if watch.keeps(step):
                pk.checkpoint(f"{task.folder}/run", step=step, **state)
            watch.after(step)
    dist.destroy_process_group()
    return evaluated(model.module, task, step, at.step) if rank == 0 else None


def join(device: str) -> tuple[int, int, torch.device]:
    """Become a rank: which, of how many, and on what. Several on one GPU is what NCCL does not allow, and Gloo does."""
    own = torch.device(device)
    if own.type == "cuda":
        own = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(own)
    alone = own.type == "cuda" and torch.cuda.device_count() >= int(os.environ["WORLD_SIZE"])
    dist.init_process_group("nccl" if alone else "gloo")
    return dist.get_rank(), dist.get_world_size(), own


def evaluated(model: nn.Module, task: Task, steps: int, resumed_at: int) -> Trained:
    """The model with its scores of the days it has not seen, from the dataset as it lies on disk."""
    device = next(model.parameters()).device
    ds = pk.open(f"{task.folder}/evaluate")
    loader = ds.torch(SCORED_AT_ONCE, shuffle=False, last="short", rank=0, world=1, device=device)
    model.eval()
    with torch.inference_mode():
        found = [(batch["late"].cpu(), model(batch["x"], batch["ids"]).cpu()) for batch in loader]
    labels, scores = (torch.cat(each).numpy() for each in zip(*found, strict=True))
    return Trained(model.cpu(), labels, scores, steps, resumed_at)
