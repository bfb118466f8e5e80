"""Truth values of NumPy's, of which two added are one and not two: what Python's bools share with them is lifted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lift_compare import spark_differences

from penstock.backends.verify import compared, converted
from penstock.expr.lift.forms import form_of
from penstock.lifted import lift

ON = np.True_
LIMIT = np.float64(3.0)
VALUES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 4.0, 1e300]


def there(x: float, y: float) -> bool:
    return ~np.isnan(x) & (np.abs(y) > 1.0) | (x > 3.0)


def apart(x: float, y: float) -> bool:
    return np.isnan(x) ^ np.isnan(y)


def inverted(x: float) -> bool:
    return bool(~(np.sqrt(x) > 1.0))


def branching(x: float, y: float) -> float:
    if np.isnan(x) or not np.isfinite(y):
        return 0.0
    return x if np.abs(x) >= y else y


def chained(x: float, y: float) -> bool:
    return 0.0 < np.abs(x) < 2.0 < y


def counted(x: float, y: float) -> int:
    return int(np.isnan(x)) + int(np.isnan(y)) + bool(np.isinf(x))


def returned_as_int(x: float) -> int:
    return np.isnan(x)


def returned_as_float(x: float) -> float:
    return np.isnan(x)


def undeclared(x: float, y: float):  # type: ignore[no-untyped-def]
    return np.isnan(x) or y > 3.0


def in_a_dict(x: float) -> str:
    return {True: "missing", False: "there"}[np.isnan(x)]


def in_a_list(x: float, flags: list[bool]) -> bool:
    return np.isnan(x) in flags


def shown(x: float) -> str:
    return f"{np.isnan(x)} " + str(x > LIMIT)


def halves(x: float, y: float) -> float:
    return 0.5 * np.isinf(x) + np.isnan(y)


def equal(x: float, y: float, n: int) -> bool:
    return (np.isnan(x) == np.isnan(y)) != (np.isnan(x) == n)


def never_none(x: float) -> bool:
    return np.isnan(x) == None or np.isnan(x) is True  # noqa: E711


def constant(x: float) -> int:
    return int((x > 1.0) & ON) + int(ON + ON) + int((LIMIT > 1.0) + (LIMIT > 2.0))


def quantified(x: float, y: float) -> bool:
    return any(np.isnan(v) for v in (x, y)) and max(np.isnan(x), np.isnan(y))


def not_an_index(x: float) -> str:
    return ("there", "missing")[np.isnan(x)]


def rounded_first(n: int) -> bool:
    return bool(np.floor(float(n)) == n)


def signed(x: float) -> float:
    return math.copysign(1.0, np.sign(x)) + np.sign(x)


LIFTED = [
    *(there, apart, inverted, branching, chained, counted, returned_as_int, returned_as_float, undeclared),
    *(in_a_dict, in_a_list, shown, halves, equal, never_none, constant, quantified, not_an_index),
    *(rounded_first, signed),
]


@pytest.mark.parametrize("function", LIFTED)
def test_it_is_lifted(function: Callable[..., Any]) -> None:
    lifted = lift(function)
    assert lifted.body is not None, lifted.plan
    pools = {"float": VALUES, "int": [0, 1, 2, 2**53, 2**53 + 1], "list": [[], [True], [False, True]]}
    first, *others = (pools[form.kind] for form in lifted.body.arguments.values())
    # Every first value with every second, and a third in turn.
    rows = [
        (one, *(pool[(place + step * number) % len(pool)] for number, pool in enumerate(others, 1)))
        for place, one in enumerate(first)
        for step in range(len(VALUES))
    ]
    assert compared(lifted.body, lifted.body.function, rows, seconds=20).differences == ()


def test_spark_gives_the_same(spark: Any) -> None:
    bodies = {one.__name__: lift(one).body for one in (there, chained, counted, in_a_dict, halves, signed)}
    assert None not in bodies.values()
    assert spark_differences(spark, bodies, 120) == []  # type: ignore[arg-type]


def test_python_returns_the_same_of_one() -> None:
    for annotation, wanted in ((bool, True), (int, 1), (float, 1.0)):
        form = form_of(annotation)
        assert form is not None
        found = converted(np.isnan(math.nan), form)
        assert (found, type(found)) == (wanted, annotation)


def two(x: float, y: float) -> int:
    return int(np.isnan(x) + np.isnan(y))


def two_compared(x: float, y: float) -> int:
    return int((np.abs(x) > 1e6) + (np.abs(y) > 1e6))


def summed(x: float, y: float) -> int:
    return sum([np.isnan(x), np.isnan(y)])


def with_an_int(x: float, n: int) -> int:
    return np.isnan(x) + n


def bits_of_an_int(x: float, n: int) -> int:
    return np.isnan(x) & n


def chained_and_added(x: float, y: float) -> int:
    return int((0 < x < np.abs(y)) + True)


def minus(x: float) -> float:
    return -np.isnan(x)


def repeated(s: str, x: float) -> str:
    return s * np.isnan(x)


def in_math(x: float) -> float:
    return math.sqrt(np.isnan(x))


def rounded(x: float) -> int:
    return round(np.isnan(x))


@pytest.mark.parametrize(
    "function",
    [
        *(two, two_compared, summed, with_an_int, bits_of_an_int, chained_and_added),
        *(minus, repeated, in_math, rounded),
    ],
)
def test_other_arithmetic_is_refused(function: Callable[..., Any]) -> None:
    assert "of a truth value of NumPy's follows NumPy's rules" in str(lift(function).plan)
