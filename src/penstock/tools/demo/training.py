"""What both models' trainings share: the settings, how a training is watched, and what it brings back.

Used by `torch_model` and `keras_model`, in the processes that `pk.launch` starts.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 2013
EPOCHS = 3
LEAST_STEPS = 40
"""Of few flights more epochs are trained: in 12 steps over 5,000 of them it learned next to nothing (AUC 0.54)."""
BATCH = 1024
"""Rows of a step, of all ranks together. Larger batches, which make fewer steps, gave worse models."""
LEARNING_RATE = 3e-3
WIDTH, DROPOUT, EMBEDDING = 128, 0.3, 8
CHECKPOINTS = 8
"""How many a training makes."""
TOLD = 40
"""How often it tells its loss."""
SCORED_AT_ONCE = 8192


def epochs(rows: int, scale: int) -> int:
    """How many to train on so many rows, each flight among them so many times.

    >>> epochs(273_000, 1), epochs(16_000, 1), epochs(4_000, 1), epochs(819_000, 3)
    (3, 3, 14, 2)
    """
    return max(2, round(EPOCHS / scale), -(-LEAST_STEPS // max(rows // BATCH, 1)))


@dataclass(frozen=True)
class Task:
    """One training: where its data lies and its checkpoints go, and what is asked of it."""

    folder: str
    epochs: int = EPOCHS
    device: str = "cpu"
    dies: bool = False
    """Whether its last rank kills itself part of the way: between two checkpoints, with no time to say goodbye."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, its scores of the evaluation's rows, and how the training went."""

    model: Any
    """What `pk.predict` takes: a module in a function, or the path of a file."""
    labels: NDArray[Any]
    scores: NDArray[Any]
    steps: int
    resumed_at: int
    """The step of the checkpoint that it went on from, having been killed."""


@dataclass(frozen=True)
class Watch:
    """Says on rank 0 how far the training is, and ends a rank on purpose, if that is its task."""

    steps: int
    rank: int
    world: int
    dies: bool

    @property
    def every(self) -> int:
        """Steps between two checkpoints.

        >>> Watch(steps=801, rank=0, world=2, dies=False).every
        100
        """
        return max(self.steps // CHECKPOINTS, 1)

    @property
    def end(self) -> int:
        """The step at which a rank that is to die does: a little after more than half of the way.

        >>> Watch(steps=801, rank=0, world=2, dies=True).end
        550
        """
        return self.every * (CHECKPOINTS // 2 + 1) + self.every // 2

    def keeps(self, step: int) -> bool:
        """Whether a checkpoint is due: now and then, and at the end."""
        return step % self.every == 0 or step == self.steps

    def tells(self, step: int) -> bool:
        """Whether the loss is to be told."""
        return step % max(self.steps // TOLD, 1) == 0 or step == self.steps

    def tell(self, step: int, loss: float) -> None:
        """The progress line, from rank 0."""
        if self.rank == 0:
            print(f"step {step} of {self.steps}, loss {loss:.4f}", flush=True)

    def after(self, step: int) -> None:
        """The end of a step, and of this process where that is its task."""
        if self.dies and step == self.end and self.rank == self.world - 1:
            os.kill(os.getpid(), signal.SIGKILL)
