"""`Compiled`: a function as machine code over whole Arrow columns, with Python for the rows only Python can say."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.compiled.check import Agreement
from penstock.compiled.child import called
from penstock.compiled.columns import Column, column_of
from penstock.compiled.kernel import run
from penstock.compiled.program import Program
from penstock.errors import OutOfReach
from penstock.wire.rows import Declared, TooLarge, returned

ARROW = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A function that numba compiles, once per process, when it is first called; call it with Arrow columns.

    Rows with None, rows in which a whole number leaves 64 bits, and rows that raise are run by the function itself, so
    that they give what it gives: its value, or its error with its class and message. A result that no column of the
    declared type holds raises `OutOfReach`.
    """

    function: types.FunctionType
    program: Program
    arguments: tuple[tuple[str, Declared], ...]
    returns: Declared
    agreement: Agreement

    def __call__(self, *arrays: Any) -> Any:
        """The results for columns given in the order of the arguments, as an Arrow array."""
        columns = [
            column_of(array, name, declared)
            for array, (name, declared) in zip(arrays, self.arguments, strict=True)
        ]
        skip = np.zeros(len(columns[0].values), np.bool_)
        for column in columns:
            skip |= column.missing | column.lossy
        found, empty, faulty = run(self.program, [column.values for column in columns], skip)
        for row in np.flatnonzero(faulty | skip).tolist():
            value = self._in_python(columns, row)
            empty[row] = value is None
            if value is not None:
                found[row] = value
        return pa.array(found, ARROW[self.program.returns], mask=empty if empty.any() else None)

    def _in_python(self, columns: list[Column], row: int) -> Any:
        """What the function itself gives for a row, or raises."""
        try:
            given = {column.name: column.value(row) for column in columns}
            return returned(called(self.function, given), self.returns)
        except TooLarge as error:
            raise OutOfReach(str(error), row) from None
        except Exception as error:
            error.add_note(f"raised by {self.program.name}() for row {row} of its input")
            raise
