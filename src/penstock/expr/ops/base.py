"""What a row of the table of operations says, and the small rules its rows are written with.

`Op` is a row; `Param` one of its parameters; a *rule* takes the types of the arguments and the parameters' values
and returns the result's type, or raises through `Wrong`, which names the operation, the argument, what was seen and
what is allowed. `penstock.expr.ops` holds the table itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.types import FLOAT64, Type, list_of

EXACT = "EXACT"
"""Every engine gives the same bits; which NaN it is does not count."""
ULP = "ULP"
"""Engines differ by at most 4 units in the last place of the double."""
SUM = "SUM"
"""Engines differ by rounding of a sum, relative to the sum of absolute values."""

Params = Mapping[str, Any]
Rule = Callable[["Op", Sequence[Type], Params], Type]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of an operation: a plain value that every row shares."""

    name: str
    check: Callable[[Any], str | None]
    """What a value must be, in words, where it is not; None where it is."""
    required: bool = True


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: its name, its arguments and parameters, its result, and how closely engines agree on it."""

    name: str
    args: tuple[str, ...]
    """The arguments' names; the last one with a star where there may be several of it."""
    rule: Rule
    tier: str
    doc: str
    params: tuple[Param, ...] = field(default=())

    def check_params(self, given: Params) -> None:
        """Refuse parameters the operation does not have, or values they cannot take."""
        known = {param.name: param for param in self.params}
        for name in given:
            if name not in known:
                raise ExpressionError(
                    f"{self.name}() has no parameter {name!r}; it has {', '.join(known) or 'none'}."
                )
        for name, param in known.items():
            if name not in given:
                if param.required:
                    raise ExpressionError(f"{self.name}() needs its parameter {name!r}.")
                continue
            if wanted := param.check(given[name]):
                raise ExpressionError(f"{self.name}(): {name} is {given[name]!r}, and must be {wanted}.")

    def check_count(self, count: int) -> None:
        """Refuse too few or too many arguments."""
        several = bool(self.args) and self.args[-1].startswith("*")
        if count < len(self.args) or (count > len(self.args) and not several):
            wanted = f"at least {len(self.args)}" if several else str(len(self.args))
            raise ExpressionError(f"{self.name}() takes {wanted} arguments, and got {count}.")

    def result(self, types: Sequence[Type], params: Params) -> Type:
        """The result's type, or an error that says which argument does not fit."""
        self.check_count(len(types))
        return self.rule(self, types, params)

    def argument(self, position: int) -> str:
        """An argument's name for a message."""
        name = self.args[min(position, len(self.args) - 1)]
        return f"{name[1:]} {position + 1}" if name.startswith("*") else name


class Wrong(ExpressionError):
    """An argument's type does not fit the operation."""

    def __init__(self, op: Op, position: int, seen: Type, allowed: str, remedy: str = "") -> None:
        self.position = position
        text = f"{op.name}(): its {op.argument(position)} is {seen}, and must be {allowed}."
        super().__init__(f"{text} {remedy}".strip())


CAST_REMEDY = 'Cast it first: .cast("float64").'


def demand(op: Op, types: Sequence[Type], kinds: Sequence[str], allowed: str, remedy: str = "") -> None:
    """Refuse arguments of other kinds."""
    for position, seen in enumerate(types):
        if seen.kind not in kinds:
            raise Wrong(op, position, seen, allowed, remedy if seen.kind in ("bool", "string") else "")


def numbers(op: Op, types: Sequence[Type], params: Params) -> Type:
    """Numbers in, a float64 out."""
    demand(op, types, ("int", "float"), "a number", CAST_REMEDY)
    return FLOAT64


def gives(result: Type, *kinds: str) -> Rule:
    """A rule: arguments of these kinds, and always this result."""

    def rule(op: Op, types: Sequence[Type], params: Params) -> Type:
        demand(op, types, kinds, " or ".join(kinds))
        return result

    return rule


def anything(result: Type) -> Rule:
    """A rule: whatever the arguments are, except MLlib vectors, this result."""

    def rule(op: Op, types: Sequence[Type], params: Params) -> Type:
        no_vectors(op, types)
        return result

    return rule


def no_vectors(op: Op, types: Sequence[Type]) -> None:
    """Refuse MLlib vectors, which only pass through."""
    for position, seen in enumerate(types):
        if seen.kind == "vector":
            raise Wrong(
                op, position, seen, "something else", "Turn it into a list first: vector_to_array in Spark."
            )


def number_list(op: Op, types: Sequence[Type]) -> Type:
    """The one list of numbers an operation takes."""
    if types[0].kind != "list" or not types[0].item.is_number:
        raise Wrong(op, 0, types[0], "a list of numbers")
    return types[0]


def number_list_gives(make: Callable[[Type, Params], Type]) -> Rule:
    """A rule: a list of numbers in; the result follows from its type and the parameters."""
    return lambda op, types, params: make(number_list(op, types), params)


def like_list(element: Type) -> Callable[[Type, Params], Type]:
    """A list as long as the one given, of another element."""
    return lambda seen, params: list_of(element, seen.length)


def a_number(value: Any) -> str | None:
    """A finite or infinite number, and no NaN."""
    fine = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    return None if fine else "a number"


def a_text(value: Any) -> str | None:
    """Any text."""
    return None if isinstance(value, str) and _is_unicode(value) else "a text"


def some_text(value: Any) -> str | None:
    """A text with something in it."""
    return None if isinstance(value, str) and value and _is_unicode(value) else "a text that is not empty"


def _is_unicode(value: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in value)


def whole(least: int, most: int = (1 << 31) - 1) -> Callable[[Any], str | None]:
    """A whole number from `least` to `most`."""

    def check(value: Any) -> str | None:
        fine = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return None if fine else f"a whole number from {least} to {most}"

    return check
