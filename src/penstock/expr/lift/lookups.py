"""Constant dicts and collections, asked for values that differ from row to row.

A handful of keys is compared one by one. More are a vocabulary, in which an engine finds a key by its hash: texts, and
whole numbers, which floats that are whole are equal to. Other keys (tuples, dates, broken numbers) are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.expr.lift.arithmetic import as_int
from penstock.expr.lift.comparison import (
    REALS,
    compare,
    in_text,
    may_be_one,
    require_quiet,
    same_or_equal,
    truth,
)
from penstock.expr.lift.constants import COLLECTIONS, is_long_range
from penstock.expr.lift.known import wrapped
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import GREATEST, LEAST, NUMBERS, Known, Seq, Symbol, Typed, Value, kind_of
from penstock.expr.nodes import Expression
from penstock.expr.ops.python import EXACT_INTS
from penstock.expr.vocabulary import Vocabulary

FEW = 16
"""Keys up to which comparing one by one is as quick as a hash."""
HASHED: tuple[type, ...] = (set, frozenset, dict, type({}.keys()))
MOST_COMPARED = 400
MOST_KEYS = 5000

Entries = tuple[Value | None, Expression]
"""The value of a key, None where no key can be it, and whether it is there."""


def looked_up(machine: Machine, table: dict[Any, Any], key: Value) -> Value:
    """table[key] of a constant dict."""
    found, there = _entries(machine, table, key)
    machine.fault(machine.trees.negated(there), "KeyError", "the key is not in the dict")
    assert found is not None, "a key that is never there raises above"
    return found


def got(machine: Machine, table: dict[Any, Any], args: list[Value]) -> Value:
    """table.get(key) and table.get(key, default)."""
    if not 1 <= len(args) <= 2:
        machine.refuse(f"dict.get() with {len(args)} arguments", "Give one or two.")
    default = args[1] if len(args) == 2 else Known(None)
    found, there = _entries(machine, table, args[0])
    return default if found is None else machine.merge(there, found, default)


def contained(machine: Machine, item: Value, container: Value) -> Expression:
    """`item in container`, of a container that is known, or written in the function, or a text."""
    trees = machine.trees
    if isinstance(container, Known):
        require_quiet(machine, container.value)
    if isinstance(container, Known) and isinstance(item, Known) and not _slowly(item.value, container.value):
        try:
            return trees.true if item.value in container.value else trees.false
        except TypeError as error:
            machine.fail("TypeError", str(error))
    if isinstance(container, Seq):
        return among(machine, item, container.items)
    if isinstance(container, Known) and type(container.value) is range:
        if isinstance(item, Seq):
            return trees.false
        numbers = container.value
        return truth(machine, machine.over([item], lambda x: _in_range(machine, x, numbers)))
    if isinstance(container, Known) and type(container.value) in COLLECTIONS:
        members = list(container.value)
        if any(kind_of(member) is None and type(member) is not tuple for member in members):
            machine.refuse(
                "`in` looks for a value among others than numbers, texts and None", "Use plain constants."
            )
        if isinstance(item, Symbol) and type(container.value) in HASHED:
            _check_reals(machine, members, item)
        return among(machine, item, [wrapped(member) for member in members])
    return truth(machine, machine.over([item, container], lambda a, b: in_text(machine, a, b)))


def _slowly(item: Any, container: Any) -> bool:
    """Whether Python goes through a long range to find it, as for all but plain whole numbers."""
    return is_long_range(container) and type(item) not in (bool, int)


def among(machine: Machine, item: Value, members: Sequence[Value]) -> Expression:
    """Whether a value is equal to one of others."""
    plain = [member.value for member in members if isinstance(member, Known)]
    # A constant nan is there only as the very same object.
    may_be_nan = any(map(_is_nan, members)) and _may_be_a_constant_nan(machine, item)
    if len(members) > FEW and len(plain) == len(members) and isinstance(item, Symbol) and not may_be_nan:
        by_hash = _by_vocabulary(machine, dict.fromkeys(plain, True), item)
        if by_hash is not None:
            return by_hash[1]
    if len(members) > MOST_COMPARED:
        machine.refuse(
            f"`in` has more than {MOST_COMPARED} members to compare with",
            "Join with a table of them instead.",
        )
    return _one_of(
        machine,
        [
            same_or_equal(machine, item, member)
            for member in members
            if _comparable(item, member) and (isinstance(item, Known) or may_be_nan or not _is_nan(member))
        ],
    )


def _comparable(item: Value, member: Value) -> bool:
    """Whether they may be equal at all: a tuple is no number."""
    return isinstance(item, Seq) == isinstance(member, Seq)


def _is_nan(member: Value) -> bool:
    return isinstance(member, Known) and isinstance(member.value, float) and math.isnan(member.value)


def _may_be_a_constant_nan(machine: Machine, item: Value) -> bool:
    nan = machine.typed(math.nan).held
    return isinstance(item, Symbol) and any(
        typed.kind in REALS and may_be_one(typed.held, nan) for _, typed in item.cases
    )


def _in_range(machine: Machine, x: Typed, numbers: range) -> Value:
    """`x in range(...)`, by arithmetic: a range is never gone through."""
    trees = machine.trees
    if x.kind not in (*NUMBERS, "numpy_bool") or not numbers:
        return Known(False)
    rising = numbers if numbers.step > 0 else numbers[::-1]
    step, first, last = rising.step, rising[0], rising[-1]
    if x.kind in REALS:
        if is_long_range(numbers) or max(-first, last) > EXACT_INTS:
            machine.refuse(
                "`in` looks for a float in a long range, whose numbers Python compares one by one in every row",
                "Write start <= x < stop and x.is_integer().",
            )
        value = Typed("int", trees.make("cast", x.held, params={"to": "int64"}))
        whole = trees.make("eq", trees.make("floor", x.held), x.held)
    else:
        value, whole = as_int(machine, x), trees.true
        if step > GREATEST:
            machine.refuse("`in` looks in a range in steps beyond 64 bits", "Use smaller steps.")
        # The same numbers of 64 bits, in the same steps.
        first += max(0, -((first - LEAST) // step)) * step
        last -= max(0, -((GREATEST - last) // step)) * step
        if first > last:
            return Known(False)
    symbol = Symbol(((trees.true, x),))
    inside = trees.both(
        compare(machine, "ge", symbol, Known(first)), compare(machine, "le", symbol, Known(last))
    )
    found = trees.both(whole, inside)
    if step > 1:
        rest = trees.make("int_modulo", value.held, machine.whole(step))
        on = trees.make("eq", rest, machine.whole(first % step))
        # The cast of a float that no 64 bits hold is null.
        found = trees.both(found, on if x.kind not in REALS else trees.make("coalesce", on, trees.false))
    return machine.one("bool", found)


def _one_of(machine: Machine, conditions: Sequence[Expression]) -> Expression:
    """Whether one of many conditions holds, as a tree that is wide and not deep."""
    if not conditions:
        return machine.trees.false
    if len(conditions) <= FEW:
        found = conditions[0]
        for one in conditions[1:]:
            found = machine.trees.either(found, one)
        return found
    half = len(conditions) // 2
    return machine.trees.either(_one_of(machine, conditions[:half]), _one_of(machine, conditions[half:]))


def _entries(machine: Machine, table: dict[Any, Any], key: Value) -> Entries:
    if isinstance(key, Known):
        try:
            there = key.value in table
        except TypeError as error:
            machine.fail("TypeError", str(error))
        return (wrapped(table[key.value]), machine.trees.true) if there else (None, machine.trees.false)
    if isinstance(key, Seq) and key.kind is not tuple:
        machine.fail("TypeError", f"unhashable type: '{key.kind.__name__}'")
    if isinstance(key, Symbol) and any(typed.kind == "list" for _, typed in key.cases):
        machine.fail("TypeError", "unhashable type: 'list'")
    if isinstance(key, Symbol):
        _check_reals(machine, table, key)
    if isinstance(key, Symbol) and len(table) > FEW:
        by_hash = _by_vocabulary(machine, table, key)
        if by_hash is not None:
            return by_hash
    if len(table) > MOST_COMPARED:
        machine.refuse(
            f"a dict of {len(table)} keys is looked up, and these are compared one by one",
            f"Up to {MOST_COMPARED}, or {MOST_KEYS} texts or whole numbers; join with a table instead.",
        )
    found: Value | None = None
    anywhere: list[Expression] = []
    for one, value in reversed(table.items()):
        if not isinstance(one, str | int | float | bool | tuple | type(None)):
            machine.refuse(f"a dict with the key {one!r} is looked up", "Use texts or numbers as keys.")
        if isinstance(key, Seq) != isinstance(one, tuple):
            continue
        same = same_or_equal(machine, key, wrapped(one))
        if machine.decide(same) is False:
            continue
        found = wrapped(value) if found is None else machine.merge(same, wrapped(value), found)
        anywhere.append(same)
    return found, _one_of(machine, anywhere)


def _check_reals(machine: Machine, table: Iterable[Any], key: Symbol) -> None:
    """Refuse the floats that hashes find otherwise than comparing does."""
    kinds = {typed.kind for _, typed in machine.symbol(key).cases}
    if "numpy" in kinds and any(isinstance(one, int) and abs(one) > EXACT_INTS for one in table):
        machine.refuse(
            "a NumPy number is looked up by its hash among whole numbers beyond 2**53",
            "Turn it into a float first: float(...).",
        )
    if any(isinstance(one, float) and math.isnan(one) for one in table) and _may_be_a_constant_nan(
        machine, key
    ):
        machine.refuse(
            "what may be a constant nan is looked up among keys with a nan, which is found only as one object",
            "Ask for nan before: math.isnan(x).",
        )


def _by_vocabulary(machine: Machine, table: Mapping[Any, Any], key: Symbol) -> Entries | None:
    """Entries found by their hash; None where some of the keys cannot be."""
    if len(table) > MOST_KEYS:
        machine.refuse(
            f"{len(table)} keys are looked up, and {MOST_KEYS} are the most", "Join with a table instead."
        )
    found: Value | None = None
    anywhere = machine.trees.false
    for guard, typed in reversed(machine.symbol(key).cases):
        entries = _of_case(machine, table, typed)
        if entries is None:
            return None
        value, there = entries
        if value is not None:
            found = value if found is None else machine.merge(guard, value, found)
        anywhere = machine.trees.choose(guard, there, anywhere)
    return found, anywhere


def _of_case(machine: Machine, table: Mapping[Any, Any], x: Typed) -> Entries | None:
    trees = machine.trees
    if x.kind == "none":
        return (wrapped(table[None]), trees.true) if None in table else (None, trees.false)
    if x.kind == "str":
        texts = {key: value for key, value in table.items() if type(key) is str and _is_writable(key)}
        return _in_vocabulary(machine, texts, x.held)
    if x.kind in ("bool", "int", "numpy_bool"):
        numbers = {int(key): value for key, value in table.items() if _is_whole(key)}
        return _in_vocabulary(machine, numbers, as_int(machine, x).held)
    if x.kind in REALS:
        if x.kind == "numpy" and any(isinstance(key, int) and abs(key) > EXACT_INTS for key in table):
            return None  # NumPy rounds these to floats
        if any(isinstance(key, float) and not _is_whole(key) and not math.isnan(key) for key in table):
            return None
        whole = trees.make("cast", x.held, params={"to": "int64"})
        numbers = {int(key): value for key, value in table.items() if _is_whole(key)}
        value, there = _in_vocabulary(machine, numbers, whole)
        unbroken = trees.make("eq", trees.make("floor", x.held), x.held)
        return value, trees.both(unbroken, there)
    return None


def _is_whole(key: Any) -> bool:
    """Whether a whole number of 64 bits is equal to it."""
    if isinstance(key, float):
        return key.is_integer() and LEAST <= key <= GREATEST and key < 2.0**63
    return isinstance(key, int) and LEAST <= key <= GREATEST


def _is_writable(key: str) -> bool:
    """Whether a column can hold it: a half of a surrogate pair has no bytes."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _in_vocabulary(machine: Machine, table: Mapping[Any, Any], x: Expression) -> Entries:
    if not table:
        return None, machine.trees.false
    place = machine.trees.make("index_in", x, params={"keys": Vocabulary(list(table)), "oov": 1})
    there = machine.trees.make("ge", place, machine.whole(2))
    return _value_of(machine, table, x), there


def _value_of(machine: Machine, table: Mapping[Any, Any], x: Expression) -> Value:
    """The value of a key that is there: a number by itself, anything else by the number of the distinct value."""
    values = list(table.values())
    kinds = {kind_of(value) for value in values}

    def numbers(of: Sequence[float]) -> Expression:
        params = {"keys": Vocabulary(list(table), list(of)), "unseen": 0, "null": 0}
        return machine.trees.make("look_up", x, params=params)

    if kinds == {"float"} and all(map(math.isfinite, values)):
        return machine.one("float", numbers(values))
    if kinds == {"int"} and max(map(abs, values)) <= EXACT_INTS:
        found = machine.trees.make("cast", numbers(list(map(float, values))), params={"to": "int64"})
        return Symbol(((machine.trees.true, Typed("int", found, min(values), max(values))),))
    distinct: dict[Any, int] = {}
    firsts: list[Any] = []
    codes = []
    for value in values:
        same = (type(value), repr(value)) if kind_of(value) is not None else id(value)
        if same not in distinct:
            distinct[same] = len(firsts)
            firsts.append(value)
        codes.append(float(distinct[same]))
    if len(firsts) == 1:
        return wrapped(firsts[0])
    code = machine.trees.make("cast", numbers(codes), params={"to": "int64"})
    return _chosen(machine, code, firsts, 0)


def _chosen(machine: Machine, code: Expression, values: Sequence[Any], first: int) -> Value:
    """One of many values by its number, halving them again and again."""
    if len(values) == 1:
        return wrapped(values[0])
    half = len(values) // 2
    lower = machine.trees.make("lt", code, machine.whole(first + half))
    return machine.merge(
        lower,
        _chosen(machine, code, values[:half], first),
        _chosen(machine, code, values[half:], first + half),
    )
