"""The arithmetic of `penstock size`: reading an epoch against computing it, and preparing against training.

Frozen values and pure functions. Comparisons are exact (fractions, not floats), so that a flip that is told is where
the answer really flips. `penstock.tools.size` collects what goes in, `penstock.tools.size_pages` shows what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

STORAGE, COMPUTE = "storage", "compute"
"""The two sides of an epoch."""
AS_GIVEN, WRITING = "as given", "writing alone, at the speed measured; computing the rows comes on top"
"""What the time of preparing counts."""


@dataclass(frozen=True)
class Epoch:
    """One epoch: what its workers read, and how long they compute.

    >>> epoch = Epoch(rows=2 * 10**9, stored=2048 * 10**9, workers=16, bandwidth=2e9, compute=180.0)
    >>> epoch.worker_bytes, epoch.read_seconds, epoch.bound, epoch.flip_workers
    (128000000000, 64.0, 'compute', 6)
    """

    rows: int
    stored: int
    """Bytes of all rows on storage."""
    workers: int
    bandwidth: float | None
    """Bytes a second that storage gives each worker."""
    compute: float | None
    """Seconds of computing an epoch."""
    step: float | None = None
    """Seconds of a step, where computing was given so: workers share the steps out. Else it stays as given."""
    step_rows: int = 1
    """Rows of a step on each worker."""

    @property
    def shared_out(self) -> bool:
        """Whether workers share the computing out; else it takes as long however many read."""
        return self.step is not None

    @property
    def worker_rows(self) -> int:
        """Rows of the worker that has most."""
        return -(-self.rows // self.workers)

    @property
    def worker_bytes(self) -> int:
        """What the worker that has most reads."""
        return -(-self.stored * self.worker_rows // self.rows)

    @property
    def read_seconds(self) -> float | None:
        """How long storage takes to give every worker its share."""
        return None if self.bandwidth is None else self.worker_bytes / self.bandwidth

    @property
    def seconds(self) -> float | None:
        """An epoch with reading and computing side by side: the longer of both that are known."""
        known = [each for each in (self.read_seconds, self.compute) if each is not None]
        return max(known, default=None)

    @property
    def bound(self) -> str | None:
        """The side that takes longer; on a tie the computing, which waits for nothing then."""
        if self.bandwidth is None or self.compute is None:
            return None
        return STORAGE if self.worker_bytes > Fraction(self.bandwidth) * Fraction(self.compute) else COMPUTE

    @property
    def flip_bandwidth(self) -> float | None:
        """Bytes a second of each worker at which reading takes as long as computing: below, storage bounds."""
        return None if self.compute is None else self.worker_bytes / self.compute

    @property
    def flip_workers(self) -> int | None:
        """The least number of workers from which on storage never bounds; None where no number changes the answer.

        Where workers share the computing out, both sides shrink alike. But a step that is not full takes as long as
        one that is, so with hardly any rows on each worker computing bounds at last.

        >>> Epoch(10**6, 10**9, 1, 1e9, compute=100 * 0.005, step=0.005, step_rows=10_000).flip_workers
        200
        """
        if self.bandwidth is None or self.compute is None:
            return None
        # The most rows a worker can read while the epoch, or its only step, is computed.
        time = Fraction(self.compute if self.step is None else self.step)
        rows = int(Fraction(self.bandwidth) * time * self.rows / self.stored)
        if self.step is not None and rows >= self.step_rows:
            return None
        return -(-self.rows // rows) if rows else None


@dataclass(frozen=True)
class Course:
    """Preparing once and training some epochs, in the three ways they can be arranged.

    >>> course = Course(prep=1200.0, epoch=180.0, compute=180.0, epochs=10)
    >>> course.sequential, course.overlapped, course.fused, course.longer
    (3000.0, 2820.0, 12000.0, 'training')
    """

    prep: float
    """Seconds of preparing and writing all rows."""
    epoch: float
    """Seconds of training on what is stored, reading included."""
    compute: float | None
    """Seconds of computing an epoch, where that is known."""
    epochs: int = 1

    @property
    def training(self) -> float:
        """All epochs."""
        return self.epochs * self.epoch

    @property
    def sequential(self) -> float:
        """Prepare, then train."""
        return self.prep + self.training

    @property
    def overlapped(self) -> float:
        """Train on shards as they are written: the first epoch runs beside the preparation, at best without a gap."""
        return max(self.prep, self.epoch) + (self.epochs - 1) * self.epoch

    @property
    def fused(self) -> float | None:
        """Prepare rows for every epoch anew and store none: nothing is read, and everything is computed each time."""
        return None if self.compute is None else self.epochs * max(self.prep, self.compute)

    @property
    def longer(self) -> str:
        """Which of the two takes longer."""
        return "preparation" if self.prep > self.training else "training"

    @property
    def saved(self) -> float:
        """Seconds that overlapping saves: the shorter of the preparation and one epoch."""
        return self.sequential - self.overlapped

    @property
    def fuse_up_to(self) -> int | None:
        """The most epochs for which fusing beats one after the other; 0 for none, None without a limit or an answer.

        `fused` tells the last two apart: it is None where there is no answer.
        """
        if self.compute is None:
            return None
        each = max(Fraction(self.prep), Fraction(self.compute)) - Fraction(self.epoch)
        if each <= 0:
            return None
        limit = Fraction(self.prep) / each
        whole = limit.numerator // limit.denominator
        return whole - 1 if whole == limit else whole

    @property
    def quickest(self) -> str:
        """The way with the least total; of equal ones the simplest."""
        ways = {"sequential": self.sequential, "overlapped": self.overlapped}
        if self.fused is not None:
            ways["fused"] = self.fused
        return min(ways, key=lambda way: ways[way])


def steps(rows: int, batch_size: int, workers: int) -> int:
    """Steps of an epoch, the last one included though it may be short.

    >>> steps(2_000_000_000, 8192, 16)
    15259
    """
    return -(-rows // (batch_size * workers))
