"""Return types of functions: Spark's names and objects as the types that expressions know."""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import ExpressionError
from penstock.expr.lift.forms import Form, form_of
from penstock.expr.types import (
    BOOL,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIMESTAMP_NTZ,
    Type,
    list_of,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

NAMES = {
    "boolean": BOOL,
    "bool": BOOL,
    "tinyint": INT8,
    "byte": INT8,
    "smallint": INT16,
    "short": INT16,
    "int": INT32,
    "integer": INT32,
    "bigint": INT64,
    "long": INT64,
    "float": FLOAT32,
    "real": FLOAT32,
    "double": FLOAT64,
    "string": STRING,
    "date": DATE,
    "timestamp_ntz": TIMESTAMP_NTZ,
}
"""As Spark SQL spells them. A timestamp with a zone is not among them: Python's naive datetimes have none."""


def type_of_return(declared: DataType | str) -> Type | None:
    """A declared return type; None for what expressions do not know: structs, maps, decimals, bytes.

    >>> type_of_return("array<bigint>"), type_of_return("decimal(10,2)")
    (list<int64>, None)
    """
    name = declared if isinstance(declared, str) else declared.simpleString()
    name = name.strip().lower()
    inner = re.fullmatch(r"array\s*<(.*)>", name)
    if inner:
        item = NAMES.get(inner[1].strip())
        # Elements keep the widths that functions compute in.
        return None if item is None or item.bits not in (0, 64) else list_of(item)
    return NAMES.get(name)


def returned_by_annotation(function: Callable[..., Any]) -> Form | None:
    """What a function's annotation says that it returns; None where it says nothing, an error where nobody knows it.

    >>> def half(x) -> float: ...
    >>> str(returned_by_annotation(half)), returned_by_annotation(print)
    ('float', None)
    """
    name = getattr(function, "__name__", type(function).__name__)
    while isinstance(function, functools.partial):
        function = function.func
    plain: Any = function if hasattr(function, "__annotations__") else getattr(function, "__call__", None)  # noqa: B004
    try:
        hint = typing.get_type_hints(plain).get("return")
    except Exception:  # another annotation may name what exists for type checkers alone
        hint = getattr(plain, "__annotations__", {}).get("return")
        hint = {"float": float, "int": int, "str": str, "bool": bool}.get(str(hint), hint)
    if hint in (None, type(None), Any):
        return None
    found = form_of(hint)
    if found is None:
        shown = getattr(hint, "__name__", None) or str(hint)
        raise ExpressionError(
            f"{name}() is declared to return {shown}, from which no column type follows. Say it as Spark does: "
            f"penstock.udf({name}, returnType='map<string,double>'), or whatever it is."
        )
    return found
