"""Run by test_trainers.py as one rank of several under a trainer; notes the ids of every step.

    trainer_rank.py lightning|accelerate DATASET FOLDER

Each rank writes FOLDER/rank-R.json: the ids of its steps. "lightning" trains two epochs; "accelerate" half an epoch,
saves, goes a few steps too far, loads what was saved and finishes the epoch.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import torch

import penstock as pk


def lightning(loader: object, folder: Path) -> tuple[int, list[list[int]]]:
    import pytorch_lightning as pl

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.seen = torch.nn.Linear(1, 1), []

        def training_step(self, batch: dict[str, torch.Tensor], number: int) -> torch.Tensor:
            self.seen.append(batch["id"].tolist())
            return self.weight(batch["id"].float()[:, None]).sum()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 1e-9)

    model = Model()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader)
    # Lightning leaves it to the end of the process, where gloo's threads may find the other rank gone, and abort.
    torch.distributed.destroy_process_group()
    return trainer.global_rank, model.seen


def accelerate(loader: object, folder: Path) -> tuple[int, list[list[int]]]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    weight = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(weight.parameters(), 1e-9)
    model, optimizer, prepared = accelerator.prepare(weight, optimizer, loader)
    assert prepared is loader, "it is left alone: it shares the rows out by itself"
    accelerator.register_for_checkpointing(prepared)

    def step(batch: dict[str, torch.Tensor]) -> list[int]:
        assert batch["id"].device.type == accelerator.device.type
        accelerator.backward(model(batch["id"].float()[:, None]).sum())
        optimizer.step()
        optimizer.zero_grad()
        return batch["id"].tolist()

    seen = []
    for number, batch in enumerate(prepared):
        ids = step(batch)
        if number < len(prepared) // 2:
            seen.append(ids)
        if number + 1 == len(prepared) // 2:
            accelerator.save_state(folder / "saved")
        if number == len(prepared) // 2 + 2:
            break
    accelerator.load_state(folder / "saved")
    seen += [step(batch) for batch in prepared]
    accelerator.end_training()
    return accelerator.process_index, seen


def main() -> None:
    trainer, path, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    loader = pk.open(path).torch(batch_size=50, seed=3, last="short", lanes=4)
    rank, seen = {"lightning": lightning, "accelerate": accelerate}[trainer](loader, folder)
    (folder / f"rank-{rank}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
