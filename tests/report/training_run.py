"""What reports are made of in these tests: a dataset with a recipe, and the log of two ranks that had to wait."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.feed import log as log_module
from penstock.feed.reading.source import RowSource

ROWS, BATCH, EPOCHS = 6000, 250, 2


@dataclass(frozen=True)
class Trained:
    """A dataset, and the log of a training on it."""

    path: Path
    log: Path


def flights() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "carrier": rng.choice(["UA", "B6", "EV", "DL"], ROWS, p=[0.4, 0.3, 0.2, 0.1]),
            "distance": rng.gamma(2.2, 470, ROWS),
            "delay": pa.array(rng.normal(10, 30, ROWS), mask=rng.random(ROWS) < 0.1),
            "hour": rng.integers(5, 24, ROWS),
        }
    )


def recipe() -> pk.Recipe:
    return pk.Recipe(
        x=pk.stack(
            pk.col("distance").log1p().standardize(),
            pk.col("delay").fill("median").clip(-60, 300),
            pk.col("hour").cyclic(24),
            dtype="float32",
        ),
        carrier=pk.col("carrier").index(min_count=10).cast("int32"),
        late=(pk.coalesce(pk.col("delay"), pk.lit(0.0)) > 15).cast("float32"),
    )


def train(folder: Path) -> Trained:
    """Two ranks, two epochs; the reading of the second is slow, so that they wait."""
    table = flights()
    ds = pk.write(table, folder / "flights", recipe=recipe().fit(table), workers=3, block_bytes=8000)

    def rank(number: int, epoch: int) -> None:
        loader = ds.numpy(batch_size=BATCH, seed=7, rank=number, world=2, log=folder / "log.jsonl", lanes=4)
        loader.set_epoch(epoch)
        for step, _ in enumerate(loader):
            time.sleep(0.01)
            value = math.nan if step == 3 else 0.7 * 0.9**step
            loader.note({"loss": value, "rate": 1e-3})
        if number == 0:
            loader.note({"valid": 0.5 + epoch / 10})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_module, "TICK_SECONDS", 0.05)
        read = RowSource.read
        for epoch in range(EPOCHS):
            slow = 0.1 * epoch

            def slowed(self, *arguments, slow=slow):
                time.sleep(slow)
                return read(self, *arguments)

            patch.setattr(RowSource, "read", slowed)
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda number, epoch=epoch: rank(number, epoch), range(2)))
    return Trained(folder / "flights", folder / "log.jsonl")
