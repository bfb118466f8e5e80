"""Decimals to floats: always the nearest one, as Python's own Decimal and Fraction have it."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dtypes import DTYPES
from penstock.wire.decimals import to_floats

EXACT = Context(prec=100)


@st.composite
def decimals(draw: st.DrawFn) -> tuple[list[Decimal], pa.DataType]:
    make, most = draw(
        st.sampled_from([(pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)])
    )
    precision = draw(st.integers(1, most))
    scale = draw(st.integers(0, precision))
    top = 10**precision - 1
    numbers = draw(st.lists(st.integers(-top, top) | st.sampled_from([0, top, -top]), max_size=5))
    return [Decimal(number).scaleb(-scale, EXACT) for number in numbers], make(precision, scale)


@settings(max_examples=500)
@given(drawn=decimals())
def test_doubles_are_the_nearest(drawn: tuple[list[Decimal], pa.DataType]) -> None:
    numbers, kind = drawn
    column = pa.array([Decimal(0), *numbers], kind).slice(1)
    assert to_floats(column, DTYPES["float64"]).tolist() == [float(number) for number in numbers]


def distance(number: Decimal, single: Any) -> Fraction:
    return abs(Fraction(number) - Fraction(float(single)))


@settings(max_examples=500)
@given(drawn=decimals())
def test_floats_are_the_nearest(drawn: tuple[list[Decimal], pa.DataType]) -> None:
    numbers, kind = drawn
    for number, found in zip(numbers, to_floats(pa.array(numbers, kind), DTYPES["float32"]), strict=True):
        if np.isinf(found):
            assert abs(number) > Decimal(float(np.finfo(np.float32).max))
            continue
        around = [np.nextafter(found, np.float32(way)) for way in (-np.inf, np.inf)]
        assert all(
            distance(number, found) <= distance(number, other) for other in around if np.isfinite(other)
        )


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("nudge", "expected"),
    [(Decimal("1e-20"), 16777218.0), (Decimal("-1e-20"), 16777216.0), (Decimal(0), 16777216.0)],
)
def test_a_double_halfway_between_two_floats_hides_the_side(
    sign: int, nudge: Decimal, expected: float
) -> None:
    number = EXACT.add(Decimal(16777217), nudge)
    assert float(number) == 16777217.0
    column = pa.array([number * sign if sign == 1 else EXACT.minus(number)], pa.decimal128(38, 20))
    assert to_floats(column, DTYPES["float32"]).tolist() == [expected * sign]
