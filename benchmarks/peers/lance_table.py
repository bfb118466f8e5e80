"""Lance: one dataset of the Lance format, by pylance and by LanceDB.

Four shuffles. Rows taken by number (`take`, the numbers of a batch sorted, which is kinder to it), in a torch
DataLoader, and LanceDB's `Permutation`, a stored order of all rows read batch by batch: in both every row may come
at any place. A permutation of clumps, rows that stay together, is cheaper to read. LanceDB's `StreamingDataset`
does the same and hands out rows one by one, in Python. `LanceDataset` with a randomized `ShardedBatchSampler`
changes only the order of whole batches; a batch's rows are always the same neighbours.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from functools import partial

import lance
import lancedb
import numpy as np
import pyarrow as pa
import torch
from common import SHAPES, Batch, Epochs, Job, Way, arrow_to_numpy, arrow_to_torch, main, stacked
from lance.sampler import ShardedBatchSampler
from lance.torch.data import LanceDataset
from lancedb.permutation import Permutation, permutation_builder
from lancedb.streaming import StreamingDataset
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

TABLE = "rows"
CLUMP = 64


def prepare(job: Job) -> None:
    lancedb.connect(job.folder).create_table(TABLE, job.arrow())


def path(job: Job) -> str:
    return str(job.folder / f"{TABLE}.lance")


def table(job: Job) -> lancedb.table.Table:
    return lancedb.connect(job.folder).open_table(TABLE)


class Taken(Dataset):
    """Opens the dataset where it is used, because Lance does not survive a fork."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._rows: lance.LanceDataset | None = None

    def __len__(self) -> int:
        return lance.dataset(self._uri).count_rows()

    def __getitem__(self, numbers: list[int]) -> Batch:
        if self._rows is None:
            self._rows = lance.dataset(self._uri)
        return arrow_to_torch(self._rows.take(np.sort(numbers)))


def taken(job: Job, workers: int) -> Iterable[Batch]:
    rows = Taken(path(job))
    return DataLoader(
        rows,
        sampler=BatchSampler(RandomSampler(rows), job.batch, drop_last=True),
        batch_size=None,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="spawn" if workers else None,
    )


def permuted(job: Job, clump: int | None) -> Iterable[Batch]:
    rows = table(job)

    def start(epoch: int) -> Iterator[Batch]:
        order = permutation_builder(rows).shuffle(seed=epoch, clump_size=clump).execute()
        found = Permutation.from_tables(rows, order).with_transform(arrow_to_torch)
        return found.iter(job.batch, skip_last_batch=True)

    return Epochs(start)


def as_rows(batch: pa.RecordBatch) -> list[Batch]:
    arrays = arrow_to_numpy(batch)
    return [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]


def streamed(job: Job) -> Iterable[Batch]:
    rows = table(job)

    def start(epoch: int) -> Iterator[Batch]:
        found = StreamingDataset(rows, epoch=epoch, read_batch_size=job.batch, transform=as_rows)
        return iter(DataLoader(found, job.batch, drop_last=True, collate_fn=partial(stacked, job.kind)))

    return Epochs(start)


def whole_batches(job: Job) -> Iterable[Batch]:
    def start(epoch: int) -> Iterator[Batch]:
        order = ShardedBatchSampler(0, 1, randomize=True, seed=epoch)
        return named(job.kind, LanceDataset(path(job), job.batch, sampler=order))

    return Epochs(start)


def named(kind: str, batches: Iterable[Batch | torch.Tensor]) -> Iterator[Batch]:
    """A single column comes without its name."""
    for batch in batches:
        yield batch if isinstance(batch, dict) else dict.fromkeys(SHAPES[kind], batch)


def ways(job: Job) -> list[Way]:
    whole = "every row anywhere"
    return [
        Way(whole, "pylance take, 0 workers", lambda: taken(job, 0)),
        Way(whole, "pylance take, 2 workers", lambda: taken(job, 2)),
        Way(whole, "LanceDB Permutation", lambda: permuted(job, None)),
        Way(whole, "LanceDB StreamingDataset", lambda: streamed(job)),
        Way(
            f"clumps of {CLUMP} rows anywhere",
            f"LanceDB Permutation, clumps of {CLUMP}",
            lambda: permuted(job, CLUMP),
        ),
        Way("the order of batches only", "LanceDataset, ShardedBatchSampler", lambda: whole_batches(job)),
    ]


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    main("pylance", prepare, ways)
