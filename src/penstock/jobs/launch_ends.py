"""How ranks end: what each says about its own end, which of them failed first, and the error that tells it.

A rank that raises makes its neighbours fail a moment later, when their connection to it breaks. People need the first
error, and `outcome` promises it. Plain values and pure functions; written by `launch_worker`, read by `launch`.
"""

from __future__ import annotations

import pickle
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from penstock.errors import LaunchError

NOTICED_LATE = 0.25
"""Seconds. A killed rank leaves no time of its own: it was dead so long, at most, before anybody looked."""
CONSEQUENCE = 160
INTERRUPTED = 130
"""The exit code of what ended by KeyboardInterrupt, as shells count it."""
HEADER = "<BQ"
"""Before a report: its code, which the launcher looks at while the rank still ends, and its length."""


@dataclass(frozen=True)
class Report:
    """What a rank says about its end, in values that any process can read."""

    at: float
    """When, in seconds since 1970."""
    code: int = 0
    """The exit code it is about to have."""
    result: bytes | None = None
    """What rank 0's function returned, pickled."""
    what: str = ""
    """The error's type and message."""
    trace: str = ""
    error: bytes | None = None
    """The error itself, pickled, where that is possible."""

    def to_bytes(self) -> bytes:
        """As written where the launcher reads it: the code, the length, and the rest.

        >>> Report.from_bytes(Report(1.0, 3).to_bytes())
        Report(at=1.0, code=3, result=None, what='', trace='', error=None)
        """
        data = pickle.dumps(asdict(self))
        return struct.pack(HEADER, self.code, len(data)) + data

    @staticmethod
    def from_bytes(data: bytes) -> Report | None:
        """The report; None where the rank died before it had written all of it."""
        size = struct.calcsize(HEADER)
        if len(data) < size or len(data) - size < struct.unpack_from(HEADER, data)[1]:
            return None
        return Report(**pickle.loads(data[size:]))


@dataclass(frozen=True)
class End:
    """A rank's end as its launcher saw it."""

    rank: int
    code: int
    """As `subprocess` counts: minus the signal's number for a process that was killed."""
    seen: float
    report: Report | None = None
    stopped: bool = False
    """Whether the launcher told it to stop before it had said that it fails."""

    @property
    def failed(self) -> bool:
        """Whether it failed by itself; one that was stopped is a consequence.

        >>> interrupted = Report(10.0, 130)
        >>> End(1, -15, 10.6, interrupted).failed, End(1, -15, 10.6, interrupted, stopped=True).failed
        (True, False)
        """
        return (self.code != 0 or (self.report is not None and self.report.code != 0)) and (
            not self.stopped or (self.report is not None and bool(self.report.what))
        )

    @property
    def when(self) -> float:
        """The time it failed, as near as it can be known."""
        if self.report is not None and self.report.code:
            return self.report.at
        return self.seen - NOTICED_LATE

    @property
    def exit_code(self) -> int:
        """As a shell counts: 128 and the signal's number for a process that was killed."""
        if self.report is not None and self.report.code:
            return self.report.code
        return self.code if self.code >= 0 else 128 - self.code

    def said(self) -> str:
        """What happened to it, in a few words.

        >>> End(0, -9, 0.0).said()
        'it was killed by SIGKILL, most often because the machine ran out of memory'
        """
        if self.report is not None and self.report.what:
            return self.report.what
        if self.report is not None and self.report.code == INTERRUPTED:
            return "it was interrupted (KeyboardInterrupt)"
        if self.code < 0 and not (self.report is not None and self.report.code):
            name = _signal_name(-self.code)
            memory = (
                ", most often because the machine ran out of memory" if -self.code == signal.SIGKILL else ""
            )
            returned = " after its function had returned" if self.report is not None else ""
            return f"it was killed by {name}{returned}{memory}"
        return f"it ended itself with exit code {self.exit_code}"

    def earlier(self, seconds: float) -> End:
        """The same by a clock that is behind by so much."""
        report = None if self.report is None else replace(self.report, at=self.report.at - seconds)
        return replace(self, seen=self.seen - seconds, report=report)

    def to_dict(self) -> dict[str, Any]:
        """In values that cross to another machine."""
        return asdict(self)

    @staticmethod
    def from_dict(given: Mapping[str, Any]) -> End:
        """What `to_dict` gave."""
        report = given["report"]
        return End(**{**given, "report": None if report is None else Report(**report)})


def outcome(ends: Sequence[End]) -> bytes | LaunchError:
    """What rank 0 returned, pickled; or the error, the first failing rank's.

    >>> killed, broken = (
    ...     End(1, -9, 10.1),
    ...     End(0, 1, 10.4, Report(10.05, 1, what="RuntimeError: connection closed")),
    ... )
    >>> print(outcome([broken, killed]))
    rank 1 failed: it was killed by SIGKILL, most often because the machine ran out of memory
    <BLANKLINE>
    Then rank 0: RuntimeError: connection closed.
    """
    failed = sorted((end for end in ends if end.failed), key=lambda end: end.when)
    if failed:
        first, others = failed[0], [f"rank {end.rank}: {_short(end.said())}" for end in failed[1:]]
        stopped = sorted(end.rank for end in ends if end.stopped and not end.failed)
        if stopped:
            others.append(f"{_ranks(stopped)} {'was' if len(stopped) == 1 else 'were'} stopped")
        trace = first.report.trace if first.report is not None else ""
        return LaunchError(first.said(), first.rank, first.exit_code, trace, others)
    zero = next(end for end in ends if end.rank == 0)
    if zero.report is None or zero.report.result is None:
        # It left Python by os._exit(0), say: nothing failed, and nothing was returned.
        return pickle.dumps(None)
    return zero.report.result


def first_failed(ends: Sequence[End]) -> End | None:
    """The rank that failed first; None where none did."""
    return min((end for end in ends if end.failed), key=lambda end: end.when, default=None)


def _short(said: str) -> str:
    """The consequence of an error told before it needs no more than its beginning."""
    line = said.partition("\n")[0].rstrip(".")
    return line if len(line) <= CONSEQUENCE else line[:CONSEQUENCE] + "..."


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(map(str, ranks))
    return f"rank {named}" if len(ranks) == 1 else f"ranks {named}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
