"""A plain Python function over whole Arrow columns, row by row, with declared types; what executors run for it.

The columns come as the declared types already (Spark casts them, `penstock.backends.spark.arguments`), or, from SQL, as
they are (`AsCalled`). Nothing is None that is not declared so, and what the function returns becomes the declared type
without loss, or an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

PYTHON: dict[str, type] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "date": date,
    "datetime": datetime,
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared type: its kind, for a list that of its elements, how it is written, and whether it may be None."""

    kind: str
    item: str | None
    shown: str
    optional: bool


class TooLarge(OverflowError):
    """A whole number that no column holds."""


def returned(value: Any, declared: Declared) -> Any:
    """What a function returned, as the declared type: without loss, or not at all.

    >>> (
    ...     returned(2, Declared("float", None, "float", False)),
    ...     returned(2.0, Declared("int", None, "int", False)),
    ... )
    (2.0, 2)
    >>> returned(2.5, Declared("int", None, "int", False))
    Traceback (most recent call last):
    ValueError: the function returned 2.5, which does not become int without loss
    """
    if value is None:
        return None
    kind = declared.kind
    if kind == "list" and isinstance(value, list) and declared.item is not None:
        item = Declared(declared.item, None, declared.item, optional=True)
        return [returned(one, item) for one in value]
    wanted = PYTHON.get(kind)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of NumPy's
        value = value.item()
    if kind in ("int", "float") and isinstance(value, bool | int | float):
        return _number(value, declared)
    if wanted is None or type(value) is not wanted:
        raise TypeError(
            f"the function returned {type(value).__name__}, and is declared to return {declared.shown}"
        )
    if isinstance(value, datetime) and value.tzinfo is not None:
        # Arrow would shift it to UTC without a word.
        raise TypeError(
            f"the function returned {value}, a time with a zone, and is declared to return {declared.shown}, which "
            f"has none. Return it with .replace(tzinfo=None), or declare udf(returnType='timestamp')"
        )
    return value


def _number(value: bool | int | float, declared: Declared) -> int | float:
    whole = declared.kind == "int"
    found: int | float | None = None
    if not whole or math.isfinite(value):
        found = int(value) if whole else float(value)
    if found is None or (found != value and not math.isnan(value)):
        raise ValueError(
            f"the function returned {value!r}, which does not become {declared.shown} without loss"
        )
    if whole and not -(1 << 63) <= found < 1 << 63:
        raise TooLarge(f"the function returned {found}, and a column holds whole numbers of 64 bits")
    return found


@dataclass(frozen=True, slots=True)
class Rows:
    """A function with its declared types. Called with columns, it calls the function with each row of them."""

    function: Callable[..., Any]
    arguments: tuple[tuple[str, Declared], ...]
    returns: Declared
    type: pa.DataType
    positional: tuple[str, ...]
    """The names of what the function takes by position, in order; the other arguments are passed by name."""

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """The function's results. Without arguments, a column says how many rows there are."""
        lists = [
            values(column, name, declared)
            for column, (name, declared) in zip(columns, self.arguments, strict=False)
        ]
        found = self._called(lists, len(columns[0]))
        # Most functions return what they declare: then there is nothing to convert.
        exact = PYTHON.get(self.returns.kind)
        if {*map(type, found)} - {exact, type(None)} or self.returns.kind in ("int", "datetime"):
            found = [returned(value, self.returns) for value in found]
        return pa.array(found, self.type)

    def _called(self, lists: list[Sequence[Any]], count: int) -> list[Any]:
        names = [name for name, _ in self.arguments]
        if not names:
            return [self.function() for _ in range(count)]
        if (*names,) == self.positional[: len(names)]:
            return [*map(self.function, *lists)]
        # A default was left out on the way, or an argument has to be named.
        first = 0
        while first < len(self.positional) and names[first : first + 1] == [self.positional[first]]:
            first += 1
        named = names[first:]
        return [
            self.function(*row[:first], **dict(zip(named, row[first:], strict=True)))
            for row in zip(*lists, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class AsCalled:
    """A function for SQL, which passes any of its arguments, by position or name, as columns of any type."""

    rows: Rows
    types: tuple[pa.DataType, ...]
    whole: Callable[..., pa.Array] | None = None
    """The compiled function, for calls with all arguments."""

    def __call__(self, *columns: pa.Array, **named: pa.Array) -> pa.Array:
        """The function's results."""
        known = [name for name, _ in self.rows.arguments]
        given = dict(zip(known, columns, strict=False)) | named
        if len(columns) > len(known) or given.keys() - {*known}:
            raise TypeError(
                f"it takes the columns {', '.join(known)}, and got {[*named] or ''} of {len(columns)}"
            )
        taken = [
            (each, argument(given[each[0]], *each, of))
            for each, of in zip(self.rows.arguments, self.types, strict=True)
            if each[0] in given
        ]
        if self.whole is not None and len(taken) == len(known):
            return self.whole(*(column for _, column in taken))
        return replace(self.rows, arguments=tuple(each for each, _ in taken))(
            *(column for _, column in taken)
        )


def argument(column: pa.Array, name: str, declared: Declared, of: pa.DataType) -> pa.Array:
    """A column of any type as the declared one: without loss, or not at all.

    >>> argument(
    ...     pa.array([1, 2], "int8"), "x", Declared("float", None, "float", False), pa.float64()
    ... ).to_pylist()
    [1.0, 2.0]
    """
    has = column.type
    if has == of or pa.types.is_null(has):
        return column.cast(of)
    lists = pa.types.is_list(has) and pa.types.is_list(of)
    old, new = (has.value_type, of.value_type) if lists else (has, of)
    whole = pa.types.is_boolean(old) or pa.types.is_integer(old)
    if pa.types.is_timestamp(old) and pa.types.is_timestamp(new) and not lists:
        return pc.local_timestamp(column) if old.tz else column.cast(of)
    if pa.types.is_large_string(old) and pa.types.is_string(new):
        return column.cast(of)
    if (pa.types.is_integer(new) and (whole or (pa.types.is_floating(old) and not lists))) or (
        pa.types.is_floating(new) and (whole or pa.types.is_floating(old))
    ):
        lost = _lost(column, of)
        if lost is None:
            return column.cast(of, safe=False)
        raise TypeError(
            f"argument {name!r} is declared {declared.shown}, and this does not become one without loss: {lost}"
        )
    raise TypeError(f"argument {name!r} is declared {declared.shown}, and gets a column of type {has}")


def _lost(column: pa.Array, of: pa.DataType) -> int | float | None:
    """The first number that a type does not hold; None for none."""
    try:
        column.cast(of)
    except pa.ArrowInvalid:  # of whole numbers beyond 2**53 Arrow says so even where a float holds them
        lists = pa.types.is_list(column.type)
        real = pa.types.is_floating(of.value_type if lists else of)
        for value in (column.flatten() if lists else column).to_pylist():
            if value is not None and (
                int(float(value)) != value if real else value % 1 or abs(value) >= 2**63
            ):
                return value  # type: ignore[no-any-return]
    return None


def narrowed(found: pa.Array, of: pa.DataType) -> pa.Array:
    """The results as a narrower type: an error where a whole number does not fit; floats are rounded, as asked for.

    >>> narrowed(pa.array([300]), pa.int8())
    Traceback (most recent call last):
    OverflowError: the function returned a whole number that int8 does not hold
    """
    try:
        return found.cast(of)
    except pa.ArrowInvalid:
        raise OverflowError(f"the function returned a whole number that {of} does not hold") from None


def values(column: pa.Array, name: str, declared: Declared) -> Sequence[Any]:
    """A column's values as Python has them."""
    if not column.null_count:
        if declared.kind in ("float", "int", "bool"):
            found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
            return found
    elif not declared.optional:
        raise TypeError(f"argument '{name}' is None, and is declared {declared.shown}")
    return column.to_pylist()  # type: ignore[no-any-return]
