"""Ranks as processes of this machine: start them, show what they print, notice their ends, leave none behind.

Fresh interpreters, neither forked nor importing the caller's script, so that notebooks and scripts without a
`__main__` guard work. What they are given and what they return goes through files without names, which no kill can
leave behind. Used by `launch` for local ranks, and on executors by `launch_task`. The other side is `launch_worker`.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from penstock.jobs.launch_ends import End, Report
from penstock.jobs.launch_lines import Lines, Show

START = "import sys; sys.path.insert(0, {root!r}); from penstock.jobs.launch_worker import main; main()"
LOOK_SECONDS = 0.05
GRACE_SECONDS = 5.0
"""Between the signal that asks a rank to stop and the one that makes it."""
DRAIN_SECONDS = 1.0
"""For what a dead rank still has in its pipes; a process that left the rank's group may hold them open for ever."""


@dataclass
class _Rank:
    number: int
    process: subprocess.Popen[bytes]
    report: IO[bytes]
    lifeline: int
    lines: dict[int, tuple[bool, Lines]] = field(default_factory=dict)


class Processes:
    """Some ranks while they run; leaving the block stops those that still do, and every process of their groups.

    One that has left its rank's group for a session of its own (`start_new_session=True`, a daemon) is not followed.

    `payload` is what `launch_worker` reads; `environments` has one entry for each rank, which names itself in RANK.
    """

    def __init__(
        self, payload: bytes, environments: Sequence[Mapping[str, str]], root: str, show: Show
    ) -> None:
        self.ends: dict[int, End] = {}
        self._payload, self._environments, self._root, self._show = payload, environments, root, show
        self._ranks: dict[int, _Rank] = {}
        self._selector = selectors.DefaultSelector()
        self._stopped: set[int] = set()
        """Ranks that were told to stop, and had not said before that they fail."""

    def __enter__(self) -> Processes:
        try:
            with tempfile.TemporaryFile() as payload:
                payload.write(self._payload)
                payload.flush()
                for environment in self._environments:
                    self._start(environment, payload.fileno())
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, environment: Mapping[str, str], payload: int) -> None:
        number = int(environment["RANK"])
        report = tempfile.TemporaryFile()  # noqa: SIM115 - open until its rank has ended
        tied, lifeline = os.pipe()
        try:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-c", START.format(root=self._root)),
                    *map(str, (payload, report.fileno(), tied, os.getpid())),
                ],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(payload, report.fileno(), tied),
                # A group of its own: Ctrl-C reaches the launcher alone, and what the rank starts dies with it.
                start_new_session=True,
            )
        except BaseException:
            report.close()
            os.close(lifeline)
            raise
        finally:
            os.close(tied)
        assert process.stdout is not None
        assert process.stderr is not None
        rank = _Rank(number, process, report, lifeline)
        for stream, error in ((process.stdout, False), (process.stderr, True)):
            os.set_blocking(stream.fileno(), False)
            rank.lines[stream.fileno()] = (error, Lines())
            self._selector.register(stream, selectors.EVENT_READ, rank)
        self._ranks[number] = rank

    @property
    def running(self) -> list[int]:
        """The ranks that have not ended."""
        return sorted(self._ranks)

    @property
    def trouble(self) -> bool:
        """Whether a rank has failed, or says that it is about to end so."""
        return any(end.failed for end in self.ends.values()) or any(map(_fails, self._ranks.values()))

    def pump(self, seconds: float) -> None:
        """Show what the ranks print, and note their ends, for about so long; less when none runs."""
        deadline = time.monotonic() + seconds
        while self._ranks:
            left = deadline - time.monotonic()
            self._read(max(min(left, LOOK_SECONDS), 0))
            for rank in list(self._ranks.values()):
                # Without taking the process's number away: until its group is dead, nobody else may get it.
                if os.waitid(os.P_PID, rank.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    self._end(rank)
            if left <= 0:
                return

    def _read(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            self._take(key.data, key.fd)

    def _take(self, rank: _Rank, file: int) -> bool:
        """Take what a stream has now; whether it may have more later."""
        error, lines = rank.lines[file]
        try:
            data = os.read(file, 1 << 16)
        except BlockingIOError:
            return True
        for line in lines.feed(data) if data else lines.end():
            self._show(rank.number, error, line)
        if not data:
            self._forget(rank, file)
        return bool(data)

    def _forget(self, rank: _Rank, file: int) -> None:
        self._selector.unregister(file)
        del rank.lines[file]

    def _end(self, rank: _Rank) -> None:
        """Note a rank's end, or bring it about; nothing of its group is left."""
        seen = time.time()
        _signal(rank, signal.SIGKILL)
        code = rank.process.wait()
        self._drain(rank)
        data = os.pread(rank.report.fileno(), os.fstat(rank.report.fileno()).st_size, 0)
        del self._ranks[rank.number]
        _close(rank)
        self.ends[rank.number] = End(
            rank.number, code, seen, Report.from_bytes(data), rank.number in self._stopped
        )

    def _drain(self, rank: _Rank) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        while rank.lines and time.monotonic() < deadline:
            for file in list(rank.lines):
                self._take(rank, file)
            if rank.lines:
                time.sleep(0.01)
        for file, (error, lines) in list(rank.lines.items()):
            for line in lines.end():
                self._show(rank.number, error, line)
            self._forget(rank, file)

    def ask(self, number: signal.Signals) -> None:
        """Send a signal to every rank's own process."""
        for rank in self._ranks.values():
            with suppress(ProcessLookupError):
                os.kill(rank.process.pid, number)

    def stop(self, gently: signal.Signals = signal.SIGTERM) -> None:
        """Ask the ranks to stop, and after `GRACE_SECONDS` make them."""
        self._stopped |= {number for number, rank in self._ranks.items() if not _fails(rank)}
        try:
            for rank in self._ranks.values():
                _signal(rank, gently)
            self.pump(GRACE_SECONDS)
        finally:
            for rank in list(self._ranks.values()):
                self._end(rank)

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        try:
            # What Ctrl-C would have done in each of them, had they been one process.
            interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
            self.stop(signal.SIGINT if interrupted else signal.SIGTERM)
        finally:
            for rank in self._ranks.values():
                _close(rank)
            self._selector.close()


def _fails(rank: _Rank) -> bool:
    """Whether a rank has said that it is about to end with an exit code other than 0."""
    return os.pread(rank.report.fileno(), 1, 0) not in (b"", b"\0")


def _signal(rank: _Rank, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(rank.process.pid, number)


def _close(rank: _Rank) -> None:
    os.close(rank.lifeline)
    rank.report.close()
    for stream in (rank.process.stdout, rank.process.stderr):
        if stream is not None:
            stream.close()
