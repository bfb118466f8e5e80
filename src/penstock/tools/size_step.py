"""How long a step of a model takes, measured by taking some: for `pk.size(step=...)`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from penstock.errors import SizeError

WARM_UP = 2
"""Steps that are not counted: the first ones compile, and reserve memory."""
LEAST_STEPS, MOST_STEPS = 3, 100
MOST_SECONDS = 3.0
"""No step begins after it, when enough were taken."""


def step_seconds(step: Callable[[], object]) -> float:
    """The median of some steps.

    >>> calls = []
    >>> step_seconds(lambda: calls.append(time.sleep(0.01))) >= 0.01, len(calls) >= WARM_UP + LEAST_STEPS
    (True, True)
    """
    found: list[float] = []
    began = time.perf_counter()
    try:
        for _ in range(WARM_UP):
            step()
        while len(found) < MOST_STEPS:
            if len(found) >= LEAST_STEPS and time.perf_counter() - began > MOST_SECONDS:
                break
            last = time.perf_counter()
            step()
            found.append(time.perf_counter() - last)
    except Exception as error:
        raise SizeError(
            f"step={step!r} cannot be timed: it raised {type(error).__name__}: {error}. Pass a function without "
            "arguments that takes one step, or its time, such as step='12 ms'."
        ) from error
    return max(statistics.median(found), 1e-9)
