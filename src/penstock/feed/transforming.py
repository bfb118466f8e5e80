"""What is done to each batch once its rows are there: it is placed on a device, and goes through the user's transform.

Both are asked once per step, in the order of steps, and no earlier than they have to be, however many steps were
gathered at once (`epoch`): what a transform makes may be larger than what it was given, and may be random. On the host
that is when the batch is asked for; on a GPU one step before, on the stream that gathers, beside the consumer's work.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.feed.memory.arena import Arena
from penstock.feed.settings import Settings
from penstock.feed.stats import Stats

Group = tuple[list[int], list[dict[str, Any]]]
"""This rank's rows in each of some steps, and the batches."""


def finished(batch: Any, settings: Settings, stats: Stats) -> Any:
    """A batch as its user gets it; the time that takes is counted."""
    if settings.place is not None:
        began = time.perf_counter()
        batch = settings.place(batch)
        stats.placing += time.perf_counter() - began
    if settings.transform is not None:
        began = time.perf_counter()
        batch = settings.transform(batch)
        stats.transforming += time.perf_counter() - began
    return batch


class _Made(NamedTuple):
    """A step that was finished, or why there is none: an error, or the end."""

    rows: int | None
    batch: Any = None
    error: Exception | None = None


class Finisher:
    """Finishes the batches of an epoch."""

    def __init__(self, settings: Settings, stats: Stats, arena: Arena) -> None:
        self._settings, self._stats, self._arena = settings, stats, arena
        self._met = False

    def steps(self, groups: Iterator[Group]) -> Iterator[Group]:
        """Each step by itself."""
        raw, ahead = _apart(groups), self._arena.finishes_ahead
        ready: deque[_Made] = deque()
        try:
            while True:
                while len(ready) <= ahead and not (ready and ready[-1].rows is None):
                    ready.append(self._made(raw))
                if ready[0].rows is None:
                    break
                yield self._handed_over(ready.popleft())
            if ready[0].error is not None:
                raise ready[0].error
        finally:
            # An error knows this frame, and it the error: what both hold is not to wait for the collector.
            ready.clear()

    def _made(self, raw: Iterator[tuple[int, dict[str, Any]]]) -> _Made:
        """The next step. What goes wrong with it is told after the steps before it were handed out."""
        try:
            found = next(raw, None)
            if found is None:
                return _Made(None)
            if not self._met:
                # A transform uses what was made before the loop. Only now, so that no gather has to wait for that.
                self._met = True
                self._arena.meet()
            with self._arena.beside():
                batch = finished(found[1], self._settings, self._stats)
                self._arena.begun()
            return _Made(found[0], batch)
        except Exception as error:
            return _Made(None, error=error)

    def _handed_over(self, made: _Made) -> Group:
        assert made.rows is not None
        self._arena.hand_over([made.batch])
        return [made.rows], [made.batch]


def _apart(groups: Iterator[Group]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Step by step, so that nothing here keeps what was given out."""
    for sizes, batches in groups:
        batches.reverse()
        for rows in sizes:
            yield rows, batches.pop()
