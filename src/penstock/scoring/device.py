"""Where a task computes: the GPU that Spark gave it, any GPU there is, or so many cores.

`place` chooses a device for torch, `use_cores` keeps torch in several workers on one machine out of each other's way.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import PredictError

AUTO = "auto"


@dataclass(frozen=True)
class Task:
    """What Spark says about the running task."""

    partition: int
    cpus: int = 1
    gpus: Sequence[str] = ()
    """Addresses of the GPUs that are this task's alone."""


def this_task() -> Task:
    """The running task; called on executors."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "runs only inside a Spark task"
    gpus = context.resources().get("gpu")
    return Task(context.partitionId(), max(context.cpus(), 1), tuple(gpus.addresses) if gpus else ())


def place(torch: Any, asked: str, gpus: Sequence[str], worker: int | None = None) -> str:
    """The device: what was asked for; else the task's GPU, a GPU, or the CPU.

    Without resources of Spark's, workers spread over the GPUs by their process number.
    """
    if asked != AUTO:
        return asked
    if not torch.cuda.is_available():
        return "cpu"
    count = torch.cuda.device_count()
    if gpus:
        return f"cuda:{_number(torch, gpus[0], count)}"
    return f"cuda:{(os.getpid() if worker is None else worker) % count}"


def _number(torch: Any, address: str, count: int) -> int:
    """An address is a number, or the name that the driver gives the GPU."""
    if address.isdigit():
        return int(address)
    for number in range(count):
        name = str(torch.cuda.get_device_properties(number).uuid)
        if name in address:
            return number
    raise PredictError(
        f"Spark gave this task the GPU {address!r}, and none of the {count} that torch sees here has that name. See "
        "what spark.worker.resource.gpu.discoveryScript (or the executor's) prints and what CUDA_VISIBLE_DEVICES is "
        'there; or pass device="cuda:0".'
    )


def use_cores(torch: Any, cpus: int) -> None:
    """Have torch use as many threads as Spark counts cores for a task: its other tasks run beside this one.

    NumPy's linear algebra takes the same number from OMP_NUM_THREADS, which Spark sets for its Python workers. How many
    TensorFlow and JAX use is for `load_model` to say (`tf.config.threading`).
    """
    if torch.get_num_threads() != cpus:
        torch.set_num_threads(cpus)
