"""The trees: a column, a constant, or an operation on others. Three small frozen classes, and nothing more.

An expression says what is to be computed and computes nothing. Operators and methods (`penstock.expr.words`) make
larger ones; `penstock.expr.build` has the words that begin one. Operations are names that `penstock.expr.ops`
explains, so a new one needs no new class. `==` builds a comparison: to ask whether two trees are the same, use
`same`.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NoReturn

from penstock.errors import ExpressionError
from penstock.expr.lines import TIGHTEST, call_line
from penstock.expr.ops import KNOWN
from penstock.expr.types import BOOL, DATE, FLOAT64, INT64, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type, int_range
from penstock.expr.words.base import plain
from penstock.expr.words.learned import Learned
from penstock.expr.words.lists import Lists
from penstock.expr.words.numbers import Numbers
from penstock.expr.words.texts import Texts
from penstock.expr.words.times import Times
from penstock.expr.words.vectors import Vectors

DEEPEST = 200
"""Operations in each other. What walks a tree takes some of Python's thousand levels for each."""
MOST_SHOWN = 1000
"""Operations that repr shows. Lifted functions use their pieces again and again, and would fill pages."""

Constant = bool | int | float | str | date | datetime | None


class Expression(Numbers, Texts, Times, Lists, Vectors, Learned):
    """What is to be computed for every row. Write it with `penstock.expr.build.col` and its neighbours."""

    __slots__ = ()
    __hash__ = object.__hash__
    depth: int
    written: int
    """How many nodes it has as a tree, with every shared piece counted as often as it is used."""

    def _call(self, op: str, *others: object, params: Mapping[str, Any] | None = None) -> Expression:
        return call(op, self, *others, params=params)

    @property
    def args(self) -> tuple[Expression, ...]:
        """What it is computed from."""
        return ()

    def same(self, other: Expression) -> bool:
        """Whether two trees say exactly the same.

        >>> Column("a").log1p().same(Column("a").log1p())
        True
        """
        return self.key() == other.key()

    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """What the tree says, as values that can be compared."""

    def __bool__(self) -> NoReturn:
        raise ExpressionError(
            f"{self!r} has no truth value by itself, because it stands for every row. Write & | ~ for and, or, not, "
            "and when(...).otherwise(...) for if; compare in two steps: (a < b) & (b < c)."
        )

    def __iter__(self) -> Iterator[NoReturn]:
        raise ExpressionError(f"{self!r} cannot be iterated. Take a list's element with .element(0).")

    def _turned(self, op: str, other: object) -> Expression:
        return call(op, other, self)

    @property
    def constant(self) -> bool:
        """Whether it is the same for every row."""
        return False

    @abstractmethod
    def line(self, bare: bool = False) -> tuple[str, int]:
        """The code that builds it, and how tightly that binds; `bare` lets a constant stand without lit()."""

    def __repr__(self) -> str:
        return self.line()[0]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Column(Expression):
    """A column, by its name."""

    name: str
    depth = 0
    written = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ExpressionError(f"a column is named by a text, and this is {self.name!r}.")

    def key(self) -> tuple[Any, ...]:
        """What it says."""
        return ("column", self.name)

    def line(self, bare: bool = False) -> tuple[str, int]:
        """The code that builds it."""
        return f"col({self.name!r})", TIGHTEST


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Literal(Expression):
    """A constant of a type."""

    value: Constant
    type: Type
    depth = 0
    written = 1

    def key(self) -> tuple[Any, ...]:
        """What it says."""
        # repr tells 0.0 from -0.0, and makes one of all NaNs.
        return ("literal", repr(self.value), str(self.type))

    @property
    def constant(self) -> bool:
        """Whether it is the same for every row."""
        return True

    def line(self, bare: bool = False) -> tuple[str, int]:
        """The code that builds it."""
        if self.value is None:
            return f"lit(None, {str(self.type)!r})", TIGHTEST
        shown = repr(self.value)
        if isinstance(self.value, float) and not math.isfinite(self.value):
            shown = f"float({shown!r})"
        if not bare or isinstance(self.value, date):
            return f"lit({shown})", TIGHTEST
        return shown, 0 if shown.startswith("-") else TIGHTEST


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Call(Expression):
    """An operation of the table on other expressions. Made by `call`, which checks it."""

    op: str
    of: tuple[Expression, ...]
    params: tuple[tuple[str, Any], ...] = ()
    depth: int = field(init=False)
    written: int = field(init=False)
    _key: tuple[Any, ...] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", 1 + max((arg.depth for arg in self.of), default=0))
        object.__setattr__(self, "written", 1 + sum(arg.written for arg in self.of))
        if self.depth > DEEPEST:
            raise ExpressionError(
                f"an expression of {self.depth} operations in each other is too deep; {DEEPEST} is the most. "
                "For a long sum write stack(...).list_sum()."
            )

    @property
    def args(self) -> tuple[Expression, ...]:
        """What it is computed from."""
        return self.of

    def key(self) -> tuple[Any, ...]:
        """What it says: the operation, and a digest of the rest, made once for a piece that is shared."""
        if self._key is None:
            said = repr((*(arg.key() for arg in self.of), self.told))
            object.__setattr__(self, "_key", (self.op, hashlib.sha256(said.encode()).hexdigest()))
        assert self._key is not None
        return self._key

    @property
    def told(self) -> tuple[Any, ...]:
        """The parameters, as values that can be compared."""
        return tuple((name, type(value).__name__, _told(value)) for name, value in self.params)

    def line(self, bare: bool = False) -> tuple[str, int]:
        """The code that builds it, or where that would fill pages how much there is."""
        if self.written > MOST_SHOWN:
            return f"<{self.op}: {self.written} operations>", TIGHTEST
        return call_line(self.op, self.of, dict(self.params))


def _told(value: Any) -> Any:
    """What tells a parameter's value apart. Of a function that is its key: other functions may have the same repr."""
    return getattr(value, "key", None) or repr(value)


def literal(value: object, type: Type | None = None) -> Literal:
    """A constant as an expression: of the type that its Python type means, or null of a type that is named.

    >>> literal(2.5), literal(2**40).type
    (lit(2.5), int64)
    """
    value = plain(value)
    if value is None:
        if type is None:
            raise ExpressionError(
                'a null needs a type: lit(None, "float64"). To replace nulls, use .fill(value).'
            )
        return Literal(None, type)
    found = _type_of(value)
    if found is None:
        raise ExpressionError(
            f"{value!r} is not a constant expressions know. They know bool, int, float, str, date and datetime."
        )
    if type is not None and found != type:
        raise ExpressionError(
            f"{value!r} is of type {found}, and {type} was asked for. Cast it: .cast({str(type)!r})."
        )
    assert isinstance(value, bool | int | float | str | date)
    return Literal(value, found)


def _type_of(value: object) -> Type | None:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        low, high = int_range(INT64)
        if not low <= value <= high:
            raise ExpressionError(f"{value} does not fit 64 bits. Write it as a float: {float(value)!r}.")
        return INT64
    if isinstance(value, float):
        return FLOAT64
    if isinstance(value, str):
        return STRING
    if isinstance(value, datetime):
        return TIMESTAMP if value.tzinfo is not None else TIMESTAMP_NTZ
    if isinstance(value, date):
        return DATE
    return None


def lift(value: object) -> Expression:
    """An expression as it is, and a plain value as a constant."""
    return value if isinstance(value, Expression) else literal(value)


def call(op: str, *args: object, params: Mapping[str, Any] | None = None) -> Call:
    """An operation on expressions or constants, checked as far as that is possible without columns."""
    given = {name: plain(value) for name, value in (params or {}).items()}
    found = KNOWN[op]
    found.check_count(len(args))
    found.check_params(given)
    return Call(op, tuple(lift(arg) for arg in args), tuple(sorted(given.items())))
