"""Ctrl-C in the demo: a KeyboardInterrupt wherever it was, and no second one while it cleans up.

What Spark is asked for runs beside the main thread (`Run.on_spark`), which is then free to be interrupted: a call to
the JVM that is interrupted itself ends in one of several errors, some of them long after.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

PY4J = ("KeyboardInterrupt while sending command.", "Exception while sending command.")


class Interrupts:
    """Remembers that Ctrl-C was pressed, so that an error which comes of it can be told from others."""

    def __init__(self) -> None:
        self.seen = False
        self._before = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> Interrupts:
        self.take()
        return self

    def take(self) -> None:
        """Be asked; once more when Spark has put its own way in place. A Ctrl-C that is ignored stays so."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._before == signal.SIG_IGN else self._heard)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        signal.default_int_handler(number, frame)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before)
        if self.seen and kind is not None and issubclass(kind, Exception):
            raise KeyboardInterrupt from None


@contextmanager
def quiet_connection() -> Iterator[None]:
    """Without what Spark's connection logs about a call that was interrupted all the same: a traceback."""

    def wanted(record: logging.LogRecord) -> bool:
        return record.msg not in PY4J

    root = logging.getLogger()
    root.addFilter(wanted)
    try:
        yield
    finally:
        root.removeFilter(wanted)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Clean up although Ctrl-C is pressed again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
