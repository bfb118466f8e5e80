"""The types an expression can have: what a value means, whoever computes it.

There are few: truth values, whole numbers (held as 64 bits; the column's own width is kept because Spark's hash
sees it), floating-point numbers, texts, dates, timestamps, and lists of these. A timestamp is an instant
(microseconds since 1970-01-01 UTC); a `timestamp_ntz` is what a clock on the wall shows, in no zone. How Spark and
Arrow spell them is decided in `penstock.dtypes`; the engines' `schema_of` use it. Go next to `penstock.expr.ops`,
the table of operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import ExpressionError


@dataclass(frozen=True, slots=True)
class Type:
    """What a value is. Made by the constants below, `list_of` and `parse_type`.

    >>> INT32, list_of(FLOAT32, 3)
    (int32, list<float32>[3])
    """

    kind: str
    """`bool`, `int`, `float`, `string`, `date`, `timestamp`, `timestamp_ntz`, `list` or `vector`."""
    bits: int = 0
    """Of `int`: 8, 16, 32 or 64; of `float`: 16, 32 or 64."""
    element: Type | None = None
    """Of `list`: what it holds."""
    length: int | None = None
    """Of `list`: how many, where every row has the same number."""

    @property
    def is_number(self) -> bool:
        """Whether arithmetic takes it."""
        return self.kind in ("int", "float")

    @property
    def item(self) -> Type:
        """What a list holds."""
        assert self.element is not None, f"{self} is no list"
        return self.element

    def __str__(self) -> str:
        if self.kind == "list":
            return f"list<{self.item}>" + ("" if self.length is None else f"[{self.length}]")
        return f"{self.kind}{self.bits or ''}"

    __repr__ = __str__


BOOL = Type("bool")
INT8, INT16, INT32, INT64 = (Type("int", bits) for bits in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (Type("float", bits) for bits in (16, 32, 64))
STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ = (
    Type(kind) for kind in ("string", "date", "timestamp", "timestamp_ntz")
)
VECTOR = Type("vector")
"""A vector of MLlib. It passes through as it is; a recipe reads it as a list where an operation takes it."""

SCALARS = {
    str(scalar): scalar
    for scalar in (
        *(BOOL, INT8, INT16, INT32, INT64, FLOAT16, FLOAT32, FLOAT64),
        *(STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ, VECTOR),
    )
}


def list_of(element: Type, length: int | None = None) -> Type:
    """The type of a list.

    >>> list_of(STRING)
    list<string>
    """
    if element.kind in ("list", "vector"):
        raise ExpressionError(f"a list of {element} is not a type expressions know. Flatten it first.")
    return Type("list", 0, element, length)


def parse_type(text: str) -> Type:
    """A type by its name.

    >>> parse_type("list<int64>[3]").length
    3
    """
    if text in SCALARS:
        return SCALARS[text]
    found = re.fullmatch(r"list<(\w+)>(?:\[(\d+)\])?", text)
    if found and found[1] in SCALARS:
        return list_of(SCALARS[found[1]], None if found[2] is None else int(found[2]))
    raise ExpressionError(
        f"{text!r} is not a type. Write one of {', '.join(SCALARS)}, or list<one of them>, with [n] behind it "
        "where every list has n elements."
    )


def int_range(of: Type) -> tuple[int, int]:
    """The least and the greatest whole number of an integer type.

    >>> int_range(INT8)
    (-128, 127)
    """
    return -(1 << (of.bits - 1)), (1 << (of.bits - 1)) - 1


def common(types: Iterable[Type]) -> Type | None:
    """The type that values of all these become when one of them is chosen; None where there is none.

    Equal types stay. Whole numbers of several widths take the widest; with a floating-point number among them, or
    with floating-point numbers of several widths, float64.

    >>> common([INT8, INT32]), common([INT8, FLOAT32]), common([INT8, STRING])
    (int32, float64, None)
    """
    found = list(dict.fromkeys(types))
    if len(found) == 1:
        return found[0]
    if all(one.is_number for one in found):
        if all(one.kind == "int" for one in found):
            return max(found, key=lambda one: one.bits)
        return FLOAT64
    if all(one.kind == "list" for one in found):
        element = common(one.item for one in found)
        lengths = {one.length for one in found}
        return element and list_of(element, lengths.pop() if len(lengths) == 1 else None)
    return None
