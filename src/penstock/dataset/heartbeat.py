"""A sign of life beside the dataset while a write is under way, so that vacuum leaves its shards alone.

A write may last longer than the age at which vacuum sweeps files that no version names. While it lives, a small file
of its name is written anew every minute; what bears the name of a write with a young sign is not debris.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType

from penstock.dataset.store import Store
from penstock.errors import DatasetError

SECONDS = 60.0
PREFIX = "_penstock/writing-"


class Heartbeat:
    """Writes the sign while the block runs; takes it away at its end."""

    def __init__(self, store: Store, name: str, seconds: float = SECONDS) -> None:
        self._store, self._name, self._seconds = store, f"{PREFIX}{name}", seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="penstock-heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._store.touch(self._name)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        with suppress(DatasetError):
            self._store.delete([self._name])

    def _beat(self) -> None:
        while not self._stop.wait(self._seconds):
            # A beat that fails, in whatever way, is no reason to fail the write, nor to stop: a heart that is silent is
            # taken for dead, and the next beat may reach the storage.
            with suppress(Exception):
                self._store.touch(self._name)


def alive(names: dict[str, float], after: float) -> set[str]:
    """The writes with a sign younger than a moment; `names` are those of files, with their times.

    >>> alive({"_penstock/writing-ab12": 20.0, "_penstock/writing-cd34": 5.0}, after=10.0)
    {'ab12'}
    """
    return {
        name.removeprefix(PREFIX) for name, time in names.items() if name.startswith(PREFIX) and time > after
    }
