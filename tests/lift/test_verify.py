"""Verification: a lifted function that differs anywhere is not used, and the difference is shown."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from penstock.backends import engine
from penstock.backends.edge_values import ROWS, inputs
from penstock.backends.verify import agree, compared, converted, rows_for, same, verify
from penstock.errors import OutOfReach
from penstock.expr.lift import lift_function
from penstock.expr.lift.forms import Form, form_of
from penstock.lifted import lift


def ratio(x: float, y: float) -> float:
    return x / y if y > 2.5 else x - y


def texts(s: str, n: int | None) -> str:
    return s.strip() + str(n)


def remainder(x: int, y: int) -> int:
    return x % y


BROKEN = [
    (ratio, "divide", lambda good: lambda site, a, b: good(site, b, a)),
    (ratio, "subtract", lambda good: lambda site, a, b: good(site, a, type(b)(b.values + 1e-9, b.valid))),
    (ratio, "gt", lambda good: engine("arrow").TABLE["ge"]),
    (texts, "strip", lambda good: lambda site, x: x),
    (remainder, "int_modulo", lambda good: lambda site, a, b: type(a)(abs(a.values), a.valid)),
]


@pytest.mark.parametrize(("function", "op", "breaks"), BROKEN)
def test_a_broken_kernel_is_noticed(
    function: Any, op: str, breaks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lift(function).plan.tier == "native"
    table = engine("arrow").TABLE
    monkeypatch.setitem(table, op, breaks(table[op]))
    lifted = lift(function)
    assert lifted.plan.tier == "python"
    assert lifted.plan.verdict is not None
    assert lifted.plan.verdict.differences
    refusal = lifted.plan.refusal
    assert refusal is not None
    assert "its expression differs from it: for " in refusal.reason
    assert "Python " in refusal.reason


def test_a_forgotten_error_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = lift_function(remainder)
    assert verify(body, remainder).differences == ()
    silent = type(body)(
        body.function, body.arguments, body.returns, body.value, _nothing(), body.faults, body.messages
    )
    found = verify(silent, remainder).differences
    assert any("raises ZeroDivisionError" in str(one) for one in found)


def _nothing() -> Any:
    from penstock.expr.build import lit

    return lit(None, "int64")


def test_what_counts_as_the_same() -> None:
    assert same(math.nan, float("nan"))
    assert not same(0.0, -0.0)
    assert not same(1, True)
    assert not same(1, 1.0)
    assert same([1.0, "a"], [1.0, "a"])
    assert not same([0.0], [-0.0])
    assert agree(("raises", "ValueError"), ("raises", "ValueError"))
    assert not agree(("raises", "ValueError"), ("raises", "TypeError"))
    assert not agree(("raises", "ValueError"), ("returns", None))
    assert not agree(("returns", None), ("returns", 0))
    assert agree(("returns", 2**70), ("raises", "OutOfReach")), "declined, not wrong"


def test_results_are_converted_as_declared() -> None:
    number, whole, text = form_of(float), form_of(int | None), form_of(str)
    assert number is not None
    assert whole is not None
    assert text is not None
    assert same(converted(3, number), 3.0)
    assert converted(2.0, whole) == 2
    assert converted(True, whole) == 1
    assert converted(None, text) is None
    for value, form, error in (
        (2**53 + 1, number, ValueError),
        (2.5, whole, ValueError),
        (math.nan, whole, ValueError),
        (2**63, whole, OutOfReach),
        (1, text, TypeError),
        ("1", number, TypeError),
    ):
        with pytest.raises(error):
            converted(value, form)


def test_rows_are_seeded_and_meet_the_constants() -> None:
    body = lift_function(ratio)
    assert repr(rows_for(body, 300)) == repr(rows_for(body, 300))
    seen = {row[1] for row in rows_for(body, 300)}
    assert {2.5, math.nextafter(2.5, 3), math.nextafter(2.5, 2), -2.5} <= seen
    assert any(math.isnan(value) for value in seen)
    optional = lift_function(texts)
    assert any(row[1] is None for row in rows_for(optional, 100))
    assert next(inputs({}, ratio)) == ()


def three(a: float | None, b: float | None, c: float | None, n: int, s: str, t: str) -> bool:
    return a == b == c == n or s == t


def test_any_two_arguments_meet_on_edge_values() -> None:
    """Shuffled apart, two of six arguments were both nan in hardly a row."""
    body = lift_function(three)
    rows = rows_for(body, ROWS)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert any(row[one] is None and row[other] is None for row in rows)
        assert any(row[one] != row[one] and row[other] != row[other] for row in rows)
        assert sum(row[one] == row[other] for row in rows) >= 6
    assert any(row[:3] == (None, None, None) for row in rows)
    assert any(row[3] == 0 and all(one == 0 for one in row[:4]) for row in rows)
    assert any(all(one != one for one in row[:3]) for row in rows)
    assert sum(row[0] == row[3] for row in rows) >= 3, "a whole number and a float"
    assert sum(row[4] == row[5] for row in rows) >= 6
    early = rows[:20]  # of these the time allows in any case
    assert any(all(one != one for one in row[:3]) for row in early)


def either(x: float, y: float) -> int:
    return math.isnan(x) + math.isnan(y)


def test_a_mistake_that_shows_where_two_arguments_are_nan_is_noticed() -> None:
    def wrong(x: float, y: float) -> int:
        return int(math.isnan(x) or math.isnan(y))

    assert verify(lift_function(either), wrong).differences


CODES = {f"code-{number}": float(number) for number in range(150)}
EDGE = 6.125


def stripped(s: str) -> str:
    return s.removeprefix("zz-")


def by_code(s: str, x: float) -> float:
    return CODES.get(stripped(s), 0.0) + (x > EDGE)


def test_rows_meet_constants_that_are_named() -> None:
    rows = rows_for(lift_function(by_code), 240)
    assert len({row[0] for row in rows} & set(CODES)) >= 8, "a table that is looked up has to be hit"
    assert any("zz-" in row[0] for row in rows), "of a function that it calls"
    assert {EDGE, math.nextafter(EDGE, 7.0), math.nextafter(EDGE, 6.0)} <= {row[1] for row in rows}
    offset = 17

    def inner(n: int, k: int = 23) -> bool:
        return n in (offset, k)

    assert {offset, 23} <= {row[0] for row in rows_for(lift_function(inner), 240)}


def test_every_kind_of_argument_has_values() -> None:
    from datetime import date, datetime

    forms = {
        "a": form_of(bool),
        "b": form_of(date),
        "c": form_of(datetime | None),
        "d": form_of(list[float]),
        "e": form_of(list[str]),
    }
    assert None not in forms.values()
    rows = [row for row, _ in zip(inputs(forms, ratio), range(200), strict=False)]  # type: ignore[arg-type]
    assert {type(row[2]) for row in rows} == {datetime, type(None)}
    assert {type(row[1]) for row in rows} == {date}
    assert any(row[3] == [] for row in rows)
    assert all(isinstance(one, Form) for one in forms.values())


def power(x: int, n: int) -> int:
    return x**n


def slow(x: int) -> int:
    return sum([x for _ in range(200)])


def test_it_takes_milliseconds() -> None:
    lift(power)
    begin = time.perf_counter()
    for function in (ratio, texts, remainder, power, slow):
        lift(function)
    assert (time.perf_counter() - begin) / 5 < 0.5


def test_time_bounds_the_rows() -> None:
    def sleepy(x: int) -> int:
        return x + 1

    body = lift_function(sleepy)

    def napping(x: int) -> int:
        time.sleep(0.002)
        return x + 1

    verdict = compared(body, napping, rows_for(body, 200), seconds=0.01)
    assert 20 <= verdict.rows < 60
    assert verdict.differences == ()
