"""What every peer's script shares: the same rows for all, one way of measuring, one line of JSON for each figure.

A peer's script is run twice: `prepare` converts the rows to the peer's own format, untimed; `measure` takes each
of its ways through a warm-up pass, in which the batches are checked, and times what follows. Needs only NumPy, because
it runs inside every peer's environment. Every row carries its own number, so that a check can tell which rows came,
and how far the peer mixed them.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Batch = dict[str, Any]
"""Tensor names to NumPy arrays or torch tensors."""

SHAPES: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {
    "criteo": {"dense": ("float32", (13,)), "cat": ("int32", (26,)), "label": ("float32", ())},
    "vector": {"x": ("float32", (256,))},
}
NUMBERED = {"criteo": "cat", "vector": "x"}
"""The tensor whose first element is the row's number; float32 holds it exactly up to 16 million rows."""
STRETCHES = 100
RUN = 1024
"""Rows that are stored one after the other; neighbours that stay together show in how few runs a batch is from."""


@dataclass
class Job:
    """What a peer has to deliver, and where its files are."""

    kind: str
    source: Path
    folder: Path
    batch: int
    most_rows: int | None = None
    """A peer that costs much for each row gets no more than so many."""

    def rows(self) -> dict[str, np.ndarray]:
        """The rows as memory-mapped arrays."""
        names = SHAPES[self.kind]
        return {name: np.load(self.source / f"{name}.npy", mmap_mode="r")[: self.most_rows] for name in names}

    def arrow(self) -> Any:
        """The rows as a pyarrow table, vectors as lists of fixed size."""
        import pyarrow as pa

        columns = {}
        for name, array in self.rows().items():
            flat = pa.array(np.ascontiguousarray(array).reshape(-1))
            columns[name] = (
                flat if array.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
            )
        return pa.table(columns)


@dataclass
class Way:
    """One way of using a peer.

    `shuffle` says what its shuffle does; `settings` what was tuned. `epochs` opens it: each iteration over what it
    gives is an epoch, shuffled anew.
    """

    shuffle: str
    settings: str
    epochs: Callable[[], Iterable[Batch]]
    whole: bool = False
    """Passes are never broken off: what would be left in flight would slow the next one."""


class Epochs:
    """Batches by a function of the epoch's number."""

    def __init__(self, start: Callable[[int], Iterator[Batch]]) -> None:
        self._start = start
        self._epoch = 0

    def __iter__(self) -> Iterator[Batch]:
        self._epoch += 1
        return self._start(self._epoch)


def write_rows(kind: str, size: float, folder: Path) -> None:
    """Random rows as one .npy file for each tensor."""
    rows = int(size / row_bytes(kind))
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for name, (dtype, shape) in SHAPES[kind].items():
        if dtype == "float32":
            array = generator.random((rows, *shape), dtype=np.float32)
        else:
            array = generator.integers(0, 1 << 20, (rows, *shape), dtype=dtype)
        if name == NUMBERED[kind]:
            array[:, 0] = np.arange(rows)
        np.save(folder / f"{name}.npy", array)


def row_bytes(kind: str) -> int:
    return sum(4 * math.prod(shape) for _, shape in SHAPES[kind].values())


def arrow_to_numpy(table: Any) -> Batch:
    """A pyarrow table of numbers and lists of fixed size, as arrays; copies only what lies in several pieces."""
    found = {}
    for name in table.schema.names:
        column = table.column(name)
        column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        size = getattr(column.type, "list_size", None)
        found[name] = column.flatten().to_numpy().reshape(-1, size) if size else column.to_numpy()
    return found


def arrow_to_torch(table: Any) -> Batch:
    import torch

    # Arrow's memory is for reading only, which torch would warn of.
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    return {name: torch.from_numpy(array) for name, array in arrow_to_numpy(table).items()}


def row_type(kind: str) -> np.dtype:
    """A whole row as one NumPy record: for formats that store each row by itself, one value instead of three."""
    return np.dtype([(name, dtype, shape) for name, (dtype, shape) in SHAPES[kind].items()])


def records(job: Job) -> Iterator[bytes]:
    rows = job.rows()
    for start in range(0, len(next(iter(rows.values()))), job.batch):
        part = {name: array[start : start + job.batch] for name, array in rows.items()}
        packed = np.empty(len(next(iter(part.values()))), row_type(job.kind))
        for name, array in part.items():
            packed[name] = array
        for record in packed:
            yield record.tobytes()


def unpacked(kind: str, found: list[bytes]) -> Batch:
    import torch

    packed = np.frombuffer(bytearray().join(found), row_type(kind))
    return {name: torch.from_numpy(np.ascontiguousarray(packed[name])) for name in SHAPES[kind]}


def stacked(kind: str, found: list[Batch]) -> Batch:
    """Rows as dictionaries of small arrays, stacked; torch's default makes a tensor of each first, and is slower."""
    import torch

    return {
        name: torch.from_numpy(np.array([row[name] for row in found], dtype))
        for name, (dtype, _) in SHAPES[kind].items()
    }


def main(
    library: str,
    prepare: Callable[[Job], None],
    ways: Callable[[Job], list[Way]],
    most_rows: int | None = None,
) -> None:
    """A peer's command line. `library`: the distribution that is measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=["prepare", "measure"])
    parser.add_argument("--kind", choices=list(SHAPES), required=True)
    parser.add_argument("--source", type=Path, required=True, help="the rows, as .npy files")
    parser.add_argument("--folder", type=Path, required=True, help="the peer's own files")
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=12, help="the longest a pass may take")
    parser.add_argument("--turn", type=int, default=0, help="decides the order of the ways")
    given = parser.parse_args()
    job = Job(given.kind, given.source, given.folder, given.batch, most_rows)
    if given.step == "prepare":
        prepare(job)
        return
    named = f"{library} {version(library)}"
    found = ways(job)
    for way in random.Random(given.turn).sample(found, len(found)):
        line = {"library": named, "kind": job.kind, "shuffle": way.shuffle, "settings": way.settings}
        try:
            line |= measure(job, way, given.seconds)
        except Exception as error:
            line["failed"] = f"{type(error).__name__}: {error!s:.200}"
        print(json.dumps(line), flush=True)
        gc.collect()


def measure(job: Job, way: Way, seconds: float) -> dict[str, float | int]:
    """A warm-up pass, which is checked; then whole epochs are timed, or a part of one where that takes too long.

    Epochs begin with the clock running, so that nothing of them is there already. A part is timed from batch to batch
    of a steady run, so that about as much is in flight at its end as at its beginning.
    """
    most = math.inf if way.whole else seconds
    opened = way.epochs()
    with opened if hasattr(opened, "__exit__") else nullcontext(opened) as epochs:  # type: ignore[attr-defined]
        epoch = iter(epochs)
        mixed, runs = check(job, until(epoch, most / 3))
        # While rows were checked, batches were made that nobody waited for: they go first.
        exhaust(until(epoch, most / 6))
        # The same epoch goes on: a slow way that was broken off and began anew would count what it had in flight.
        size, rows, took = exhaust(until(epoch, most))
        if took < most:  # it came to its end
            size, rows, took = once = exhaust(iter(epochs))
            while took + once[2] < seconds:
                size, rows, took = map(sum, zip((size, rows, took), exhaust(iter(epochs)), strict=True))
    share = rows / len(np.load(job.source / f"{NUMBERED[job.kind]}.npy", mmap_mode="r"))
    rate = size / took / 1e9
    return {"gigabytes_per_second": rate, "seconds": took, "share": share, "mixed": mixed, "runs": runs}


def until(batches: Iterator[Batch], seconds: float) -> Iterator[Batch]:
    """An epoch, or as much of it as fits: a slow way is measured on the rows it came to."""
    end = time.perf_counter() + seconds
    for batch in batches:
        yield batch
        if time.perf_counter() > end:
            break


def exhaust(batches: Iterator[Batch]) -> tuple[int, int, float]:
    """Bytes and rows of all batches, and the seconds they took."""
    size, rows, began = 0, 0, time.perf_counter()
    for batch in batches:
        size += sum(each.nbytes for each in batch.values())
        rows += len(next(iter(batch.values())))
    return size, rows, time.perf_counter() - began


def check(job: Job, batches: Iterator[Batch]) -> tuple[float, float]:
    """Names, types, shapes and rows of a pass, and the values of its first batch.

    Returns how many of a hundred equal stretches of the data a batch has rows from, and how many runs of `RUN` rows.
    """
    rows = job.rows()
    total = len(rows[NUMBERED[job.kind]])
    numbers: list[np.ndarray] = []
    short = 0
    for batch in batches:
        for name, (dtype, shape) in SHAPES[job.kind].items():
            got = (str(batch[name].dtype).removeprefix("torch."), tuple(batch[name].shape[1:]))
            assert got == (dtype, shape), f"{name} came as {got}, not {(dtype, shape)}"
        numbers.append(np.asarray(batch[NUMBERED[job.kind]][:, 0]).astype(np.int64))
        short += len(numbers[-1]) != job.batch
        if len(numbers) == 1:
            for name, array in rows.items():
                assert np.array_equal(np.asarray(batch[name]), array[numbers[0]]), f"{name} has other values"
    every = np.concatenate(numbers)
    # Two workers may each end on a short batch; some peers repeat a few rows to come out even.
    assert short <= 2, f"{short} of {len(numbers)} batches had not {job.batch} rows"
    assert len(np.unique(every)) >= 0.99 * len(every), "rows came twice"
    stretches = [len(np.unique(each * STRETCHES // total)) for each in numbers]
    runs = [len(np.unique(each // RUN)) for each in numbers]
    return float(np.mean(stretches)), float(np.mean(runs))


if __name__ == "__main__":
    sys.exit("A part of the peers' scripts; run.py is what is run.")
