"""What an iteration of a loader has done, and which side bounds it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

from penstock.errors import humane_bytes

BOUND_SHARE = 0.05
"""A consumer that waits less of its time is what bounds."""


class Work:
    """Seconds in which threads were busy, added up, those that are busy right now included: `with work:` is at work.

    >>> work = Work(2.0)
    >>> with work:
    ...     pass
    >>> 2.0 < work.seconds < 3.0
    True
    """

    def __init__(self, seconds: float = 0.0) -> None:
        # Of one thread several times: the collector may end a logged epoch, and ask, while this one counts.
        self._lock = threading.RLock()
        self._busy, self._seconds, self._any, self._changed = 0, seconds, 0.0, 0.0

    @property
    def seconds(self) -> float:
        """Of all threads, until now."""
        self._add(0)
        return self._seconds

    @property
    def any_seconds(self) -> float:
        """In which at least one was busy, until now."""
        self._add(0)
        return self._any

    def _add(self, threads: int) -> None:
        with self._lock:
            now = time.perf_counter()
            passed = now - self._changed if self._busy else 0.0
            self._seconds, self._any = self._seconds + self._busy * passed, self._any + passed
            self._busy, self._changed = self._busy + threads, now

    def __enter__(self) -> None:
        self._add(1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._add(-1)


@dataclass
class Stats:
    """What an iteration has done so far."""

    steps: int = 0
    rows: int = 0
    row_bytes: int = 0
    """Of a row as it lies, see `bytes`."""
    bytes_read: int = 0
    """While this iteration ran: what was read ahead of an epoch is counted with the one before it."""
    began: float = 0.0
    ended: float | None = None
    waited: float = 0.0
    """Seconds in which the consumer waited for a batch."""
    start_waited: float = 0.0
    """Seconds of `waited` before the first batch was there."""
    gather_waited: float = 0.0
    """Seconds of `waited` in which all rows were there, and the batch was not."""
    writer_waited: float = 0.0
    """Seconds of `waited` in which a write that is followed had not come so far."""
    placing: float = 0.0
    """Seconds that the consumer's thread spent on bringing batches to their device, where the framework does that."""
    transforming: float = 0.0
    """Seconds that it spent in the user's transform; on a GPU those in which the work was asked for, not done."""
    memory: int = 0
    """Bytes that are set aside on this rank, and the most that the loader takes of what `memory=` bounds: windows,
    gathers, and what readers have for themselves. A cache, batches that somebody holds, and what a transform makes
    come on top."""
    threads: int = 0
    readers: Work = field(default_factory=Work)
    """What the threads that read have done."""
    asked: float | None = None
    """When the consumer began to wait, while it does."""

    def wait(self) -> None:
        """The consumer waits for a batch from now on."""
        self.asked = time.perf_counter()

    def go_on(self) -> float:
        """It waits no more; the seconds that it has waited."""
        # In this order, for who looks at it from another thread meanwhile.
        asked, self.asked = self.asked, None
        waited = 0.0 if asked is None else time.perf_counter() - asked
        self.waited += waited
        if not self.rows:
            self.start_waited += waited
        return waited

    @property
    def waited_until_now(self) -> float:
        """With the wait that is under way."""
        asked = self.asked
        return self.waited + (0.0 if asked is None else time.perf_counter() - asked)

    @property
    def bound(self) -> str | None:
        """Which side bounds: "consumer", "transform", "placing", "write", "start", "gather" or "reading".

        None before anything was read.

        >>> Stats(rows=10, ended=10.0, waited=8.0, gather_waited=1.0).bound
        'reading'
        """
        if not self.rows:
            return None
        made = self.placing + self.transforming
        if made > max(self.waited, self.seconds - self.waited - made):
            return "transform" if self.transforming >= self.placing else "placing"
        if self.waited / self.seconds < BOUND_SHARE:
            return "consumer"
        if self.writer_waited > self.waited / 2:
            return "write"
        # Who waits for the first batch alone, with readers that soon have nothing to do, has short epochs, and no slow
        # feed.
        if (self.waited - self.start_waited) / self.seconds < BOUND_SHARE and self._idle > 1 / 2:
            return "start"
        return "gather" if self.gather_waited > self.waited / 2 else "reading"

    @property
    def readers_waited(self) -> float:
        """Seconds in which readers, added up, had nothing to do: no memory was free, or all was read."""
        return max(self.threads * self.seconds - self.readers.seconds, 0.0)

    @property
    def _idle(self) -> float:
        """The share of the time in which a reader had nothing to do."""
        return self.readers_waited / (self.threads * self.seconds) if self.threads else 0.0

    def verdict(self) -> str:
        """Which side bounds, in a sentence.

        >>> print(Stats(rows=10**6, row_bytes=1000, ended=10.0, waited=0.1, threads=4).verdict())
        the consumer bounds: it waited 0.1 s of 10.0 s (1%), and took 100.0 MB/s; a faster feed would change nothing.
        """
        bound = self.bound
        if bound is None:
            return "nothing was read yet."
        beside = [
            f" {what} took {took:,.1f} s ({took / self.seconds:.0%}) of the time."
            for name, what, took in (
                ("placing", "Placing batches on the device", self.placing),
                ("transform", "The transform", self.transforming),
            )
            if name != bound and took / self.seconds >= BOUND_SHARE
        ]
        return self._sentence(bound) + "".join(beside)

    def _sentence(self, bound: str) -> str:
        share, idle = self.waited / self.seconds, self._idle
        rate = f"{humane_bytes(round(self.bytes_per_second))}/s"
        if bound == "consumer":
            return (
                f"the consumer bounds: it waited {self.waited:,.1f} s of {self.seconds:,.1f} s ({share:.0%}), and took "
                f"{rate}; a faster feed would change nothing."
            )
        if bound in ("transform", "placing"):
            what, took, remedy = (
                (
                    "the transform",
                    self.transforming,
                    "Make it cheaper, or do its work before rows are written.",
                )
                if bound == "transform"
                else (
                    "placing batches on the device",
                    self.placing,
                    "Larger batches, or fewer tensors, help.",
                )
            )
            return (
                f"{what} bounds: it took {took:,.1f} s of {self.seconds:,.1f} s ({took / self.seconds:.0%}) in the "
                f"consumer's thread, at {rate}, and the consumer waited {self.waited:,.1f} s for rows; a faster feed "
                f"would change little. {remedy}"
            )
        if bound == "write":
            return (
                f"the write bounds: the consumer waited {self.waited:,.1f} s of {self.seconds:,.1f} s ({share:.0%}), "
                f"{self.writer_waited:,.1f} s of it for parts to land; a faster feed would change nothing."
            )
        if bound == "start":
            return (
                f"the start bounds: the consumer waited {self.start_waited:,.2f} s for the first batch, and "
                f"{self.waited - self.start_waited:,.2f} s for all others, of {self.seconds:,.1f} s at {rate}; "
                f"{self.threads} readers had nothing to do {idle:.0%} of the time. Longer epochs would help, and a "
                "faster feed would change little."
            )
        if bound == "gather":
            return (
                f"the gather bounds: the consumer waited {share:.0%} of {self.seconds:,.1f} s at {rate}, most of it "
                f"for rows that were read already; {self.threads} readers had nothing to do {idle:.0%} of the time. "
                "Larger batches, or fewer tensors, help."
            )
        return (
            f"reading bounds: the consumer waited {share:.0%} of {self.seconds:,.1f} s at {rate}, and {self.threads} "
            f"readers were busy {1 - idle:.0%} of the time; faster storage, or more ranks, would help."
        )

    @property
    def bytes(self) -> int:
        """Bytes of the rows handed out, as they lie unpacked: ragged tensors by the mean, without what `pad` adds."""
        return self.rows * self.row_bytes

    @property
    def seconds(self) -> float:
        """From the beginning to the end, or until now."""
        return (time.perf_counter() if self.ended is None else self.ended) - self.began

    @property
    def rows_per_second(self) -> float:
        """Rows handed out per second."""
        return self.rows / self.seconds if self.rows else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes handed out per second."""
        return self.bytes / self.seconds if self.rows else 0.0
