"""Dates and datetimes: their attributes, their methods, and how str() writes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import Symbol, Typed, Value
from penstock.expr.nodes import Expression
from penstock.expr.types import DATE

DATE_FIELDS = {"year": (1, 9999), "month": (1, 12), "day": (1, 31)}
CLOCK_FIELDS = {"hour": (0, 23), "minute": (0, 59), "second": (0, 59), "microsecond": (0, 999_999)}
EPOCH = date(1970, 1, 1)


def _whole(machine: Machine, expr: Expression, low: int, high: int) -> Symbol:
    return Symbol(((machine.trees.true, Typed("int", expr, low, high)),))


def time_attribute(machine: Machine, x: Typed, name: str) -> Value | None:
    """x.year and its kin; None where there is no such field."""
    fields = DATE_FIELDS | (CLOCK_FIELDS if x.kind == "datetime" else {})
    if name not in fields:
        return None
    return _whole(machine, machine.trees.make(name, x.held), *fields[name])


def time_method(machine: Machine, x: Typed, name: str, args: Sequence[Value]) -> Value | None:
    """x.weekday() and its kin; None where it has no exact expression."""
    trees = machine.trees
    if args:
        return None
    if name == "weekday":
        return _whole(machine, trees.make("weekday", x.held), 0, 6)
    if name == "isoweekday":
        day = trees.make("weekday", x.held)
        return _whole(machine, trees.make("int_add", day, machine.whole(1)), 1, 7)
    if name == "toordinal":
        days = trees.make("days_between", _day(machine, x), trees.literal(EPOCH, DATE))
        found = trees.make("int_add", days, machine.whole(EPOCH.toordinal()))
        return _whole(machine, found, 1, date.max.toordinal())
    if name == "date" and x.kind == "datetime":
        return machine.one("date", _day(machine, x))
    if name == "isoformat":
        return machine.one("str", time_text(machine, x, "T"))
    return None


def _day(machine: Machine, x: Typed) -> Expression:
    return x.held if x.kind == "date" else machine.trees.make("date_of", x.held)


def time_text(machine: Machine, x: Typed, between: str) -> Expression:
    """As isoformat() writes it: fractions of a second only where there are some."""

    def padded(field: str, width: int) -> Expression:
        text = machine.trees.make("cast", machine.trees.make(field, x.held), params={"to": "string"})
        return machine.trees.make("text_zfill", text, params={"width": width})

    def joined(mark: str, *parts: Expression) -> list[Expression]:
        return [piece for part in parts for piece in (machine.text(mark), part)][1:]

    day = joined("-", padded("year", 4), padded("month", 2), padded("day", 2))
    if x.kind == "date":
        return machine.trees.make("text_concat", *day)
    clock = joined(":", padded("hour", 2), padded("minute", 2), padded("second", 2))
    trees = machine.trees
    whole = trees.make("eq", trees.make("microsecond", x.held), machine.whole(0))
    rest = trees.make("text_concat", machine.text("."), padded("microsecond", 6))
    return trees.make(
        "text_concat", *day, machine.text(between), *clock, trees.choose(whole, machine.text(""), rest)
    )
