"""One small progress interface: a bar on a terminal, silence everywhere else.

`progress("Reading")` is a context manager that yields a `Meter`; whoever works calls `meter.update(bytes, rows)`.
`notice` is one line for what a user should know and would not otherwise see.
The bar appears on stderr, only on a terminal, and only once the work has lasted a moment, so that quick
calls stay quiet. Nothing here is needed for correctness.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET_SECONDS = 1.0


class Meter(Protocol):
    """What a worker reports to: totals so far, never differences."""

    shown: bool
    """Whether anybody sees it: what is dear to find out need not be, otherwise."""

    def update(self, bytes_done: int, rows_done: int, note: str = "") -> None:
        """Say how far the work is."""


class SilentMeter:
    """Reports nowhere.

    >>> SilentMeter().update(1, 1)
    """

    shown = False

    def update(self, bytes_done: int, rows_done: int, note: str = "") -> None:
        """Do nothing."""


class TerminalMeter:
    """A rich progress line, begun when the work has lasted `QUIET_SECONDS`."""

    shown = True

    def __init__(self, title: str) -> None:
        self._title, self._began = title, time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def update(self, bytes_done: int, rows_done: int, note: str = "") -> None:
        """Show bytes, rate, rows and the note."""
        if self._bar is None:
            if time.monotonic() - self._began < QUIET_SECONDS:
                return
            self._start()
        if self._bar is not None and self._task is not None:
            rows = f"{rows_done:,} rows" if rows_done else ""
            self._bar.update(self._task, completed=bytes_done, rows=f"{rows} {note}".strip())

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("{task.fields[rows]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._title, total=None, rows="")
        self._bar.start()

    def close(self) -> None:
        """Take the line off the screen."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress(title: str) -> Iterator[Meter]:
    """A meter for one piece of work.

    >>> with progress("Reading") as meter:
    ...     meter.update(bytes_done=10, rows_done=1)
    """
    if not sys.stderr.isatty():
        yield SilentMeter()
        return
    meter = TerminalMeter(title)
    try:
        yield meter
    finally:
        meter.close()


def notice(text: str) -> None:
    """One line on stderr.

    >>> notice("the dataset was reused")
    """
    print(f"penstock: {text}", file=sys.stderr)
