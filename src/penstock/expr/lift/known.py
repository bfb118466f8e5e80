"""Values that are known while a function is lifted: how they come in, and what is computed from them at once."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from penstock.expr.lift.constants import LONGEST_RANGE, READABLE, is_constant, is_long_range
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import Known, Seq, Symbol, Value


def wrapped(value: Any) -> Value:
    """A constant, with tuples and lists opened, so that their elements can be told apart."""
    if isinstance(value, Symbol | Known | Seq):
        return value  # in a dict of values that differ from row to row
    if type(value) in (tuple, list):
        return Seq(tuple(wrapped(one) for one in value), type(value))
    return Known(value)


def plain(value: Value) -> Any:
    """The Python value of something known throughout; raises LookupError where it is not."""
    if isinstance(value, Known):
        return value.value
    if isinstance(value, Seq) and not value.once:
        return value.kind(plain(item) for item in value.items)
    raise LookupError


def is_plain(value: Value) -> bool:
    """Whether all of it is known."""
    if isinstance(value, Seq):
        return not value.once and all(is_plain(item) for item in value.items)
    return isinstance(value, Known) and not holds_values(value.value)


def holds_values(value: Any) -> bool:
    """Whether it is a dict whose values differ from row to row."""
    return type(value) is dict and any(isinstance(one, Symbol | Known | Seq) for one in value.values())


def items_of(machine: Machine, value: Value, what: str) -> list[Value]:
    """The elements of a sequence that is known, or written in the function."""
    if isinstance(value, Seq):
        return list(value.items)
    if isinstance(value, Known):
        require_readable(machine, value.value, f"{what} goes through")
        if is_long_range(value.value):
            _refuse_long(machine, what)
        try:
            found = list(value.value)
        except TypeError as error:
            machine.fail("TypeError", str(error))
        return [wrapped(one) for one in found]
    machine.refuse(
        f"{what} goes through a value that differs from row to row",
        "Go through a constant range, tuple or list; for list columns use Spark's functions.",
    )


def _refuse_long(machine: Machine, what: str) -> NoReturn:
    machine.refuse(
        f"{what} goes through a range of more than {LONGEST_RANGE} numbers",
        "Use a formula, or a shorter range.",
    )


def require_constant(machine: Machine, value: Any, doing: str) -> None:
    """Refuse to touch what is no plain constant: it may change, or be another thing where the rows are."""
    if not is_constant(value):
        machine.refuse(
            f"{doing} a value of type {type(value).__name__}, which is no plain constant",
            "Take what is needed of it into a plain constant before the function: a number, a text, a dict.",
        )


def require_readable(machine: Machine, value: Any, doing: str) -> None:
    """Refuse to take elements of what is no plain container. What its elements are does not matter here."""
    if type(value) not in READABLE:
        require_constant(machine, value, doing)


def native(machine: Machine, function: Any, args: Sequence[Value], words: dict[str, Value]) -> Value:
    """A pure function of constants, called here and now; what it raises is what every row raises."""
    given = [plain(arg) for arg in args]
    named = {word: plain(value) for word, value in words.items()}
    for one in (*given, *named.values()):
        require_constant(machine, one, "it computes with")
        if is_long_range(one) and _goes_through(function):
            _refuse_long(machine, f"{function.__name__}()")
    try:
        found = function(*given, **named)
    except Exception as error:
        machine.fail(type(error).__name__, str(error))
    if isinstance(found, Iterator):  # of zip and its kin
        return Seq(tuple(wrapped(one) for one in found), type(found))
    return wrapped(found)


def _goes_through(function: Any) -> bool:
    """Whether a function may take all elements of what it is given."""
    return isinstance(function, type | types.BuiltinFunctionType) and function not in (
        len,
        bool,
        str,
        repr,
        format,
    )
