"""The training log: what the feed did over time, as JSON lines that are only ever appended. `pk.report` reads it.

Steps pay nothing for it: a thread looks at a loader's numbers once a second (`Watch`), and what `Loader.note` is told
waits for it. A line is one write, so a process that is killed leaves at most its last line torn, and the next line
begins anew. A log that can no longer be written is warned of, and the training goes on. The lines:

    {"line": "run", "format": "penstock-log", "version": 1, "dataset": ..., "batch_size": ..., ...}  first of a run
    {"line": "begin", "epoch": 0, "step": 0, "fingerprint": ...}
    {"line": "feed", "epoch": 0, "step": 812, "seconds": 1.0, "rows": ..., "bytes": ..., "waited": ..., ...}
    {"line": "note", "epoch": 0, "step": 815, "values": {"loss": 0.31}}
    {"line": "end", ..., "ended": "whole", "verdict": ...}                                           as "feed", and more

Each also carries the time, the run's name, rank and world. Numbers count from the epoch's beginning, on this rank.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock import __version__
from penstock.errors import SelectionError, StorageError
from penstock.feed.ending import COLLECTOR
from penstock.feed.stats import Stats
from penstock.feed.world import World

FORMAT, FORMAT_VERSION = "penstock-log", 1
TICK_SECONDS = 1.0
WHOLE, LEFT = "whole", "left"
"""How an epoch ended: all its steps were taken, or the loop was left before; otherwise the name of an error."""


def path_of(path: str | os.PathLike[str], world: World) -> Path:
    """The file of one rank.

    >>> path_of("run/log.jsonl", World(0, 1)).name, path_of("run/log.jsonl", World(3, 4)).name
    ('log.jsonl', 'log-rank3.jsonl')
    """
    found = Path(path)
    return found if world.size == 1 else found.with_name(f"{found.stem}-rank{world.rank}{found.suffix}")


def checked_numbers(values: Mapping[str, Any]) -> dict[str, float | str]:
    """What a user notes, as JSON holds it: finite numbers as they are, others by name.

    >>> checked_numbers({"loss": 0.5, "norm": float("inf")})
    {'loss': 0.5, 'norm': 'inf'}
    """
    if not isinstance(values, Mapping):
        raise SelectionError(
            f"note() takes names and numbers, such as {{'loss': 0.3}}, and got {values!r:.100}."
        )
    found: dict[str, float | str] = {}
    for name, value in values.items():
        if not isinstance(name, str) or not name:
            raise SelectionError(f"note(): {name!r:.100} is no name; names are texts of at least one letter.")
        if isinstance(value, bool) or not isinstance(value, Real):
            raise SelectionError(
                f"note(): {name!r:.100} is a {type(value).__name__} ({value!r:.60}), and plain numbers are noted. Pass "
                "float(...) of it; of a tensor on a GPU that waits for the device, so do it now and then."
            )
        number: float = int(value) if isinstance(value, Integral) else float(value)
        if isinstance(number, int) and abs(number) >= 1 << 63:
            raise SelectionError(
                f"note(): {name!r:.100} is {number!s:.60}, beyond 64 bits. Pass float(...) of it."
            )
        found[name] = number if math.isfinite(number) else str(number)
    return found


class TrainingLog:
    """The log of one loader, on one rank; safe in many threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._asked = path
        self._path: Path | None = None
        """Known when the rank is."""
        self._run = uuid.uuid4().hex[:8]
        self._who: dict[str, Any] = {}
        self._noted: deque[dict[str, Any]] = deque()
        """Appended to without the lock, so that who trains never waits for a disk."""
        self._watch: Watch | None = None
        self._trouble: OSError | None = None
        # Entered again by its own thread, where collecting garbage closes an iterator.
        self._lock = threading.RLock()
        self._process = os.getpid()

    def watch(
        self, stats: Stats, world: World, epoch: int, step: int, steps: int | None, about: Mapping[str, Any]
    ) -> Watch:
        """Log an epoch from `step` on, which has so many `steps` left, while the block runs.

        Only the very first line must succeed: a mistake in the path shows then, and a full disk later ends no training.
        """
        if self._process != os.getpid():
            # Forked meanwhile: a run of its own, and whoever holds the lock is the other's.
            self._process, self._lock = os.getpid(), threading.RLock()
            self._path, self._run = None, uuid.uuid4().hex[:8]
            self._noted.clear()
        if self._path is None:
            path = path_of(self._asked, world)
            self._who = {"run": self._run, "rank": world.rank, "world": world.size}
            head = {"format": FORMAT, "version": FORMAT_VERSION, "penstock": __version__, **about}
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                _append(path, [self._line("run", head)])
            except OSError as error:
                why = error.strerror or str(error)
                raise StorageError(
                    "write", str(path), why, "It is the log: choose another path for log=."
                ) from error
            self._path = path
        self._watch = Watch(self, stats, epoch, step, steps, str(about["fingerprint"]))
        return self._watch

    def note(self, values: Mapping[str, Any]) -> None:
        """Add a user's own numbers, at the step that is under way."""
        found = checked_numbers(values)
        if not found:
            return
        watch = self._watch
        # What is noted before anything was read belongs to where that will begin.
        place = {} if watch is None else watch.place()
        self._noted.append({"time": _now(), **place, "values": found})
        if watch is not None and not watch.running:
            self.write()

    def write(self, *lines: tuple[str, Mapping[str, Any]]) -> None:
        """Append what was noted, and these lines."""
        with self._lock:
            if self._path is None or self._watch is None:
                return
            here, written = self._watch.place(), []
            while self._noted:
                written.append(self._line("note", {**here, **self._noted.popleft()}))
            try:
                _append(self._path, written + [self._line(*each) for each in lines])
            except OSError as error:
                self._trouble = error

    def warn(self) -> None:
        """Tell of a log that could not be written, once; in the thread of the one who trains."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            warnings.warn(
                f"the log {self._path} could not be written, and has a gap: {trouble.strerror or trouble}. The "
                "training goes on.",
                stacklevel=2,
            )

    def _line(self, kind: str, values: Mapping[str, Any]) -> str:
        return json.dumps({"line": kind, "time": _now(), **self._who, **values}, separators=(",", ":"))


class Watch:
    """Writes lines about an epoch: at its begin, each second, and at its end."""

    def __init__(
        self, log: TrainingLog, stats: Stats, epoch: int, step: int, steps: int | None, fingerprint: str
    ) -> None:
        self._log, self._stats, self._fingerprint = log, stats, fingerprint
        self._epoch, self._step, self._steps = epoch, step, steps
        self._waited = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="penstock-log", daemon=True)
        self.running, self._process = False, os.getpid()

    def place(self) -> dict[str, int]:
        """Where the epoch stands."""
        return {"epoch": self._epoch, "step": self._step + self._stats.steps}

    def __enter__(self) -> Watch:
        try:
            self._log.write(("begin", {**self.place(), "fingerprint": self._fingerprint}))
            self.running = True
            self._thread.start()
        except BaseException:
            # Who is interrupted here never comes to `__exit__`, and the thread may be there already.
            self.running = False
            self._done.set()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process != os.getpid():
            return  # a fork drops its copy of the iterator, and the epoch goes on
        self._done.set()
        # Collecting garbage may close an iterator in any thread: in this one too, and in one that has the log's lock.
        if self._thread is not threading.current_thread() and not COLLECTOR.runs_here():
            self._thread.join()
        self.running = False
        if kind is None or self._stats.steps == self._steps:
            ended = WHOLE
        else:
            ended = LEFT if kind is GeneratorExit else kind.__name__
        self._log.write(("end", {**self._numbers(), "ended": ended, "verdict": self._stats.verdict()}))
        self._log.warn()

    def _tick(self) -> None:
        while not self._done.wait(TICK_SECONDS):
            self._log.write(("feed", self._numbers()))

    def _numbers(self) -> dict[str, Any]:
        stats = self._stats
        # Read while another thread counts: what was told once is not taken back.
        self._waited = max(self._waited, stats.waited_until_now)
        return {
            **self.place(),
            "seconds": round(stats.seconds, 4),
            "rows": stats.rows,
            "bytes": stats.bytes,
            "bytes_read": stats.bytes_read,
            "waited": round(self._waited, 4),
            "start_waited": round(stats.start_waited, 4),
            "readers_waited": round(stats.readers_waited, 4),
            "gather_waited": round(stats.gather_waited, 4),
            "writer_waited": round(stats.writer_waited, 4),
            "placing": round(stats.placing, 4),
            "transforming": round(stats.transforming, 4),
            "memory": stats.memory,
            "threads": stats.threads,
        }


def _now() -> float:
    return round(time.time(), 3)


def _append(path: Path, lines: list[str]) -> None:
    """Add lines with one write. It begins a line of its own where somebody was killed, or ran out of disk, in one."""
    if not lines:
        return
    data = "".join(f"{line}\n" for line in lines).encode("ascii")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            data = b"\n" + data
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)
