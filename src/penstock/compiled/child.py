"""The process in which a function and its program are run side by side: started by `check`, and ended by a deadline.

Either may never end on some row. The original is interrupted after some milliseconds of computing, and such a row is
left out; the program gets only rows the original has finished. What cannot be interrupted ends with the process.
"""

from __future__ import annotations

import faulthandler
import math
import os
import pickle
import signal
import sys
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from penstock.compiled.kernel import DTYPES, kernel_of, run
from penstock.compiled.program import Program

ROW_SECONDS = 0.01
ALL_SECONDS = 1.0
LEAST_ROWS = 20
PATIENCE = 6
"""How many seconds of the clock may pass for one of computing, on a busy machine."""
MEMORY = 4 << 30
"""More than the process has when it begins: a row that needs it has gone astray."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the parent sends."""

    program: Program
    function: bytes
    """Pickled, and loaded only where an error can be told."""
    names: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    seconds: float
    """Of computing, for running both."""


class TooLong(BaseException):
    """The original did not finish a row in time; no handler of the user's takes it."""


def main(task: Task, answers: BinaryIO) -> None:
    """Compile, say so, run both, and say what came out."""
    try:
        function = pickle.loads(task.function)
        kernel_of(task.program)
    except Exception as error:
        pickle.dump(("failed", f"{type(error).__name__}: {error}"), answers)
        return
    pickle.dump(("compiled", None), answers)
    answers.flush()
    _limit(task.seconds)
    outcomes = originals(function, task.names, task.rows)
    done = [(row, outcome) for row, outcome in zip(task.rows, outcomes, strict=False) if outcome is not None]
    columns = [
        np.array([row[place] for row, _ in done], DTYPES[kind])
        for place, kind in enumerate(task.program.arguments)
    ]
    found, empty, faulty = run(task.program, columns, np.zeros(len(done), np.bool_))
    values = [None if none else value for value, none in zip(found.tolist(), empty, strict=True)]
    pickle.dump(("ran", (len(outcomes), done, values, faulty.tolist())), answers)


def originals(
    function: types.FunctionType, names: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> list[tuple[str, Any] | None]:
    """What the function returns or raises for rows; None for one that it did not finish in time."""

    running = False

    def stop(*_: object) -> None:
        if running:
            raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    found: list[tuple[str, Any] | None] = []
    end = time.process_time() + ALL_SECONDS
    for row in rows:
        if time.process_time() > end and len(found) >= LEAST_ROWS:
            break
        done: tuple[str, Any] | None = None
        # Time of computing, not of the clock: a busy machine must not change the verdict.
        signal.setitimer(signal.ITIMER_PROF, ROW_SECONDS, ROW_SECONDS)
        try:
            try:
                running = True
                done = outcome(function, dict(zip(names, row, strict=True)))
            finally:
                running = False
        except TooLong:
            done = None
        signal.setitimer(signal.ITIMER_PROF, 0)
        found.append(done)
    signal.signal(signal.SIGPROF, before)
    return found


def outcome(function: types.FunctionType, given: Mapping[str, Any]) -> tuple[str, Any]:
    """What the function does with a row, in what can be sent back."""
    try:
        value = called(function, given)
    except Exception as error:
        return "raises", type(error).__name__
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of NumPy's
        value = value.item()
    if value is None or type(value) in (bool, int, float):
        return "returns", value
    return "raises", TypeError.__name__


def called(function: types.FunctionType, given: Mapping[str, Any]) -> Any:
    """Call a function by the names of its arguments."""
    positional = function.__code__.co_varnames[: function.__code__.co_posonlyargcount]
    words = {name: value for name, value in given.items() if name not in positional}
    return function(*(given[name] for name in positional if name in given), **words)


def _limit(seconds: float) -> None:
    """End this process when it has computed for so long, or waited for ever, or when a row fills the memory.

    Neither limit asks the interpreter, which may be in the middle of a multiplication that takes a day.
    """
    faulthandler.dump_traceback_later(PATIENCE * seconds, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115
    try:
        import resource

        end = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (end, end + 1))
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    except (ImportError, OSError, ValueError):
        return  # elsewhere the clock has to do


def start() -> None:
    """Read the task and answer it; what the function prints goes nowhere."""
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    main(pickle.load(sys.stdin.buffer), answers)
    answers.flush()
    os._exit(0)
