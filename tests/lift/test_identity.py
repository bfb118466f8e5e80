"""Sequences and `in` take one nan for equal to itself: where two floats may be one object, that is kept or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from penstock.backends.verify import compared
from penstock.lifted import lift

NAN = math.nan
SOME = (NAN, *map(float, range(20)))
NAMED = {NAN: 1, 2.0: 2}


def same_first(x: float, y: float, z: float) -> bool:
    return (x, y) == (x, z)


def same_variable(x: float, y: float, z: float) -> bool:
    t = x + 1.0
    return (t, y) == (t, z)


def in_order(x: float, y: float) -> bool:
    return [x, y] <= [x, y]


def among_itself(x: float, y: float) -> bool:
    return x in (x, y)


def turned(x: float, y: float) -> bool:
    return (x, y) == (y, x)


def nested(x: float, y: float) -> bool:
    pair = (x, y)
    return (pair, 1) == (pair, 1)


def whole(n: int, m: int) -> bool:
    return (float(n), m) == (float(n), n)


def constant_nan(x: float) -> bool:
    return (NAN, x) == (NAN, 1.0) or NAN in (x, NAN)


def another_nan(x: float) -> bool:
    return x in (NAN, 1.0) or x in SOME or NAMED.get(x, 0) == 1


def behind_a_branch(x: float, y: float | None) -> bool:
    if y is None:
        y = 1.0
    return (x, y) == (x, 1.0)


LIFTED = [
    *(same_first, same_variable, in_order, among_itself, turned, nested, whole, constant_nan, another_nan),
    behind_a_branch,
]


@pytest.mark.parametrize("function", LIFTED)
def test_it_is_lifted(function: Callable[..., Any]) -> None:
    lifted = lift(function)
    assert lifted.body is not None, lifted.plan
    numbers = [0.0, -0.0, 1.0, 2.0, math.inf]
    pools = {"float": [*(float("nan") for _ in range(3)), *numbers], "int": [0, 1, 2**53 + 1]}
    first, *others = (pools[form.kind] for form in lifted.body.arguments.values())
    rows = [
        (one, *(pool[(place + step * number) % len(pool)] for number, pool in enumerate(others, 1)))
        for place, one in enumerate(first)
        for step in range(8)
    ]
    # No two values of columns are one object.
    rows = [tuple(float("nan") if value != value else value for value in row) for row in rows]
    assert compared(lifted.body, lifted.body.function, rows, seconds=20).differences == ()


def computed_twice(x: float, y: float, z: float) -> bool:
    return (x + 1.0, y) == (x + 1.0, z)


def one_of_two(x: float, y: float) -> bool:
    return (x if y > 0.0 else y) in (x, 1.0)


def elements(xs: list[float], n: int) -> bool:
    return (xs[0], 1) == (xs[n], 1)


def perhaps_the_constant(x: float) -> bool:
    return (NAN if x > 0.0 else x) in SOME


def perhaps_the_key(x: float) -> int:
    return NAMED.get(NAN if x > 0.0 else x, 0)


def one_nan_or_another(x: float) -> bool:
    return ((NAN if x > 0.0 else float("nan")), 1) == (NAN, 1)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (computed_twice, "a float may be compared with itself"),
        (one_of_two, "a float may be compared with itself"),
        (elements, "a float may be compared with itself"),
        (perhaps_the_constant, "a float may be compared with itself"),
        (perhaps_the_key, "found only as one object"),
        (one_nan_or_another, "a float may be compared with itself"),
    ],
)
def test_what_may_be_one_object_is_refused(function: Callable[..., Any], reason: str) -> None:
    assert reason in str(lift(function).plan)
