"""Mosaic Streaming: MDS shards on local disk, read by `StreamingDataset` and `StreamingDataLoader`.

Its shuffle, py1e, puts shards in random order and spreads the rows of each over a range of about 262,144 rows.
Rows are handed out one by one, in Python, and collated here by NumPy, which is faster than the default. Two ways
of storing a row: each tensor as an array of fixed shape, as its documentation has it, and the row's bytes as one
value, which spares decoding three.

It demands torchvision, for datasets of images that take no part here. Where that does not import, two empty names
stand in for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.machinery import ModuleSpec
from itertools import product
from types import ModuleType

from common import SHAPES, Batch, Job, Way, main, records, stacked, unpacked

try:
    import torchvision  # noqa: F401
except (ImportError, RuntimeError):
    for name in (
        "torchvision",
        "torchvision.datasets",
        "torchvision.transforms",
        "torchvision.transforms.functional",
    ):
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__spec__ = ModuleSpec(name, None)
    sys.modules["torchvision.datasets"].VisionDataset = object  # type: ignore[attr-defined]
    sys.modules["torchvision.transforms.functional"].to_tensor = None  # type: ignore[attr-defined]

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

MOST_ROWS = 65_536
"""It opens the shard's file for every row it reads; more rows take longer and tell no more."""


def prepare(job: Job) -> None:
    columns = {
        name: f"ndarray:{dtype}:{','.join(map(str, shape))}" if shape else dtype
        for name, (dtype, shape) in SHAPES[job.kind].items()
    }
    with MDSWriter(out=str(job.folder / "arrays"), columns=columns) as out:
        arrays = job.rows()
        for values in zip(*arrays.values(), strict=True):
            out.write(dict(zip(arrays, values, strict=True)))
    with MDSWriter(out=str(job.folder / "bytes"), columns={"row": "bytes"}) as out:
        for record in records(job):
            out.write({"row": record})


def from_bytes(kind: str, found: list[Batch]) -> Batch:
    return unpacked(kind, [row["row"] for row in found])


COLLATE: dict[str, Callable[..., Batch]] = {"arrays": stacked, "bytes": from_bytes}


def loader(job: Job, stored: str, workers: int) -> Iterable[Batch]:
    clean_stale_shared_memory()
    rows = StreamingDataset(
        local=str(job.folder / stored), shuffle=True, batch_size=job.batch, num_canonical_nodes=1
    )
    return StreamingDataLoader(
        rows,
        batch_size=job.batch,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        collate_fn=partial(COLLATE[stored], job.kind),
    )


def ways(job: Job) -> list[Way]:
    return [
        Way(
            "shards, and rows within 262,144",
            f"stored as {stored}, {workers} workers",
            lambda s=stored, w=workers: loader(job, s, w),
            whole=True,
        )
        for stored, workers in product(COLLATE, (0, 2))
    ]


if __name__ == "__main__":
    main("mosaicml-streaming", prepare, ways, MOST_ROWS)
