"""THE MEANING: expressions on Arrow tables, computed with NumPy and Arrow. No Java, no framework.

What this engine computes is what an expression says; the others have to match it (`tests/expr`). The kernels lie by
family: `numbers`, `casts`, `hashing`, `texts`, `times`, `lists`, `vectors`, on the arrays of `values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.backends.arrow import (
    batches,
    lists,
    lookups,
    numbers,
    python_faults,
    python_lists,
    python_numbers,
    python_texts,
    texts,
    times,
    vectors,
)
from penstock.backends.arrow.casts import cast
from penstock.backends.arrow.hashing import hash_kernel
from penstock.backends.arrow.values import constant, read, write
from penstock.backends.base import Kernel, Program, Unsupported, compile
from penstock.backends.whole_columns import arrow_type as arrow_type
from penstock.dtypes import arrow_fate
from penstock.errors import ExpressionError, UnsupportedType
from penstock.expr.check import Schema
from penstock.expr.nodes import Column, Expression, Literal
from penstock.expr.types import BOOL, DATE, SCALARS, STRING, TIMESTAMP, TIMESTAMP_NTZ, VECTOR, Type, list_of

NAME = "arrow"
TABLE: Mapping[str, Kernel | Unsupported] = {
    **numbers.KERNELS,
    **texts.KERNELS,
    **times.KERNELS,
    **lists.KERNELS,
    **vectors.KERNELS,
    **lookups.KERNELS,
    **batches.KERNELS,
    **python_numbers.KERNELS,
    **python_lists.KERNELS,
    **python_texts.KERNELS,
    **python_faults.KERNELS,
    "cast": cast,
    "hash": hash_kernel,
}

WIDENED = {"uint8": "int16", "uint16": "int32", "uint32": "int64"}
"""Expressions know no unsigned numbers: they are the next wider signed ones."""


def type_of(column: str, arrow_type: Any) -> Type:
    """What a column of an Arrow type is to an expression, or `UnsupportedType` with the remedy.

    >>> type_of("a", pa.list_(pa.float32(), 3))
    list<float32>[3]
    """
    found = arrow_fate(column, arrow_type) if not _is_list(arrow_type) else None
    if found is None:
        size = arrow_type.list_size if pa.types.is_fixed_size_list(arrow_type) else None
        if _is_list(arrow_type.value_type):
            raise UnsupportedType(column, str(arrow_type), "Flatten it into one list first.")
        return list_of(type_of(column, arrow_type.value_type), size)
    if found.depth:
        raise UnsupportedType(column, str(arrow_type), "Give it as a plain list.")
    if found.leaf.startswith("decimal"):
        raise UnsupportedType(
            column, str(arrow_type), "Cast it to double first; expressions compute in float64."
        )
    if found.kind == "string":
        return STRING
    if found.leaf in ("date32", "date64"):
        return DATE
    if found.leaf == "timestamp":
        leaf = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
        return TIMESTAMP if leaf.tz is not None else TIMESTAMP_NTZ
    name = WIDENED.get(found.dtype, found.dtype)
    if found.leaf in ("time32", "time64", "duration") or found.kind != "fixed" or name not in SCALARS:
        raise UnsupportedType(column, str(arrow_type), "Turn it into a number or a text first.")
    return BOOL if name == "bool" else SCALARS[name]


def _is_list(arrow_type: Any) -> bool:
    return bool(
        pa.types.is_list(arrow_type)
        or pa.types.is_large_list(arrow_type)
        or pa.types.is_fixed_size_list(arrow_type)
    )


def schema_of(schema: Any, columns: list[str] | None = None) -> dict[str, Type]:
    """The types of a pyarrow schema's columns, of all or of those named.

    Columns of types that no expression knows are left out where none are named.

    >>> schema_of(pa.schema([("a", pa.int32()), ("t", pa.timestamp("us", "UTC"))]))
    {'a': int32, 't': timestamp}
    """
    found = {}
    for field in schema:
        if columns is None or field.name in columns:
            try:
                found[field.name] = type_of(field.name, field.type)
            except UnsupportedType:
                if columns is not None:
                    raise
    return found


class ArrowProgram:
    """Expressions compiled for Arrow tables of one schema. Made by `prepare`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.types = program.types
        self.columns = program.columns

    def __call__(self, table: Any) -> Any:
        """The expressions' values for a table or a record batch, as a table."""
        missing = [name for name in self.columns if name not in table.schema.names]
        if missing:
            raise ExpressionError(f"the table has no column {missing[0]!r}; it has {table.schema.names}.")
        rows = table.num_rows

        def leaf(node: Column | Literal, of: Type) -> Any:
            if isinstance(node, Literal):
                return constant(node, rows)
            column = table.column(node.name)
            return column if of == VECTOR else read(column, of)

        # NaN and infinities are values here, not accidents.
        with np.errstate(all="ignore"):
            found = self._program.run(leaf)
        arrays = {
            name: found[name] if of == VECTOR else write(found[name], of) for name, of in self.types.items()
        }
        return pa.table(arrays)


def prepare(expressions: Mapping[str, Expression], schema: Schema) -> ArrowProgram:
    """Compile expressions for tables of a schema.

    >>> from penstock.expr.build import col
    >>> table = pa.table({"a": [1, None, 3]})
    >>> program = prepare({"x": col("a") / 0, "y": col("a").fill(0)}, schema_of(table.schema))
    >>> program(table).to_pydict()
    {'x': [inf, None, inf], 'y': [1, 0, 3]}
    """
    return ArrowProgram(compile(NAME, TABLE, expressions, schema))
