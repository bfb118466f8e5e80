"""How the ways of `penstock bench boundary` are timed: rounds in random turn, and what is told of them.

A way that always runs behind the same other one inherits its garbage, its page cache and the clock the processor had
left; so every round has a turn of its own. Each job runs once before, untimed. `penstock.tools.bench_boundary` begins.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Any

Told = Callable[[str], None]
"""Hears what is being done, for whoever waits."""


def unheard(what: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Timing:
    """The seconds of all rounds.

    >>> Timing((0.5, 0.25, 1.0)).median
    0.5
    """

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return median(self.seconds)

    @property
    def low(self) -> float:
        """The fastest round."""
        return min(self.seconds)

    @property
    def high(self) -> float:
        """The slowest round."""
        return max(self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"median": self.median, "low": self.low, "high": self.high, "rounds": list(self.seconds)}


@dataclass(frozen=True)
class Job:
    """One thing to time. What `around` sets up and takes away is not timed."""

    name: str
    run: Callable[[], object]
    around: Callable[[], AbstractContextManager[object]] = nullcontext


def timed(jobs: Sequence[Job], rounds: int, seed: int, told: Told = unheard) -> dict[str, Timing]:
    """Every job once to warm up, then `rounds` times, each round in a turn of its own.

    >>> ran = []
    >>> found = timed(
    ...     [Job("a", lambda: ran.append("a")), Job("b", lambda: ran.append("b"))], rounds=2, seed=0
    ... )
    >>> sorted(ran), [len(timing.seconds) for timing in found.values()]
    (['a', 'a', 'a', 'b', 'b', 'b'], [2, 2])
    """
    turns = random.Random(seed)
    seconds: dict[str, list[float]] = {job.name: [] for job in jobs}
    for number in range(rounds + 1):
        for job in turns.sample(jobs, len(jobs)):
            told(f"{job.name} ({f'round {number} of {rounds}' if number else 'warming up'})")
            with job.around():
                began = time.perf_counter()
                job.run()
                took = time.perf_counter() - began
            if number:
                seconds[job.name].append(took)
    return {name: Timing(tuple(found)) for name, found in seconds.items()}
