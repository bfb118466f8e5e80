"""The type table against Spark's, NumPy's and the frameworks' own words for the same things."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from pyspark.sql import types as T

from penstock.dtypes import (
    DTYPES,
    NATIVE_ONLY,
    NATURAL,
    REMEDIES,
    Fate,
    TensorSpec,
    fate,
    parse_dtype,
    promote,
)
from penstock.errors import SelectionError, UnsupportedType

BEYOND_NUMPY = {"bfloat16": np.dtype(np.uint16)}


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_each_dtype_is_laid_out_as_the_libraries_have_it(name: str) -> None:
    dtype = DTYPES[name]
    assert dtype.name == name
    assert dtype.storage == BEYOND_NUMPY.get(name, np.dtype(name if name != "bfloat16" else "uint16"))
    assert dtype.storage.itemsize == dtype.bytes == getattr(torch, name).itemsize
    assert dtype.is_float == getattr(torch, name).is_floating_point
    assert (dtype.kind == "int") == (not dtype.is_float and getattr(torch, name).is_signed)


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_exact_bits_are_the_integers_that_survive(name: str) -> None:
    dtype, top = DTYPES[name], 1 << DTYPES[name].exact_bits
    if dtype.is_float:
        exact = [
            torch.tensor(value, dtype=torch.float64).to(getattr(torch, name)).item()
            for value in (top, top + 1)
        ]
        assert exact[0] == top
        assert exact[1] != top + 1
    elif dtype.kind != "bool":
        assert np.iinfo(name).max == top - 1


@pytest.mark.parametrize("name", [name for name, dtype in DTYPES.items() if dtype.spark is not None])
def test_sparks_name_is_the_type_with_these_values(name: str) -> None:
    spark = DTYPES[name].spark
    kind = next(
        k
        for k in (
            T.BooleanType,
            T.ByteType,
            T.ShortType,
            T.IntegerType,
            T.LongType,
            T.FloatType,
            T.DoubleType,
        )
        if k().simpleString() == spark
    )
    assert NATURAL[kind.__name__] == name


SCALARS = {
    T.BooleanType(): "bool",
    T.ByteType(): "int8",
    T.ShortType(): "int16",
    T.IntegerType(): "int32",
    T.LongType(): "int64",
    T.FloatType(): "float32",
    T.DoubleType(): "float64",
    T.DateType(): "int32",
    T.TimestampType(): "int64",
    T.TimestampNTZType(): "int64",
    T.DayTimeIntervalType(): "int64",
}


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_what_a_spark_type_becomes(kind: T.DataType, depth: int) -> None:
    whole = kind
    for _ in range(depth):
        whole = T.ArrayType(whole)
    assert fate("c", whole) == Fate(SCALARS[kind], type(kind).__name__, depth)


def test_a_decimal_keeps_its_digits() -> None:
    assert fate("c", T.ArrayType(T.DecimalType(12, 3))) == Fate("float64", "DecimalType", 1, False, 12, 3)


@pytest.mark.parametrize(
    "kind",
    [
        T.StringType(),
        T.BinaryType(),
        T.NullType(),
        T.MapType(T.StringType(), T.LongType()),
        T.StructType([]),
        T.YearMonthIntervalType(),
        T.ArrayType(T.StringType()),
    ],
    ids=str,
)
def test_a_type_without_tensor_form_says_what_to_do(kind: T.DataType) -> None:
    leaf = kind.elementType if isinstance(kind, T.ArrayType) else kind
    with pytest.raises(UnsupportedType) as caught:
        fate("city", kind)
    assert str(caught.value) == (
        f"column 'city' is of type {kind.simpleString()}, which has no tensor form. {REMEDIES[type(leaf).__name__]}"
    )


def test_an_unheard_of_type_is_refused_too() -> None:
    class NovelType:
        def simpleString(self) -> str:
            return "novel"

    with pytest.raises(UnsupportedType, match="of type novel"):
        fate("c", NovelType())


def test_the_tables_name_classes_that_exist() -> None:
    """Spelled by name, because nothing here imports Spark; some are newer than the oldest Spark supported."""
    newer = {"TimeType", "VariantType", "GeometryType", "GeographyType"}
    elsewhere = {"MatrixUDT", "CalendarIntervalType"}  # pyspark.ml, and the JVM alone
    known = {name for name in dir(T) if name.endswith("Type")}
    assert (set(NATURAL) | set(REMEDIES)) - known - newer - elsewhere == set()
    assert set(NATURAL) >= NATIVE_ONLY
    assert not set(NATURAL) & set(REMEDIES)


class ForeignDType:
    """As TensorFlow's: a name, and a text that is not it."""

    def __init__(self, name: str) -> None:
        self.name = name


ForeignDType.__module__ = "tensorflow.python.framework.dtypes"


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_librarys_spelling_is_understood(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")  # JAX's half of NumPy
    numpy_like = ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name).type
    spellings: list[Any] = [name, f"torch.{name}", getattr(torch, name), DTYPES[name], ForeignDType(name)]
    for given in [*spellings, numpy_like, np.dtype(numpy_like)]:
        assert parse_dtype(given) is DTYPES[name], given


@pytest.mark.parametrize(
    ("given", "name"), [(int, "int64"), (float, "float64"), (bool, "bool"), (torch.half, "float16")]
)
def test_other_spellings(given: Any, name: str) -> None:
    assert parse_dtype(given).name == name


@pytest.mark.parametrize(
    "given", ["float", "complex64", "", object(), np.dtype("datetime64[us]"), torch.complex64, str, 3]
)
def test_an_unknown_dtype_is_refused(given: Any) -> None:
    with pytest.raises(SelectionError, match="Choose one of: bool, int8"):
        parse_dtype(given)


def holds(name: str, other: str) -> bool:
    """Whether every value of `other` has a place in `name`, from the two formats' own limits."""
    if name == other:
        return True
    if name == "bool" or (DTYPES[other].is_float and not DTYPES[name].is_float):
        return False
    if DTYPES[other].is_float:
        a, b = torch.finfo(getattr(torch, name)), torch.finfo(getattr(torch, other))
        return a.max >= b.max and a.eps <= b.eps and a.tiny <= b.tiny
    low, high = (0, 1) if other == "bool" else (int(np.iinfo(other).min), int(np.iinfo(other).max))
    if DTYPES[name].is_float:
        return max(-low, high) <= 2 / torch.finfo(getattr(torch, name)).eps
    return bool(np.iinfo(name).min <= low and high <= np.iinfo(name).max)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_common_dtype_holds_them_all_and_no_smaller_one_does(count: int) -> None:
    """Over what Spark's types become."""
    natural = sorted(set(NATURAL.values()))
    for chosen in combinations(natural, count):
        enough = [name for name in natural if all(holds(name, each) for each in chosen)]
        common = promote(chosen)
        if not enough:
            assert common is None, chosen
        else:
            assert common in enough, chosen
            assert DTYPES[common].bytes == min(DTYPES[name].bytes for name in enough), chosen


@pytest.mark.parametrize(
    ("chosen", "common"),
    [
        (["int64", "float64"], None),
        (["int64", "float32"], None),
        (["int32", "float32"], "float64"),
        (["int16", "float32"], "float32"),
        (["bool", "int8"], "int8"),
        (["bool", "float32"], "float32"),
        (["uint8", "int8"], "int16"),
        (["uint64", "int8"], None),
        (["float16", "bfloat16"], "float32"),
        (["int8", "int8"], "int8"),
    ],
)
def test_common_dtypes_by_hand(chosen: list[str], common: str | None) -> None:
    assert promote(chosen) == common
    assert promote(reversed(chosen)) == common


@pytest.mark.parametrize(
    ("dtype", "shape", "size"), [("float32", (40,), 160), ("bool", (), 1), ("int64", (3, 0), 0)]
)
def test_the_bytes_of_a_row(dtype: str, shape: tuple[int, ...], size: int) -> None:
    assert TensorSpec("x", dtype, shape).row_bytes == size
