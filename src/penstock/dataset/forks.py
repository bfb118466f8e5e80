"""What has to begin anew in a process that was forked: there, threads that held a lock, or did some work, are not.

Whoever waits for them would wait for ever. An object that is kept longer than one call says `in_forks(self)` and has a
method `forked`, which is called in every child before anything else runs there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Something that threads share; hashed by identity."""

    def forked(self) -> None:
        """Begin anew: in this process there is one thread, which was not at work in here."""


_KNOWN: WeakSet[Forked] = WeakSet()


def in_forks(shared: Forked) -> None:
    """Have `shared.forked` called in processes that are forked from now on, as long as somebody else holds it."""
    _KNOWN.add(shared)


def _begin_anew() -> None:
    for each in list(_KNOWN):
        each.forked()


if hasattr(os, "register_at_fork"):  # Unix
    os.register_at_fork(after_in_child=_begin_anew)


class Once:
    """Things that are to be done once, by name, however many threads want them done.

    >>> once, done = Once(), []
    >>> for name in ("a", "b", "a"):
    ...     once.do(name, lambda: done.append(1))
    >>> len(done)
    2
    """

    def __init__(self) -> None:
        self._done: set[str] = set()
        self._doing: dict[str, threading.Lock] = {}
        in_forks(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process does it for itself: what it has may be other files of the same names."""
        return Once, ()

    def forked(self) -> None:
        """What others were doing is not done."""
        self._doing = {}

    def do(self, name: str, work: Callable[[], object]) -> None:
        """Return when it is done; where it fails, the next one tries."""
        if name in self._done:
            return
        with self._doing.setdefault(name, threading.Lock()):
            if name not in self._done:
                work()
                self._done.add(name)
