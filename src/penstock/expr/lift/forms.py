"""Annotations: which Python types a function's arguments and its result are declared to have.

`float`, `int`, `str`, `bool`, `date`, `datetime`, lists of these, and each of them or None.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from penstock.errors import NotLifted
from penstock.expr.lift.values import TYPES
from penstock.expr.types import Type, list_of

KINDS: dict[Any, str] = {
    float: "float",
    int: "int",
    str: "str",
    bool: "bool",
    date: "date",
    datetime: "datetime",
}
BY_TYPE = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "string": "str",
    "date": "date",
    "timestamp_ntz": "datetime",
}


@dataclass(frozen=True, slots=True)
class Form:
    """A declared type: its kind, what holds it, and whether it may be None."""

    kind: str
    type: Type
    optional: bool = False

    def __str__(self) -> str:
        name = f"list[{BY_TYPE[self.type.item.kind]}]" if self.kind == "list" else self.kind
        return f"{name} | None" if self.optional else name


def form_of(annotation: Any) -> Form | None:
    """What an annotation says; None where it says nothing expressions know.

    >>> str(form_of(float | None)), form_of(dict)
    ('float | None', None)
    """
    if annotation in KINDS:
        kind = KINDS[annotation]
        return Form(kind, TYPES[kind])
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType) and len(args) == 2 and type(None) in args:
        inner = form_of(next(arg for arg in args if arg is not type(None)))
        return inner and Form(inner.kind, inner.type, optional=True)
    if origin is list and len(args) == 1 and args[0] in KINDS:
        return Form("list", list_of(TYPES[KINDS[args[0]]]))
    if origin is typing.Annotated:
        return form_of(args[0])
    return None


def form_for(of: Type, optional: bool = True) -> Form | None:
    """How a column of a type comes into a function; None where expressions cannot say it.

    >>> from penstock.expr.types import INT8
    >>> str(form_for(INT8))
    'int | None'
    """
    if of.kind == "list":
        inner = form_for(of.item)
        return inner and Form("list", list_of(inner.type), optional)
    kind = BY_TYPE.get(of.kind)
    return None if kind is None else Form(kind, TYPES[kind], optional)


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters that come from columns, with their forms, and what it returns, if that is declared."""

    arguments: Mapping[str, Form]
    returns: Form | None


def signature_of(
    function: types.FunctionType,
    given: Mapping[str, Type] | None,
    returns: Type | None,
    bound: Container[str] = (),
) -> Signature:
    """The forms of a function's parameters, but of bound ones: from the types given, else from its annotations."""
    line = function.__code__.co_firstlineno

    def refuse(reason: str, advice: str) -> NotLifted:
        return NotLifted(function.__name__, line, 0, reason, advice)

    hints, unknown = _hints(function)
    arguments: dict[str, Form] = {}
    # A wrapper is read as what it is: its own code runs, not that of the function it wraps.
    for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
        if name in bound:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise refuse(f"it takes any number of arguments, *{name}", "Name them.")
        if given is not None:
            if name not in given:
                if parameter.default is parameter.empty:
                    raise refuse(f"no type is given for its argument {name!r}", "Give one for each.")
                continue
            found = form_for(given[name])
            if found is None:
                raise refuse(
                    f"its argument {name!r} gets {given[name]}, which has no exact form in an expression",
                    "Cast the column first; a timestamp to timestamp_ntz.",
                )
        elif name in unknown:
            raise refuse(
                f"its argument {name!r} is declared {unknown[name]}, which stands for nothing here",
                "Import it where the function is defined, not for type checkers alone.",
            )
        elif name in hints:
            found = form_of(hints[name])
            if found is None:
                raise refuse(
                    f"its argument {name!r} is declared {_shown(hints[name])}",
                    "Expressions know float, int, str, bool, date, datetime, list[...], and each of them | None.",
                )
        elif parameter.default is not parameter.empty:
            continue
        else:
            raise refuse(f"its argument {name!r} has no annotation", f"Write {name}: float, or what it is.")
        if parameter.default is None:
            found = Form(found.kind, found.type, optional=True)
        arguments[name] = found
    if returns is None and "return" in unknown:
        raise refuse(
            f"it is declared to return {unknown['return']}, which stands for nothing here",
            "Import it where the function is defined, not for type checkers alone.",
        )
    declared = form_for(returns) if returns is not None else None
    if returns is None and "return" in hints and hints["return"] is not type(None):
        declared = form_of(hints["return"])
        if declared is None:
            raise refuse(
                f"it is declared to return {_shown(hints['return'])}", "Return a single value or a list."
            )
    return Signature(arguments, declared)


def _hints(function: types.FunctionType) -> tuple[dict[str, Any], dict[str, str]]:
    """A function's annotations, and the text of those that cannot be resolved: each by itself."""
    hints: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= typing.get_type_hints(alone, globalns=function.__globals__)
        except Exception:
            unknown[name] = annotation if isinstance(annotation, str) else _shown(annotation)
    return hints, unknown


def _shown(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)
