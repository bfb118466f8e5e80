"""Errors that a function raises itself: their class and, to the letter, the text that Python gives them."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from penstock.backends import engine
from penstock.backends.verify import verify
from penstock.expr.build import col
from penstock.expr.lift import lift_function
from penstock.lifted import lift


class Plain(ValueError):
    """Leaves everything to Exception."""


class Writes(ValueError):
    def __init__(self, value: int) -> None:
        super().__init__(f"odd: {value}")


class Shows(Exception):
    def __str__(self) -> str:
        return "shown"


class ChildOfShows(Shows):
    pass


def constant(s: str) -> int:
    if s == "a":
        raise KeyError("gone")
    if s == "abc":
        raise Plain("a", 2)
    if s == "ABC":
        raise ValueError
    if s == "0":
        raise ValueError("{oops}")
    return len(s)


def computed(n: int, s: str) -> int:
    if n == 3:
        raise Plain(f"{s} is {n}")
    if n == 5:
        raise KeyError(n)
    return n


def from_another(s: str) -> int:
    try:
        return int(s)
    except ValueError as error:
        raise Plain(f"no number: {s}") from error


def from_none(s: str) -> int:
    try:
        return int(s)
    except ValueError:
        raise Plain("no number") from None


@pytest.mark.parametrize("function", [constant, computed, from_another, from_none])
def test_the_text_is_pythons(function: Any) -> None:
    assert lift(function).plan.tier == "native", lift(function).plan
    body = lift_function(function)
    assert body.raised
    wrong = type(body)(
        body.function,
        body.arguments,
        body.returns,
        body.value,
        body.fault,
        tuple(fault.replace("o", "0").replace("{0}", "{1}") for fault in body.faults),
        (*body.messages, *body.messages),
        frozenset(fault.replace("o", "0").replace("{0}", "{1}") for fault in body.raised),
    )
    if function in (constant, from_none):
        assert any("and the expression raises" in str(one) for one in verify(wrong, function).differences)


def raised_for(function: Any, value: Any) -> Exception:
    arrow = engine("arrow")
    table = pa.table({"c": [value]})
    with pytest.raises(Exception) as caught:  # noqa: PT011
        arrow.prepare({"y": lift(function)(col("c"))}, arrow.schema_of(table.schema))(table)
    return caught.value


@pytest.mark.parametrize("value", ["a", "ABC", "0"])
def test_the_error_itself_reads_the_same(value: str) -> None:
    with pytest.raises(Exception) as own:  # noqa: PT011
        constant(value)
    found = raised_for(constant, value)
    assert (type(found), str(found)) == (type(own.value), str(own.value))


def writes(x: int) -> int:
    if x == 3:
        raise Writes(x)
    return x


def shows(x: int) -> int:
    if x == 3:
        raise ChildOfShows("a")
    return x


def several(x: int) -> int:
    if x == 3:
        raise Plain("a", x)
    return x


def numbered(x: int) -> int:
    if x == 3:
        raise OSError(2, "no such file")
    return x


def quoted(s: str) -> int:
    if s == "a":
        raise KeyError(s)
    return 1


def named(x: int) -> int:
    if x == 3:
        raise ImportError("a", name="b")
    return x


def shadowing(x: int) -> int:
    if x == 3:
        raise OTHER("a")
    return x


OTHER = type("ValueError", (Exception,), {})

REFUSED = [
    (writes, r"Writes has __init__ of its own in Writes"),
    (shows, r"ChildOfShows has __str__ of its own in Shows"),
    (several, r"raised with 2 values, some of which differ"),
    (numbered, r"chooses another class"),
    (quoted, r"KeyError shows a str that differs from row to row as repr\(\) does"),
    (named, r"raised with named or starred arguments"),
    (shadowing, r"two classes of errors are named ValueError"),
]


@pytest.mark.parametrize(("function", "reason"), REFUSED)
def test_what_writes_its_own_text_is_refused(function: Any, reason: str) -> None:
    refusal = lift(function).plan.refusal
    assert refusal is not None
    assert re.search(reason, refusal.reason), refusal
    assert refusal.line == function.__code__.co_firstlineno + 2
