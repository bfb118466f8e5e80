"""For which results Spark's conversion to the declared type gives what a native expression gives.

Spark converts what a UDF returns, and not as Python would: pickled, an int declared double is NULL, a number that does
not fit int wraps; as Arrow the first is a float and the second an error. Here stand the pairs for which the native
expression has the same value, or both raise; every other pair stays with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import ExpressionError, NotLifted
from penstock.expr.lift import lift_function
from penstock.expr.types import STRING, Type
from penstock.jobs.udf_types import NAMES

NUMBER, NUMPY = "float", "numpy.float64"

AS_ARROW = {
    "double": {NUMBER, NUMPY, "int"},
    "float": {NUMBER, NUMPY},
    "bigint": {"int"},
    "int": {"int"},
    "smallint": {"int"},
    "tinyint": {"int"},
    "boolean": {"bool"},
    "string": {"str"},
    "date": {"datetime.date"},
    "timestamp_ntz": {"datetime.datetime"},
}
"""What Python returns, by what is declared, for UDFs whose rows cross as Arrow."""
AS_PICKLE = {
    "double": {NUMBER},
    "float": {NUMBER},
    "bigint": {"int"},
    "boolean": {"bool"},
    "string": {"str"},
    "date": {"datetime.date"},
}
"""The same for pickled rows: an int declared double becomes NULL, one that leaves 32 bits wraps."""


def mismatch(
    function: Callable[..., Any], types: Mapping[str, Type], declared: str, arrow: bool
) -> str | None:
    """What Spark would convert otherwise; None where the native value is the same. Raises `NotLifted`."""
    allowed = (AS_ARROW if arrow else AS_PICKLE).get(declared)
    if allowed is None:
        return f"it is declared to return {declared}, which stays with Spark"
    wrong = returned(function, types, NAMES[declared])
    if (
        NAMES[declared] != STRING
    ):  # ints and bools become floats without a word, so they are asked for by name
        wrong |= returned(function, types, STRING)
    wrong -= allowed
    if not wrong:
        return None
    seen = " and ".join(sorted(wrong))
    return f"it returns {seen} where {declared} is declared, and Spark converts that in a way of its own"


def returned(function: Callable[..., Any], types: Mapping[str, Type], declared: Type) -> set[str]:
    """The Python types a function may return that are not, and do not become, the declared one.

    >>> from penstock.expr.types import FLOAT64, STRING
    >>> def half(x):
    ...     return 0 if x is None else x / 2
    >>> returned(half, {"x": FLOAT64}, FLOAT64), sorted(returned(half, {"x": FLOAT64}, STRING))
    (set(), ['float', 'int'])
    """
    try:
        body = lift_function(function, types, declared)
    except NotLifted:
        raise
    except ExpressionError as error:
        raise NotLifted(getattr(function, "__name__", "it"), 1, 0, str(error), "") from error
    start, end = "TypeError: the function returned ", ", and is declared to return "
    return {
        fault.removeprefix(start).partition(end)[0]
        for fault in body.faults
        if fault.startswith(start) and end in fault
    }
