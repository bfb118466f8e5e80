"""Petastorm: Parquet files, uncompressed, with row groups of about 8 MB, read by `make_batch_reader`.

Two shuffles. Row groups in random order, and batches drawn from a queue of so many rows (`BatchedDataLoader`),
which is what the documentation recommends for Parquet. `InMemBatchedDataLoader` reads everything into memory
first, untimed here, and then permutes all rows in each epoch: a gather, for data that fits.

The last release stands on parts of pyarrow that are gone: it needs pyarrow below 15, and is measured with 12.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice, product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import Batch, Epochs, Job, Way, main, row_bytes
from petastorm import make_batch_reader
from petastorm.pytorch import BatchedDataLoader, InMemBatchedDataLoader
from petastorm.reader import Reader

QUEUES = (32_768, 262_144)
FILES = 8
ROW_GROUP_BYTES = 8_000_000


def prepare(job: Job) -> None:
    job.folder.mkdir(parents=True)
    rows = job.rows()
    total = len(next(iter(rows.values())))
    for number in range(FILES):
        part = slice(total * number // FILES, total * (number + 1) // FILES)
        pq.write_table(
            pa.table({name: listed(array[part]) for name, array in rows.items()}),
            job.folder / f"{number:03}.parquet",
            row_group_size=ROW_GROUP_BYTES // row_bytes(job.kind),
            compression="none",
        )


def listed(array: np.ndarray) -> pa.Array:
    """Vectors as lists of any length, the only ones it knows."""
    if array.ndim == 1:
        return pa.array(array)
    offsets = np.arange(len(array) + 1, dtype=np.int32) * array.shape[1]
    return pa.ListArray.from_arrays(offsets, pa.array(array.reshape(-1)))


def reader(job: Job, pool: str) -> Reader:
    return make_batch_reader(
        job.folder.as_uri(), reader_pool_type=pool, workers_count=2, shuffle_row_groups=True
    )


def queued(job: Job, pool: str, queue: int) -> Iterable[Batch]:
    return BatchedDataLoader(reader(job, pool), job.batch, shuffling_queue_capacity=queue)


def in_memory(job: Job) -> Iterable[Batch]:
    rows = len(next(iter(job.rows().values())))
    loader = InMemBatchedDataLoader(
        reader(job, "thread"), job.batch, num_epochs=1000, rows_capacity=rows, shuffle=True
    )
    endless = iter(loader)
    return Epochs(lambda epoch: islice(endless, rows // job.batch))


def ways(job: Job) -> list[Way]:
    found = [
        Way(
            "row groups, and a queue of rows",
            f"pool of 2 ({pool}), queue of {queue:,}",
            lambda p=pool, q=queue: queued(job, p, q),
            whole=True,
        )
        for pool, queue in product(("thread", "process"), QUEUES)
    ]
    found.append(
        Way("every row anywhere, all held in memory", "InMemBatchedDataLoader", lambda: in_memory(job))
    )
    return found


if __name__ == "__main__":
    logging.getLogger("petastorm").setLevel(logging.ERROR)
    main("petastorm", prepare, ways)
