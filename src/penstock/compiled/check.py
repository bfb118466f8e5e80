"""A compiled function beside the original, before it is used: any difference, and it is not.

Both run in a process of their own (`child`), on edge values of the arguments' types and on seeded random ones.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import pickle
import subprocess
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.backends.edge_values import ROWS, inputs
from penstock.backends.verify import MODEST, Difference, converted, same
from penstock.compiled.child import PATIENCE, Task
from penstock.compiled.program import Program
from penstock.errors import NotLifted
from penstock.expr.lift.forms import Form

DEADLINE = 10.0
"""Seconds of computing for running both; compiling is not counted, since it always ends."""
COMPILING = 300.0
LEAST_FINISHED = 10
AGREED: dict[tuple[str, str], Agreement] = {}
"""Functions that this process has checked already: a notebook's cell is often run again."""
BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from penstock.compiled.child import start; start()"
)


@dataclass(frozen=True, slots=True)
class Agreement:
    """What was compared."""

    rows: int
    declined: int
    """Rows that the program leaves to Python, which returns a value."""
    unfinished: int
    """Rows that the original did not finish in time, which were left out."""

    def __str__(self) -> str:
        text = f"agrees with the function on {self.rows} rows"
        if self.declined:
            text += f", {self.declined} of which it leaves to Python"
        return (
            text if not self.unfinished else f"{text}; {self.unfinished} more did not end and were left out"
        )


def agreement_of(
    function: types.FunctionType, program: Program, arguments: Mapping[str, Form], returns: Form, line: int
) -> Agreement:
    """Run both, or raise `NotLifted` with the difference."""

    def refuse(reason: str, advice: str) -> NotLifted:
        return NotLifted(program.name, line, 0, reason, advice)

    try:
        import cloudpickle

        pickled = cloudpickle.dumps(function)
    except Exception as error:
        raise refuse(
            f"it cannot be sent to another process: {error}", "Use constants and plain functions."
        ) from None
    key = (program.digest, hashlib.sha256(pickled).hexdigest())
    if key in AGREED:
        return AGREED[key]
    rows = rows_for(function, program, arguments)
    answers = _answers(Task(program, pickled, tuple(arguments), rows, DEADLINE))
    if answers.get("failed") is not None:
        reason = str(answers["failed"]).strip().splitlines()
        raise refuse(f"numba does not compile it ({reason[0][:300]})", "It runs as plain Python.")
    if "compiled" not in answers:
        raise refuse("the process that compiles it ended early", "It runs as plain Python.")
    if "ran" not in answers:
        raise refuse(
            f"it did not end within {DEADLINE:g} seconds on generated values of its arguments' types",
            "Bound its loops, or raise an error for values it is not made for.",
        )
    tried, done, values, faulty = answers["ran"]
    AGREED[key] = _agreed(program, arguments, returns, line, tried, done, values, faulty)
    return AGREED[key]


def rows_for(
    function: types.FunctionType, program: Program, arguments: Mapping[str, Form]
) -> list[tuple[Any, ...]]:
    """Rows to compare on, none with None, which are Python's; modest ones where Python could fill the memory."""

    def fits(row: tuple[Any, ...]) -> bool:
        if any(value is None for value in row):
            return False
        return not program.grows or all(not math.isfinite(value) or abs(value) <= MODEST for value in row)

    generated = itertools.islice(inputs(arguments, function), 40 * ROWS)
    return list(itertools.islice(filter(fits, generated), ROWS))


def _answers(task: Task) -> dict[str, Any]:
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        said, _ = process.communicate(
            pickle.dumps(sys.path) + pickle.dumps(task), COMPILING + PATIENCE * DEADLINE
        )
    except subprocess.TimeoutExpired:
        said = b""
    finally:
        process.kill()
        process.wait()
    found: dict[str, Any] = {}
    stream = io.BytesIO(said)
    while True:
        try:
            name, value = pickle.load(stream)
        except (EOFError, pickle.UnpicklingError):
            return found
        found[name] = value


def _agreed(
    program: Program,
    arguments: Mapping[str, Form],
    returns: Form,
    line: int,
    tried: int,
    done: list[tuple[tuple[Any, ...], tuple[str, Any]]],
    values: list[Any],
    faulty: list[bool],
) -> Agreement:
    differences, declined, computed = [], 0, 0
    for (row, original), value, fault in zip(done, values, faulty, strict=True):
        want = declared(original, returns)
        if fault:
            declined += want[0] == "returns"
        elif want[0] == "returns" and same(want[1], value):
            computed += 1
        else:
            told = f"raises {want[1]}" if want[0] == "raises" else f"returns {want[1]!r}"
            differences.append(
                _Difference(dict(zip(arguments, row, strict=True)), told, f"returns {value!r}")
            )
    if differences:
        shown = "; ".join(map(str, differences[:3]))
        raise NotLifted(
            program.name,
            line,
            0,
            f"its compiled form differs from it: {shown}",
            "This is a bug of Penstock's compiler, which the check before use has found: please report it.",
        )
    if len(done) < min(LEAST_FINISHED, tried) or not computed:
        raise NotLifted(
            program.name,
            line,
            0,
            f"of {tried} generated rows it finished {len(done)}, and {computed} could be computed without Python",
            "Bound its loops, or raise an error for values it is not made for.",
        )
    return Agreement(len(done), declined, tried - len(done))


class _Difference(Difference):
    """A row on which the two disagree."""

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"for {given} Python {self.python}, and the compiled form {self.lifted}"


def declared(original: tuple[str, Any], returns: Form) -> tuple[str, Any]:
    """What the original did, with its result as the declared type."""
    if original[0] == "raises":
        return original
    try:
        return "returns", converted(original[1], returns)
    except Exception as error:
        return "raises", type(error).__name__
