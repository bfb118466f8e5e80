"""The Python functions that a plan's node calls, read from its arguments: `score(x#5, lower(city#6))#11`.

Spark prints a Python function's call with a number behind it, which its own functions do not have; a call among the
arguments of another is one that runs in the same pass. `penstock.jobs.boundaries` is who asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.jobs.plan import items


@dataclass(frozen=True)
class Call:
    """A call of a Python function: its name, its arguments as Spark prints them, and calls among those.

    >>> call = calls("[outer(inner(x#1)#2, (y#3 + 1))#4], [pythonUDF0#5], 101")[0]
    >>> call.name, call.inner[0].name, call.sent
    ('outer', 'inner', ('x#1', '(y#3 + 1)'))
    """

    name: str
    arguments: tuple[str, ...]
    text: str
    """The call itself without its number: equal for two calls of one function on the same columns."""

    @property
    def inner(self) -> tuple[Call, ...]:
        """The calls whose results it takes without leaving Python."""
        return tuple(call for call in map(as_call, self.arguments) if call)

    @property
    def names(self) -> tuple[str, ...]:
        """Its name and those of the calls inside, in the order they run."""
        return (*(name for call in self.inner for name in call.names), self.name)

    @property
    def sent(self) -> tuple[str, ...]:
        """The expressions whose values cross to Python."""
        found: list[str] = []
        for argument in self.arguments:
            call = as_call(argument)
            found += call.sent if call else [argument]
        return tuple(dict.fromkeys(found))


def parts(arguments: str) -> list[str]:
    """A node's arguments, one by one: lists in brackets, calls, words and numbers.

    >>> parts("[k#1], f(a#2, b#3)#4, [c, d#5], false")
    ['[k#1]', 'f(a#2, b#3)#4', '[c, d#5]', 'false']
    """
    found, depth, start = [], 0, 0
    for place, letter in enumerate(arguments):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth <= 0:
            found.append(arguments[start:place].strip())
            start, depth = place + 1, 0
    return [*found, arguments[start:].strip()]


def calls(arguments: str) -> tuple[Call, ...]:
    """The Python calls of a node: its only one, or those of the first list that holds any."""
    for part in parts(arguments):
        inside = items(part) if part.startswith("[") else [part]
        found = tuple(call for call in map(as_call, inside) if call)
        if found:
            return found
    return ()


def lists(arguments: str) -> list[str]:
    """The node's lists that are not lists of calls: keys, results, columns."""
    return [
        part
        for part in parts(arguments)
        if part.startswith("[") and not any(as_call(item) for item in items(part))
    ]


def eval_type(arguments: str) -> int | None:
    """The number by which Spark names the way a function is called; the last argument, where it is printed.

    >>> eval_type("[f(a#1)#2], [pythonUDF0#3], 101"), eval_type("[f(a#1)#2], [pythonUDF0#3]")
    (101, None)
    """
    last = parts(arguments)[-1]
    return int(last) if re.fullmatch(r"\d{3}", last) else None


def as_call(text: str) -> Call | None:
    """A Python call at the start of a text; what may follow is its number, and a window it runs over.

    >>> as_call("f(x#1)#2").name, as_call("upper(x#1)"), as_call("x#1")
    ('f', None, None)
    """
    opened = text.find("(")
    # A name with a number or a space in it is a column, or an expression.
    if opened < 1 or re.search(r"[#,\s]", text[:opened]):
        return None
    depth = 0
    for place in range(opened, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            if not re.match(r"#\d+", text[place + 1 :]):
                return None
            inside = text[opened + 1 : place]
            return Call(text[:opened], tuple(_arguments(inside)), text[: place + 1])
    return None


def _arguments(inside: str) -> Iterator[str]:
    """What stands between commas; a piece without brackets or a number belongs to the name that follows it."""
    kept = ""
    for part in parts(inside) if inside else ():
        whole = f"{kept}, {part}" if kept else part
        if re.fullmatch(r"[^#()\[\]]+", whole) and _is_part_of_a_name(whole):
            kept = whole
            continue
        kept = ""
        yield whole
    if kept:
        yield kept


def _is_part_of_a_name(text: str) -> bool:
    """Not so a number or one of the words that stand for values."""
    return not re.fullmatch(r"-?[\d.]+(E-?\d+)?|true|false|null", text)
