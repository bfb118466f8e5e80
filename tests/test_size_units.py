"""Units of `penstock size`: what is read is exact, what is written can be read back."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SizeError
from penstock.tools.size_units import (
    BYTES,
    SECONDS,
    count,
    rate,
    seconds,
    show_bytes,
    show_rate,
    show_seconds,
    size,
)

FOUR_DIGITS = 5.001e-4


@given(st.floats(1, 1e20))
def test_bytes_and_rates_can_be_read_back(found: float) -> None:
    assert abs(size(show_bytes(found)) - found) <= found * FOUR_DIGITS + 1
    assert rate(show_rate(found)) == pytest.approx(found, rel=FOUR_DIGITS)


@given(st.floats(1e-6, 1e12))
def test_times_can_be_read_back(found: float) -> None:
    assert seconds(show_seconds(found)) == pytest.approx(found, rel=FOUR_DIGITS)


@given(st.integers(1, 10**9), st.sampled_from(sorted(BYTES)), st.sampled_from(["", " ", "  "]))
def test_whole_units_are_exact(number: int, unit: str, space: str) -> None:
    if number * BYTES[unit] <= 10**24:
        assert size(f"{number}{space}{unit}") == number * BYTES[unit]
        assert rate(f"{number}{space}{unit}/s") == float(number * BYTES[unit])


@given(st.integers(1, 10**6), st.sampled_from(sorted(SECONDS)))
def test_times_are_the_nearest_number(number: int, unit: str) -> None:
    assert seconds(f"{number} {unit}") == float(Fraction(number) * Fraction(SECONDS[unit]))


@given(st.integers(1, 10**15))
def test_counts_come_in_many_spellings(number: int) -> None:
    assert count(number) == count(str(number)) == count(f"{number:,}") == count(f"{number:_}") == number


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2 GB/s", 2e9),
        ("2GB/s", 2e9),
        ("0.2 GB/s", 2e8),
        ("1.5 GiB/s", 1.5 * 2**30),
        ("400 Gbps", 5e10),
        ("100 Mbit/s", 1.25e7),
        ("2e9", 2e9),
        ("500 MB / s", 5e8),
        ("2,500 MB/s", 2.5e9),
        ("2 KB/s", 2000.0),
        ("2 GB/sec", 2e9),
        ("2 GB/Second", 2e9),
        ("8 Kbits/s", 1000.0),
        ("8 Gb/s", 1e9),
        ("8 GB/s", 8e9),
    ],
)
def test_speeds(text: str, found: float) -> None:
    assert rate(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3 min", 180),
        ("1h30min", 5400),
        ("1h30m", 5400),
        ("1 h 30 min", 5400),
        ("2 days", 172800),
        ("1e3", 1000),
        (".5 s", 0.5),
        ("3 mins", 180),
        ("3 Min", 180),
        ("2 hrs 5 Secs", 7205),
        ("1 HR", 3600),
        ("1,500 ms", 1.5),
    ],
)
def test_times(text: str, found: float) -> None:
    assert seconds(text) == found


@pytest.mark.parametrize("text", ["2 Billion", "2 billions", "2 G", "2 g", "2,000,000,000", "2000 M"])
def test_counts(text: str) -> None:
    assert count(text) == 2_000_000_000


@pytest.mark.parametrize("read", [rate, seconds, count, size])
@pytest.mark.parametrize(
    "number", ["2,5", "1,5e6", "2,50", "1,5000", "1,500,5", "1000,000", "1,,500", "1,_500"]
)
@pytest.mark.parametrize("unit", ["", " GB/s", " min", " million", " MB"])
def test_a_comma_is_for_thousands_alone(read, number: str, unit: str) -> None:
    with pytest.raises(
        SizeError, match=r"Commas are for thousands: 2,500 is 2500; for two and a half write 2\.5"
    ):
        read(number + unit)


@pytest.mark.parametrize(
    ("read", "given", "said"),
    [
        (rate, "fast", "not understood"),
        (rate, "2 GB", "is a size, not a speed"),
        (rate, "2 gb/s", "Units are B, kB"),
        (rate, 0, "more than nothing. Write '2 GB/s'"),
        (rate, "2", "has no unit"),
        (rate, "999.9", "has no unit"),
        (rate, "2/s", "has no unit"),
        (rate, -1.0, "from 0 to"),
        (rate, True, "neither a number nor a text"),
        (rate, None, "neither a number nor a text"),
        (rate, float("inf"), "from 0 to"),
        (seconds, "3 fortnights", "no time that is understood"),
        (seconds, "3 min later", "no time that is understood"),
        (seconds, "", "not understood|no time|more than nothing"),
        (seconds, "0 s", "more than nothing"),
        (count, "1e30", "from 0 to"),
        (count, "0", "at least 1"),
        (count, "2.5", "whole number"),
        (count, "1e999999999999999999999", "rows="),
        (size, "2 XB", "Units are"),
    ],
)
def test_what_is_not_understood_is_named(read, given, said) -> None:
    with pytest.raises(SizeError, match=said):
        read(given)


@given(st.text(max_size=12))
def test_no_text_brings_it_down(text: str) -> None:
    for read in (rate, seconds, count, size):
        try:
            found = read(text)
        except SizeError as error:
            assert repr(text) in str(error)  # noqa: PT017
        else:
            assert found >= 0
