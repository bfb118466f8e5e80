"""The floor: randomly permuted rows gathered out of memory that holds all of them, by NumPy and by torch.

Nothing that delivers shuffled batches in fresh memory, on one thread or on torch's, has less to do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Batch, Epochs, Job, Way, main

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))
from feed_cpu import numpy_floor, torch_floor


def prepare(job: Job) -> None:
    """It reads the rows as they are."""


def gathered(
    job: Job, kept: Callable[[np.ndarray], Any], floor: Callable[[Any, int], Iterator[Batch]]
) -> Iterable[Batch]:
    whole = {name: kept(array) for name, array in job.rows().items()}
    return Epochs(lambda epoch: floor(whole, job.batch))


def in_torch(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array))


def ways(job: Job) -> list[Way]:
    whole = "every row anywhere, all held in memory"
    return [
        Way(whole, "np.take", lambda: gathered(job, np.array, numpy_floor)),
        Way(whole, "torch.index_select", lambda: gathered(job, in_torch, torch_floor)),
    ]


if __name__ == "__main__":
    main("numpy", prepare, ways)
