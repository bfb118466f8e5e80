"""Rows of the table: dates and timestamps.

A timestamp is an instant, and which day or hour that is depends on where one asks: these operations want a zone for
it, and take none for dates and for timestamps without a zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.ops.base import EXACT, Op, Param, Params, Wrong, demand
from penstock.expr.types import FLOAT64, INT64, Type
from penstock.expr.zones import is_zone

TIMES = ("date", "timestamp", "timestamp_ntz")
DATED = ("year", "month", "day", "weekday", "day_of_year")
CLOCKED = ("hour", "minute", "second")


def _zone(value: Any) -> str | None:
    return (
        None
        if isinstance(value, str) and is_zone(value)
        else 'the name of a time zone, such as "Europe/Berlin"'
    )


def _field(op: Op, types: Sequence[Type], params: Params) -> Type:
    seen = types[0]
    kinds = TIMES if op.name in DATED else TIMES[1:]
    demand(op, types, kinds, " or ".join(kinds))
    if seen.kind == "timestamp" and "zone" not in params:
        raise ExpressionError(
            f'{op.name}(): its argument is a timestamp, an instant; say in which zone: .{op.name}("UTC"), or '
            f'.{op.name}("Europe/Berlin").'
        )
    if seen.kind != "timestamp" and "zone" in params:
        raise Wrong(op, 0, seen, "a timestamp to be seen in a zone", "Leave the zone out.")
    return INT64


def _epoch(op: Op, types: Sequence[Type], params: Params) -> Type:
    demand(op, types, TIMES, " or ".join(TIMES))
    return FLOAT64


def _between(op: Op, types: Sequence[Type], params: Params) -> Type:
    demand(op, types, TIMES, " or ".join(TIMES))
    if types[0] != types[1]:
        raise Wrong(op, 1, types[1], f"{types[0]}, as the left side is")
    return FLOAT64


def _of(name: str, doc: str) -> Op:
    return Op(name, ("argument",), _field, EXACT, doc, (Param("zone", _zone, required=False),))


OPS = (
    Op(
        "epoch_seconds",
        ("argument",),
        _epoch,
        EXACT,
        "Seconds since 1970-01-01, with their fraction; a date or timestamp without zone as if in UTC.",
    ),
    Op(
        "seconds_between", ("left", "right"), _between, EXACT, "left - right in seconds, with their fraction."
    ),
    _of("year", "The year."),
    _of("month", "The month, from 1."),
    _of("day", "The day of the month, from 1."),
    _of("weekday", "The day of the week; Monday is 0."),
    _of("day_of_year", "The day of the year, from 1."),
    _of("hour", "The hour, from 0 to 23."),
    _of("minute", "The minute, from 0 to 59."),
    _of("second", "The second, from 0 to 59, without its fraction."),
)
