"""How an epoch ends, whatever ends it: files and memory go after the last thread that uses them, also on a Ctrl-C.

`epoch` and `follow.epoch` say what is waited for and what is freed then. `reading.stages` has the threads.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock.errors import DatasetError
from penstock.feed.reading.stages import THREADS


class _Collector:
    """Knows which thread collects garbage, if any does: finalizers cannot tell by themselves who called them."""

    def __init__(self) -> None:
        self._thread: int | None = None

    # The function is an argument, since a module that ends has no names any more.
    def __call__(
        self, phase: str, info: dict[str, Any], thread: Callable[[], int] = threading.get_ident
    ) -> None:
        self._thread = thread() if phase == "start" else None

    def runs_here(self) -> bool:
        """Whether this thread does, so that whatever it was at, and whatever locks it holds, stand still below."""
        return self._thread == threading.get_ident()


COLLECTOR = _Collector()
gc.callbacks.append(COLLECTOR)


def wait_out(wait: Callable[[], object]) -> BaseException | None:
    """Wait to the end, also where a Ctrl-C comes between: what came is returned, to be raised when all is done.

    Who gave up waiting would close files, and memory, that threads still read from. `wait` waits for events: after an
    interrupt `Thread.join` takes threads for ended that are not.
    """
    came: BaseException | None = None
    while True:
        try:
            wait()
            return came
        except BaseException as error:
            came = error


class Ending:
    """Ends what runs in threads: once, and in the process that began it."""

    def __init__(self) -> None:
        self._over = False
        self._process = os.getpid()
        """A process that is forked meanwhile has none of the threads, and must leave alone what they use."""

    def check_process(self) -> None:
        """Refuse to go on in a process that was forked."""
        if self._process != os.getpid():
            raise DatasetError(
                f"this iterator was begun in process {self._process}, and its threads have not come along into process "
                f"{os.getpid()}, which was forked from it. Iterate the loader anew: `for batch in loader`."
            )

    def run(
        self,
        wait: Callable[[], None],
        free: Callable[[], None],
        finalizing: Callable[[], bool] = sys.is_finalizing,
        process: Callable[[], int] = os.getpid,
    ) -> None:
        """Have the threads end and wait for them, then free what they used. `wait` may be begun again in its middle."""
        # Where the interpreter ends, threads stand still wherever they are, and the system cleans up. The functions are
        # arguments, since a module that ends has no names any more.
        if finalizing() or self._over or self._process != process():
            return
        # An iterator that nobody holds is closed by whatever thread the collector runs in, in the middle of anything:
        # one that would then wait for itself, that a reader waits for, or that holds a lock which a reader needs.
        if COLLECTOR.runs_here() or threading.current_thread().name.startswith(THREADS):
            self._over = True
            threading.Thread(target=self._end, args=(wait, free), name=f"{THREADS}-ending").start()
        else:
            self._end(wait, free)

    def _end(self, wait: Callable[[], None], free: Callable[[], None]) -> None:
        interrupt = wait_out(wait)
        # Only now: who was interrupted on the way here may come again.
        self._over = True
        try:
            free()
        finally:
            if interrupt is not None:
                raise interrupt
