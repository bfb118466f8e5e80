"""One axis of time for all ranks: pauses are shortened, and what was counted along the way is shared out to columns.

Pure arithmetic over epochs' beginnings, ends and running totals; `feed` says what of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.dtypes import Array

COLUMNS = 240
LONGEST_PAUSE = 0.04
"""Of the time in which something ran; longer pauses are drawn so long."""


@dataclass(frozen=True)
class Pause:
    """A time in which nothing ran and that is drawn shorter than it was."""

    at: float
    """Where it begins on the axis."""
    seconds: float
    """How long it was."""


@dataclass(frozen=True)
class Axis:
    """Clock time to seconds since the first epoch began, without what was cut out of long pauses."""

    starts: Array
    """On the clock, where pieces begin between which something was cut out."""
    places: Array
    """Where these pieces begin on the axis."""
    seconds: float
    pauses: tuple[Pause, ...]

    def place(self, time: Array | float) -> Array:
        """Where times on the clock lie on the axis."""
        times = np.asarray(time, np.float64)
        piece = np.clip(np.searchsorted(self.starts, times, "right") - 1, 0, None)
        after = np.append(self.places[1:], self.seconds)[piece]
        return np.clip(self.places[piece] + times - self.starts[piece], self.places[piece], after)

    def edges(self) -> Array:
        """Of the columns in which things are added up."""
        return np.linspace(0.0, self.seconds, COLUMNS + 1)


def axis(spans: Sequence[tuple[float, float]]) -> Axis:
    """The axis of epochs that ran from and to these times, on any number of ranks.

    >>> found = axis([(100.0, 125.0), (1125.0, 1150.0)])
    >>> found.seconds, found.pauses, found.place(np.array([100.0, 1130.0])).tolist()
    (52.0, (Pause(at=25.0, seconds=1000.0),), [0.0, 32.0])
    """
    runs: list[list[float]] = []
    for start, end in sorted(spans):
        if runs and start <= runs[-1][1]:
            runs[-1][1] = max(runs[-1][1], end)
        else:
            runs.append([start, end])
    longest = LONGEST_PAUSE * sum(end - start for start, end in runs)
    starts, places, pauses = [runs[0][0]], [0.0], []
    for before, run in pairwise(runs):
        pause = run[0] - before[1]
        if pause > longest:
            here = places[-1] + before[1] - starts[-1]
            pauses.append(Pause(here, pause))
            starts.append(run[0])
            places.append(here + longest)
    seconds = places[-1] + runs[-1][1] - starts[-1]
    return Axis(np.array(starts), np.array(places), max(seconds, 1e-6), tuple(pauses))


def shared_out(at: Array, totals: Array, edges: Array) -> Array:
    """What was added to a running total between edges, spread evenly between the times at which it is known.

    >>> shared_out(np.array([0.0, 2.0]), np.array([0.0, 10.0]), np.array([0.0, 1.0, 4.0])).tolist()
    [5.0, 5.0]
    """
    return np.diff(np.interp(edges, at, totals))
