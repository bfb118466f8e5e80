"""What a process may have only so many of, counted over all its loaders: open shards, and maps of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.dataset.forks import in_forks

MOST_MAPS = 10_000
"""The system allows a process some 65,000, and a map may count three times."""


class Limited:
    """Counts what there is of something.

    >>> two = Limited(lambda: 2)
    >>> two.take(2), two.take(), two.give_back(1), two.take()
    (True, False, None, True)
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most, self._count, self._lock = most, 0, threading.Lock()
        in_forks(self)

    def forked(self) -> None:
        """Who held the lock perhaps is not there. What was counted is, and counts."""
        self._lock = threading.Lock()

    def take(self, count: int = 1) -> bool:
        """Count so many more, if there may be."""
        with self._lock:
            room = self._count + count <= self._most()
            self._count += count * room
            return room

    def give_back(self, count: int) -> None:
        """So many are gone."""
        with self._lock:
            self._count -= count


def most_open_files() -> int:
    """How many shards may be open at a time: half of what the process may have; the rest is the user's."""
    try:
        import resource
    except ImportError:  # not Unix
        return 256
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft // 2


FILES = Limited(lambda: most_open_files())
"""Shards that readers and leases keep open."""
MAPS = Limited(lambda: MOST_MAPS)
"""Shards in maps, one for each tensor."""
