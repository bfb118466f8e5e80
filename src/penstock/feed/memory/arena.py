"""What an arena is: memory in which windows lie while their rows are handed out, and the gather out of it.

A slot holds one window. Readers write a window's rows as they lie on storage; how they are permuted is kept beside
them, so that a batch is one gather per tensor. `host_arena` is the one in host memory, `penstock.feed.cuda.arena` the
one on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from penstock.dtypes import Array
from penstock.feed.memory.row_loops import NUMPY, RowLoops
from penstock.feed.plan.route import Fetch, Need, Route
from penstock.feed.reading.source import Straight
from penstock.wire.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Runs:
    """Which rows to gather: per lane runs of rows of windows, and how the lanes interleave.

    The runs of each lane add up to equally many rows, lane after lane; row i of the result is row i // L of lane i % L,
    and of those the ones from `low` to `high`. Where lanes have several owners, all runs are of one lane here.
    """

    windows: Array
    """The window of each run, as the rank counts them; -1 where a run only fills up, and is not handed out."""
    slots: Array
    """Where that window lies; means nothing for runs that only fill up."""
    offsets: Array
    """The run's first row, in the order of the window."""
    lengths: Array
    lanes: int
    low: int
    high: int
    first: int
    """Where lanes have one owner: the number of the first row among the rank's."""
    t: Array
    """Where they are shared: the number in the epoch of each run's first row."""

    @property
    def rows(self) -> int:
        """How many rows come out."""
        return self.high - self.low


@dataclass(frozen=True)
class Room:
    """How large an arena is."""

    slots: int
    rows: int
    """Of a slot."""
    pieces: int
    """The most runs of blocks that a window is made of."""

    def holds(self, other: Room) -> bool:
        """Whether an arena of this size serves where the other is asked for."""
        return self.slots >= other.slots and self.rows >= other.rows and self.pieces >= other.pieces


class OpenRun(NamedTuple):
    """A run of rows to read out of an open file, and the slot of its window."""

    slot: int
    fetch: Fetch
    straight: Straight


class Arena(Protocol):
    """Memory for windows on some device."""

    room: Room

    ahead: int
    """How many gathers are begun before the first of them is handed out."""
    gather_bytes: int
    """What is gathered at once: small batches then cost next to nothing each."""
    threads: int
    """How many threads gather, beside the consumer's; 0 where the device does it by itself."""
    finishes_ahead: int
    """How many batches are transformed before they are asked for: none where that holds the consumer up anyway."""

    @property
    def lasting(self) -> bool:
        """Whether what lies in slots stays there when an epoch ends, so that the next may be begun before."""

    def begin(self, route: Route) -> bool:
        """An epoch begins. True where all its rows are there, and nothing has to be read."""

    def wanted(self, fetch: Fetch) -> Fetch | None:
        """What has to be read for a run of rows to be there."""

    def bring(self, reader: int, runs: Sequence[OpenRun]) -> None:
        """Read runs of rows out of open files to where they belong. What lies elsewhere passes through `views`."""

    most_rows: int
    """There runs are read in parts of at most so many rows."""

    def views(self, reader: int, slot: int, fetch: Fetch) -> dict[str, memoryview]:
        """Memory for a run of rows of the fixed tensors, for a reader to fill."""

    def landed(self, reader: int, slot: int, fetch: Fetch) -> None:
        """The reader has filled it."""

    def kept(self, reader: int, fetch: Fetch) -> None:
        """All of a run has been read, and its bytes were found right."""

    def put_ragged(self, name: str, slot: int, place: int, rows: Ragged) -> None:
        """A run of rows of a ragged tensor."""

    def finish(self, slot: int, need: Need) -> None:
        """The window in the slot is whole."""

    def gather(self, runs: Runs) -> dict[str, Any]:
        """The rows, in the order of the epoch, in memory of their own."""

    def freed(self, slot: int) -> None:
        """The rows of the window in the slot have all been gathered."""

    def cut(self, rows: dict[str, Any], sizes: Sequence[int], padded: int | None) -> list[dict[str, Any]]:
        """What was gathered, as batches of these sizes; zero rows are added up to `padded`, and a tensor `valid`."""

    def beside(self) -> AbstractContextManager[object]:
        """What is run in it on the device does not hold up the consumer's own work."""

    def meet(self) -> None:
        """What is run beside from now on comes after all that the consumer asked for so far."""

    def begun(self) -> None:
        """All that the next batches need has been asked for. What is begun first is handed over first."""

    def hand_over(self, batches: Sequence[Any]) -> None:
        """They are about to be used: wait for them where that is needed; once for every `begun`."""

    def follow(self, batch: Any) -> None:
        """One of them is taken now."""

    def rest(self) -> None:
        """Nobody reads or gathers any more: wait for what is under way."""

    def close(self) -> None:
        """Give the memory up."""


class Orders:
    """Per slot, where the rows of its window lie, in the order of the epoch."""

    def __init__(self, slots: int, rows: int) -> None:
        self._rows = rows
        self._order = np.zeros(slots * rows, np.int64)

    def lay(self, slot: int, need: Need, turn: Array, bases: Array) -> None:
        """Write a window's order down; its i-th fetch lies at `bases[i]` and following."""
        self._order[slot * self._rows : slot * self._rows + need.rows] = turn + shifts(need, bases, turn)

    def index(self, runs: Runs, loops: RowLoops = NUMPY) -> Array:
        """Where the rows of some runs lie, in the order of the epoch."""
        if not runs.rows:
            return self._order[:0]
        starts = np.where(runs.windows >= 0, runs.slots, 0) * self._rows + runs.offsets
        return loops.interleaved(self._order, starts, runs.lengths, runs.lanes, runs.low, runs.high)


def turn_of(need: Need, loops: RowLoops = NUMPY) -> Array:
    """The rows of a window, in the order of the epoch."""
    return np.arange(need.rows) if need.keys is None else loops.permutation(need.rows, need.keys)


def shifts(need: Need, bases: Array, rows: Array) -> Any:
    """What turns rows of a window into places: bases of the fetches they are of, less those fetches' places."""
    if len(need.fetches) == 1:
        return int(bases[0]) - need.fetches[0].place
    places = np.array([fetch.place for fetch in need.fetches])
    return (bases - places)[np.searchsorted(places, rows, "right") - 1]
