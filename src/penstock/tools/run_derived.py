"""Columns that were made of a UDF's Column: a script's own `gross("x") + 1` remembers how it was made.

A Column does not tell what is in it, on classic Spark not even to itself. So what makes Columns of others is watched
(`following`), and what it made keeps the maker and what it was given. Where such a Column is used it is made anew
around another (`rebuilt`). What is not watched gives a plain Column, and the UDF in it stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.tools.run_ledger import KEY, Call

NOT_FOLLOWED = {"__init__", "__new__", "__getattr__", "__repr__", "__hash__", "__iter__", "__contains__"}
NOT_FOLLOWED |= {"__nonzero__", "__bool__", "__getnewargs__", "alias", "name", "transform", "to_plan"}
"""Of a Column's methods: those that give none, `alias` (watched by itself), and what runs a function of the script."""
NO_COLUMNS = {
    "udf",
    "udtf",
    "pandas_udf",
    "arrow_udf",
    "arrow_udtf",
    "col",
    "column",
    "expr",
    "lit",
    "broadcast",
}
"""Of Spark's functions: those that make no Column of Columns. `lit` gives back the Column itself."""


@dataclass(frozen=True, eq=False)
class Derived:
    """How a Column (or a window) was made of others, with what was given then."""

    make: Callable[..., Any]
    """Spark's own, not watched."""
    positional: tuple[Any, ...]
    named: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Found:
    """One UDF's Column inside another."""

    column: Any
    call: Call
    leading: bool
    """Whether it is computed for every row for which the whole is: nothing stands before it that could decide."""


def source_of(value: Any) -> Call | Derived | None:
    """What a Column was made of, if a UDF is in it."""
    found = getattr(value, "__dict__", {}).get(KEY)
    return found if isinstance(found, Call | Derived) else None


def carries(value: Any) -> bool:
    """Whether a UDF is in a Column, or in one of a list or mapping of them."""
    return source_of(value) is not None or any(carries(each) for each in _parts(value))


def followed(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; Columns it makes of a UDF's remember it."""

    def made(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        if carries(args) or carries(kwargs):
            given = (*args, *kwargs.values())
            with suppress(Exception):
                # A function of the script's (`transform`) would run once more than it does without Penstock.
                if not any(found is each or _is_function(each) for each in given):
                    found.__dict__[KEY] = Derived(original, _as_given(args), _as_given(kwargs))
        return found

    return made


def found_in(value: Any, leading: bool = True) -> Iterator[Found]:
    """The UDFs' Columns in one, from the left."""
    source = source_of(value)
    if isinstance(source, Call):
        yield Found(value, source, leading)
    elif isinstance(source, Derived):
        # try_divide and its like catch what the expressions in them raise, and never what Python raises.
        first = leading and not getattr(source.make, "__name__", "").startswith("try_")
        for place, each in enumerate((*source.positional, *source.named.values())):
            yield from found_in(each, first and place == 0 and bool(source.positional))
    else:
        for each in _parts(value):
            yield from found_in(each, False)


def conjuncts(condition: Any) -> list[Any]:
    """The parts of a condition that have to hold all."""
    source = source_of(condition)
    if isinstance(source, Derived) and getattr(source.make, "__name__", "") == "__and__":
        return [part for each in source.positional for part in conjuncts(each)]
    return [condition]


def rebuilt(value: Any, instead: Mapping[int, Any]) -> Any:
    """A Column made anew, with other Columns in the place of some, which are known by their `id`."""
    if id(value) in instead:
        return instead[id(value)]
    source = source_of(value)
    if isinstance(source, Derived):
        if not any(id(found.column) in instead for found in found_in(value)):
            return value
        named = {name: rebuilt(each, instead) for name, each in source.named.items()}
        return source.make(*(rebuilt(each, instead) for each in source.positional), **named)
    if type(value) in (list, tuple) and carries(value):
        return type(value)(rebuilt(each, instead) for each in value)
    if type(value) is dict and carries(value):
        return {name: rebuilt(each, instead) for name, each in value.items()}
    return value


def _as_given(value: Any) -> Any:
    """The same lists and mappings, however the script changes its own afterwards."""
    if type(value) in (list, tuple, set):
        return type(value)(map(_as_given, value))
    if type(value) is dict:
        return {name: _as_given(each) for name, each in value.items()}
    return value


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)
