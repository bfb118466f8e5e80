"""What an iteration of a loader has done, and which side bounds it."""

from __future__ import annotations

import time
from dataclasses import dataclass

BOUND_SHARE = 0.05
"""A consumer that waits less of its time is what bounds."""
IDLE_SHARE = 0.5
"""Readers that have nothing to do for more of the time are not what bounds."""


@dataclass
class Stats:
    """What an iteration has done so far."""

    rows: int = 0
    row_bytes: int = 0
    bytes_read: int = 0
    began: float = 0.0
    ended: float | None = None
    waited: float = 0.0
    """Seconds in which the consumer waited for a batch."""
    readers_waited: float = 0.0
    """Seconds in which readers, added up, waited for memory to become free."""
    memory: int = 0
    """Bytes that the loader uses on this rank."""
    threads: int = 0

    def verdict(self) -> str:
        """Which side bounds.

        >>> print(Stats(rows=10**6, row_bytes=1000, ended=10.0, waited=0.1, threads=4).verdict())
        the consumer bounds: it waited 0.1 s of 10.0 s (1%), and took 0.10 GB/s; a faster feed would change nothing.
        """
        if not self.rows:
            return "nothing was read yet."
        share = self.waited / self.seconds
        rate = self.bytes_per_second / 1e9
        if share < BOUND_SHARE:
            return (
                f"the consumer bounds: it waited {self.waited:.1f} s of {self.seconds:.1f} s ({share:.0%}), and took "
                f"{rate:.2f} GB/s; a faster feed would change nothing."
            )
        idle = self.readers_waited / (self.threads * self.seconds) if self.threads else 0.0
        if idle > IDLE_SHARE:
            return (
                f"the gather bounds: the consumer waited {share:.0%} of {self.seconds:.1f} s at {rate:.2f} GB/s, while "
                f"{self.threads} readers had nothing to do {idle:.0%} of it; larger batches, or fewer tensors, help."
            )
        return (
            f"reading bounds: the consumer waited {share:.0%} of {self.seconds:.1f} s at {rate:.2f} GB/s, and "
            f"{self.threads} readers were busy {1 - idle:.0%} of it; faster storage, or more ranks, would help."
        )

    @property
    def bytes(self) -> int:
        """Bytes of the rows handed out."""
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
