"""Ranges: `in` one of them is arithmetic, and no range is gone through that is longer than is stated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lift_compare import spark_differences

from penstock.backends.edge_constants import named_by
from penstock.backends.verify import compared
from penstock.expr.lift.constants import LONGEST_RANGE
from penstock.lifted import lift

SEVENS = range(-20, 30, 7)
FALLING = range(50, -60, -3)
BEYOND = range(-(2**70), 2**70, 7)
ABOVE = range(2**62, 2**64, 1000)
NOWHERE = range(2**65, 2**66)


def long(n: int) -> bool:
    return n in range(10_000_000)


def sevens(n: int | None) -> bool:
    return n in SEVENS


def sevens_of_float(x: float) -> bool:
    return x in SEVENS


def falling(n: int) -> bool:
    return n not in FALLING


def falling_of_float(x: float | None) -> bool:
    return x in FALLING


def beyond(n: int) -> bool:
    return n in BEYOND


def above(n: int) -> bool:
    return n in ABOVE


def nowhere(n: int) -> bool:
    return n in NOWHERE or n in range(0)


def truths(b: bool, x: float) -> bool:
    return b in range(1, 20) and np.isnan(x) in range(3)


def of_numpy(x: float) -> bool:
    return np.abs(x) in SEVENS


def no_number(s: str) -> bool:
    return s in SEVENS or (s, 1) in SEVENS


def constants(n: int) -> bool:
    return n == len(range(10**11)) + range(10**11)[5] or (5 in range(10**11) and 2**64 in BEYOND)


LIFTED = [
    *(long, sevens, sevens_of_float, falling, falling_of_float, beyond, above, nowhere),
    *(truths, of_numpy, no_number, constants),
]
WHOLE = [
    *range(-64, 56),
    9_999_999,
    10_000_000,
    2**62,
    2**62 + 1000,
    2**63 - 1,
    -(2**63),
    -(2**63) + 1,
    10**11,
]


@pytest.mark.parametrize("function", LIFTED)
def test_it_is_lifted(function: Callable[..., Any]) -> None:
    lifted = lift(function)
    assert lifted.body is not None, lifted.plan
    reals = [*map(float, WHOLE), 1.5, -0.0, 1e19, -1e300, math.nan, math.inf, -math.inf]
    values: dict[str, list[Any]] = {"int": WHOLE, "float": reals, "str": ["", "1"], "bool": [True, False]}
    pools = [
        [*values[form.kind], *([None] if form.optional else [])] for form in lifted.body.arguments.values()
    ]
    rows = [tuple(pool[place % len(pool)] for pool in pools) for place in range(len(reals) + 1)]
    assert compared(lifted.body, lifted.body.function, rows, seconds=20).differences == ()


def test_spark_gives_the_same(spark: Any) -> None:
    bodies = {one.__name__: lift(one).body for one in (sevens, sevens_of_float, falling, beyond, above)}
    assert None not in bodies.values()
    assert spark_differences(spark, bodies, 120) == []  # type: ignore[arg-type]


def float_in_long(x: float) -> bool:
    return x in range(10_000_000)


def known_float_in_long(n: int) -> bool:
    return 1.5 in range(10**11) or n > 0


def added(n: int) -> int:
    return n + sum(range(10**11))


def rounds(n: int) -> int:
    for number in range(10**11):
        if n > number:
            break
        n += number
    return n


def from_behind(n: int) -> int:
    for number in reversed(range(2**70)):
        n += number
    return n


def listed(n: int) -> int:
    return max([number * 2 for number in range(10**11)]) + n


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (float_in_long, "`in` looks for a float in a long range"),
        (known_float_in_long, "`in` looks for a float in a long range"),
        (added, f"sum() goes through a range of more than {LONGEST_RANGE} numbers"),
        (rounds, f"a for loop goes through a range of more than {LONGEST_RANGE} numbers"),
        (from_behind, f"reversed() goes through a range of more than {LONGEST_RANGE} numbers"),
        (listed, f"a comprehension goes through a range of more than {LONGEST_RANGE} numbers"),
    ],
)
def test_a_long_one_is_refused_and_not_gone_through(function: Callable[..., Any], reason: str) -> None:
    begin = time.perf_counter()
    assert reason in str(lift(function).plan)
    assert time.perf_counter() - begin < 5


def test_values_around_a_range_are_some_of_it() -> None:
    found = named_by(beyond)
    assert {BEYOND[0], BEYOND[-1]} <= {*found}
    assert len(found) <= 16
    assert all(one in BEYOND for one in found)
    assert [*SEVENS] == named_by(sevens)
