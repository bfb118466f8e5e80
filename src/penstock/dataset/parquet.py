"""One shard as a Parquet file, for exchange with other tools: plain scalar columns where a tensor was made of scalar
columns, lists elsewhere, text as text. A row group is a block.

`stored_columns` says which columns of the file a tensor lies in; the manifest repeats it. Decoding costs what Parquet
costs (docs/results.md), which is why `shards` is the default.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.dataset import checksum
from penstock.dataset.index import Block
from penstock.dataset.shards import Output, ShardOptions, WrittenShard, storage_of
from penstock.dtypes import Array, TensorSpec
from penstock.wire.plan import Plan, TensorPlan
from penstock.wire.ragged import Packed, Ragged, joined


def stored_columns(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Tensor -> the file's columns that hold it.

    A matrix of scalar columns lies in columns of their own names, or `tensor.column` where two tensors want one name.
    """
    wanted = {tensor.name: _own_columns(tensor) for tensor in plan.tensors}
    names = [name for columns in wanted.values() for name in columns]
    return {
        tensor: columns
        if columns == (tensor,) or all(names.count(name) == 1 for name in columns)
        else tuple(f"{tensor}.{name}" for name in columns)
        for tensor, columns in wanted.items()
    }


def _own_columns(tensor: TensorPlan) -> tuple[str, ...]:
    names = tensor.columns
    scalars = tensor.matrix and not any(piece.depth for piece in tensor.pieces)
    return names if scalars and len(set(names)) == len(names) else (tensor.name,)


class ParquetShard:
    """A shard being written as a Parquet file."""

    def __init__(
        self, output: Output, specs: Sequence[TensorSpec], options: ShardOptions, plan: Plan
    ) -> None:
        self._specs, self._stored = specs, stored_columns(plan)
        self._sink = _Sink(output, options.checksum or checksum.best_kind())
        self._schema = pa.schema(
            [pa.field(name, kind, nullable=False) for spec in specs for name, kind in self._fields(spec)]
        )
        self._file = pa.PythonFile(self._sink, mode="w")
        # Floats rarely repeat: dictionaries cost time and then fall back; statistics of random rows help no reader.
        text = [spec.name for spec in specs if spec.kind in ("string", "binary")]
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression=options.compression or "none",
            use_dictionary=text or False,
            write_statistics=False,
        )
        self._blocks: list[Block] = []

    def _fields(self, spec: TensorSpec) -> list[tuple[str, pa.DataType]]:
        columns = self._stored[spec.name]
        if columns != (spec.name,):
            return [(name, _value_type(spec)) for name in columns]
        kind = _value_type(spec)
        if spec.kind in ("string", "binary"):
            return [(spec.name, kind)]
        for _ in range(len(spec.shape) + spec.ragged):
            kind = pa.large_list(pa.field("element", kind, nullable=False))
        return [(spec.name, kind)]

    def block(self, rows: int, tensors: Sequence[Sequence[Packed]]) -> None:
        """Write one row group, each tensor given in pieces."""
        start = self._sink.position
        self._sink.begin_block()
        arrays = [
            array
            for spec, pieces in zip(self._specs, tensors, strict=True)
            for array in self._arrays(spec, rows, pieces)
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=rows)
        length = self._sink.position - start
        self._blocks.append(Block(rows, start, length, self._sink.end_block()))

    def _arrays(self, spec: TensorSpec, rows: int, pieces: Sequence[Packed]) -> list[pa.Array]:
        if spec.ragged:
            return [_ragged(spec, [piece for piece in pieces if isinstance(piece, Ragged)])]
        whole = np.concatenate([piece for piece in pieces if not isinstance(piece, Ragged)])
        columns = self._stored[spec.name]
        if columns != (spec.name,):
            return [_values(spec, np.ascontiguousarray(whole[:, place])) for place in range(len(columns))]
        found = _values(spec, whole.reshape(-1))
        for number, axis in reversed(list(enumerate(spec.shape))):
            count = rows * int(np.prod(spec.shape[:number], dtype=np.int64))
            found = pa.LargeListArray.from_arrays(np.arange(count + 1, dtype=np.int64) * axis, found)
        return [found.cast(self._schema.field(spec.name).type)]

    def abort(self) -> None:
        """Let pyarrow's writer go: it would write a footer when it is collected, wherever that leads by then."""
        self._sink.given_up = True
        self._writer.close()

    def close(self) -> WrittenShard:
        """End the file and say what it holds."""
        self._writer.close()
        self._file.close()
        self._sink.output.close()
        written = checksum.text(self._sink.kind, self._sink.whole.value())
        rows = sum(block.rows for block in self._blocks)
        return WrittenShard(rows, self._sink.position, written, tuple(self._blocks))


def _value_type(spec: TensorSpec) -> pa.DataType:
    if spec.kind in ("string", "binary"):
        # Large in memory, so that no row is too long; a Parquet file knows no difference.
        return pa.large_string() if spec.kind == "string" else pa.large_binary()
    return pa.bool_() if spec.dtype == "bool" else pa.from_numpy_dtype(storage_of(spec))


def _values(spec: TensorSpec, flat: Array) -> pa.Array:
    return pa.array(flat, _value_type(spec))


def _ragged(spec: TensorSpec, pieces: Sequence[Ragged]) -> pa.Array:
    whole = joined(pieces)
    assert isinstance(whole, Ragged)
    offsets, values = whole.offsets, whole.values
    if spec.kind in ("string", "binary"):
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
        return pa.Array.from_buffers(_value_type(spec), len(offsets) - 1, buffers)
    found = _values(spec, values.reshape(-1))
    for number, axis in reversed(list(enumerate(spec.shape))):
        count = len(values) * int(np.prod(spec.shape[:number], dtype=np.int64))
        found = pa.LargeListArray.from_arrays(np.arange(count + 1, dtype=np.int64) * axis, found)
    return pa.LargeListArray.from_arrays(offsets, found)


class _Sink(io.RawIOBase):
    """What pyarrow writes into: counts, sums up and passes on."""

    def __init__(self, output: Output, kind: str) -> None:
        self.output, self.kind = output, kind
        self.whole = checksum.new(kind)
        self._block: checksum.Checksum | None = None
        self.position = 0
        self.given_up = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self.given_up:
            return size
        self.whole.update(data)
        if self._block is not None:
            self._block.update(data)
        self.output.write([data])
        self.position += size
        return size

    def begin_block(self) -> None:
        self._block = checksum.new(self.kind)

    def end_block(self) -> int:
        found, self._block = self._block, None
        assert found is not None
        return found.value()
