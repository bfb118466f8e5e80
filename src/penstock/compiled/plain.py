"""Constants that a function names, as the numbers that rows can be compared with; what is not surely one is refused.

A constant may be an enum's member, a scalar of NumPy's, or an object that is equal to whatever it likes. To leave one
of them out of a comparison changes results, so only what is never equal to a number is left out.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from penstock.compiled.values import EXACT
from penstock.expr.lift.constants import is_named_tuple

Plain = bool | int | float

READABLE = (tuple, list, set, frozenset, dict, range)
NEVER_EQUAL = (
    *(type(None), str, bytes, bytearray, tuple, list, dict, set, frozenset, range, slice),
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
)
"""Types whose objects are never equal to a number. A complex, a Decimal and a Fraction can be."""


def is_readable(container: Any) -> bool:
    """Whether `in`, `[]` and a loop find the same elements in it; a class of the user's may answer as it likes.

    >>> is_readable((1, 2)), is_readable(type("Mine", (list,), {})())
    (True, False)
    """
    return type(container) in READABLE or is_named_tuple(container)


def numbers_among(items: Any, whole: bool) -> list[Plain]:
    """Those of some constants that a number of rows can be equal to, which is an int if `whole` and else a float.

    Raises `ValueError`, with its class, for one of which that is not known.

    >>> numbers_among([np.int64(7), "a", None, 2.5], whole=True)
    [7, 2.5]
    """
    found = []
    for item in items:
        number = _number(item, whole)
        if number is not None:
            found.append(number)
        elif not _is_never_equal(item):
            raise ValueError(type(item).__name__)
    return found


def _number(item: Any, whole: bool) -> Plain | None:
    of: Any = type(item)
    if of in (bool, int, float):
        plain: Plain = item
        return plain
    if isinstance(item, np.generic):
        return _of_numpy(item, whole)
    # Members of IntEnum and the like. Sets and dicts ask for the hash first.
    if isinstance(item, int) and of.__eq__ is int.__eq__ and of.__hash__ is int.__hash__:
        return int.__index__(item)
    if isinstance(item, float) and of.__eq__ is float.__eq__ and of.__hash__ is float.__hash__:
        return float.__float__(item)
    return None


def _of_numpy(item: np.generic, whole: bool) -> Plain | None:
    """A scalar of NumPy's, where NumPy compares it as Python would.

    NumPy makes both sides one dtype first: float32(0.1) == 0.1 is true, and so is float64(2**53) == 2**53 + 1.
    """
    kind = item.dtype.kind
    if kind not in "biu" and item.dtype != np.float64:
        return None
    plain: Plain = item.item()
    alike = whole == (kind != "f")
    return plain if alike or abs(plain) < EXACT or plain != plain else None


def _is_never_equal(item: Any) -> bool:
    # Most classes, and members of a plain Enum: equal to themselves and to nothing else.
    of: Any = type(item)
    return of in NEVER_EQUAL or of.__eq__ is object.__eq__
