"""`pk.size`: how many bytes there are, who waits for whom, and where that flips; before anything is written.

What is asked becomes rows (`penstock.tools.size_rows`), an `Epoch` and a `Course` (`size_plan`, where the arithmetic
is), with what storing otherwise costs (`size_forms`) and what the loader takes (`size_memory`). `size_pages` shows it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import SizeError
from penstock.tools import size_units as units
from penstock.tools.size_forms import SOURCE, Form, forms, making_seconds
from penstock.tools.size_measure import Measurement
from penstock.tools.size_measure import measure as measured_on
from penstock.tools.size_memory import LoaderMemory, loader_memory
from penstock.tools.size_plan import AS_GIVEN, WRITING, Course, Epoch, steps
from penstock.tools.size_rows import find_rows
from penstock.tools.size_step import step_seconds
from penstock.tools.size_tensors import Tensors
from penstock.tools.size_units import Amount

if TYPE_CHECKING:
    from penstock.feed.dataset import Dataset
    from penstock.recipe.fitted import FittedRecipe

BATCH_SIZE = 8192
MOST_WORKERS = 1 << 24


@dataclass(frozen=True)
class Sizing:
    """What `pk.size` found; `print` shows it, `to_dict` is for machines, `plot` draws it.

    >>> found = size(rows=1e6, tensors="x:float32:250", workers=2, bandwidth="1 GB/s", compute="1 s")
    >>> found.epoch.read_seconds, found.epoch.bound, found.shard_bytes
    (0.5, 'compute', 500000000)
    >>> print(found.verdict)
    Computing bounds the epoch: a worker reads its 500 MB (1 GB / 2 workers) in 500 ms at 1 GB/s, and computing takes \
1 s; storage would bound below 500 MB/s a worker.
    """

    source: str
    """Where the rows' sizes come from."""
    tensors: tuple[str, ...]
    row_bytes: int
    shards: int
    shard_bytes: int
    """Of the largest shard."""
    epoch: Epoch
    batch_size: int
    step: float | None
    """Seconds of a step, where computing was given so."""
    forms: tuple[Form, ...]
    memory: LoaderMemory
    course: Course | None = None
    """Preparing and training, where the time of preparing is known."""
    prep_is: str | None = None
    """What the preparation's time counts."""
    measured: Measurement | None = None

    @property
    def subject(self) -> str:
        """What it is about, in a line."""
        return (
            f"{units.show_many(self.epoch.rows, 'row')} of {units.show_bytes(self.row_bytes)}, "
            f"{units.show_bytes(self.epoch.stored)}, {units.show_many(self.epoch.workers, 'worker')}"
        )

    @property
    def verdict(self) -> str:
        """Which side bounds, in one sentence with the arithmetic."""
        from penstock.tools.size_pages import verdict

        return verdict(self)

    @property
    def making_seconds(self) -> float | None:
        """How long 2 cores were measured to take to make batches of a worker's share; None: not measured."""
        return making_seconds(self.forms, self.row_bytes, self.epoch.worker_bytes)

    @property
    def wants_cores(self) -> bool:
        """Whether 2 cores would take longer for that than storage and computing, so that a worker needs more."""
        making, epoch = self.making_seconds, self.epoch
        return making is not None and epoch.bound is not None and making > (epoch.seconds or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON: bytes, seconds and bytes a second."""
        epoch, course = self.epoch, self.course
        return {
            "source": self.source,
            "tensors": list(self.tensors),
            "rows": epoch.rows,
            "row_bytes": self.row_bytes,
            "bytes": epoch.stored,
            "workers": epoch.workers,
            "shards": self.shards,
            "shard_bytes": self.shard_bytes,
            "worker_rows": epoch.worker_rows,
            "worker_bytes": epoch.worker_bytes,
            "bandwidth": epoch.bandwidth,
            "read_seconds": epoch.read_seconds,
            "compute_seconds": epoch.compute,
            "step_seconds": self.step,
            "batch_size": self.batch_size,
            "epoch_seconds": epoch.seconds,
            "bound": epoch.bound,
            "making_batches_seconds_on_2_cores": self.making_seconds,
            "wants_more_than_2_cores": self.wants_cores,
            "flip_bandwidth": epoch.flip_bandwidth,
            "flip_workers": epoch.flip_workers,
            "workers_share_computing": epoch.shared_out,
            "forms": [each.to_dict() for each in self.forms],
            "forms_measured_in": SOURCE,
            "loader_memory": vars(self.memory),
            "preparation": None
            if course is None
            else {
                "prep_seconds": course.prep,
                "prep_is": self.prep_is,
                "epochs": course.epochs,
                "training_seconds": course.training,
                "longer": course.longer,
                "sequential_seconds": course.sequential,
                "overlapped_seconds": course.overlapped,
                "fused_seconds": course.fused,
                "fusing_beats_sequential_up_to_epochs": course.fuse_up_to,
                "quickest": course.quickest,
            },
            "measured": None if self.measured is None else self.measured.to_dict(),
            "verdict": self.verdict,
        }

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=1)

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw reading and computing against bandwidth into a file; its path. Needs the extra "report"."""
        from penstock.tools.size_plot import plot

        return plot(self, Path(path))

    def __str__(self) -> str:
        from penstock.tools.size_pages import as_text

        return as_text(self)

    def __rich__(self) -> Any:
        from penstock.tools.size_pages import on_terminal

        return on_terminal(self)


def size(
    rows: Amount | None = None,
    *,
    tensors: Tensors | None = None,
    workers: int = 1,
    bandwidth: Amount | None = None,
    compute: Amount | None = None,
    prep: Amount | None = None,
    dataset: str | os.PathLike[str] | Dataset | None = None,
    recipe: FittedRecipe | None = None,
    measure: str | os.PathLike[str] | None = None,
    step: Amount | Callable[[], object] | None = None,
    batch_size: int = BATCH_SIZE,
    epochs: int = 1,
) -> Sizing:
    """What data takes: bytes, an epoch's reading against its computing, where the answer flips, memory, formats.

    What a row is: `tensors` ({"x": ("float32", 256)}, or "x:float32:256"), or a `dataset` (a path or what `pk.open`
    gives; `rows` then asks about so many rows like its own), or a fitted `recipe`.

    `bandwidth`: what storage gives each worker ("2 GB/s", or bytes a second); or `measure`, a file or folder to read
    for a few seconds. `compute`: the time an epoch computes ("3 min", or seconds), however many workers read; or
    `step`, the time of one step of `batch_size` rows on each worker, who then share an epoch's steps out: given, or a
    function that takes one step and waits for its end (`torch.cuda.synchronize()`), which is called for a few seconds.

    `prep`: the time of preparing and writing all rows once; then also when to overlap or fuse it with the training of
    so many `epochs`. Where `measure` is a folder, the time of writing there stands in for it.

    >>> found = size(
    ...     rows=2e9, tensors={"x": ("float32", 256)}, workers=16, bandwidth="2 GB/s", compute="3 min"
    ... )
    >>> found.epoch.stored, found.shard_bytes, found.epoch.read_seconds, found.epoch.bound
    (2048000000000, 128000000000, 64.0, 'compute')
    """
    _whole("workers", workers, MOST_WORKERS)
    _whole("batch_size", batch_size, 1 << 40)
    _whole("epochs", epochs, 1 << 40)
    if bandwidth is not None and measure is not None:
        raise SizeError(
            "bandwidth is given and measure would find it. Pass one of them (--bandwidth or --measure)."
        )
    if compute is not None and step is not None:
        raise SizeError(
            "compute (an epoch) and step (one step) are both given. Pass one of them (--compute or --step)."
        )
    wanted = None if rows is None else units.count(rows)
    given_rate = None if bandwidth is None else units.rate(bandwidth)
    given_compute = None if compute is None else units.seconds(compute, "compute")
    given_prep = None if prep is None else units.seconds(prep, "prep")
    what = find_rows(wanted, tensors, dataset, recipe, workers)
    given_step = (
        None if step is None else step_seconds(step) if callable(step) else units.seconds(step, "step")
    )
    measured = None if measure is None else measured_on(measure)
    computing = (
        given_step * steps(what.rows, batch_size, workers) if given_step is not None else given_compute
    )
    epoch = Epoch(
        what.rows,
        what.stored,
        workers,
        given_rate if measured is None else measured.bandwidth,
        computing,
        step=given_step,
        step_rows=batch_size,
    )
    share = epoch.worker_rows / epoch.rows
    course, prep_is = _course(epoch, given_prep, epochs, measured)
    return Sizing(
        source=what.source,
        tensors=what.tensors,
        row_bytes=what.row_bytes,
        shards=what.shards,
        shard_bytes=what.shard_bytes,
        epoch=epoch,
        batch_size=batch_size,
        step=given_step,
        forms=forms(what.rows * what.row_bytes, what.row_bytes, share, epoch.bandwidth, what.own),
        memory=loader_memory(what.blocks, what.memory_row_bytes, batch_size, workers),
        course=course,
        prep_is=prep_is,
        measured=measured,
    )


def _course(
    epoch: Epoch, prep: float | None, epochs: int, measured: Measurement | None
) -> tuple[Course | None, str | None]:
    """Preparing and training, and what the time of preparing counts."""
    if prep is not None:
        if epoch.seconds is None:
            raise SizeError(
                "prep is held against training, whose time is not known. Pass bandwidth or compute, too (--bandwidth "
                "'2 GB/s', --compute '3 min')."
            )
        return Course(prep, epoch.seconds, epoch.compute, epochs), AS_GIVEN
    if measured is None or measured.write_bandwidth is None or epoch.seconds is None:
        return None, None
    # Without what computing the rows takes, nothing can be said about fusing, which stores nothing.
    return Course(epoch.worker_bytes / measured.write_bandwidth, epoch.seconds, None, epochs), WRITING


def _whole(name: str, given: Any, most: int) -> None:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= most:
        raise SizeError(f"{name}={given!r}: a whole number from 1 to {most:,} is wanted.")
