"""What every write shares, whoever brings the rows: options, the look at the path before, the verdict after.

`penstock.jobs.write` brings rows from Spark, `local` from Arrow streams and files. Both write shards with `part` and
end in `finish`, which publishes all of them or raises the first thing that was wrong with a row.
"""

from __future__ import annotations

import hashlib
import platform
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock import __version__
from penstock.dataset import commit
from penstock.dataset.commit import Draft
from penstock.dataset.manifest import COMPRESSIONS, STORAGES, Manifest
from penstock.dataset.parquet import stored_columns
from penstock.dataset.part import PartWriter, Report, fault_folder
from penstock.dataset.shards import ShardOptions
from penstock.dataset.store import Store
from penstock.dtypes import TensorSpec
from penstock.errors import (
    DatasetError,
    DatasetExists,
    NullError,
    RaggedError,
    SelectionError,
    StorageError,
    listed,
)
from penstock.wire.plan import TensorPlan
from penstock.wire.selection import RaggedColumn, Tensors

MODES = ("error", "overwrite", "append", "reuse")
BLOCK_BYTES = 16 << 20
LEAST_BLOCK, MOST_BLOCK = 1 << 10, 1 << 30
ONE_TENSOR = "x"
"""The name of a dataset's only tensor where the user gave none."""


@dataclass(frozen=True)
class WriteOptions:
    """How a dataset is to be written; checked when made."""

    storage: str = "arrow"
    workers: int | None = None
    shards: int | None = None
    shuffle: bool = True
    seed: int = 0
    block_bytes: int = BLOCK_BYTES
    compression: str | None = None
    mode: str = "error"
    recipe: Mapping[str, bytes] = field(default_factory=dict)
    """The files of the recipe that makes the tensors, by name, its JSON first."""
    follow: bool = False
    """Whether others read along while it is written (`follow_log`)."""

    def __post_init__(self) -> None:
        _choose("format", self.storage, STORAGES)
        _choose("mode", self.mode, MODES)
        _choose("compression", self.compression, COMPRESSIONS)
        for name, value in (("workers", self.workers), ("shards", self.shards)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise SelectionError(f"{name}={value!r}: a whole number of at least 1 is wanted.")
        if self.workers is not None and self.shards is not None and self.shards % self.workers:
            raise SelectionError(
                f"shards={self.shards} is not a multiple of workers={self.workers}: some workers would have more "
                f"shards than others. Leave one of them out, or say shards={self._multiple(self.shards)}."
            )
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise SelectionError(f"seed={self.seed!r}: a whole number is wanted.")
        if not isinstance(self.block_bytes, int) or not LEAST_BLOCK <= self.block_bytes <= MOST_BLOCK:
            raise SelectionError(
                f"block_bytes={self.block_bytes!r}: blocks have between {LEAST_BLOCK} bytes and {MOST_BLOCK}; 4 to 32 "
                "million are a good size."
            )

        if self.follow and self.mode in ("append", "reuse"):
            raise SelectionError(
                f"mode={self.mode!r} with follow=True: what is followed is a version of its own from its first row on. "
                'Pass mode="error" or mode="overwrite".'
            )
        if self.follow and self.counted:
            raise SelectionError(
                "follow=True makes a shard of every partition as soon as it is there, so workers and shards cannot be "
                "chosen: all ranks have equal steps whatever the shards. Leave them out; df.repartition(n) before the "
                "write makes more and smaller parts."
            )

    def _multiple(self, shards: int) -> int:
        each = self.workers or 1
        return -(-shards // each) * each

    def shard_count(self, unless_said: Callable[[], int]) -> int:
        """How many shards: as said, or at least as many as there would be, in a multiple of the workers."""
        return self.shards if self.shards is not None else self._multiple(unless_said())

    @property
    def counted(self) -> bool:
        """Whether the user cares how many shards there are."""
        return self.shards is not None or self.workers is not None

    @property
    def for_shards(self) -> ShardOptions:
        """The part that shards care about."""
        return ShardOptions(self.storage, self.block_bytes, self.compression)

    def to_dict(self) -> dict[str, Any]:
        """What the manifest keeps, and what must be equal for a dataset to be reused."""
        followed = {"follow": True} if self.follow else {}
        return followed | {
            "format": self.storage,
            "workers": self.workers,
            "shards": self.shards,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "block_bytes": self.block_bytes,
            "compression": self.compression,
            "recipe": self._recipe_digest,
        }

    @property
    def _recipe_digest(self) -> str | None:
        content = b"".join(self.recipe.values())
        return hashlib.sha256(content).hexdigest()[:32] if content else None


def _choose(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        raise SelectionError(f"{name}={value!r}: choose one of {', '.join(map(repr, choices))}.")


def named(tensors: Tensors) -> Tensors:
    """The request with a name for every tensor: a dataset has no nameless ones."""
    if isinstance(tensors, str):
        return {tensors: tensors}
    if isinstance(tensors, RaggedColumn):
        return {tensors.name: tensors}
    if tensors is None or isinstance(tensors, Mapping):
        return tensors
    return {ONE_TENSOR: tensors}


def check_path(store: Store, mode: str) -> int | None:
    """The newest version at the path, or None; an error where the mode does not allow what is there."""
    there = commit.versions(store)
    if there:
        if mode == "error":
            raise DatasetExists(store.root, f"a dataset (version {there[-1]})")
        return there[-1]
    own = (f"{commit.META}/", f"{commit.SHARDS}/")
    foreign = [entry.name for entry in store.entries() if not entry.name.startswith(own)]
    if foreign:
        raise DatasetError(
            f"{store.root} holds files that are no Penstock dataset ({listed(foreign, 3)}). Choose a path of its own "
            "for the dataset; nothing there was touched."
        )
    return None


DIFFERENCES = {
    "tensors": "other tensors are asked for",
    "files": "source files have changed",
    "plan": "the query, or a setting it depends on, is another",
}
"""Parts of an identity, and what to say where they differ."""


def difference(manifest: Manifest, identity: Mapping[str, Any], options: WriteOptions) -> str | None:
    """Why a version cannot be taken for what would be written now; None where it can."""
    there = manifest.source.get("identity")
    if not isinstance(there, dict):
        return f"nothing tells the source of version {manifest.version}, which another mode or another source wrote"
    for key, what in DIFFERENCES.items():
        if there.get(key) != identity[key]:
            return what
    wanted = options.to_dict()
    others = [name for name in wanted if manifest.options.get(name) != wanted[name]]
    return f"version {manifest.version} was written with another {' and '.join(others)}" if others else None


def new_name() -> str:
    """A name for one write that no other has."""
    return uuid.uuid4().hex[:12]


Results = Sequence[tuple[Report, pa.Table]]
"""What came of every partition, in order: the report and the index of its shard."""


@dataclass(frozen=True)
class Source:
    """Where the rows came from, for the manifest."""

    schema: Any
    identity: Mapping[str, Any] | None = None
    engine: Mapping[str, str] = field(default_factory=dict)


def finish(
    store: Store, writer: PartWriter, options: WriteOptions, results: Results, source: Source
) -> Manifest:
    """Publish what was written, or raise what was wrong with it."""
    raise_faults([report for report, _ in results])
    written = [(report, table) for report, table in results if report.shard is not None]
    shards = tuple(report.shard for report, _ in written if report.shard is not None)
    _check_there(store, writer.name, {shard.file: shard.bytes for shard in shards})
    draft = Draft(
        name=writer.name,
        tensors=specs_seen(writer, [report for report, _ in written]),
        shards=shards,
        blocks=[table for _, table in written],
        storage=options.storage,
        compression=options.compression,
        columns={tensor.name: tensor.columns for tensor in writer.plan.tensors},
        stored=columns_stored(writer, options),
        source={"schema": source.schema, "identity": source.identity},
        options=options.to_dict(),
        recipe=options.recipe,
        writer={"penstock": __version__, "python": platform.python_version(), **source.engine},
    )
    return commit.publish(store, draft, "overwrite" if options.mode == "reuse" else options.mode)


def raise_faults(reports: Sequence[Report], stopped_early: bool = False) -> None:
    """Raise for the first partition with a fault, or for all nulls together."""
    for report in reports:
        if report.fault is not None:
            raise report.fault.to_error()
    nulls: Counter[str] = Counter()
    for report in reports:
        nulls.update(report.nulls)
    if nulls:
        raise NullError(nulls, at_least=stopped_early)


def specs_seen(writer: PartWriter, reports: Sequence[Report]) -> tuple[TensorSpec, ...]:
    """The tensors as all partitions have seen them; an error where two have seen different ones."""
    return tuple(_spec(tensor, reports) for tensor in writer.plan.tensors)


def columns_stored(writer: PartWriter, options: WriteOptions) -> Mapping[str, tuple[str, ...]]:
    """The columns of the files that hold each tensor."""
    if options.storage == "parquet":
        return stored_columns(writer.plan)
    return {tensor.name: (tensor.name,) for tensor in writer.plan.tensors}


def _spec(tensor: TensorPlan, reports: Sequence[Report]) -> TensorSpec:
    """The tensor as all partitions have seen it."""
    shapes = list(dict.fromkeys(tuple(report.shapes[tensor.name]) for report in reports))
    for shape in shapes[1:]:
        first, other = shapes[0], shape
        axis = next(
            (place for place, pair in enumerate(zip(first, other, strict=True)) if pair[0] != pair[1]), 0
        )
        raise RaggedError(tensor.columns[0], first[axis], other[axis])
    if shapes:
        return TensorSpec(tensor.name, tensor.dtype, shapes[0], tensor.kind)
    shape = () if tensor.kind in ("string", "binary") else tensor.empty_shape[tensor.kind == "ragged" :]
    return TensorSpec(tensor.name, tensor.dtype, shape, tensor.kind)


def _check_there(store: Store, name: str, expected: Mapping[str, int]) -> None:
    """Every shard as the driver's own storage shows it: executors may have written to disks of their own."""
    if not expected:
        return
    there = {entry.name: entry.bytes for entry in store.entries(commit.SHARDS)}
    for file, size in expected.items():
        if there.get(file) != size:
            seen = "is not there" if file not in there else f"has {there[file]} bytes instead of {size}"
            raise StorageError(
                "commit",
                store.locate(file),
                f"a task wrote it, and seen from here it {seen}",
                "The path must be storage that the driver and all executors share. Nothing was committed.",
            )


def clean_up(store: Store, name: str, manifest: Manifest | None) -> None:
    """Take away what a write left and its manifest (if it came so far) does not name: notes, attempts that lost.

    Without a manifest the storage is asked: Ctrl-C, or an answer lost on its way, may come just after the commit.
    What cannot be taken away now is debris, which vacuum finds; the error on the way here is the one to tell.
    """
    with suppress(DatasetError):
        needed = commit.files_of(store, name) if manifest is None else commit.files_named(manifest)
        left = [entry.name for entry in store.entries(commit.SHARDS) if f"/{name}-" in entry.name]
        marks = (f"-{name}.arrow", f"/{name}-")
        left += [
            entry.name for entry in store.entries(commit.META) if any(mark in entry.name for mark in marks)
        ]
        notes = [entry.name for entry in store.entries(fault_folder(name))]
        store.delete([*notes, *(file for file in left if file not in needed)])
