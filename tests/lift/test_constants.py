"""What a function names from outside is read where it is plain data, and never changed or run while lifting."""

from __future__ import annotations

import collections
import enum
import os
from datetime import date
from typing import Any

import numpy as np
import pytest

from penstock.lifted import lift

VIP = "gold-member"
POPPED = {"a": 1.0}
STATS: dict[str, int] = {}
SEEN: set[str] = set()
GROWING = [1, 2]
COUNTED: collections.Counter[str] = collections.Counter("aab")
WEIGHTS = np.array([0.5, 2.0])
GENERATED = (each for each in (1, 2, 3))


def updates_in_a_branch(level: str) -> float:
    rates = {"base": 1.0}
    if level != VIP:
        rates.update({"base": 0.8})
    return rates["base"]


def adds_in_a_branch(chosen: bool) -> int:
    found = set()
    if chosen:
        found.add("x")
    return len(found)


def pops(x: float) -> float:
    return x * POPPED.pop("a", 2.0)


def counts_calls(x: float) -> float:
    STATS.update(calls=1)
    return x


def remembers(x: float) -> float:
    SEEN.add("x")
    return x


def renamed_and_grown(x: int) -> int:
    values = GROWING
    values.append(x)
    return len(values)


def grown_in_a_tuple(x: int) -> int:
    values = [1]
    pair = (values, 2)
    values.append(x)
    return len(pair[0])


def grown_by_merging(x: int) -> int:
    values, others = [1], [2]
    if x > 3:
        others = values
    values.append(x)
    return others[-1]


def default_grown(x: int, values=[]) -> int:  # noqa: B006
    values += [x]
    return len(values)


def alias_grown(x: int) -> int:
    values = [1]
    others = values
    others += [x]
    return len(values)


def set_joined(x: str) -> bool:
    names = {"a"}
    names |= {"b"}
    return x in names


def keep(values: Any) -> Any:
    mine = values
    values = 0
    mine.append(3)
    return mine[values]


def grown_by_another(x: int) -> int:
    values = [x % 10]
    return keep(values) + len(values)


def environment(x: str) -> str:
    return x + os.environ["HOME"]


def environment_get(x: str) -> str:
    return x + os.environ.get("HOME", "")


def environment_asked(x: int) -> int:
    return x if "HOME" in os.environ else 1


def environment_truth(x: int) -> int:
    return x if os.environ else 1


def today(d: date) -> bool:
    return d < CUTOFF.today()


def counter_element(x: int) -> int:
    return x + COUNTED["c"]


def drained(x: int) -> int:
    return x + sum(GENERATED)


def kept_generator(x: int) -> int:
    values = (v for v in (x, 2))
    return max(values) + sum(values)


def kept_zip(x: int) -> int:
    pairs = zip((x, 2), (3, 4), strict=False)
    return sum(a for a, _ in pairs) + sum(b for _, b in pairs)


def half_done(s: str) -> float:
    parts = []
    try:
        parts.append(1)
        value = float(s)
    except ValueError:
        parts.append(9)
        value = 0.0
    return value + len(parts)


REFUSED = [
    (updates_in_a_branch, 3, r"dict\.update\(\) changes a dict in its place"),
    (adds_in_a_branch, 3, r"set\.add\(\) changes a set in its place"),
    (pops, 1, r"dict\.pop\(\) changes a dict"),
    (counts_calls, 1, r"dict\.update\(\) changes a dict"),
    (remembers, 1, r"set\.add\(\) changes a set"),
    (renamed_and_grown, 2, "'values' in its place, which comes from outside the function"),
    (grown_in_a_tuple, 3, "'values' in its place, which something else may stand for"),
    (grown_by_merging, 4, "'values' in its place, which something else may stand for"),
    (default_grown, 1, "'values' in its place, which comes from outside the function"),
    (alias_grown, 3, "'others' in its place, which something else may stand for"),
    (set_joined, 2, "an augmented assignment changes a set in its place"),
    (environment, 1, "an element of a value of type _Environ, which is no plain constant"),
    (environment_get, 1, r"_Environ\.get\(\) has no exact expression"),
    (environment_asked, 1, "a value of type _Environ is asked"),
    (environment_truth, 1, "a value of type _Environ is asked"),
    (today, 1, r"date\.today\(\) has no exact expression"),
    (counter_element, 1, "a value of type Counter, which is no plain constant"),
    (drained, 1, "a value of type generator, which is no plain constant"),
    (kept_generator, 1, "a generator is kept, which can be gone through a single time"),
    (kept_zip, 1, "a zip is kept"),
    (half_done, 9, "'parts' is read after a try"),
]


@pytest.mark.parametrize(
    ("function", "after", "reason"), REFUSED, ids=lambda one: getattr(one, "__name__", "")
)
def test_it_is_refused_and_nothing_is_touched(function: Any, after: int, reason: str) -> None:
    refusal = lift(function).plan.refusal
    assert refusal is not None, "it is lifted"
    assert __import__("re").search(reason, refusal.reason), refusal
    if refusal.function == function.__name__ and function is not half_done:
        assert refusal.line == function.__code__.co_firstlineno + after
    assert ({"a": 1.0}, {}, set(), [1, 2]) == (POPPED, STATS, SEEN, GROWING)
    assert collections.Counter("aab") == COUNTED
    assert default_grown.__defaults__ == ([],)


def test_a_caller_may_hold_the_list_that_a_function_grows() -> None:
    refusal = lift(grown_by_another).plan.refusal
    assert refusal is not None
    assert refusal.function == "keep"
    assert "which something else may stand for" in refusal.reason


def test_a_generator_outside_is_not_run() -> None:
    lift(drained)
    assert next(GENERATED) == 1


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


def local_list(x: int, s: str) -> int:
    values = [1, x % 100]
    for step in (1, 2):
        values.append(step * x % 7)
    values += (3, 4)
    more = sorted([3, 1, 2])
    more.append(len(s))
    own = list(GROWING)
    own.append(5)
    return sum(values) + more[-1] + more[0] + len(own)


def read_only(s: str, x: float) -> float:
    names = {"a": 1.0, "b": 2.0}
    total = 0.0
    for key, value in names.items():
        if s == key or s in {"x"}.union({"y"}):
            total = total + value * x
    return total + len(names.keys()) + "abc".index("b") + WEIGHTS[1]


def dates(d: date) -> bool:
    return date(2020, 2, 29) <= d < date(2024, 1, 1)


Point = collections.namedtuple("Point", "x y")
ORIGIN = Point(1.5, -2.0)
CUTOFF = date(2021, 3, 4)


def named_constants(x: float, d: date) -> float:
    return x * ORIGIN.x + ORIGIN[1] + (d.year > CUTOFF.year) + CUTOFF.weekday()


def members(n: int) -> int:
    return Level.HIGH.value if n == Level.LOW.value else n


def zipped(x: int) -> int:
    pairs = list(zip((x % 10, 2), (3, 4), strict=True))
    first, second = reversed([x % 5, 7])
    return sum(a * b for a, b in pairs) + first + sum(i for i, _ in enumerate(pairs)) + second


@pytest.mark.parametrize("function", [local_list, read_only, dates, members, zipped, named_constants])
def test_what_is_plain_is_lifted(function: Any) -> None:
    lifted = lift(function)
    assert lifted.plan.tier == "native", lifted.plan
