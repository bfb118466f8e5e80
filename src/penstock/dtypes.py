"""THE type table: Spark, Arrow, NumPy, torch, TensorFlow and JAX, and what each Spark or Arrow type becomes.

No other file spells a mapping between type systems. `DTYPES` lists the dtypes a tensor can have; `fate` and
`arrow_fate` say what a type becomes by itself, or why it cannot; `promote` finds the dtype that holds several without
loss; `TensorSpec` describes one tensor. Nothing here imports Spark, Arrow or a framework: Spark types are told apart by
class name, Arrow types by how they are written, framework dtypes by attribute name. The conversions themselves are in
`penstock.wire.cast`.
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

TEXTS = {"StringType": "string", "CharType": "string", "VarcharType": "string", "BinaryType": "binary"}
"""Spark types whose rows are bytes of a length of their own, and the kind of tensor (see `KINDS`) they become in a
dataset. Elsewhere they have no tensor form."""

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

ARROW_NATURAL = {
    "bool": "bool",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "decimal32": "float64",
    "decimal64": "float64",
    "decimal128": "float64",
    "decimal256": "float64",
    "date32": "int32",
    "date64": "int32",
    "timestamp": "int64",
    "time32": "int64",
    "time64": "int64",
    "duration": "int64",
}
"""Arrow scalar types, without their parameters, and the dtype each becomes. Of whatever unit, dates are days,
timestamps and durations microseconds, and times of day nanoseconds, as they are from Spark."""

ARROW_TEXTS = {
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
    "fixed_size_binary": "binary",
}

ARROW_LISTS = frozenset({"list", "large_list", "fixed_size_list", "list_view", "large_list_view"})

ARROW_WRAPPERS = {"dictionary": "value_type", "run_end_encoded": "value_type", "extension": "storage_type"}
"""Arrow types that only wrap another one, and the attribute that names it."""

ARROW_REMEDIES = {
    **dict.fromkeys(
        ARROW_TEXTS, "Inside lists they have none: index or hash them first, or join them into one."
    ),
    "struct": "Name its fields instead, as 'column.field'.",
    "map": "Take the entries you need into columns of their own: pyarrow.compute.map_lookup(column, key, 'first').",
    "null": "It holds nothing but null; drop it from the selection or cast it to a number.",
    "dense_union": "Take the child you need into a column of its own: array.field(number).",
    "sparse_union": "Take the child you need into a column of its own: array.field(number).",
    "month_day_nano_interval": "It mixes months, days and nanoseconds; extract the part you need.",
}


@dataclass(frozen=True, slots=True)
class Fate:
    """What a column becomes by itself: a dtype, under so many levels of lists.

    `leaf` names the type of the innermost values, in Spark their class; `vector` marks an MLlib vector,
    `decimal_digits` a decimal's precision (0 for other types); `kind` tells texts and bytes from numbers (see `KINDS`).
    `lengths` is the shape of a row where the type of a list tells it.
    """

    dtype: str
    leaf: str
    depth: int = 0
    vector: bool = False
    decimal_digits: int = 0
    decimal_scale: int = 0
    kind: str = "fixed"
    lengths: tuple[int, ...] | None = None


def fate(column: str, spark_type: Any, texts: bool = False) -> Fate:
    """What a column of this Spark type becomes, or `UnsupportedType` with the remedy.

    `texts`: strings and bytes have a form too, in a tensor whose rows have lengths of their own.

    >>> class LongType:
    ...     pass
    >>> fate("n", LongType()) == Fate("int64", "LongType")
    True
    """
    depth, leaf = 0, spark_type
    while type(leaf).__name__ == "ArrayType":
        depth, leaf = depth + 1, leaf.elementType
    name = type(leaf).__name__
    if name == "VectorUDT" and depth == 0:
        return Fate("float64", "DoubleType", depth=1, vector=True)
    if texts and name in TEXTS and depth == 0:
        return Fate("uint8", name, kind=TEXTS[name])
    if name not in NATURAL:
        remedy = REMEDIES.get(name, "Convert it to numbers in Spark, or drop it from the selection.")
        raise UnsupportedType(column, spark_type.simpleString(), remedy)
    if name == "DecimalType":
        return Fate("float64", name, depth, False, leaf.precision, leaf.scale)
    return Fate(NATURAL[name], name, depth)


def arrow_fate(column: str, arrow_type: Any) -> Fate:
    """What a column of this Arrow type becomes, or `UnsupportedType` with the remedy.

    >>> import pyarrow as pa
    >>> arrow_fate("n", pa.dictionary(pa.int8(), pa.uint16())).dtype
    'uint16'
    """
    depth, leaf, lengths = 0, arrow_type, list[int]()
    while (word := _arrow_word(leaf)) in ARROW_LISTS or word in ARROW_WRAPPERS:
        if word in ARROW_LISTS:
            depth, lengths = depth + 1, [*lengths, *_list_shape(leaf)]
            leaf = leaf.value_type
        elif _is_tensor(leaf):
            depth, lengths = depth + 1, [*lengths, *leaf.shape]
            leaf = leaf.value_type
        else:
            leaf = getattr(leaf, ARROW_WRAPPERS[word])
    if word in ARROW_TEXTS and depth == 0:
        return Fate("uint8", word, kind=ARROW_TEXTS[word])
    if word not in ARROW_NATURAL:
        remedy = ARROW_REMEDIES.get(word, "Convert it to numbers first, or drop it from the selection.")
        raise UnsupportedType(column, str(arrow_type), remedy)
    told = tuple(lengths) if depth and UNTOLD not in lengths else None
    if word.startswith("decimal"):
        return Fate("float64", word, depth, False, leaf.precision, leaf.scale, lengths=told)
    return Fate(ARROW_NATURAL[word], word, depth, lengths=told)


UNTOLD = -1


def _arrow_word(arrow_type: Any) -> str:
    """An Arrow type's name without its parameters: 'timestamp' of 'timestamp[us, tz=UTC]'."""
    text = str(arrow_type)
    for bracket in "<[(":
        text = text.partition(bracket)[0]
    return text


def _list_shape(arrow_type: Any) -> list[int]:
    return [arrow_type.list_size if _arrow_word(arrow_type) == "fixed_size_list" else UNTOLD]


def _is_tensor(arrow_type: Any) -> bool:
    """Whether it is arrow.fixed_shape_tensor with its values in row-major order, which then have that shape."""
    if getattr(arrow_type, "extension_name", "") != "arrow.fixed_shape_tensor":
        return False
    return arrow_type.permutation in (None, list(range(len(arrow_type.shape))))


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
    >>> promote(["uint8", "uint32"]), promote(["uint32", "int8"])
    ('uint32', 'int64')
    """
    wanted = [DTYPES[name] for name in dict.fromkeys(dtypes)]
    if len(wanted) == 1:
        return wanted[0].name
    bits = max(dtype.exact_bits for dtype in wanted if not dtype.is_float) if _any_exact(wanted) else 0
    floats = [dtype for dtype in wanted if dtype.is_float]
    ladder = ("float32", "float64") if floats else ("int8", "int16", "int32", "int64")
    if all(dtype.kind in ("bool", "uint") for dtype in wanted):
        ladder = ("uint8", "uint16", "uint32", "uint64")
    for name in ladder:
        candidate = DTYPES[name]
        if candidate.exact_bits >= bits and all(candidate.bytes >= dtype.bytes for dtype in floats):
            return name
    return None


def _any_exact(wanted: list[DType]) -> bool:
    return any(not dtype.is_float for dtype in wanted)


KINDS = ("fixed", "ragged", "string", "binary")
"""A row of a fixed tensor has the tensor's shape. Of the others each row has a length of its own: a list of such
elements, a text as UTF-8 bytes, or bytes."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor: its name, its dtype and the shape of one row, or of one element where rows have lengths of their own.

    >>> TensorSpec("x", "float32", (40,)).row_bytes
    160
    >>> print(TensorSpec("x", "float32", (40,)), TensorSpec("tokens", "int32", (), "ragged"))
    x: float32[40] tokens: int32[*]
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    kind: str = "fixed"

    @property
    def ragged(self) -> bool:
        """Whether rows have lengths of their own."""
        return self.kind != "fixed"

    @property
    def row_bytes(self) -> int:
        """Bytes of one row; of one element where rows have lengths of their own."""
        return DTYPES[self.dtype].bytes * math.prod(self.shape)

    def __str__(self) -> str:
        if self.kind in ("string", "binary"):
            return f"{self.name}: {self.kind}"
        axes = ["*"] * self.ragged + [str(axis) for axis in self.shape]
        return f"{self.name}: {self.dtype}" + (f"[{', '.join(axes)}]" if axes else "")


Array = npt.NDArray[Any]
"""A NumPy array whose dtype only the plan knows."""
