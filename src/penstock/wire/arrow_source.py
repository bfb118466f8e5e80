"""The tensors a user asks for, against an Arrow schema: Parquet files, pyarrow, polars, DuckDB, without Spark.

The same words as for a DataFrame, with the same meaning (`penstock.wire.selection`). Nothing is cast here: `prepare`
only lays the pieces of the plan side by side, and `penstock.wire.pack` does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.dtypes import arrow_fate
from penstock.wire.layouts import decoded
from penstock.wire.nulls import Nulls
from penstock.wire.plan import Plan
from penstock.wire.selection import Tensors, locate, make_plan, read_request


@dataclass(frozen=True)
class ArrowSelection:
    """A checked request: the plan, and where each of its pieces lies."""

    plan: Plan
    paths: tuple[tuple[str, ...], ...]
    """Per piece its column, or the way to a struct's field."""
    single: bool
    """One tensor was asked for, not a dictionary of them."""

    @property
    def columns(self) -> list[str]:
        """The columns that `prepare` needs, each once: what to read from a file."""
        return list(dict.fromkeys(path[0] for path in self.paths))

    def prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The plan's pieces, in its order, out of a batch that has at least `columns`."""
        pieces = [_at(batch, path) for path in self.paths]
        return pa.RecordBatch.from_arrays(pieces, names=[f"p{place}" for place in range(len(pieces))])


def select_arrow(schema: pa.Schema, tensors: Tensors, dtype: Any, nulls: Nulls) -> ArrowSelection:
    """Check a request against an Arrow schema and plan how it is packed.

    >>> batch = pa.record_batch({"a": [1, 2], "s": [{"b": 0.5}, {"b": 1.5}]})
    >>> selection = select_arrow(batch.schema, {"x": ["a", "s.b"]}, "float32", "error")
    >>> selection.columns, selection.prepare(batch).schema.types
    (['a', 's'], [DataType(int64), DataType(double)])
    """
    request = read_request(tensors, schema.names)
    found = locate(request.columns, [(field.name, field.type) for field in schema], _fields, "table")
    fates = {name: arrow_fate(name, each.type) for name, each in found.items()}
    # One piece a column: laying columns side by side is the packer's work here, where no JVM does it beforehand.
    plan = make_plan(request, fates, dtype, nulls, lambda fate, target: None)
    pieces = [piece for tensor in plan.tensors for piece in tensor.pieces]
    return ArrowSelection(plan, tuple(found[piece.columns[0]].path for piece in pieces), request.single)


def _fields(arrow_type: Any) -> dict[str, Any]:
    return {field.name: field.type for field in arrow_type} if pa.types.is_struct(arrow_type) else {}


def _at(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    column = batch.column(path[0])
    for name in path[1:]:
        # Unlike StructArray.field, this leaves the field null where the struct itself is.
        column = pc.struct_field(decoded(column), [name])
    return column
