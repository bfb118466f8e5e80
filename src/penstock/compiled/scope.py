"""The state of a translation: the program that grows, and the function of which a piece is being read."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from penstock.compiled.values import (
    GREATEST,
    LEAST,
    Known,
    Number,
    Several,
    Value,
    Variables,
    literal,
    stored,
)
from penstock.expr.lift.machine import Place

NUMBERS = "Compiled functions compute with bool, int and float."


@dataclass(frozen=True, slots=True)
class Jump:
    """A way out of a loop's body, with what the variables are there."""

    loop: Loop
    word: str
    variables: Variables


@dataclass(frozen=True, slots=True)
class Result:
    """A return."""

    value: Value


@dataclass(frozen=True, slots=True)
class Nested:
    """Lines under a head: `if ...:`."""

    head: str
    lines: list[Line]


Line = str | Jump | Result | Nested


@dataclass(slots=True)
class Loop:
    """A loop: what the variables are at its head and behind it, and the ways that lead there."""

    head: dict[str, Value]
    exit: dict[str, Value] = field(default_factory=dict)
    again: list[Variables] = field(default_factory=list)
    broken: list[Variables] = field(default_factory=list)


@dataclass(slots=True)
class Unit:
    """One program: its functions, its constant sequences, and how to read what they call."""

    inline: Callable[[Scope, types.FunctionType, list[Value], dict[str, Value]], Number]
    gather: Callable[[Scope, str, ast.GeneratorExp | ast.ListComp], Number]
    functions: list[str] = field(default_factory=list)
    sequences: dict[str, str] = field(default_factory=dict)
    """The text of a constant array -> its name."""
    read: dict[Any, Number] = field(default_factory=dict)
    """Functions that were translated for arguments of certain kinds; the code is the function's name."""
    reading: list[types.FunctionType] = field(default_factory=list)
    names: int = 0

    def fresh(self, letter: str) -> str:
        """A name that nothing else has."""
        self.names += 1
        return f"{letter}{self.names}"

    def array(self, numbers: list[Any], kind: str) -> str:
        """A constant sequence of numbers of one kind; its name."""
        dtype = {"bool": "bool_", "int": "int64"}.get(kind, "float64")
        cast = {"bool": bool, "int": int}.get(kind, float)
        text = f"np.array([{', '.join(literal(cast(one)).code for one in numbers)}], np.{dtype})"
        return self.sequences.setdefault(text, f"T{len(self.sequences)}")


@dataclass(slots=True)
class Scope:
    """A function while it is read: its variables at this place, and the lines so far."""

    unit: Unit
    function: types.FunctionType
    place: Place
    variables: dict[str, Value] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    alive: bool = True
    """Whether this place is reached at all."""
    own: frozenset[str] = frozenset()
    """Names that are local here and not in the function's code: a comprehension's."""

    def refuse(self, reason: str, advice: str) -> NoReturn:
        """Give up, with the reason and the place."""
        self.place.refuse(reason, advice)

    def lookup(self, name: str) -> Value:
        """What a name stands for."""
        if name in self.variables:
            return self.variables[name]
        code = self.function.__code__
        if name in self.own or name in code.co_varnames or name in code.co_cellvars:
            self.refuse(f"{name!r} has no value here", "Give it one before.")
        if name in code.co_freevars:
            try:
                return Known((self.function.__closure__ or ())[code.co_freevars.index(name)].cell_contents)
            except ValueError:
                self.refuse(f"{name!r} has no value yet", "Define it before the function.")
        if name in self.function.__globals__:
            return Known(self.function.__globals__[name])
        if hasattr(builtins, name):
            return Known(getattr(builtins, name))
        self.refuse(f"{name!r} is not defined", "Define it before the function.")

    def number(self, value: Value) -> Number:
        """A value as a number, or a refusal."""
        if isinstance(value, Number):
            return value
        if isinstance(value, Known) and value.is_number:
            if isinstance(value.value, int) and not LEAST <= value.value <= GREATEST:
                self.refuse(f"the constant {value.value} does not fit 64 bits", "Write it as a float.")
            return literal(value.value)
        what = f"a {type(value.value).__name__}" if isinstance(value, Known) else "a tuple or list"
        self.refuse(f"{what} is used as a number", NUMBERS)

    def held(self, value: Value) -> Value:
        """A value that later statements do not change: its numbers in variables of their own."""
        if isinstance(value, Several):
            return Several(tuple(map(self.held, value.items)))
        if not isinstance(value, Number):
            return value
        name = self.unit.fresh("t")
        self.lines.append(f"{name} = {value.code}")
        return Number(value.kind, name)

    def after(self, dropped: Sequence[Value], found: Known) -> Value:
        """A result that does not depend on some values, which are computed all the same, since that may raise."""
        text = None
        for one in dropped:
            for code in _computed(one):
                text = text or self.number(found).code
                text = f"after({code}, {text})"
        return found if text is None else Number(self.number(found).kind, text)

    def assign(self, name: str, value: Value) -> None:
        """Give a variable a value."""
        if isinstance(value, Number):
            place = stored(name, value.kind)
            if place != value.code:
                self.lines.append(f"{place} = {value.code}")
            value = Number(value.kind, place)
        self.variables[name] = self.held(value) if isinstance(value, Several) else value


def _computed(value: Value) -> Iterator[str]:
    """The text of numbers that are more than a variable."""
    if isinstance(value, Several):
        for item in value.items:
            yield from _computed(item)
    elif isinstance(value, Number) and not value.code.isidentifier():
        yield value.code
