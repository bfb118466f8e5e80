"""Ray Data: Parquet files with Ray's tensor columns, uncompressed, one file for each block.

Three shuffles. A local buffer, which the documentation recommends for training: files (or blocks) in random order,
and every batch drawn from a buffer of so many rows in the consumer. `random_shuffle`: every row may come at any
place, which takes a pass over all rows before the first batch of each epoch. The buffer is also measured over
blocks that `materialize` keeps in Ray's object store, which spares decoding Parquet in each epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import pyarrow.parquet as pq
import ray
import ray.data
from common import Batch, Epochs, Job, Way, main
from ray.data.extensions import ArrowTensorArray

BUFFERS = (32_768, 262_144)
FILES = 32


def prepare(job: Job) -> None:
    import pyarrow as pa

    job.folder.mkdir(parents=True)
    rows = job.rows()
    total = len(next(iter(rows.values())))
    for number in range(FILES):
        part = slice(total * number // FILES, total * (number + 1) // FILES)
        table = pa.table(
            {
                name: pa.array(array[part])
                if array.ndim == 1
                else ArrowTensorArray.from_numpy(array[part].copy())
                for name, array in rows.items()
            }
        )
        pq.write_table(table, job.folder / f"{number:03}.parquet", compression="none")


def from_files(job: Job) -> ray.data.Dataset:
    return ray.data.read_parquet(str(job.folder), shuffle="files")


def buffered(job: Job, buffer: int) -> Iterable[Batch]:
    def start(epoch: int) -> Iterator[Batch]:
        return batches(from_files(job), job, buffer)

    return Epochs(start)


def buffered_from_memory(job: Job, buffer: int) -> Iterable[Batch]:
    held = from_files(job).materialize()

    def start(epoch: int) -> Iterator[Batch]:
        return batches(held.randomize_block_order(seed=epoch), job, buffer)

    return Epochs(start)


def everywhere(job: Job) -> Iterable[Batch]:
    def start(epoch: int) -> Iterator[Batch]:
        return batches(from_files(job).random_shuffle(seed=epoch), job, None)

    return Epochs(start)


def batches(ds: ray.data.Dataset, job: Job, buffer: int | None) -> Iterator[Batch]:
    found = ds.iter_torch_batches(
        batch_size=job.batch,
        local_shuffle_buffer_size=buffer,
        drop_last=True,
        prefetch_batches=2,
        device="cpu",
    )
    return iter(found)


def ways(job: Job) -> list[Way]:
    found = [Way("every row anywhere", "random_shuffle", lambda: everywhere(job), whole=True)]
    for buffer in BUFFERS:
        found += [
            Way(
                "files, and a buffer of rows",
                f"buffer of {buffer:,}",
                lambda b=buffer: buffered(job, b),
                whole=True,
            ),
            Way(
                "blocks held in memory, and a buffer of rows",
                f"materialized, buffer of {buffer:,}",
                lambda b=buffer: buffered_from_memory(job, b),
                whole=True,
            ),
        ]
    return found


if __name__ == "__main__":
    ray.init(include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        main("ray", prepare, ways)
    finally:
        ray.shutdown()
