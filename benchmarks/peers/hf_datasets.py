"""Hugging Face datasets: Arrow files, memory-mapped.

Two shuffles. Map-style, every row of the dataset may come at any place: the random batches of a sampler are taken
out of the Arrow table. Iterable, which the documentation recommends for speed: shards in random order, and a
buffer of rows that is permuted and half emptied whenever it is full.

The "torch" format makes a tensor of every row, integers as int64, and stacks them; "arrow" gives the table, which
is turned into tensors here without a loop over rows. A user who wants speed takes the second. Taking rows by
number is slow in both: datasets cuts every row out of its record batch by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import datasets
import torch
from common import Batch, Epochs, Job, Way, arrow_to_torch, main
from datasets import Dataset, load_from_disk
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

BUFFERS = (32_768, 262_144)
SHARDS = 64


def narrowed(batch: Batch) -> Batch:
    return {name: each.int() if each.dtype == torch.int64 else each for name, each in batch.items()}


READERS = {"arrow": arrow_to_torch, "torch": narrowed}


def prepare(job: Job) -> None:
    Dataset(job.arrow()).save_to_disk(str(job.folder), max_shard_size="64MB")


def sampled(job: Job, form: str, workers: int) -> Iterable[Batch]:
    ds = load_from_disk(str(job.folder)).with_format(form)
    return DataLoader(
        ds,
        sampler=BatchSampler(RandomSampler(ds), job.batch, drop_last=True),
        batch_size=None,
        collate_fn=READERS[form],
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def buffered(job: Job, form: str, buffer: int) -> Iterable[Batch]:
    ds = load_from_disk(str(job.folder)).to_iterable_dataset(num_shards=SHARDS).with_format(form)
    ds = ds.shuffle(seed=0, buffer_size=buffer)

    def start(epoch: int) -> Iterator[Batch]:
        ds.set_epoch(epoch)
        return map(READERS[form], ds.iter(job.batch, drop_last_batch=True))

    return Epochs(start)


def ways(job: Job) -> list[Way]:
    whole = "every row anywhere"
    found = [
        Way(whole, f"sampler, {form} format, {workers} workers", lambda f=form, w=workers: sampled(job, f, w))
        for form, workers in (("arrow", 0), ("arrow", 2), ("torch", 2))
    ]
    found += [
        Way(
            "shards, and a buffer of rows",
            f"IterableDataset, {form} format, buffer of {buffer:,}",
            lambda f=form, b=buffer: buffered(job, f, b),
        )
        for form, buffer in (("arrow", BUFFERS[0]), ("arrow", BUFFERS[1]), ("torch", BUFFERS[0]))
    ]
    return found


if __name__ == "__main__":
    datasets.disable_progress_bars()
    main("datasets", prepare, ways)
