"""More of Python's constructs: what is lifted gives Python's values on Arrow and on Spark, the rest says why."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from lift_compare import spark_differences

from penstock.backends.verify import compared, rows_for
from penstock.expr.lift.lists import COMPENSATED
from penstock.lifted import lift

if TYPE_CHECKING:
    from nowhere import Thing


def percent(n: int, s: str) -> str:
    return "%s-%03d" % (s, n)  # noqa: UP031


def percent_more(x: float, s: str, n: int | None) -> str:
    return "%.2f%% %-6s|%6s|%s|%-4d" % (x, s, s, n, 7) + "%d" % len(s)  # noqa: UP031


def aligned(n: int, s: str, x: float) -> str:
    return f"{n:>6}|{s:<10}|{s:*>5}|{n:6d}|{s:8}|{s:.3}|{x:9.2f}|{x:08.1f}|{n:<4}|{s:>7s}|{n:05d}|{n!s:7}"


def close(x: float, n: int) -> bool:
    return math.isclose(x, n) or math.isclose(x, 2.5, rel_tol=0.1, abs_tol=1)


def to_hundreds(n: int) -> int:
    return round(n, -2) - round(n % 1000, -1)


def first_divisor(n: int) -> int:
    for step in (2, 3, 5):
        if n % step == 0:
            found = step
            break
        if n == 77:
            return -7
    else:
        found = 100
        if n == 7:
            return -1
    return found


def named_midway(s: str) -> int:
    if (place := s.find("a")) >= 0:
        return place
    return (count := len(s)) + count


def two_parts(s: str) -> str:
    head, tail = s.split(",")
    return tail + head


def cut_once(s: str) -> str:
    head, tail = s.split(".", 1)
    return tail + "|" + head


def cut(s: str) -> str:
    return f"{s.split('.', 1)[0]}|{s.split('.', maxsplit=1)[-1]}|{s.rsplit('.', 1)[-1]}|{s.rsplit('a', 1)[0]}"


def second(s: str | None) -> str:
    head, tail = s.rsplit("-", maxsplit=1)
    return tail + head if s.startswith("A") else s.split(".", 1)[1]


def replaced_once(s: str) -> str:
    return s.replace("a", "bb", 1) + s.replace("b", "", 0)


def found_later(s: str) -> int:
    return s.find("a", 2) * 10_000 + s.rfind("a") * 100 + s.rfind(s)


def from_the_right(s: str) -> str:
    head, mark, tail = s.rpartition(".")
    return f"{head}|{mark}|{tail}"


def of_ints(n: int) -> float:
    return np.sqrt(n) + np.log1p(n)


def bounded(x: float) -> float:
    return np.clip(x, 0, 1) + np.clip(x, None, 2.5) + np.minimum(x, 5)


def rounded(x: float) -> float:
    return np.round(x, 2) + np.round(x)


def measured(x: float, n: int) -> float:
    return np.log2(x) + np.hypot(x, 3.0) + np.log2(n)


def rectified(x: float) -> float:
    return np.maximum(x, 0) * 2 + np.maximum(x - 1.0, 0.0)


def root(n: int) -> int:
    return math.isqrt(n) - math.isqrt(n // 2)


def parts_of(x: float) -> float:
    fraction, whole = math.modf(x)
    return math.copysign(1.0, fraction) if whole == 0.0 else fraction - whole


def remains(x: float, y: float) -> float:
    return math.remainder(x, y)


def trimmed(x: float, n: int) -> float:
    return math.trunc(x) + math.fmod(x, 3.0) + math.copysign(n, x) + math.degrees(x) - math.radians(n)


def when_it_was(t: datetime) -> int:
    return t.microsecond + t.toordinal() * 10 + t.isoweekday()


def day_of(t: datetime) -> date:
    return t.date()


def days_of(t: datetime, d: date) -> int:
    return (t.date() - d).days + d.toordinal()


def dated(t: datetime, d: date | None) -> str:
    return f"{t}|{t.isoformat()}|{d}|{t.date().isoformat()}|{t.date()!s}"


def present(a: float | None, b: int | None, c: int | None) -> float:
    values = [a, b, c]
    count = len([v for v in values if v is not None])
    return sum(v for v in values if v is not None) / count if count else 0.0


def chosen_divisions(x: int) -> int:
    return sum(10 // (x - i) for i in (1, 2, 3) if i != x) + sum(1 for i in range(5) if x > i)


def by_lambda(x: float) -> float:
    scaled = lambda v, factor=2.0: v * factor + x  # noqa: E731
    x = 3.0
    return scaled(1.0) + scaled(x, factor=5.0)


def by_local(x: float) -> float:
    def squeezed(v, low, high=1.0):
        if v < low:
            return low
        double = v * 2
        return min(double, high)

    return squeezed(x, 0.0) + squeezed(x, -1.0, high=9.0)


def by_dict(s: str, x: float, y: float) -> float:
    table = {"a": x, "abc": y * 2, "ABC": 1.0}
    return table[s] if s in table else table.get(s.lower(), float(len(table)))


class Scaler:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def scaled(self, value: float) -> float:
        return value * self.factor

    @staticmethod
    def halved(value: float) -> float:
        return value / 2

    def both(self, x: float) -> float:
        return self.scaled(x) + self.halved(x)


SCALER = Scaler(3.0)


def by_method(x: float) -> float:
    return SCALER.scaled(x) + Scaler.halved(x)


LIFTED = [
    *(
        percent,
        percent_more,
        aligned,
        close,
        to_hundreds,
        first_divisor,
        named_midway,
        two_parts,
        cut_once,
        cut,
    ),
    *(second, replaced_once, found_later, from_the_right, of_ints, bounded, rounded, measured),
    *(() if COMPENSATED else (present,)),
    *(chosen_divisions, by_lambda, by_local, by_dict, SCALER.both, by_method),
    *(rectified, root, parts_of, remains, trimmed, when_it_was, day_of, days_of, dated),
]


@pytest.mark.parametrize("function", LIFTED, ids=lambda one: one.__name__)
def test_it_is_lifted(function: Any) -> None:
    lifted = lift(function)
    assert lifted.body is not None, lifted.plan
    verdict = compared(lifted.body, lifted.body.function, rows_for(lifted.body, 500), seconds=20)
    assert verdict.differences == ()
    assert verdict.declined < verdict.rows / 2


def test_spark_gives_the_same(spark: Any) -> None:
    chosen = (
        percent_more,
        aligned,
        close,
        to_hundreds,
        cut,
        replaced_once,
        found_later,
        bounded,
        rounded,
        *(() if COMPENSATED else (present,)),
        *(rectified, root, parts_of, remains, trimmed),
        *(when_it_was, day_of, days_of, dated),
    )
    wrong = []
    for function in chosen:
        body = lift(function).body
        assert body is not None
        wrong += spark_differences(spark, {function.__name__: body}, 80)
    assert wrong == []


def unknown_result(x: int, y: int) -> Thing:
    return x


def unknown_argument(x: int, y: Thing) -> int:
    return x


def day_replaced(d: date) -> date:
    return d.replace(day=1)


def rounds(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


def named_sometimes(s: str, b: bool) -> int:
    count = 1
    if b and (count := len(s)) > 2:
        return count
    return count


def kept_split(s: str) -> int:
    return len(s.split(".", 1))


def np_of_int(n: int) -> int:
    return np.abs(n)


def np_of_zeros(x: float) -> float:
    return np.minimum(x, 0.0)


def np_of_two(x: float, y: float) -> float:
    return np.maximum(x, y)


def titled(s: str) -> str:
    return s.title()


def divisor(n: int, m: int) -> int:
    return math.gcd(n, m)


def error_function(x: float) -> float:
    return math.erf(x)


def calls_itself(n: int) -> int:
    def again(k):
        return again(k - 1) if k else 0

    return again(n)


def grows_from_inside(n: int) -> int:
    found = []

    def add(value):
        found.append(value)

    add(n)
    return len(found)


def hidden_name(x: int) -> int:
    add = lambda v: v + x  # noqa: E731
    return sum([add(1) for x in (10, 20)])


def compared_dict(x: int) -> bool:
    return {"a": x} == {"a": 1}


def odd_format(n: int) -> str:
    return f"{n:,}"


REFUSED = [
    (unknown_result, 0, r"declared to return Thing, which stands for nothing here"),
    (unknown_argument, 0, r"'y' is declared Thing, which stands for nothing here"),
    (day_replaced, 1, r"datetime\.date\.replace\(\) has no exact expression"),
    (rounds, 2, r"the number of rounds differs from row to row"),
    (named_sometimes, 2, r"an assignment inside an expression that some rows do not come to"),
    (kept_split, 1, r"str\.split\(\) of a number of times is kept as a list"),
    (np_of_int, 1, r"a NumPy function of int follows NumPy's rules"),
    (np_of_zeros, 1, r"numpy\.minimum\(\) of what may be 0\.0 and -0\.0, of which the processor chooses one"),
    (np_of_two, 1, r"numpy\.maximum\(\) of what may be 0\.0 and -0\.0"),
    (titled, 1, r"str\.title\(\) has no exact expression"),
    (divisor, 1, r"math\.gcd\(\) takes steps until nothing is left, which Spark does slower than Python"),
    (error_function, 1, r"math\.erf\(\) has no exact expression"),
    (calls_itself, 2, r"again\(\) calls itself"),
    (grows_from_inside, 4, r"'found' in its place, which something else may stand for"),
    (hidden_name, 2, r"<lambda>\(\) and a comprehension that calls it have a name in common"),
    (compared_dict, 1, r"a dict of values that differ from row to row is compared"),
    (odd_format, 1, r"the format ',' of a int"),
]


@pytest.mark.parametrize(("function", "after", "reason"), REFUSED)
def test_it_is_refused_with_its_reason(function: Any, after: int, reason: str) -> None:
    refusal = lift(function).plan.refusal
    assert refusal is not None
    assert re.search(reason, refusal.reason), refusal
    assert refusal.line == function.__code__.co_firstlineno + after


def test_hints_that_resolve_count_beside_one_that_does_not() -> None:
    assert lift(unknown_argument, {"x": "int64", "y": "int64"}).plan.tier == "native"
