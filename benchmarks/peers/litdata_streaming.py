"""LitData: chunks of 64 MB on local disk, written by `optimize`, read by `StreamingDataset` and
`StreamingDataLoader`.

Its shuffle puts chunks in random order and permutes the rows inside each chunk: a batch comes from one or two
chunks. Rows are handed out one by one, in Python, and collated here by NumPy, which is faster than the default.
Two ways of storing a row: a dictionary of arrays, as its documentation has it, and the row's bytes as one value,
which spares decoding three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

from common import Batch, Job, Way, main, records, stacked, unpacked
from litdata import StreamingDataLoader, StreamingDataset, optimize

MOST_ROWS = 131_072
"""It costs tens of microseconds a row, to write and to read, however many there are."""


def rows_as_arrays(job: Job) -> Iterator[Batch]:
    arrays = job.rows()
    for values in zip(*arrays.values(), strict=True):
        yield {name: value.copy() for name, value in zip(arrays, values, strict=True)}


WRITE: dict[str, Callable[[Job], Iterator[Any]]] = {"arrays": rows_as_arrays, "bytes": records}
COLLATE: dict[str, Callable[..., Batch]] = {"arrays": stacked, "bytes": unpacked}


def prepare(job: Job) -> None:
    for stored, write in WRITE.items():
        optimize(write, [job], str(job.folder / stored), num_workers=1, chunk_bytes="64MB")


def loader(job: Job, stored: str, workers: int) -> Iterable[Batch]:
    rows = StreamingDataset(str(job.folder / stored), shuffle=True, drop_last=False)
    return StreamingDataLoader(
        rows,
        batch_size=job.batch,
        num_workers=workers,
        drop_last=True,
        persistent_workers=workers > 0,
        collate_fn=partial(COLLATE[stored], job.kind),
    )


def ways(job: Job) -> list[Way]:
    return [
        Way(
            "chunks, and rows inside a chunk",
            f"stored as {stored}, {workers} workers",
            lambda s=stored, w=workers: loader(job, s, w),
            whole=True,
        )
        for stored, workers in product(COLLATE, (0, 2))
    ]


if __name__ == "__main__":
    main("litdata", prepare, ways, MOST_ROWS)
