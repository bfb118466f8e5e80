"""One partition becomes one shard: what a Spark task runs, and what a local thread runs for `pk.write(table)`.

Batches are packed and checked (`penstock.wire.pack`), collected into blocks and written (`shards`, `parquet`). What
came of it is told as plain data, in a `Report`: a bad value is not an exception here, because Spark would retry the
task and wrap the error. Errors of the storage are exceptions: for those another attempt may help.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from penstock.dataset import index
from penstock.dataset.manifest import Shard
from penstock.dataset.parquet import ParquetShard
from penstock.dataset.shards import ArrowShard, BlockBuilder, Output, ShardOptions, WrittenShard
from penstock.dataset.store import Target
from penstock.dtypes import TensorSpec
from penstock.wire.faults import BadValue, Fault
from penstock.wire.pack import Packer
from penstock.wire.plan import Plan, TensorPlan
from penstock.wire.ragged import Packed, Ragged

RESULT_DDL = "partition int, attempt long, report string, blocks binary"
RESULT_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("attempt", pa.int64()),
        ("report", pa.string()),
        ("blocks", pa.binary()),
    ]
)
LANDED = ".landed"
"""How the names of notes end that tell of a whole shard; those of faults end in .json."""
HELD_BATCHES = 256
"""Batches that may wait for a list that tells its column's length."""


@dataclass(frozen=True)
class Report:
    """What came of one partition."""

    shard: Shard | None = None
    """None where there were no rows, or nothing could be written."""
    shapes: dict[str, list[int]] = field(default_factory=dict)
    """Tensor -> the shape of a row (or element), where a row has told it."""
    nulls: dict[str, int] = field(default_factory=dict)
    fault: Fault | None = None

    @property
    def failed(self) -> bool:
        """Whether the rows cannot become what was asked for."""
        return self.fault is not None or bool(self.nulls)

    def to_json(self) -> str:
        """As a task hands it back."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Report:
        """As the driver takes it."""
        found = json.loads(text)
        shard, fault = found["shard"], found["fault"]
        return Report(
            Shard(**shard) if shard else None,
            found["shapes"],
            found["nulls"],
            Fault(**fault) if fault else None,
        )


@dataclass(frozen=True)
class PartWriter:
    """Writes partitions of one dataset: the plan, where to, and how."""

    plan: Plan
    target: Target
    name: str
    """Of the write; every file carries it."""
    options: ShardOptions

    def file(self, partition: int, attempt: int) -> str:
        """A name of the attempt's own: retries and speculation never meet in one file."""
        return f"shards/{self.name}-{partition:05d}-{attempt}.{self.options.storage}"

    def write(
        self,
        partition: int,
        attempt: int,
        batches: Iterable[pa.RecordBatch],
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> tuple[Report, pa.Table]:
        """Pack, check and write a partition's rows; the report, and the index of its blocks.

        `shapes`: of rows (or elements), where another partition has told them.
        """
        packing = Packing(self.plan, shapes or {})
        return self.write_packed(partition, attempt, packing.packed(batches), packing)

    def write_packed(
        self,
        partition: int,
        attempt: int,
        packed: Iterable[tuple[int, list[Packed]]],
        packing: Packing,
    ) -> tuple[Report, pa.Table]:
        """Write rows that are packed already; `packing` knows whether anything was wrong with them."""
        file = self.file(partition, attempt)
        shard: _OpenShard | None = None
        try:
            for rows, tensors in packed:
                if shard is None:
                    specs = [
                        spec_of(plan, each) for plan, each in zip(self.plan.tensors, tensors, strict=True)
                    ]
                    shard = _OpenShard(self.target.open(file), specs, self.options, self.plan)
                shard.add(rows, tensors)
            if packing.failed or shard is None:
                if shard is not None:
                    shard.abort()
                return Report(None, packing.shapes, dict(packing.nulls), packing.fault), index.table([])
            written = shard.close()
        except BaseException:
            if shard is not None:
                shard.abort()
            raise
        found = Shard(file, written.rows, written.bytes, len(written.blocks), written.checksum)
        return Report(found, packing.shapes), index.table([(0, written.blocks)])


def spec_of(plan: TensorPlan, packed: Packed) -> TensorSpec:
    """The tensor that packed rows make."""
    values = packed.values if isinstance(packed, Ragged) else packed
    return TensorSpec(plan.name, plan.dtype, tuple(values.shape[1:]), plan.kind)


class _OpenShard:
    """A shard being written, with the rows that do not fill a block yet."""

    def __init__(
        self, output: Output, specs: Sequence[TensorSpec], options: ShardOptions, plan: Plan
    ) -> None:
        self._output = output
        self._builder = BlockBuilder(specs, options.block_bytes)
        try:
            self._shard: ArrowShard | ParquetShard = (
                ArrowShard(output, specs, options)
                if options.storage == "arrow"
                else ParquetShard(output, specs, options, plan)
            )
        except BaseException:
            output.abort()
            raise

    def add(self, rows: int, tensors: Sequence[Packed]) -> None:
        for block in self._builder.add(rows, tensors):
            self._shard.block(*block)

    def close(self) -> WrittenShard:
        for block in self._builder.rest():
            self._shard.block(*block)
        return self._shard.close()

    def abort(self) -> None:
        self._output.abort()
        self._shard.abort()


class Packing:
    """Batches to packed rows; stops handing them on at the first fault or null, but goes on counting nulls."""

    def __init__(self, plan: Plan, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        self._packer = Packer(plan)
        self._plan = plan
        for tensor in plan.tensors:
            self._packer.lengths.update(known_lengths(tensor, (shapes or {}).get(tensor.name, ())))
        self.fault: Fault | None = None
        self.shapes: dict[str, list[int]] = {}

    @property
    def nulls(self) -> dict[str, int]:
        """Nulls counted where none are allowed, by column."""
        return self._packer.nulls

    @property
    def failed(self) -> bool:
        """Whether the rows cannot become what was asked for."""
        return self.fault is not None or bool(self.nulls)

    def packed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[Packed]]]:
        """Rows and tensors of every batch that is right."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            try:
                tensors = self._packer.arrays(batch)
                if self._silent(tensors) is not None:
                    # Nothing but null or empty lists so far, whose lengths a later row may tell.
                    held.append(batch)
                    if self.nulls or len(held) <= HELD_BATCHES:
                        continue
                    raise BadValue(self._unknown(tensors))
                ready = [] if self.nulls else [self._packer.arrays(each) for each in held]
            except BadValue as bad:
                self.fault = bad.fault
                return
            if not self.nulls:
                for each, again in zip([*held, batch], [*ready, tensors], strict=True):
                    yield each.num_rows, self._told(again)
                held = []
        if held and not self.nulls:
            self.fault = self._unknown(self._packer.arrays(held[0]))

    def _told(self, tensors: Sequence[Packed | None]) -> list[Packed]:
        known = [each for each in tensors if each is not None]
        if not self.shapes:
            specs = [spec_of(plan, each) for plan, each in zip(self._plan.tensors, known, strict=True)]
            self.shapes = {spec.name: list(spec.shape) for spec in specs}
        return known

    def _silent(self, tensors: Sequence[Packed | None]) -> TensorPlan | None:
        """The first tensor whose shape neither these rows nor those before them tell."""
        for plan, packed in zip(self._plan.tensors, tensors, strict=True):
            levels = range(1, plan.pieces[0].depth + (plan.kind == "fixed"))
            column = plan.pieces[0].columns[0]
            if silent(packed) and not all((column, level) in self._packer.lengths for level in levels):
                return plan
        return None

    def _unknown(self, tensors: Sequence[Packed | None]) -> Fault:
        plan = self._silent(tensors)
        assert plan is not None, "asked only where one is silent"
        remedy = "Fill it first, or keep unequal lengths: pk.ragged(column)."
        if plan.kind == "ragged":
            remedy = (
                "Or only empty ones: nothing tells how long the lists inside them are. Leave the column out."
            )
        return Fault("unknown-length", plan.pieces[0].columns[0], remedy=remedy)


def known_lengths(plan: TensorPlan, shape: Sequence[int]) -> dict[tuple[str, int], int]:
    """What a packer would have learned of a tensor's lists, by column and level, from rows of this shape."""
    if plan.matrix:
        return {}
    column = plan.pieces[0].columns[0]
    return {(column, len(shape) - place): axis for place, axis in enumerate(shape)}


def silent(packed: Packed | None) -> bool:
    """Whether rows leave the shape of their elements open: only null lists, or empty ones of lists."""
    if isinstance(packed, Ragged):
        return packed.values.ndim > 1 and not len(packed.values)
    return packed is None


TaskIds = Callable[[], tuple[int, int]]


def spark_part(
    writer: PartWriter, task: TaskIds, tell: bool = False
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`; each partition yields one row of `RESULT_DDL`.

    With `tell` it also leaves a note when its shard is whole: what it yields reaches the driver when the job has ended.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, attempt = task()
        report, blocks = writer.write(partition, attempt, batches)
        if report.failed:
            leave_fault(writer, partition, attempt, report)
        elif tell:
            leave_landed(writer, Landed(partition, attempt, report, blocks))
        columns: list[Any] = [[partition], [attempt], [report.to_json()], [index.to_bytes(blocks)]]
        arrays = [pa.array(value, kind.type) for value, kind in zip(columns, RESULT_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=RESULT_SCHEMA)

    return write


def leave_fault(writer: PartWriter, partition: int, attempt: int, report: Report) -> None:
    """Put the report where the driver looks while the job runs, so that it need not wait for the other partitions."""
    output = writer.target.open(f"{fault_folder(writer.name)}/{partition:05d}-{attempt}.json")
    output.write([report.to_json().encode()])
    output.close()


def fault_folder(name: str) -> str:
    """Where the reports of failed partitions of a write are left, and notes of whole ones."""
    return f"_penstock/faults-{name}"


@dataclass(frozen=True)
class Landed:
    """What one attempt at a partition has made."""

    partition: int
    attempt: int
    report: Report
    blocks: pa.Table
    """The index of its shard."""

    def to_json(self) -> str:
        """As a task leaves it."""
        blocks = b64encode(index.to_bytes(self.blocks)).decode()
        told = {"partition": self.partition, "attempt": self.attempt, "report": self.report.to_json()}
        return json.dumps({**told, "blocks": blocks})

    @staticmethod
    def from_json(text: bytes) -> Landed | None:
        """As the driver takes it; None where it is still being written."""
        try:
            found = json.loads(text)
        except ValueError:
            return None
        blocks = index.from_bytes(b64decode(found["blocks"]))
        return Landed(found["partition"], found["attempt"], Report.from_json(found["report"]), blocks)


def leave_landed(writer: PartWriter, landed: Landed) -> None:
    """Tell the driver that a shard is whole, where it looks while the job runs."""
    name = f"{landed.partition:05d}-{landed.attempt}{LANDED}"
    output = writer.target.open(f"{fault_folder(writer.name)}/{name}")
    output.write([landed.to_json().encode()])
    output.close()
