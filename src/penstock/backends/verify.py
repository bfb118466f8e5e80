"""A lifted function beside the original, row by row, errors included: trusted only after they agree.

The expression runs on the Arrow engine, which is the meaning; the original runs as it is. Rows are edge values of the
arguments' types, numbers and texts around the constants of the function, and seeded random ones. Values have to be
equal to the last bit, with their type; where one raises, both have to, and the same class, with the same message
where the function itself raised it. `OutOfReach` is the lifter's own: it declines a row that only Python can hold.
"""

from __future__ import annotations

import itertools
import math
import struct
import time
import types
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.backends import engine
from penstock.backends.edge_values import ROWS, inputs
from penstock.errors import OutOfReach
from penstock.expr.lift import Body
from penstock.expr.lift.forms import BY_TYPE, Form
from penstock.expr.nodes import Call
from penstock.wire.rows import Declared, TooLarge, returned

SECONDS = 0.05
"""How long the original may run, after a first few rows."""
MODEST = 300

Outcome = tuple[str, Any, str | None]
"""Whether it returns or raises; the value, or the error's class; and the error's message, where that counts."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row on which the two disagree."""

    arguments: Mapping[str, Any]
    python: str
    lifted: str

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"for {given} Python {self.python}, and the expression {self.lifted}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was compared, and where they disagree."""

    rows: int
    declined: int
    """Rows the expression gives up on (`OutOfReach`)."""
    differences: tuple[Difference, ...]


def verify(
    body: Body, function: types.FunctionType | types.MethodType, rows: int = ROWS, seconds: float = SECONDS
) -> Verdict:
    """Run both on generated rows."""
    return compared(body, function, rows_for(body, rows), seconds)


def rows_for(body: Body, count: int) -> list[tuple[Any, ...]]:
    """So many rows of arguments, on which the original can be run."""
    modest = _may_explode(body)
    generated = (
        row for row in inputs(body.arguments, body.function) if not modest or all(map(_is_modest, row))
    )
    return list(itertools.islice(generated, count))


def _may_explode(body: Body) -> bool:
    """Whether Python would fill the memory with large arguments: powers, shifts and repeated texts."""
    waiting, seen = [body.value, body.fault], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting.extend(node.args)
            if isinstance(node, Call) and node.op in ("int_power", "text_repeat", "int_bits"):
                return True
    return False


def _is_modest(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_modest, value))
    return not isinstance(value, int | float) or not math.isfinite(value) or abs(value) <= MODEST


def compared(
    body: Body,
    function: types.FunctionType | types.MethodType,
    given: Sequence[tuple[Any, ...]],
    seconds: float,
) -> Verdict:
    """Run both on rows of arguments; as many as there is time for."""
    names = list(body.arguments)
    expected: list[Outcome] = []
    end = time.perf_counter() + seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns where it does not raise
        for row in given:
            expected.append(_ran(function, dict(zip(names, row, strict=True)), body.returns))
            if time.perf_counter() > end and len(expected) >= 20:
                break
        got = _lifted(body, given[: len(expected)])
    differences = tuple(
        Difference(dict(zip(names, row, strict=True)), _told(want), _told(have))
        for row, want, have in zip(given, expected, got, strict=False)
        if not agree(want[:2], have[:2]) or (have[2] is not None and have[2] != want[2])
    )
    declined = sum(have[:2] == ("raises", OutOfReach.__name__) for have in got)
    return Verdict(len(expected), declined, differences)


def _original(
    function: types.FunctionType | types.MethodType, row: dict[str, Any], returns: Form
) -> tuple[str, Any]:
    return _ran(function, row, returns)[:2]


def _ran(function: types.FunctionType | types.MethodType, row: dict[str, Any], returns: Form) -> Outcome:
    positional = function.__code__.co_varnames[: function.__code__.co_posonlyargcount]
    words = {name: value for name, value in row.items() if name not in positional}
    try:
        found = function(*(row[name] for name in positional if name in row), **words)
        return "returns", converted(found, returns), None
    except Exception as error:
        return "raises", type(error).__name__, str(error)


def converted(value: Any, declared: Form) -> Any:
    """What a function returned, as the declared type: without loss, or not at all."""
    try:
        return returned(value, declared_as(declared))
    except TooLarge as error:
        raise OutOfReach(str(error), 0) from None


def declared_as(form: Form) -> Declared:
    """A form, as executors know it."""
    item = BY_TYPE.get(form.type.item.kind) if form.kind == "list" else None
    return Declared(form.kind, item, str(form), form.optional)


def lifted_outcomes(body: Body, rows: Sequence[tuple[Any, ...]]) -> list[tuple[str, Any]]:
    """What the expression gives for rows of arguments: values and errors."""
    return [each[:2] for each in _lifted(body, rows)]


def _lifted(body: Body, rows: Sequence[tuple[Any, ...]]) -> list[Outcome]:
    arrow = engine("arrow")
    forms = list(body.arguments.values())
    columns = {
        name: pa.array([row[place] for row in rows], arrow.arrow_type(forms[place].type))
        for place, name in enumerate(body.arguments)
    }
    # A function without arguments still needs to know how many rows there are.
    table = pa.table(columns or {" ": pa.nulls(len(rows), pa.int64())})
    texts = {f"{{{place}}}": message for place, message in enumerate(body.messages)} if body.raised else {}
    program = arrow.prepare(
        {"value": body.value, "fault": body.fault, **texts}, arrow.schema_of(table.schema)
    )
    found = program(table)
    messages = {name: found[name].to_pylist() for name in texts}
    outcomes: list[Outcome] = []
    for place, (value, fault) in enumerate(
        zip(found["value"].to_pylist(), found["fault"].to_pylist(), strict=True)
    ):
        if fault is None:
            outcomes.append(("returns", value, None))
            continue
        kind, _, text = body.faults[fault].partition(": ")
        said = messages[text][place] if text in messages else text
        outcomes.append(("raises", kind, said if body.faults[fault] in body.raised else None))
    return outcomes


def agree(want: tuple[str, Any], have: tuple[str, Any]) -> bool:
    """Whether the expression did what Python did, or declined to."""
    if have == ("raises", OutOfReach.__name__):
        return True
    if want[0] != have[0]:
        return False
    return same(want[1], have[1])


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, to the last bit and in their type.

    >>> same(0.0, -0.0), same(1, 1.0), same(math.nan, math.nan)
    (False, False, True)
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _told(outcome: Outcome) -> str:
    way, what, message = outcome
    if way != "raises":
        return f"{way} {what!r}"
    return f"{way} {what}" if message is None else f"{way} {what}({message!r})"
