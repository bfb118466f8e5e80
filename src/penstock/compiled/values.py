"""What a value is while a function is translated: known already, a number that differs from row to row, or several.

A number has one kind, which the compiled program never changes silently: `bool`, `int` (64 bits), `float`, or `mixed`,
a number that Python has as an int in some rows and as a float in others (`total = 0`, then `total += x`). A mixed one
is held as a float, and `penstock.compiled.exact` computes with it only where both would come out alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
EXACT = 1 << 53
"""Whole numbers up to here are floats without loss."""
KINDS = ("bool", "int", "float", "mixed")


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A value that is the same in every row: a constant, a module, a function."""

    value: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Known) or type(self.value) is not type(other.value):
            return False
        if self.value is other.value:
            return True
        if type(self.value) is tuple:  # by its elements, whose own repr may say anything
            return len(self.value) == len(other.value) and all(
                Known(one) == Known(another) for one, another in zip(self.value, other.value, strict=True)
            )
        plain = type(self.value) in (bool, int, float, str)  # repr tells 0.0 from -0.0
        return plain and repr(self.value) == repr(other.value)

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_number(self) -> bool:
        """Whether it is a number that rows could hold as well."""
        return type(self.value) in (bool, int, float)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of one kind, by the text of the expression that computes it."""

    kind: str
    code: str


@dataclass(frozen=True, slots=True)
class Several:
    """Values side by side: a tuple or list whose elements are not all known."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """A variable that has no one value here; the reason is told if it is read."""

    reason: str
    advice: str


Value = Known | Number | Several | Gone
Variables = Mapping[str, Value]


def literal(value: bool | int | float) -> Number:
    """A constant as a number in the text.

    >>> literal(-2), literal(math.inf).code
    (Number(kind='int', code='(-2)'), 'inf')
    """
    if isinstance(value, float):
        text = "nan" if math.isnan(value) else "inf" if math.isinf(value) else repr(abs(value))
        return Number("float", f"(-{text})" if math.copysign(1.0, value) < 0 and value == value else text)
    if isinstance(value, bool):
        return Number("bool", repr(value))
    return Number("int", repr(value) if value >= 0 else f"({value!r})")


def joined_kind(one: str, other: str) -> str:
    """The kind of a number that is of one kind in some rows and of another in others.

    >>> joined_kind("bool", "int"), joined_kind("int", "float")
    ('int', 'mixed')
    """
    if one == other:
        return one
    return "int" if {one, other} == {"bool", "int"} else "mixed"


def converted(number: Number, kind: str) -> str:
    """The text of a number as one of another kind; "float" is what Python makes of it beside a float."""
    if number.kind == kind or (number.kind, kind) in (("float", "mixed"), ("mixed", "float")):
        return number.code
    if number.kind == "bool":
        return f"(1 if {number.code} else 0)" if kind == "int" else f"(1.0 if {number.code} else 0.0)"
    assert number.kind == "int", (number, kind)
    return f"float({number.code})" if kind == "float" else f"mixed_i({number.code})"


def stored(name: str, kind: str) -> str:
    """The variable that holds a name's value of a kind."""
    return f"_{name.replace('.', '9')}_{kind}"


def joined(several: Iterable[Variables]) -> dict[str, Value]:
    """The variables where ways of the program meet: of a kind that holds what each of them brings."""
    ways = list(several)
    found: dict[str, Value] = {}
    for name in dict.fromkeys(name for way in ways for name in way):
        values = [way[name] for way in ways if name in way]
        if len(values) < len(ways):
            found[name] = Gone(f"{name!r} may have no value here", "Give it one before.")
        else:
            found[name] = _joined(name, values)
    return found


def _joined(name: str, values: list[Value]) -> Value:
    first = values[0]
    if all(one == first for one in values[1:]):
        return first
    kinds = []
    for one in values:
        if isinstance(one, Gone):
            return one
        if isinstance(one, Known) and one.is_number:
            if isinstance(one.value, int) and not LEAST <= one.value <= GREATEST:
                return Gone(f"{name!r} may be {one.value}, beyond 64 bits", "Write it as a float.")
            one = literal(one.value)
        if not isinstance(one, Number):
            what = "a sequence" if isinstance(one, Several) else f"a {type(one.value).__name__}"
            return Gone(f"{name!r} may be {what} here or something else", "Give it numbers only.")
        kinds.append(one.kind)
    kind = kinds[0]
    for one_kind in kinds[1:]:
        kind = joined_kind(kind, one_kind)
    return Number(kind, stored(name, kind))


def moves(before: Variables, after: Variables) -> list[str]:
    """The statements that bring variables to the kinds they have where ways meet."""
    found = []
    for name, target in after.items():
        source = before.get(name)
        if isinstance(target, Number) and source is not None and source != target:
            number = literal(source.value) if isinstance(source, Known) else source
            assert isinstance(number, Number), (name, source, target)
            found.append(f"{target.code} = {converted(number, target.kind)}")
    return found
