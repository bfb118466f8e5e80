"""Constant dicts and sets of many keys: as exact as small ones, on Arrow and on Spark, up to a limit that is stated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lift_compare import spark_differences

from penstock.backends.verify import compared
from penstock.expr.lift.lookups import MOST_COMPARED, MOST_KEYS
from penstock.lifted import lift

PRICES = {f"sku-{number}": number / 7 for number in range(MOST_KEYS)}
NAMES = {f"k{number}": f"group {number % 40}" for number in range(900)}
COUNTS = {number * 3: number for number in range(-700, 700)}
MIXED: dict[Any, Any] = {**dict.fromkeys(range(300), 1.5), "a": "x", None: 0, 2.0: 5, True: 7, "b": None}
FLAGS = {f"k{number}": number % 3 == 0 for number in range(399)}
MEMBERS = {f"k{number}" for number in range(3000)}
EVEN = frozenset(range(0, 900, 2))
HALVES = {number + 0.5 for number in range(300)}
PAIRS = {(number, "a") for number in range(40)}
BROKEN = {number + 0.5: number for number in range(MOST_COMPARED)}


def price(s: str) -> float:
    return PRICES.get(s, -1.0)


def name(s: str | None) -> str:
    return NAMES[s]


def count(n: int) -> int:
    return COUNTS.get(n, 0)


def count_of_float(x: float) -> int | None:
    return COUNTS.get(x)


def mixed(n: int | None) -> str:
    return "none" if MIXED.get(n) is None else str(MIXED[n] == 1.5)


def mixed_text(s: str) -> str:
    return str(MIXED.get(s, "away"))


def flag(s: str) -> bool:
    return FLAGS[s]


def member(s: str | None) -> bool:
    return s in MEMBERS


def even(x: float, b: bool) -> bool:
    return x in EVEN or b in EVEN


def half(x: float) -> bool:
    return x in HALVES


def pair(n: int, s: str) -> bool:
    return (n, s) in PAIRS


def broken(x: float) -> int:
    return BROKEN.get(x, -1)


MANY = [price, name, count, count_of_float, mixed, mixed_text, flag, member, even, half, pair, broken]
TEXTS = [
    "sku-0",
    f"sku-{MOST_KEYS - 1}",
    "sku-5000",
    "k0",
    "k398",
    "k899",
    "k900",
    "k2999",
    "a",
    "b",
    "",
    "K1",
    "é",
]
NUMBERS: list[Any] = [0, 1, 2, 3, -3, 298, 299, 300, 898, 900, 2097, -2100, 2**53 + 2, 2**62]


@pytest.mark.parametrize("function", MANY)
def test_many_keys_are_looked_up(function: Callable[..., Any]) -> None:
    lifted = lift(function)
    assert lifted.body is not None, lifted.plan
    reals = [*map(float, NUMBERS), 0.5, 2.5, 299.5, 399.5, 1e19, math.nan, math.inf, -0.0, -math.inf]
    values = {"str": TEXTS, "int": NUMBERS, "float": reals, "bool": [True, False]}
    pools = [
        [*values[form.kind], *([None] if form.optional else [])] for form in lifted.body.arguments.values()
    ]
    rows = [tuple(pool[place % len(pool)] for pool in pools) for place in range(60)]
    assert compared(lifted.body, lifted.body.function, rows, seconds=20).differences == ()


def test_spark_finds_the_same(spark: Any) -> None:
    bodies = {
        one.__name__: lift(one).body for one in (price, name, count_of_float, mixed, member, even, broken)
    }
    assert None not in bodies.values()
    assert spark_differences(spark, bodies, 120) == []  # type: ignore[arg-type]


TOO_MANY = {f"k{number}": number for number in range(MOST_KEYS + 1)}
TOO_BROKEN = {number + 0.5: number for number in range(MOST_COMPARED + 1)}


def too_many(s: str) -> int:
    return TOO_MANY.get(s, 0)


def too_broken(x: float) -> bool:
    return x in TOO_BROKEN


LARGE = {2**53 + 1: "a", 1: "b"}


def numpy_in_large(x: float) -> str | None:
    return LARGE.get(np.floor(x))


def numpy_in_large_set(x: float) -> bool:
    return np.floor(x) in {2**53 + 1, 1}


def numpy_in_large_tuple(x: float) -> bool:
    return np.floor(x) in (2**53 + 1, 1)


def test_a_numpy_number_equals_whole_numbers_that_it_does_not_hash_like() -> None:
    for function in (numpy_in_large, numpy_in_large_set):
        assert "looked up by its hash among whole numbers beyond 2**53" in str(lift(function).plan)
    body = lift(numpy_in_large_tuple).body
    assert body is not None
    rows = [(2.0**53,), (2.0**53 + 2,), (1.0,), (0.0,)]
    assert compared(body, numpy_in_large_tuple, rows, seconds=20).differences == ()


def test_what_is_too_much_is_refused_with_the_limit() -> None:
    assert f"{MOST_KEYS + 1} keys are looked up, and {MOST_KEYS} are the most" in str(lift(too_many).plan)
    assert f"more than {MOST_COMPARED} members" in str(lift(too_broken).plan)
