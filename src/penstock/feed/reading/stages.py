"""Reader threads: windows are fetched in the order they are needed, into slots, a bounded number at a time.

A window gets its slot before any window that is needed later, so that readers can never starve the consumer of the one
it waits for. What goes wrong in a reader reaches the consumer as the error it was, with the shard it happened to.
`plan.assembly` takes windows out as they become ready, and `epoch` gives their slots back.

A reader may take several runs of rows at a time, where reading them together is cheaper, and as long as slots are free
for the other readers too.

When all windows of an epoch have slots, readers may go on with the next epoch's, into slots that become free. What they
came to by the end is handed to the next epoch's readers, so that its first batch need not wait for a window of every
lane; the threads themselves end with their epoch.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from penstock.feed.plan.route import Fetch, Need
from penstock.feed.stats import Work

POLL_SECONDS = 0.2
THREADS = "penstock"
"""How the names of the feed's own threads begin."""


class Worker(threading.Thread):
    """A thread of the feed, which tells when it is over."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        super().__init__(target=target, name=f"{THREADS}-{name}", daemon=True)
        self._over = threading.Event()

    def run(self) -> None:
        """Do what it was made for."""
        try:
            super().run()
        finally:
            self._over.set()

    def wait(self) -> None:
        """Return when it is over, if it was ever started."""
        if self.ident is not None:
            self._over.wait()
            self.join()


@dataclass(frozen=True)
class Ready:
    """A window that lies in its slot."""

    need: Need
    slot: int


@dataclass
class _Open:
    """A window some of whose runs are still being read."""

    need: Need
    slot: int
    left: int
    ahead: bool
    """Whether it is of the next epoch."""


class Run(NamedTuple):
    """A run of rows, and the slot it belongs in."""

    slot: int
    fetch: Fetch


Read = Callable[[int, Sequence[Run]], None]
"""Reads runs of rows into their slots; the first argument is the reader's number."""
Finish = Callable[[int, Need, int], None]
"""Called by the reader that completes a window, before it is ready."""


class Readers:
    """Threads that fetch windows, from `start` until `halt`."""

    def __init__(
        self,
        needs: Iterable[Need],
        read: Read,
        finish: Finish,
        slots: int,
        threads: int,
        work: Work,
        there: Sequence[Ready] = (),
        ahead: Iterable[Need] = (),
        at_once: int = 1,
    ) -> None:
        """`there`: windows that lie in slots already. `ahead`: those of the next epoch. `at_once`: the most runs."""
        taken = {ready.need.window: ready.slot for ready in there}
        self._jobs = deque(
            (
                (
                    (need, fetch, False)
                    for need in needs
                    if need.window not in taken
                    for fetch in need.fetches
                ),
                ((need, fetch, True) for need in ahead for fetch in need.fetches),
            )
        )
        """Of this epoch, then of the next."""
        self._at_once = at_once
        self._read, self._finish, self._work = read, finish, work
        self._free: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        """Slots; None to wake those who wait for one."""
        for slot in set(range(slots)) - set(taken.values()):
            self._free.put(slot)
        self._done: queue.SimpleQueue[Ready | BaseException] = queue.SimpleQueue()
        for ready in there:
            self._done.put(ready)
        self.ahead: list[Ready] = []
        """Windows of the next epoch that lie in slots."""
        self._turn, self._counting = threading.Lock(), threading.Lock()
        self._open: _Open | None = None
        self._stopped = threading.Event()
        self._threads = [Worker(partial(self._run, number), f"reader-{number}") for number in range(threads)]

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def halt(self) -> None:
        """Have the threads end; what they are reading is dropped."""
        self._stopped.set()
        for _ in self._threads:
            self._free.put(None)

    def wait(self) -> None:
        """Return when they have ended."""
        for thread in self._threads:
            thread.wait()

    def next(self) -> Ready:
        """The next window that has become ready, in whatever order; raises what a reader raised."""
        while True:
            try:
                found = self._done.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if not any(thread.is_alive() for thread in self._threads) and self._done.empty():
                    raise RuntimeError("the readers ended before all rows were read") from None
                continue
            if isinstance(found, BaseException):
                self.halt()
                raise found
            return found

    def fail(self, error: BaseException) -> None:
        """Have the consumer meet this error when it asks for the next window."""
        self._done.put(error)

    def release(self, slot: int) -> None:
        """The rows of a slot are not needed any more."""
        self._free.put(slot)

    def _run(self, number: int) -> None:
        runs: list[tuple[_Open, Fetch]] = []
        try:
            while not self._stopped.is_set():
                runs = self._take()
                if not runs:
                    return
                with self._work:
                    self._read(number, [Run(window.slot, fetch) for window, fetch in runs])
                    whole = self._count(runs)
                    for window in whole:
                        self._finish(number, window.need, window.slot)
                for window in whole:
                    ready = Ready(window.need, window.slot)
                    if window.ahead:
                        self.ahead.append(ready)
                    else:
                        self._done.put(ready)
        except BaseException as error:
            # What goes wrong ahead of time is met again, if anybody comes so far.
            if not (runs and runs[0][0].ahead):
                self._done.put(error)

    def _count(self, runs: list[tuple[_Open, Fetch]]) -> list[_Open]:
        """Runs have been read: the windows that are whole now."""
        whole = []
        with self._counting:
            for window, _ in runs:
                window.left -= 1
                if not window.left:
                    whole.append(window)
        return whole

    def _take(self) -> list[tuple[_Open, Fetch]]:
        """The next runs to read, all of one epoch. Under one lock, so that slots are given out in the order of need."""
        found: list[tuple[_Open, Fetch]] = []
        with self._turn:
            most = min(self._at_once, max(self._free.qsize() // len(self._threads), 1))
            while len(found) < most:
                job = self._next_job(begun=bool(found))
                if job is None:
                    break
                need, fetch, ahead = job
                if self._open is None or self._open.need is not need:
                    # The first may have to be waited for; for those after it there are enough.
                    slot = self._free.get()
                    if slot is None or self._stopped.is_set():
                        return []
                    self._open = _Open(need, slot, len(need.fetches), ahead)
                found.append((self._open, fetch))
        return found

    def _next_job(self, begun: bool) -> tuple[Need, Fetch, bool] | None:
        """A run, and whether it is of the next epoch; of that only where nothing was taken yet."""
        job = next(self._jobs[0], None)
        while job is None and not begun and len(self._jobs) > 1:
            self._jobs.popleft()
            job = next(self._jobs[0], None)
        return job
