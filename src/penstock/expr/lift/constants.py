"""Which of the values that a function names are constants: plain data, which may be computed with while lifting.

Everything else may do something when it is touched, or be another thing where the rows are: a mapping of environment
variables, a counter that grows when it is read, an object with operators of its own. It is refused, not asked.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import re
import sys
import types
from typing import Any

SCALARS = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice),
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
    *(decimal.Decimal, fractions.Fraction, re.Pattern),
)
"""Types whose objects never change."""
CONTAINERS = (tuple, list, set, frozenset)
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
COLLECTIONS = (*CONTAINERS, *VIEWS, dict, range)
READABLE = (*COLLECTIONS, str, bytes)
"""Whose elements can be taken without running anything of theirs."""

LONGEST_RANGE = 100_000
"""Numbers of a range that may be gone through one by one while lifting, or by Python in every row."""

CHANGING = (dict, list, set)
"""Types with methods that change the object in its place."""
CALENDAR = (datetime.date, datetime.datetime, datetime.time, datetime.timedelta)
TEXT_LIKE = (str, bytes, int, float, bool)
"""Types all of whose methods compute, and change nothing."""
PURE_METHODS: dict[type, frozenset[str]] = {
    dict: frozenset({"get", "keys", "values", "items", "copy"}),
    list: frozenset({"index", "count", "copy"}),
    tuple: frozenset({"index", "count"}),
    **dict.fromkeys(
        (datetime.date, datetime.datetime),
        frozenset({"weekday", "isoweekday", "isoformat", "toordinal", "replace", "strftime", "date"}),
    ),
    datetime.timedelta: frozenset({"total_seconds"}),
    range: frozenset({"index", "count"}),
    **dict.fromkeys(
        (set, frozenset),
        frozenset(
            {
                *("union", "intersection", "difference", "symmetric_difference"),
                *("issubset", "issuperset", "isdisjoint", "copy"),
            }
        ),
    ),
}
"""Methods that may be run while lifting, with constants; others change the object, or ask the clock."""


def is_constant(value: Any) -> bool:
    """Whether it is plain data, all the way down.

    >>> import os
    >>> is_constant({"a": (1, 2.5)}), is_constant(os.environ), is_constant(len)
    (True, False, False)
    """
    of = type(value)
    if of in SCALARS:
        return True
    if of in CONTAINERS or of in VIEWS:
        return all(map(is_constant, value))
    if of is dict:
        return all(map(is_constant, value)) and all(map(is_constant, value.values()))
    if is_named_tuple(value):
        return all(map(is_constant, value))
    return isinstance(value, enum.Enum) or _is_numpys(value)


def range_length(of: range) -> int:
    """How many numbers a range has: len() knows none beyond 64 bits.

    >>> range_length(range(2**70)) == 2**70, range_length(range(7, 0, -2)), range_length(range(0))
    (True, 4, 0)
    """
    return (of[-1] - of[0]) // of.step + 1 if of else 0


def is_long_range(value: Any) -> bool:
    """Whether it is a range of more numbers than may be gone through."""
    return type(value) is range and range_length(value) > LONGEST_RANGE


def is_named_tuple(value: Any) -> bool:
    """Whether it is a tuple with names, which reads its elements as tuples do."""
    of = type(value)
    return isinstance(value, tuple) and hasattr(of, "_fields") and of.__getitem__ is tuple.__getitem__


def _is_numpys(value: Any) -> bool:
    """An array or a number of NumPy's; one that holds Python's objects may hold anything."""
    numpy = sys.modules.get("numpy")  # one can only be seen where it is imported
    if numpy is None or not (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        return False
    return not value.dtype.hasobject


def is_quiet(value: Any) -> bool:
    """Whether it can be asked for its truth, and whether it equals another, without running anything of its own.

    >>> import os
    >>> is_quiet(3), is_quiet(int), is_quiet(os.environ)
    (True, True, False)
    """
    of = type(value)
    if of in READABLE or of in (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType):
        return True
    plain = (
        getattr(of, "__eq__", None) is object.__eq__
        and not hasattr(of, "__bool__")
        and not hasattr(of, "__len__")
    )
    return plain or is_constant(value)


def may_run(value: Any, method: str) -> bool:
    """Whether a method of a constant only computes something."""
    if type(value) in TEXT_LIKE:
        return not method.startswith("_")
    return method in PURE_METHODS.get(type(value), ())
