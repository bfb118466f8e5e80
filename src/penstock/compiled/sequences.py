"""Constant sequences of numbers in a compiled program: their elements by number, and loops through them."""

from __future__ import annotations

import operator
from typing import Any

from penstock.compiled.operators import folded
from penstock.compiled.plain import is_readable
from penstock.compiled.scope import Scope
from penstock.compiled.values import (
    EXACT,
    GREATEST,
    LEAST,
    Known,
    Number,
    Several,
    Value,
    converted,
    joined_kind,
)

MOST = 10_000


def element(scope: Scope, base: Value, place: Value) -> Value:
    """`base[place]`."""
    if isinstance(place, Known):
        if isinstance(base, Known):
            return folded(scope, operator.getitem, base.value, place.value)
        if isinstance(base, Several):
            chosen = folded(scope, operator.getitem, range(len(base.items)), place.value).value
            others = [one for number, one in enumerate(base.items) if number != chosen]
            return _beside(scope, others, base.items[chosen])
    if not isinstance(base, Known) or not isinstance(base.value, tuple | list) or not is_readable(base.value):
        scope.refuse("an element of what is no constant tuple or list", "Use a tuple of numbers.")
    kind = kind_of(scope, base.value)
    number = scope.number(place)
    if number.kind not in ("bool", "int"):
        scope.refuse("an index that may be a float", "Turn it into an int first: int(x).")
    name = scope.unit.array(list(base.value), kind)
    return Number(kind, f"{name}[index_of({converted(number, 'int')}, {len(base.value)})]")


def _beside(scope: Scope, others: list[Value], found: Value) -> Value:
    """One of several values, of which the others are computed as well."""
    mark = scope.after(others, Known(0))
    if isinstance(mark, Known):
        return found
    number = scope.number(found)
    return Number(number.kind, f"after({mark.code}, {number.code})")  # type: ignore[union-attr]  # a number


def kind_of(scope: Scope, numbers: Any) -> str:
    """The kind that holds all of these constants."""
    if len(numbers) > MOST:
        scope.refuse(f"a sequence of {len(numbers)} constants", f"At most {MOST} are compiled.")
    found: str | None = None
    for one in numbers:
        kind = {bool: "bool", int: "int", float: "float"}.get(type(one))
        if kind is None:
            scope.refuse(f"a sequence with a {type(one).__name__} in it", "Use numbers only.")
        if kind == "int" and not LEAST <= one <= GREATEST:
            scope.refuse(f"the constant {one} does not fit 64 bits", "Write it as a float.")
        found = kind if found is None else joined_kind(found, kind)
    if found is None:
        scope.refuse("an element of an empty sequence", "Put numbers into it.")
    if found == "mixed" and any(type(one) is int and abs(one) > EXACT for one in numbers):
        scope.refuse("a sequence of floats and of ints beyond 2**53", "Write all of them as floats.")
    return found


def columns_of(scope: Scope, sequence: Any) -> list[tuple[str, str]] | tuple[str, str]:
    """A constant sequence to go through: the kind and the array's name; a list of them where elements are tuples."""
    rows = list(sequence)
    if not isinstance(rows[0], tuple | list):
        kind = kind_of(scope, rows)
        return kind, scope.unit.array(rows, kind)
    width = len(rows[0])
    if any(not isinstance(row, tuple | list) or len(row) != width for row in rows):
        scope.refuse("a sequence whose elements are not alike", "Give them the same length.")
    found = []
    for place in range(width):
        column = [row[place] for row in rows]
        kind = kind_of(scope, column)
        found.append((kind, scope.unit.array(column, kind)))
    return found
