"""The constants that a function compares and looks up with: its own, those it names, and those of what it calls.

`penstock.backends.edge_values` puts values around them, so that a table that is looked up is also hit. There may be
thousands of them in a dict; some of each are taken, always the same.
"""

from __future__ import annotations

import itertools
import random
import sys
import types
from collections.abc import Iterator
from typing import Any

from penstock.expr.lift.constants import COLLECTIONS, is_named_tuple, range_length

SEED = 7
FROM_ONE = 16
"""Of a container: as many as that, and of a dict so many keys."""
MOST = 40
"""Constants of one function, besides those written in it."""
DEEPEST = 3
"""Functions called by functions."""


def written_in(function: types.FunctionType | types.MethodType) -> list[Any]:
    """Constants written in a function."""
    return list(_written(function.__code__))


def named_by(function: types.FunctionType | types.MethodType) -> list[Any]:
    """Constants that a function names, and those of functions that it calls."""
    plain = function.__func__ if isinstance(function, types.MethodType) else function
    assert isinstance(plain, types.FunctionType)
    values: list[Any] = []
    if isinstance(function, types.MethodType):
        held = getattr(function.__self__, "__dict__", {})
        values += [held[name] for name in plain.__code__.co_names if name in held]
    found: dict[str, Any] = {}
    for value in itertools.chain(values, _named(plain, DEEPEST, set())):
        found |= {repr(one): one for one in _opened(value)}
        if len(found) >= MOST:
            break
    return list(found.values())[:MOST]


def _written(code: types.CodeType) -> Iterator[Any]:
    """Constants of a function's code, of those inside it, and in its tuples."""
    waiting: list[Any] = list(code.co_consts)
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, types.CodeType):
            waiting.extend(one.co_consts)
        elif isinstance(one, tuple | frozenset):
            waiting.extend(sorted(one, key=repr))
        else:
            yield one


def _named(function: types.FunctionType, deeper: int, seen: set[int]) -> Iterator[Any]:
    """What its names stand for: globals, closures, defaults, constants of modules; the same of functions it calls."""
    if id(function) in seen:
        return
    seen.add(id(function))
    names = _names(function.__code__)
    cells = [cell for cell in function.__closure__ or () if _is_filled(cell)]
    values = [cell.cell_contents for cell in cells]
    values += [function.__globals__[name] for name in names if name in function.__globals__]
    values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for value in values:
        if isinstance(value, types.ModuleType):
            yield from (vars(value)[name] for name in names if name in vars(value))
        elif not isinstance(value, types.FunctionType):
            yield value
    for value in values:
        if isinstance(value, types.FunctionType) and deeper:
            yield from _written(value.__code__)
            yield from _named(value, deeper - 1, seen)


def _names(code: types.CodeType) -> list[str]:
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return list(dict.fromkeys((*code.co_names, *(name for one in inner for name in _names(one)))))


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # nothing was put into it yet
        return False


def _opened(value: Any, deeper: int = 2) -> list[Any]:
    """A constant, or some of those in a container."""
    if type(value) not in COLLECTIONS and not is_named_tuple(value):
        return _plain(value)
    if not deeper:
        return []
    if type(value) is range:
        return _of_range(value)
    found: list[Any] = []
    # A set has another order in every process.
    for one in _some(sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)):
        found += _opened(one, deeper - 1)
    if type(value) is dict:
        for one in _some(list(value.values())):
            found += _opened(one, deeper - 1)
    return found


def _of_range(numbers: range) -> list[Any]:
    """Some of a range, which may be longer than any list."""
    length = range_length(numbers)
    if length <= FROM_ONE:
        return [*numbers]
    chance = random.Random(SEED)
    return [numbers[0], numbers[-1], *(numbers[chance.randrange(length)] for _ in range(FROM_ONE - 2))]


def _plain(value: Any) -> list[Any]:
    """A constant as columns hold it: members of an IntEnum and scalars of NumPy's are looked for by plain numbers."""
    if value is None or type(value) in (bool, int, float, str):
        return [value]
    if isinstance(value, int):  # by int's own method, since a class of the user's may have others
        return [int.__index__(value)]
    if isinstance(value, float):
        return [float.__float__(value)]
    if isinstance(value, str):
        return [str.__str__(value)]
    numpy = sys.modules.get("numpy")  # one can only be seen where it is imported
    if numpy is None or not isinstance(value, numpy.generic):
        return []
    return [of for of in (value.item(),) if type(of) in (bool, int, float)]


def _some(items: list[Any]) -> list[Any]:
    if len(items) <= FROM_ONE:
        return items
    return [items[0], items[-1], *random.Random(SEED).sample(items[1:-1], FROM_ONE - 2)]
