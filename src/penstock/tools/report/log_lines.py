"""Training logs read back: the epochs of every run and rank, and what was noted in them.

A log may end in the middle of a line, or have been written by somebody else: a line that is not as `penstock.feed.log`
writes it is left out and counted. `feed` makes one picture of all of it.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import ReportError
from penstock.feed.log import FORMAT, FORMAT_VERSION

Logs = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
WAITS = ("waited", "start_waited", "readers_waited", "gather_waited", "writer_waited")
WORKED = ("placing", "transforming")
"""What the consumer's thread did to batches; older logs do not tell."""
NUMBERS = ("seconds", "step", "rows", "bytes", "bytes_read", *WAITS, *WORKED, "memory", "threads")
"""What a line about the feed counts."""
MOST = 1 << 63
"""Beyond it a number is a mistake, or an attack."""


@dataclass
class LoggedEpoch:
    """An epoch, or what one run had of it, on one rank."""

    epoch: int
    began: float
    """On the clock, in seconds since 1970."""
    step: int
    fingerprint: str
    readings: list[dict[str, float]] = field(default_factory=list)
    """The lines about the feed, in their order; the last one is that of the end, where there is one."""
    ended: str | None = None
    """None where it still runs, or was killed."""
    verdict: str | None = None


@dataclass(frozen=True)
class Note:
    """A number that a user noted."""

    time: float
    epoch: int
    step: int
    value: float


@dataclass
class Run:
    """One run of one rank."""

    file: str
    name: str
    rank: int
    world: int
    about: dict[str, Any]
    """What the first line says of the dataset and the loader."""
    epochs: list[LoggedEpoch] = field(default_factory=list)
    notes: dict[str, list[Note]] = field(default_factory=dict)


@dataclass(frozen=True)
class Logged:
    """All that was read."""

    files: list[str]
    runs: list[Run]
    skipped: int
    """Lines that could not be read."""


def read_logs(given: Logs) -> Logged:
    """The runs in these files; a folder stands for the logs in it, and `log.jsonl` also for `log-rank0.jsonl`, ..."""
    files = find_logs(given)
    runs: dict[tuple[str, str, int], Run] = {}
    skipped = 0
    for file in files:
        for line in _lines(file):
            if not _take(runs, line, file.name):
                skipped += 1
    if not any(run.epochs for run in runs.values()):
        raise ReportError(
            f"{', '.join(map(str, files))} holds no epoch of a training log. It is written by a loader made with "
            "log=, such as ds.torch(1024, log='log.jsonl'), once it is iterated."
        )
    found = [run for run in runs.values() if run.epochs]
    return Logged([str(file) for file in files], found, skipped)


def find_logs(given: Logs) -> list[Path]:
    """The files that paths stand for."""
    several: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    if not several or not all(isinstance(each, (str, os.PathLike)) for each in several):
        raise ReportError(
            f"log={given!r:.200}: pass the path of a log, of a folder of logs, or several such paths."
        )
    found: dict[Path, None] = {}
    for each in several:
        path = Path(each)
        ranks = re.compile(re.escape(path.stem) + r"-rank\d+" + re.escape(path.suffix))
        if path.is_dir():
            here = [file for file in sorted(path.iterdir()) if _is_log(file)]
        else:
            beside = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
            here = [file for file in (path, *beside) if file == path or ranks.fullmatch(file.name)]
            here = [file for file in here if file.is_file()]
        if not here:
            what = "holds no training log" if path.is_dir() else "is not there"
            raise ReportError(
                f"{path} {what}. Pass the path that was given to a loader as log=, or its folder."
            )
        found |= dict.fromkeys(here)
    return list(found)


def _is_log(file: Path) -> bool:
    if not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            return f'"{FORMAT}"'.encode() in opened.read(4096)
    except OSError:
        return file.suffix == ".jsonl"  # told when it is read


def _lines(file: Path) -> Iterator[Mapping[str, Any] | None]:
    """Every line that is not empty; None for one that is no JSON object."""
    try:
        with file.open("rb") as opened:
            for text in opened:
                if not text.strip():
                    continue
                try:
                    found = json.loads(text)
                except (ValueError, RecursionError):
                    found = None
                yield found if isinstance(found, dict) else None
    except OSError as error:
        raise ReportError(f"the log {file} cannot be read: {error.strerror or error}.") from None


def _take(runs: dict[tuple[str, str, int], Run], line: Mapping[str, Any] | None, file: str) -> bool:
    """Add one line to its run; False where it is not one of a log."""
    if line is None:
        return False
    kind, name, rank, world = (line.get(key) for key in ("line", "run", "rank", "world"))
    if not (isinstance(name, str) and _whole(rank) and _whole(world) and _number(line.get("time"))):
        return False
    assert isinstance(rank, int)
    assert isinstance(world, int)
    if kind == "run":
        version = line.get("version")
        if line.get("format") != FORMAT:
            return False
        if version != FORMAT_VERSION:
            raise ReportError(
                f"the log {file} is of version {version!r:.20}, and this Penstock reads {FORMAT_VERSION}. A newer one "
                "may read it."
            )
    run = runs.setdefault((file, name, rank), Run(file, name, rank, world, {}))
    if kind == "run":
        run.about = dict(line)
        return True
    return _LINES[kind](run, line) if kind in _LINES and _whole(line.get("epoch")) else False


def _begin(run: Run, line: Mapping[str, Any]) -> bool:
    if not _whole(line.get("step")):
        return False
    run.epochs.append(
        LoggedEpoch(line["epoch"], line["time"], line["step"], str(line.get("fingerprint", "")))
    )
    return True


def _feed(run: Run, line: Mapping[str, Any]) -> bool:
    line = {**dict.fromkeys(WORKED, 0.0), **line}
    if not all(_number(line.get(name)) for name in NUMBERS):
        return False
    last = run.epochs[-1] if run.epochs else None
    if last is None or last.epoch != line["epoch"] or last.ended is not None:
        # Its beginning was lost, on a disk that was full.
        last = LoggedEpoch(line["epoch"], line["time"] - line["seconds"], 0, "")
        run.epochs.append(last)
    before = last.readings[-1] if last.readings else dict.fromkeys(NUMBERS, 0.0)
    if any(line[name] < before[name] for name in ("seconds", "step", "rows", "bytes", "waited")):
        return False
    last.readings.append({name: line[name] for name in NUMBERS})
    if line["line"] == "end":
        last.ended, last.verdict = str(line.get("ended", "")), str(line.get("verdict", ""))
    return True


def _note(run: Run, line: Mapping[str, Any]) -> bool:
    values = line.get("values")
    if not _whole(line.get("step")) or not isinstance(values, dict):
        return False
    for name, value in values.items():
        number = float(value) if value in ("nan", "inf", "-inf") else value
        whole = _whole(number) or (isinstance(number, int) and _whole(-number))
        if not whole and not isinstance(number, float):
            return False
        run.notes.setdefault(name, []).append(Note(line["time"], line["epoch"], line["step"], float(number)))
    return True


_LINES = {"begin": _begin, "feed": _feed, "end": _feed, "note": _note}


def _number(found: Any) -> bool:
    return (
        isinstance(found, (int, float))
        and not isinstance(found, bool)
        and math.isfinite(found)
        and 0 <= found <= MOST
    )


def _whole(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MOST
