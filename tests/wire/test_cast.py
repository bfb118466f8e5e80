"""Every conversion against what it should mean, worked out value by value in Python."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dtypes import DTYPES
from penstock.wire.cast import fill_in_storage, to_dtype
from penstock.wire.faults import BadValue

INTEGERS = [name for name, dtype in DTYPES.items() if dtype.kind in ("int", "uint")]
FLOATS = [name for name, dtype in DTYPES.items() if dtype.is_float]
POWERS = [7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64]
AROUND = [sign * (2**bits + step) for bits in POWERS for step in (-1, 0, 1) for sign in (1, -1)]
EDGES = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    -0.9999999,
    -1.0,
    1.0,
    127.9,
    128.0,
    255.9,
    256.0,
    -128.9,
    -129.0,
    2147483647.9,
]
EDGES += [
    -2147483648.9,
    9.223372036854775e18,
    2.0**63,
    -(2.0**63),
    1.8446744073709550e19,
    2.0**64,
    1e300,
    -1e300,
]
EDGES += [65504.0, 65519.9, 65520.0, 3.4028235e38, 3.4028236e38, 1e-45, 5e-324, math.nan, math.inf, -math.inf]

SOURCES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    **{f"int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}


def values_of(source: str) -> st.SearchStrategy[Any]:
    if source == "bool":
        return st.booleans()
    if source.startswith("float"):
        kind = np.dtype(source).type
        with np.errstate(over="ignore"):
            edges = [float(kind(value)) for value in [*EDGES, *map(float, AROUND)]]
        return (
            st.sampled_from(edges)
            | st.floats(width=32 if source == "float32" else 64)
            | st.floats(-300, 300, width=32)
        )
    info = np.iinfo(source)
    near = [
        value for value in [*AROUND, 0, 1, -1, 2**53 + 1, info.min, info.max] if info.min <= value <= info.max
    ]
    return st.sampled_from(near) | st.integers(int(info.min), int(info.max)) | st.integers(0, 127)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[str, list[Any], pa.Array]:
    """A source type, values, and an Arrow array that holds them, often as a slice of a longer one."""
    source = draw(st.sampled_from(sorted(SOURCES)))
    values = draw(st.lists(values_of(source), max_size=12))
    before, after = (
        draw(st.lists(values_of(source), max_size=11)),
        draw(st.lists(values_of(source), max_size=3)),
    )
    whole = pa.array([*before, *values, *after], SOURCES[source])
    return source, values, whole.slice(len(before), len(values))


def as_integer(value: Any, dtype: str) -> int | None:
    """The exact meaning: truncated toward zero, or None where it does not fit."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    info, whole = np.iinfo(dtype), math.trunc(value)
    return whole if info.min <= whole <= info.max else None


def same_number(text: str, value: Any) -> bool:
    if isinstance(value, float):
        seen = float(text)
        if math.isnan(value):
            return math.isnan(seen)
        # A float32 is written in as few digits as tell it from its neighbours: the least of all in one.
        return math.isclose(seen, value, rel_tol=1e-6) or np.float32(seen) == np.float32(value)
    return int(text) == value


def cast(values: pa.Array, dtype: str) -> np.ndarray[Any, Any]:
    return to_dtype(values, DTYPES[dtype], lambda place: f"column {place}")


def check_refused(values: pa.Array, dtype: str, place: int, value: Any) -> BadValue:
    with pytest.raises(BadValue) as caught:
        cast(values, dtype)
    fault = caught.value.fault
    assert (fault.kind, fault.column, fault.dtype) == ("cast", f"column {place}", dtype)
    assert same_number(fault.value, value), (fault.value, value)
    return caught.value


@settings(max_examples=250)
@given(arrays(), st.sampled_from(INTEGERS))
def test_integers_are_exact_or_refused(given_array: tuple[str, list[Any], pa.Array], dtype: str) -> None:
    _, values, array = given_array
    expected = [as_integer(value, dtype) for value in values]
    if None in expected:
        place = expected.index(None)
        bad = check_refused(array, dtype, place, values[place])
        info = np.iinfo(dtype)
        assert f"between {info.min} and {info.max}" in bad.fault.remedy
        return
    result = cast(array, dtype)
    assert result.dtype == np.dtype(dtype)
    assert [int(value) for value in result] == expected


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (127.9, "int8", 127),
        (128.0, "int8", None),
        (-128.9, "int8", -128),
        (-129.0, "int8", None),
        (255.9, "uint8", 255),
        (256.0, "uint8", None),
        (-0.9, "uint8", 0),
        (-0.9, "uint64", 0),
        (-1.0, "uint8", None),
        (-1.0, "uint64", None),
        (2147483647.9, "int32", 2147483647),
        (2147483648.0, "int32", None),
        (-2147483648.9, "int32", -2147483648),
        (-2147483649.0, "int32", None),
        (9.223372036854775e18, "int64", 9223372036854774784),
        (2.0**63, "int64", None),
        (-(2.0**63), "int64", -(2**63)),
        (np.nextafter(-(2.0**63), -math.inf), "int64", None),
        (2.0**63, "uint64", 2**63),
        (np.nextafter(2.0**64, 0), "uint64", 2**64 - 2048),
        (2.0**64, "uint64", None),
        (math.nan, "int64", None),
        (math.inf, "uint8", None),
        (-math.inf, "int16", None),
        (-0.0, "int32", 0),
    ],
)
def test_a_float_at_an_integers_bound(value: float, dtype: str, expected: int | None) -> None:
    array = pa.array([0.0, float(value)], pa.float64())
    if expected is None:
        check_refused(array, dtype, 1, float(value))
    else:
        assert [int(v) for v in cast(array, dtype)] == [0, expected]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_float32_at_an_integers_bound(dtype: str) -> None:
    """The bounds themselves must not be rounded to float32 on the way to the comparison."""
    info = np.iinfo(dtype)
    lowest, above = float(info.min), float(info.max + 1)
    inside = float(np.nextafter(np.float32(above), np.float32(0)))
    result = cast(pa.array([lowest, inside], pa.float32()), dtype)
    assert [int(value) for value in result] == [info.min, math.trunc(inside)]
    check_refused(pa.array([0.0, above], pa.float32()), dtype, 1, above)


@settings(max_examples=150)
@given(arrays(), st.sampled_from([name for name in FLOATS if name != "bfloat16"]))
def test_floats_are_rounded_as_numpy_rounds(given_array: tuple[str, list[Any], pa.Array], dtype: str) -> None:
    source, values, array = given_array
    result = cast(array, dtype)
    assert result.dtype == np.dtype(dtype)
    with np.errstate(all="ignore"):
        expected = np.array(values, source).astype(dtype)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


@settings(max_examples=150)
@given(arrays())
def test_only_zero_and_one_become_bool(given_array: tuple[str, list[Any], pa.Array]) -> None:
    _, values, array = given_array
    bad = [place for place, value in enumerate(values) if not (value == 0 or value == 1)]
    if bad:
        fault = check_refused(array, "bool", bad[0], values[bad[0]]).fault
        assert fault.remedy == "Only 0 and 1 become bool."
    else:
        result = cast(array, "bool")
        assert result.dtype == np.dtype(bool)
        assert result.tolist() == [bool(value) for value in values]


def bfloat16_bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Torch's own rounding, from float32."""
    return (
        torch.from_numpy(values.astype(np.float32))
        .to(torch.bfloat16)
        .view(torch.int16)
        .numpy()
        .view(np.uint16)
    )


def check_bfloat16(result: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
    assert result.dtype == np.uint16
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
    nan = np.isnan(single)
    np.testing.assert_array_equal(result[~nan], bfloat16_bits(single)[~nan])
    assert (
        torch.from_numpy(result.view(np.int16)).view(torch.bfloat16).isnan().numpy().tolist() == nan.tolist()
    )


@settings(max_examples=120)
@given(arrays())
def test_bfloat16_is_rounded_as_torch_rounds(given_array: tuple[str, list[Any], pa.Array]) -> None:
    source, values, array = given_array
    check_bfloat16(cast(array, "bfloat16"), np.array(values, source))


def test_bfloat16_ties_subnormals_and_extremes() -> None:
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    every = (upper[:, None] | lower).reshape(-1).view(np.float32)
    check_bfloat16(cast(pa.array(every), "bfloat16"), every)


def test_what_fits_already_is_not_copied() -> None:
    values = pa.array(np.arange(8, dtype=np.float32)).slice(3)
    assert np.shares_memory(cast(values, "float32"), values.to_numpy())


@pytest.mark.parametrize("dtype", ["int8", "float64", "bool", "bfloat16"])
def test_no_values_at_all(dtype: str) -> None:
    result = cast(pa.array([], pa.int64()), dtype)
    assert result.shape == (0,)
    assert result.dtype == DTYPES[dtype].storage


@settings(max_examples=120)
@given(
    st.lists(
        st.integers(-(10**24), 10**24) | st.sampled_from([n * 1000 + f for n in AROUND for f in (0, 1, 999)])
    ),
    st.sampled_from([*INTEGERS, "bool"]),
)
def test_decimals(thousandths: list[int], dtype: str) -> None:
    values = [Decimal(number).scaleb(-3) for number in thousandths]
    array = pa.array([Decimal("0.123"), *values], pa.decimal128(38, 3)).slice(1)
    if dtype == "bool":
        expected = [int(value) if value in (0, 1) else None for value in values]
    else:
        expected = [as_integer(value, dtype) for value in values]
    if None not in expected:
        assert [int(value) for value in cast(array, dtype)] == expected
        return
    with pytest.raises(BadValue) as caught:
        cast(array, dtype)
    fault, place = caught.value.fault, expected.index(None)
    assert (fault.column, fault.dtype) == (f"column {place}", dtype)
    assert Decimal(fault.value) in (values[place], math.trunc(values[place]))
    info = None if dtype == "bool" else np.iinfo(dtype)
    assert fault.remedy.startswith(
        f"It must be a number between {info.min} and {info.max}" if info else "Only 0 and 1"
    )


@pytest.mark.parametrize("value", ["0.5", "1.9", "-0.001", "2", "99999999999999999999"])
def test_a_decimal_that_is_not_0_or_1_never_becomes_bool(value: str) -> None:
    array = pa.array([Decimal(0), Decimal(1), Decimal(value)], pa.decimal128(38, 3))
    assert cast(array.slice(0, 2), "bool").tolist() == [False, True]
    with pytest.raises(BadValue) as caught:
        cast(array, "bool")
    assert caught.value.fault.column == "column 2"
    assert Decimal(caught.value.fault.value) == Decimal(value)


def test_decimals_beyond_int64_fit_uint64() -> None:
    array = pa.array([Decimal(2**64 - 1), Decimal("9223372036854775808.9")], pa.decimal128(38, 1))
    assert [int(value) for value in cast(array, "uint64")] == [2**64 - 1, 2**63]


DAY = datetime.timedelta(days=1)
EPOCH = datetime.datetime(1970, 1, 1)


@settings(max_examples=50)
@given(st.lists(st.dates(), min_size=1), st.integers(0, 3))
def test_dates_are_days(dates: list[datetime.date], skip: int) -> None:
    array = pa.array(dates, pa.date32()).slice(skip)
    expected = [(date - EPOCH.date()) // DAY for date in dates[skip:]]
    assert cast(array, "int32").tolist() == expected
    assert cast(array, "int64").tolist() == expected
    assert cast(array, "float64").tolist() == expected


@settings(max_examples=50)
@given(
    st.lists(st.datetimes(), min_size=1), st.integers(0, 3), st.sampled_from([None, "UTC", "Europe/Berlin"])
)
def test_timestamps_are_microseconds_in_utc(
    times: list[datetime.datetime], skip: int, zone: str | None
) -> None:
    utc = None if zone is None else datetime.UTC
    array = pa.array([time.replace(tzinfo=utc) for time in times], pa.timestamp("us", zone)).slice(skip)
    expected = [(time - EPOCH) // datetime.timedelta(microseconds=1) for time in times[skip:]]
    assert cast(array, "int64").tolist() == expected


def test_times_of_day_are_nanoseconds_and_intervals_microseconds() -> None:
    times = pa.array(
        [datetime.time(0, 0, 1), datetime.time(23, 59, 59, 999999), None], pa.time64("ns")
    ).slice(1, 1)
    assert cast(times, "int64").tolist() == [86_399_999_999_000]
    spans = pa.array([DAY, -DAY, datetime.timedelta(microseconds=-1)], pa.duration("us")).slice(1)
    assert cast(spans, "int64").tolist() == [-86_400_000_000, -1]


def test_a_timestamp_too_late_for_int32_is_refused() -> None:
    late = pa.array([0, 2**31], pa.timestamp("us"))
    check_refused(late, "int32", 1, 2**31)


@settings(max_examples=100)
@given(st.lists(st.booleans(), max_size=40), st.integers(0, 20), st.sampled_from(sorted(DTYPES)))
def test_booleans_at_odd_offsets(values: list[bool], skip: int, dtype: str) -> None:
    result = cast(pa.array(values, pa.bool_()).slice(skip), dtype)
    ones = 0x3F80 if dtype == "bfloat16" else 1
    assert result.dtype == DTYPES[dtype].storage
    assert result.tolist() == [ones if value else 0 for value in values[skip:]]


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_a_fill_lies_as_the_values_do(dtype: str) -> None:
    filled = fill_in_storage(1, DTYPES[dtype])
    assert filled.dtype == DTYPES[dtype].storage
    assert filled == cast(pa.array([1]), dtype)[0]


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_is_a_fill_for_every_float(dtype: str) -> None:
    bits = np.array([fill_in_storage(math.nan, DTYPES[dtype])])
    if dtype == "bfloat16":
        assert torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).isnan().all()
    else:
        assert np.isnan(bits).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_a_fill_beyond_the_dtype_is_infinite_without_a_warning(dtype: str) -> None:
    bits = np.array([fill_in_storage(1e300, DTYPES[dtype])])
    assert bits[0] == (0x7F80 if dtype == "bfloat16" else math.inf)
