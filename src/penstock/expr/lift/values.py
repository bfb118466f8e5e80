"""What a Python value is while a function is lifted: known already, a sequence of values, or a symbol.

A symbol is a value that differs from row to row. It may even differ in its type, as `0 if x is None else x / 2` does,
so a symbol is a set of cases: a type, the expression that holds the value, and the condition under which it is this
one. None is a type like others. Operations are done case by case (`penstock.expr.lift.machine`), so every expression
has one type, and Python's rules for mixed ones are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from penstock.expr.nodes import Expression
from penstock.expr.types import BOOL, DATE, FLOAT64, INT64, STRING, TIMESTAMP_NTZ, Type

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1

TYPES = {
    "bool": BOOL,
    "int": INT64,
    "float": FLOAT64,
    "numpy": FLOAT64,
    "numpy_bool": BOOL,
    "str": STRING,
    "date": DATE,
    "datetime": TIMESTAMP_NTZ,
}
"""The kinds of symbols, and what holds them. `numpy` is a float64 of NumPy's, whose division does not raise;
`numpy_bool` a truth value of NumPy's, of which two added are one or the other, and not 2."""
PYTHON_NAMES = {
    "none": "NoneType",
    "numpy": "numpy.float64",
    "numpy_bool": "numpy.bool",
    "datetime": "datetime.datetime",
    "date": "datetime.date",
}
NUMBERS = ("bool", "int", "float", "numpy")
NUMPYS = {"float64": "numpy", "bool": "numpy_bool"}
"""Scalars of NumPy's by their names, and their kinds."""


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """A value of one type."""

    kind: str
    """One of `TYPES`, or `none`, `missing`, `list`, `days` (a difference of dates)."""
    expr: Expression | None = None
    low: int = LEAST
    high: int = GREATEST
    """Of an int: bounds that hold in every row that reaches it."""
    type: Type | None = None
    """Of a list."""

    @property
    def held(self) -> Expression:
        """The expression that holds it."""
        assert self.expr is not None, self.kind
        return self.expr

    @property
    def python(self) -> str:
        """What Python calls the type."""
        return PYTHON_NAMES.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A value that differs from row to row: conditions, of which one holds, with a case each."""

    cases: tuple[tuple[Expression, Typed], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A value that is the same for every row: a constant, a function, a module."""

    value: Any


OUTSIDE = frozenset({0})
"""Where a list comes from that the function did not make: to change it would change the user's own."""


@dataclass(frozen=True, slots=True, eq=False)
class Seq:
    """A tuple or a list written in the function, whose elements may be symbols; or what zip() and its kin give."""

    items: tuple[Value, ...]
    kind: type = tuple
    born: frozenset[int] = OUTSIDE
    """Of a list: where it was made, by number. Two that share a number may be one object."""

    @property
    def once(self) -> bool:
        """Whether it can be gone through a single time, as a generator can."""
        return self.kind not in (tuple, list)


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Stands for a variable that a block may or may not have assigned before it raised. To read it is refused."""

    name: str


Value = Symbol | Known | Seq


class Keeper:
    """A function defined inside the function, which holds on to its parameters' defaults."""

    defaults: tuple[Value, ...]


def seqs_in(value: Value) -> Iterator[Seq]:
    """A sequence, and those inside it; those in a dict that is written in the function, and in a lambda's defaults."""
    inner: Iterable[Any] = ()
    if isinstance(value, Seq):
        yield value
        inner = value.items
    elif isinstance(value, Known) and isinstance(value.value, Keeper):
        inner = value.value.defaults
    elif isinstance(value, Known) and type(value.value) is dict:
        inner = value.value.values()
    for item in inner:
        if isinstance(item, Symbol | Known | Seq):
            yield from seqs_in(item)


def kind_of(value: Any) -> str | None:
    """The kind of a constant; None where no column can hold it.

    >>> kind_of(1), kind_of(True), kind_of({})
    ('int', 'bool', None)
    """
    if value is None:
        return "none"
    for kind, of in (
        ("bool", bool),
        ("int", int),
        ("float", float),
        ("str", str),
        ("datetime", datetime),
        ("date", date),
    ):
        if type(value) is of:
            return kind
    if type(value).__module__ != "numpy":
        return None
    return NUMPYS.get(type(value).__name__)
