"""What crosses from the JVM, and which tensors it becomes: plain values, made once on the driver.

A tensor is filled from one or more pieces, each one column of the Arrow batches that cross. The scalar columns of a
2-D tensor cross packed into one array column, because Spark writes one list of forty floats faster than forty
columns and its bytes are then already row-major. `penstock.wire.selection` makes plans; `pack` executes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.dtypes import DTYPES, DType

Fill = bool | int | float | bytes | None
"""What stands for a null: a number, or the bytes of a text; None where nulls are refused."""


@dataclass(frozen=True)
class Piece:
    """One Arrow column that crosses, and the user's columns in it.

    `packed`: the columns are scalars laid side by side in one list. Otherwise it is one column, under `depth`
    levels of lists. `fills` holds the value that replaces nulls, per column; None means nulls are counted and
    refused. `lengths` is the shape of a row of lists, where the schema tells it.
    """

    columns: tuple[str, ...]
    fills: tuple[Fill, ...]
    depth: int = 0
    packed: bool = False
    lengths: tuple[int, ...] | None = None

    @property
    def row_shape(self) -> tuple[int, ...] | None:
        """The shape of this piece's part of a row, its columns side by side; None where list lengths decide."""
        return self.lengths if self.depth else (len(self.columns),)


@dataclass(frozen=True)
class TensorPlan:
    """One tensor and the pieces it is made of, side by side along its last axis.

    `matrix`: a list of columns was asked for, so that even a single scalar column gives a second axis. `kind`: one of
    `penstock.dtypes.KINDS`; all but "fixed" have exactly one piece, and rows of lengths of their own.
    """

    name: str
    dtype: str
    pieces: tuple[Piece, ...]
    matrix: bool
    kind: str = "fixed"

    @property
    def type(self) -> DType:
        """The dtype's row of the type table."""
        return DTYPES[self.dtype]

    @property
    def columns(self) -> tuple[str, ...]:
        """The user's columns it is made of."""
        return tuple(name for piece in self.pieces for name in piece.columns)

    @property
    def fixed_shape(self) -> tuple[int, ...] | None:
        """The shape of a row where the schema alone decides it; None where list lengths do."""
        shapes = [piece.row_shape for piece in self.pieces]
        told = [shape for shape in shapes if shape is not None]
        if self.kind != "fixed" or len(told) < len(shapes):
            return None
        if self.matrix:
            return (sum(shape[0] for shape in told),)
        return told[0] if self.pieces[0].depth else ()

    @property
    def empty_shape(self) -> tuple[int, ...]:
        """The shape of a row when there are no rows to tell list lengths."""
        fixed = self.fixed_shape
        return fixed if fixed is not None else (0,) * (1 if self.matrix else self.pieces[0].depth)


@dataclass(frozen=True)
class Plan:
    """All tensors of one transfer; their pieces cross in this order."""

    tensors: tuple[TensorPlan, ...]

    @property
    def tensor_bytes(self) -> int | None:
        """Bytes of a row in its tensors, or None where list lengths decide."""
        shapes = [tensor.fixed_shape for tensor in self.tensors]
        if any(shape is None for shape in shapes):
            return None
        return sum(tensor.type.bytes * math.prod(tensor.fixed_shape or ()) for tensor in self.tensors)

    @property
    def row_bytes(self) -> int | None:
        """Bytes of a row as it crosses, or None where list lengths decide."""
        total = 0
        for tensor in self.tensors:
            shape = tensor.fixed_shape
            if shape is None:
                return None
            total += 8 * math.prod(shape)
        return total
