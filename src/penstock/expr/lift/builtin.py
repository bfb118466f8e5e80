"""Python's builtin functions on values that differ from row to row.

Each takes the machine and the arguments' values. `penstock.expr.lift.calls` decides which is called.
"""

from __future__ import annotations

import abc
import bisect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from penstock.expr.lift.arithmetic import absolute, operate
from penstock.expr.lift.comparison import compare, truth
from penstock.expr.lift.conversion import rounded, to_bool, to_float, to_int, to_text
from penstock.expr.lift.known import is_plain, items_of, native, plain
from penstock.expr.lift.lists import COMPENSATED, all_true, any_true, refuse_text, summed
from penstock.expr.lift.lists import best as best_of_list
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.texts import length
from penstock.expr.lift.values import PYTHON_NAMES, Known, Seq, Symbol, Typed, Value
from penstock.expr.nodes import Expression

Builtin = Callable[[Machine, Sequence[Value]], Value]
CHECKS = (type.__instancecheck__, abc.ABCMeta.__instancecheck__)
"""Where an object's class is all that isinstance() asks for. A metaclass with another may ask for anything."""


def _of_one(handle: Callable[[Machine, Typed], Value], name: str) -> Builtin:
    def function(machine: Machine, args: Sequence[Value]) -> Value:
        if len(args) != 1:
            machine.refuse(f"{name}() with {len(args)} arguments", "Give one.")
        return machine.over(args, lambda x: handle(machine, x))

    return function


def _extreme(op: str, name: str) -> Builtin:
    """max and min: the first of the best, as Python compares them."""

    def function(machine: Machine, args: Sequence[Value]) -> Value:
        if len(args) == 1 and isinstance(args[0], Symbol):
            return best_of_list(machine, args[0], name)
        values = list(args) if len(args) > 1 else items_of(machine, args[0], f"{name}()")
        if not values:
            machine.fail("ValueError", f"{name}() arg is an empty sequence")
        best = values[0]
        for value in values[1:]:
            better = compare(machine, op, value, best)
            best = machine.merge(better, value, best) if better is not machine.trees.false else best
        return best

    return function


def best_or(machine: Machine, function: Any, value: Value, default: Value) -> Value:
    """max(values, default=...) and min(): the default where there are none."""
    if isinstance(value, Symbol):
        return best_of_list(machine, value, function.__name__, default)
    found = items_of(machine, value, f"{function.__name__}()")
    return SYMBOLIC[function](machine, [Seq(tuple(found))]) if found else default


def _sum(machine: Machine, args: Sequence[Value]) -> Value:
    if isinstance(args[0], Symbol):
        return summed(machine, args[0], args[1] if len(args) > 1 else Known(0))
    values = items_of(machine, args[0], "sum()")
    total = args[1] if len(args) > 1 else Known(0)
    refuse_text(machine, total)
    for place, value in enumerate(values):
        if place:
            _refuse_compensated(machine, value)
        total = machine.over([total, value], lambda a, b: operate(machine, "Add", a, b))
    return total


def sum_of_chosen(machine: Machine, chosen: Sequence[tuple[Expression, Value | None]]) -> Value:
    """sum() of elements that are there under conditions."""
    total: Value = Known(0)
    for condition, value in chosen:
        if value is None:
            continue
        _refuse_compensated(machine, value)
        added = machine.branch(
            condition,
            lambda total=total, value=value: machine.over(  # type: ignore[misc]
                [total, value], lambda a, b: operate(machine, "Add", a, b)
            ),
        )
        total = machine.merge(condition, added, total)
    return total


def count_of_chosen(machine: Machine, chosen: Sequence[tuple[Expression, Value | None]]) -> Value:
    """len() of a list of elements that are there under conditions."""
    total: Value = Known(0)
    for condition, _ in chosen:
        there = _decided(machine, condition)
        total = machine.over([total, there], lambda a, b: operate(machine, "Add", a, b))
    return total


def _refuse_compensated(machine: Machine, value: Value) -> None:
    if COMPENSATED and _has_float(machine, value):
        machine.refuse("sum() of floats, which this Python adds with compensation", "Write a + b + c.")


def _has_float(machine: Machine, value: Value) -> bool:
    return any(typed.kind == "float" for _, typed in machine.symbol(value).cases)


def _any(machine: Machine, args: Sequence[Value]) -> Value:
    if isinstance(args[0], Symbol):
        return any_true(machine, args[0])
    found = machine.trees.false
    for value in items_of(machine, args[0], "any()"):
        found = machine.trees.either(found, truth(machine, value))
    return _decided(machine, found)


def _all(machine: Machine, args: Sequence[Value]) -> Value:
    if isinstance(args[0], Symbol):
        return all_true(machine, args[0])
    found = machine.trees.true
    for value in items_of(machine, args[0], "all()"):
        found = machine.trees.both(found, truth(machine, value))
    return _decided(machine, found)


def _decided(machine: Machine, condition: Any) -> Value:
    decided = machine.decide(condition)
    return machine.one("bool", condition) if decided is None else Known(decided)


def _round(machine: Machine, args: Sequence[Value]) -> Value:
    digits = None
    if len(args) == 2:
        if not isinstance(args[1], Known) or not (args[1].value is None or type(args[1].value) is int):
            machine.refuse("round() to a number of digits that differs from row to row", "Use a constant.")
        digits = args[1].value
    return machine.over(args[:1], lambda x: rounded(machine, x, digits))


def _isinstance(machine: Machine, args: Sequence[Value]) -> Value:
    if len(args) != 2:
        machine.fail("TypeError", f"isinstance expected 2 arguments, got {len(args)}")
    value, wanted = args
    classes = tuple(_classes_in(machine, wanted))
    if isinstance(value, Seq):
        return Known(issubclass(value.kind, classes))
    if isinstance(value, Known):
        return Known(isinstance(value.value, classes))
    found = machine.trees.false
    for guard, typed in machine.symbol(value).cases:
        if issubclass(_class_of(machine, typed), classes):
            found = machine.trees.either(found, guard)
    return _decided(machine, found)


def _classes_in(machine: Machine, wanted: Value) -> Iterator[type]:
    """The classes that isinstance() is given: one, or tuples of them in each other."""
    if isinstance(wanted, Seq) and wanted.kind is tuple:
        for one in wanted.items:
            yield from _classes_in(machine, one)
    elif isinstance(wanted, Known) and typing.get_origin(wanted.value) in (typing.Union, types.UnionType):
        for one in typing.get_args(wanted.value):
            yield from _classes_in(machine, Known(one))
    elif isinstance(wanted, Known) and getattr(type(wanted.value), "__instancecheck__", None) in CHECKS:
        yield wanted.value
    else:
        machine.refuse("isinstance() of something else than plain classes", "Name the classes.")


def _class_of(machine: Machine, typed: Typed) -> type:
    known = {"bool": bool, "int": int, "float": float, "str": str, "none": type(None), "list": list}
    known |= {"date": date, "datetime": datetime}
    if typed.kind not in known:
        machine.refuse(
            f"isinstance() of a {PYTHON_NAMES.get(typed.kind, typed.kind)}", "Turn it into a float first."
        )
    return known[typed.kind]


def _len(machine: Machine, args: Sequence[Value]) -> Value:
    if isinstance(args[0], Seq):
        if args[0].once:
            machine.fail("TypeError", f"object of type '{args[0].kind.__name__}' has no len()")
        return Known(len(args[0].items))
    if isinstance(args[0], Known) and type(args[0].value) is dict:
        return Known(len(args[0].value))
    return machine.over(args, lambda x: length(machine, x))


def _bool(machine: Machine, args: Sequence[Value]) -> Value:
    if isinstance(args[0], Seq):
        return Known(args[0].once or bool(args[0].items))
    return _of_one(to_bool, "bool")(machine, args)


def _tuple(machine: Machine, args: Sequence[Value]) -> Value:
    return Seq(tuple(items_of(machine, args[0], "tuple()")) if args else ())


def _list(machine: Machine, args: Sequence[Value]) -> Value:
    return machine.made(items_of(machine, args[0], "list()") if args else ())


def _enumerate(machine: Machine, args: Sequence[Value]) -> Value:
    if len(args) > 2:
        machine.fail("TypeError", f"enumerate() takes at most 2 arguments ({len(args)} given)")
    start = args[1] if len(args) > 1 else Known(0)
    items = items_of(machine, args[0], "enumerate()")
    if not isinstance(start, Known):
        machine.refuse("enumerate() from a number that differs from row to row", "Add it in the loop.")
    numbers = native(
        machine, lambda first: tuple(number for number, _ in enumerate(items, first)), [start], {}
    )
    return Seq(tuple(map(Seq, zip(items_of(machine, numbers, "enumerate()"), items, strict=True))), enumerate)


def _zip(machine: Machine, args: Sequence[Value]) -> Value:
    columns = [items_of(machine, arg, "zip()") for arg in args]
    return Seq(tuple(Seq(row) for row in zip(*columns, strict=False)), zip)


def _reversed(machine: Machine, args: Sequence[Value]) -> Value:
    return Seq(tuple(reversed(items_of(machine, args[0], "reversed()"))), reversed)


def _pow(machine: Machine, args: Sequence[Value]) -> Value:
    if len(args) != 2:
        machine.refuse("pow() with a modulus", "Write a ** b % c.")
    return machine.over(args, lambda a, b: operate(machine, "Pow", a, b))


def _divmod(machine: Machine, args: Sequence[Value]) -> Value:
    quotient = machine.over(args, lambda a, b: operate(machine, "FloorDiv", a, b))
    return Seq((quotient, machine.over(args, lambda a, b: operate(machine, "Mod", a, b))))


def _bisect(machine: Machine, args: Sequence[Value], op: str) -> Value:
    """bisect of a constant, sorted list: how many of its elements are passed."""
    edges = items_of(machine, args[0], "bisect") if len(args) == 2 else []
    if (
        not edges
        or not all(map(is_plain, edges))
        or sorted(map(plain, edges)) != [plain(edge) for edge in edges]
    ):
        machine.refuse("bisect in a list that is not constant and sorted", "Use a sorted constant list.")
    total: Value = Known(0)
    for edge in edges:
        if op == "left":
            passed = compare(machine, "lt", edge, args[1])
        else:
            passed = machine.trees.negated(compare(machine, "lt", args[1], edge))
        total = machine.over([total, machine.one("bool", passed)], lambda a, b: operate(machine, "Add", a, b))
    return total


SYMBOLIC: dict[Any, Builtin] = {
    bisect.bisect_right: lambda machine, args: _bisect(machine, args, "right"),
    bisect.bisect_left: lambda machine, args: _bisect(machine, args, "left"),
    abs: _of_one(absolute, "abs"),
    int: _of_one(to_int, "int"),
    float: _of_one(to_float, "float"),
    bool: _bool,
    str: _of_one(to_text, "str"),
    len: _len,
    max: _extreme("gt", "max"),
    min: _extreme("lt", "min"),
    sum: _sum,
    any: _any,
    all: _all,
    round: _round,
    isinstance: _isinstance,
    tuple: _tuple,
    list: _list,
    enumerate: _enumerate,
    zip: _zip,
    reversed: _reversed,
    pow: _pow,
    divmod: _divmod,
}
PURE: frozenset[Any] = frozenset(
    {
        *(set(SYMBOLIC) - {isinstance, list}),
        *(range, sorted, set, frozenset, dict, ord, chr, hex, bin, oct, repr, format),
        *(date, datetime, timedelta),
    }
)
"""What may be called as it is while lifting, with constants."""
DRAINING: frozenset[Any] = frozenset({sum, min, max, list, tuple, set, frozenset, dict, sorted})
"""Builtins that go through all of an argument: a generator given to them may as well be made at once."""
