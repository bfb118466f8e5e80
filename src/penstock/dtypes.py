"""THE type table: Spark, Arrow, NumPy, torch, TensorFlow and JAX, and what each Spark type becomes.

No other file spells a mapping between type systems. `DTYPES` lists the dtypes a tensor can have; `fate` says
what a Spark type becomes by itself, or why it cannot; `promote` finds the dtype that holds several without
loss; `TensorSpec` describes one tensor. Nothing here imports Spark or a framework: Spark types are told apart by
class name, framework dtypes by attribute name. The conversions themselves are in `penstock.wire.cast`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import SelectionError, UnsupportedType


@dataclass(frozen=True, slots=True)
class DType:
    """One dtype a tensor can have, under its name in each library.

    >>> DTYPES["float32"].bytes, DTYPES["float32"].spark
    (4, 'float')
    """

    name: str
    kind: str
    """`bool`, `int`, `uint` or `float`."""
    bytes: int
    exact_bits: int
    """Every integer of up to this many bits, and a sign, is represented exactly."""
    spark: str | None
    """The Spark SQL type with exactly these values; None where Spark has none."""
    numpy: str
    """How the bytes lie in NumPy; bfloat16, which NumPy lacks, lies as uint16."""

    @property
    def storage(self) -> np.dtype[Any]:
        """The NumPy dtype of the bytes."""
        return np.dtype(self.numpy)

    @property
    def is_float(self) -> bool:
        """Whether NaN can be told."""
        return self.kind == "float"


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("bool", "bool", 1, 1, "boolean", "bool"),
        DType("int8", "int", 1, 7, "tinyint", "int8"),
        DType("int16", "int", 2, 15, "smallint", "int16"),
        DType("int32", "int", 4, 31, "int", "int32"),
        DType("int64", "int", 8, 63, "bigint", "int64"),
        DType("uint8", "uint", 1, 8, None, "uint8"),
        DType("uint16", "uint", 2, 16, None, "uint16"),
        DType("uint32", "uint", 4, 32, None, "uint32"),
        DType("uint64", "uint", 8, 64, None, "uint64"),
        DType("float16", "float", 2, 11, None, "float16"),
        DType("bfloat16", "float", 2, 8, None, "uint16"),
        DType("float32", "float", 4, 24, "float", "float32"),
        DType("float64", "float", 8, 53, "double", "float64"),
    )
}

NATURAL = {
    "BooleanType": "bool",
    "ByteType": "int8",
    "ShortType": "int16",
    "IntegerType": "int32",
    "LongType": "int64",
    "FloatType": "float32",
    "DoubleType": "float64",
    "DecimalType": "float64",
    "DateType": "int32",
    "TimestampType": "int64",
    "TimestampNTZType": "int64",
    "TimeType": "int64",
    "DayTimeIntervalType": "int64",
}
"""Spark scalar types and the dtype each becomes: dates are days since 1970-01-01, timestamps and intervals
microseconds (timestamps since 1970-01-01 UTC), times of day nanoseconds since midnight."""

NATIVE_ONLY = frozenset({"DateType", "TimestampType", "TimestampNTZType", "TimeType", "DayTimeIntervalType"})
"""Types that cross as they are and are read as integers afterwards: Spark has no one cast for all of them."""

FLOAT64_DIGITS = 15
"""A decimal of up to so many digits survives the way to float64 and back."""

REMEDIES = {
    "StringType": "Turn it into numbers first: hash or index it, cast it, or drop it from the selection.",
    "CharType": "Turn it into numbers first: hash or index it, cast it, or drop it from the selection.",
    "VarcharType": "Turn it into numbers first: hash or index it, cast it, or drop it from the selection.",
    "BinaryType": "Decode it in Spark into an array of numbers, or drop it from the selection.",
    "StructType": "Name its fields instead, as 'column.field'.",
    "MapType": "Take the entries you need into columns of their own: df.withColumn('k', df.column['k']).",
    "VariantType": "Extract typed values first: variant_get(column, '$.path', 'double').",
    "NullType": "It holds nothing but null; drop it from the selection or cast it to a number.",
    "YearMonthIntervalType": "Cast it to a number of months first: cast(column as int).",
    "CalendarIntervalType": "It mixes months, days and microseconds; extract the part you need.",
    "GeometryType": "Extract coordinates into number columns first.",
    "GeographyType": "Extract coordinates into number columns first.",
    "MatrixUDT": "Flatten it into an array of numbers first.",
}


@dataclass(frozen=True, slots=True)
class Fate:
    """What a Spark column becomes by itself: a dtype, under so many levels of lists.

    `leaf` is the Spark class name of the innermost values; `vector` marks an MLlib vector, `decimal_digits` a
    decimal's precision (0 for other types).
    """

    dtype: str
    leaf: str
    depth: int = 0
    vector: bool = False
    decimal_digits: int = 0
    decimal_scale: int = 0


def fate(column: str, spark_type: Any) -> Fate:
    """What a column of this Spark type becomes, or `UnsupportedType` with the remedy.

    >>> class LongType:
    ...     pass
    >>> fate("n", LongType())
    Fate(dtype='int64', leaf='LongType', depth=0, vector=False, decimal_digits=0, decimal_scale=0)
    """
    depth, leaf = 0, spark_type
    while type(leaf).__name__ == "ArrayType":
        depth, leaf = depth + 1, leaf.elementType
    name = type(leaf).__name__
    if name == "VectorUDT" and depth == 0:
        return Fate("float64", "DoubleType", depth=1, vector=True)
    if name not in NATURAL:
        remedy = REMEDIES.get(name, "Convert it to numbers in Spark, or drop it from the selection.")
        raise UnsupportedType(column, spark_type.simpleString(), remedy)
    if name == "DecimalType":
        return Fate("float64", name, depth, False, leaf.precision, leaf.scale)
    return Fate(NATURAL[name], name, depth)


def parse_dtype(given: Any) -> DType:
    """The dtype a user named: by string, or as NumPy, torch, TensorFlow or JAX spell it.

    >>> parse_dtype("float32").name, parse_dtype(np.int8).name, parse_dtype(float).name
    ('float32', 'int8', 'float64')
    """
    name = _dtype_name(given)
    if name in DTYPES:
        return DTYPES[name]
    raise SelectionError(f"dtype {given!r} is not one a tensor can have. Choose one of: {', '.join(DTYPES)}.")


def _dtype_name(given: Any) -> str:
    if isinstance(given, str):
        return given.removeprefix("torch.")
    if isinstance(given, DType):
        return given.name
    text = str(given)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    if type(given).__module__.startswith("tensorflow"):
        return str(given.name)
    try:
        return str(np.dtype(given).name)
    except TypeError:
        return text


def promote(dtypes: Iterable[str]) -> str | None:
    """The smallest dtype that holds every value of all of these, or None where there is none.

    >>> promote(["int32", "float32"]), promote(["int8", "int32"]), promote(["int64", "float64"])
    ('float64', 'int32', None)
    """
    wanted = [DTYPES[name] for name in dict.fromkeys(dtypes)]
    if len(wanted) == 1:
        return wanted[0].name
    bits = max(dtype.exact_bits for dtype in wanted if not dtype.is_float) if _any_exact(wanted) else 0
    floats = [dtype for dtype in wanted if dtype.is_float]
    ladder = ("float32", "float64") if floats else ("int8", "int16", "int32", "int64")
    for name in ladder:
        candidate = DTYPES[name]
        if candidate.exact_bits >= bits and all(candidate.bytes >= dtype.bytes for dtype in floats):
            return name
    return None


def _any_exact(wanted: list[DType]) -> bool:
    return any(not dtype.is_float for dtype in wanted)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor: its name, its dtype and the shape of one row.

    >>> spec = TensorSpec("x", "float32", (40,))
    >>> spec.row_bytes
    160
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return DTYPES[self.dtype].bytes * math.prod(self.shape)


Array = npt.NDArray[Any]
"""A NumPy array whose dtype only the plan knows."""
