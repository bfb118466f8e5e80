"""Loaders under the trainers people use: Lightning, Accelerate, Keras. Every row, in the loader's orders, resumed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import pytorch_lightning as pl
import torch
from left_behind import open_below, strangers
from several_ranks import start_ranks

import penstock as pk
from penstock.feed.loader import Loader

SCRIPT = Path(__file__).parent / "trainer_rank.py"
ROWS, BATCH, EPOCHS = 1050, 100, 3
STEPS = -(-ROWS // BATCH)
QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}

pytestmark = [
    # Lightning's advice: more worker processes for the DataLoader, fewer deprecated calls of its own.
    pytest.mark.filterwarnings("ignore:::pytorch_lightning"),
    pytest.mark.filterwarnings("ignore:::lightning_fabric"),
    pytest.mark.filterwarnings("ignore:.*:UserWarning:keras"),
]


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    log = logging.getLogger("pytorch_lightning")
    before = log.level
    log.setLevel(logging.ERROR)
    yield
    log.setLevel(before)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    table = pa.table({"id": np.arange(ROWS), "x": np.arange(ROWS, dtype=np.float32) / ROWS})
    return pk.write(table, tmp_path_factory.mktemp("trainers"), block_bytes=1024)


def training(ds: pk.Dataset, last: str = "short") -> Loader:
    return ds.torch(BATCH, seed=3, last=last, lanes=4, tensors=["id"])


def validation(ds: pk.Dataset) -> Loader:
    return ds.torch(BATCH, last="short", tensors=["id"])


def orders(loader: Loader, epochs: int = EPOCHS) -> list[list[int]]:
    """The batches of the loader's first epochs, one after the other."""
    return [batch["id"].tolist() for _ in range(epochs) for batch in loader]


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Linear(1, 1)
        self.seen: list[list[int]] = []
        self.validated: list[list[int]] = []

    def training_step(self, batch: dict[str, torch.Tensor], number: int) -> torch.Tensor:
        self.seen.append(batch["id"].tolist())
        return self.weight(batch["id"].float()[:, None]).sum()

    def on_validation_start(self) -> None:
        self.validated.append([])

    def validation_step(self, batch: dict[str, torch.Tensor], number: int) -> None:
        self.validated[-1] += batch["id"].tolist()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 1e-9)


class Saving(pl.Callback):
    """Saves at the moments that are asked for, and notes how many batches were behind then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.behind: dict[str, int] = {}

    def _save(self, moment: str, trainer: pl.Trainer, model: Model) -> None:
        trainer.save_checkpoint(self.folder / moment)
        self.behind[moment] = len(model.seen)

    def on_train_batch_end(self, trainer: pl.Trainer, model: Model, *_: object) -> None:
        moments = {4: "in an epoch", STEPS: "at its last batch", STEPS + 4: "in another epoch"}
        if len(model.seen) in moments:
            self._save(moments[len(model.seen)], trainer, model)

    def on_validation_end(self, trainer: pl.Trainer, model: Model) -> None:
        if len(model.seen) == STEPS:
            self._save("after validation", trainer, model)

    def on_train_epoch_end(self, trainer: pl.Trainer, model: Model) -> None:
        if len(model.seen) == STEPS:
            self._save("at its end", trainer, model)


def fit(
    ds: pk.Dataset, resumed: Path | None = None, callbacks: tuple[pl.Callback, ...] = (), **more: object
) -> Model:
    model = Model()
    trainer = pl.Trainer(max_epochs=EPOCHS, callbacks=list(callbacks), **{**QUIET, **more})
    trainer.fit(model, training(ds), validation(ds), ckpt_path=resumed)
    assert trainer.num_training_batches == STEPS
    return model


@pytest.fixture(scope="module")
def saved(ds: pk.Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Saving]:
    """A training that ran through, and what it saved on its way."""
    saving = Saving(tmp_path_factory.mktemp("saved"))
    return fit(ds, callbacks=(saving,)), saving


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


def by_epoch(batches: list[list[int]]) -> list[list[int]]:
    return [flat(batches[first : first + STEPS]) for first in range(0, len(batches), STEPS)]


def test_lightning_sees_every_row_of_every_epoch(saved: tuple[Model, Saving]) -> None:
    model, _ = saved
    assert [len(batch) for batch in model.seen] == [*[BATCH] * (STEPS - 1), ROWS % BATCH] * EPOCHS
    epochs = by_epoch(model.seen)
    assert [sorted(epoch) for epoch in epochs] == [list(range(ROWS))] * EPOCHS
    assert len({tuple(epoch) for epoch in epochs}) == EPOCHS, "each in an order of its own"


def test_lightning_sees_the_orders_the_loader_has_by_itself(
    ds: pk.Dataset, saved: tuple[Model, Saving]
) -> None:
    assert saved[0].seen == orders(training(ds))


def test_lightning_drops_what_the_loader_drops(ds: pk.Dataset) -> None:
    model = Model()
    trainer = pl.Trainer(max_epochs=2, **QUIET)
    trainer.fit(model, training(ds, last="drop"))
    assert trainer.num_training_batches == ROWS // BATCH
    assert [len(batch) for batch in model.seen] == [BATCH] * (ROWS // BATCH) * 2


def test_lightning_validates_on_every_row_each_time(saved: tuple[Model, Saving]) -> None:
    sanity, *validated = saved[0].validated
    assert len(sanity) == 2 * BATCH
    assert [sorted(rows) for rows in validated] == [list(range(ROWS))] * EPOCHS


MOMENTS = ["in an epoch", "in another epoch", "at its last batch", "after validation", "at its end"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_lightning_checkpoint_goes_on_without_repeating_or_losing_rows(
    ds: pk.Dataset, saved: tuple[Model, Saving], moment: str
) -> None:
    whole, saving = saved
    behind = saving.behind[moment]
    resumed = fit(ds, saving.folder / moment)
    epochs = by_epoch(whole.seen[:behind] + resumed.seen)
    assert [sorted(epoch) for epoch in epochs] == [list(range(ROWS))] * EPOCHS
    complete = [rows for rows in resumed.validated if len(rows) != 2 * BATCH]
    assert complete
    assert all(sorted(rows) == list(range(ROWS)) for rows in complete)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_resumed_training_sees_what_the_other_would_have_seen(
    ds: pk.Dataset, saved: tuple[Model, Saving], moment: str
) -> None:
    whole, saving = saved
    resumed = fit(ds, saving.folder / moment)
    assert resumed.seen == whole.seen[saving.behind[moment] :]


def test_epochs_cut_short_begin_anew(ds: pk.Dataset) -> None:
    model = Model()
    pl.Trainer(max_epochs=2, limit_train_batches=3, **QUIET).fit(model, training(ds))
    loader = training(ds)
    first = [batch["id"].tolist() for batch in loader][:3]
    second = [batch["id"].tolist() for batch in loader][:3]
    assert model.seen == first + second


def test_lightning_leaves_no_thread_and_no_file(ds: pk.Dataset) -> None:
    pl.Trainer(max_epochs=2, **QUIET).fit(Model(), training(ds), validation(ds))
    assert strangers() == []
    assert open_below(Path(ds.path)) == []


def two_ranks(trainer: str, ds: pk.Dataset, folder: Path) -> list[list[list[int]]]:
    """Per rank, per step, the ids."""
    # As torchrun sets it: Lightning then starts no process of its own.
    environment = {"TORCHELASTIC_RUN_ID": "test", "PYTHONWARNINGS": "ignore"}
    ranks = start_ranks(2, SCRIPT, trainer, ds.path, str(folder), environment=environment)
    try:
        told = ["".join(rank.communicate(timeout=200)) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(told)
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.timeout(300)
def test_two_lightning_ranks_see_every_row_once_an_epoch(ds: pk.Dataset, tmp_path: Path) -> None:
    first, second = two_ranks("lightning", ds, tmp_path)
    assert len(first) == len(second) == 2 * STEPS
    together = by_epoch([one + other for one, other in zip(first, second, strict=True)])
    assert [sorted(epoch) for epoch in together] == [list(range(ROWS))] * 2
    assert together[0] != together[1]


@pytest.mark.timeout(300)
def test_two_accelerate_ranks_save_load_and_see_every_row_once(ds: pk.Dataset, tmp_path: Path) -> None:
    first, second = two_ranks("accelerate", ds, tmp_path)
    assert len(first) == len(second) == STEPS
    assert sorted(flat(first + second)) == list(range(ROWS))


def recorded(seen: list[list[int]]) -> Callable[[dict[str, object]], tuple[object, object]]:
    """Pairs for Keras, whose ids are noted when the batch is taken."""
    import tensorflow as tf

    def note(ids: np.ndarray) -> np.float32:
        seen.append(ids.tolist())
        return np.float32(0)

    def pair(batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        zero = tf.numpy_function(note, [batch["id"]], tf.float32)
        zero.set_shape([])
        x = batch["x"][:, None]
        return x + zero, x

    return pair


def keras_fit(ds: pk.Dataset, repeated: bool, **more: object) -> list[list[int]]:
    import keras

    seen: list[list[int]] = []
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    batches = ds.tensorflow(BATCH, seed=3, last="short", lanes=4)
    batches = batches.repeat() if repeated else batches
    model.fit(batches.map(recorded(seen)), epochs=EPOCHS, verbose=0, shuffle=False, **more)
    return seen


def test_keras_sees_the_epochs_and_validates_on_every_row(ds: pk.Dataset) -> None:
    validated: list[list[int]] = []
    valid = ds.tensorflow(BATCH, last="short").map(recorded(validated))
    assert keras_fit(ds, repeated=False, validation_data=valid) == orders(training(ds))
    assert [sorted(rows) for rows in by_epoch(validated)] == [list(range(ROWS))] * EPOCHS


def test_keras_counts_steps_over_epochs(ds: pk.Dataset) -> None:
    seen = keras_fit(ds, repeated=True, steps_per_epoch=STEPS)
    assert seen[: STEPS * EPOCHS] == orders(training(ds))
