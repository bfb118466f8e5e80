"""The feed over time, as one set of facts: all ranks on one axis, who waited when, every epoch, and what was noted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.dtypes import Array
from penstock.feed.log import WHOLE
from penstock.feed.stats import Stats, Work
from penstock.tools.report.log_lines import NUMBERS, WAITS, WORKED, Logged, LoggedEpoch, Note, Run
from penstock.tools.report.storage import cut
from penstock.tools.report.timeline import Axis, axis, shared_out

MOST_RANKS = 16
"""Rows of the picture of who waited; more ranks are put together."""
MOST_LINES = 8
"""Ranks whose noted numbers are drawn, of each name."""
MOST_EPOCHS = 60
"""The last ones are told one by one."""
MOST_NOTES = 24
"""Names whose numbers are drawn."""
POINTS = 240
LEAST_COVERED = 0.02
"""Of a column of the timeline; one that is covered less tells more about its edges than about the feed."""
COUNTED = ("seconds", "rows", "bytes", "bytes_read", *WAITS, *WORKED)


def feed_facts(logged: Logged, fingerprints: Sequence[str]) -> dict[str, Any]:
    """Everything that the logs tell; `fingerprints` are those of the dataset that the report is about."""
    runs = sorted(logged.runs, key=lambda run: (run.epochs[0].began, run.rank))
    time = axis([_span(epoch) for run in runs for epoch in run.epochs])
    ranks = sorted({run.rank for run in runs})
    newest = max(runs, key=lambda run: run.epochs[-1].began)
    each = [_rank(rank, [run for run in runs if run.rank == rank]) for rank in ranks]
    told = {epoch.fingerprint for run in runs for epoch in run.epochs if epoch.fingerprint}
    return {
        "files": logged.files,
        "skipped_lines": logged.skipped,
        "runs": len({run.name for run in runs if run.rank == ranks[0]}),
        "world": newest.world,
        "about": {
            key: newest.about.get(key)
            for key in (
                "dataset",
                "batch_size",
                "seed",
                "shuffle",
                "device",
                "cache",
                "lanes",
                "window",
                "penstock",
            )
        },
        "other_dataset": bool(told) and not told & set(fingerprints),
        "began": runs[0].epochs[0].began,
        "ranks": each,
        "together": _together(each),
        "epochs": _epochs(runs, time),
        "timeline": _timeline(runs, ranks, time),
        "notes": _notes(runs, time),
    }


def _span(epoch: LoggedEpoch) -> tuple[float, float]:
    return epoch.began, epoch.began + (epoch.readings[-1]["seconds"] if epoch.readings else 0.0)


def _totals(epochs: Sequence[LoggedEpoch]) -> dict[str, Any]:
    """What some epochs of one rank come to, and the sentence about it."""
    ends = [epoch.readings[-1] for epoch in epochs if epoch.readings]
    found: dict[str, Any] = {name: sum(end[name] for end in ends) for name in COUNTED}
    found["steps"] = sum(int(epoch.readings[-1]["step"]) - epoch.step for epoch in epochs if epoch.readings)
    found["threads"] = int(ends[-1]["threads"]) if ends else 0
    found["memory"] = max((int(end["memory"]) for end in ends), default=0)
    seconds = found["seconds"]
    stats = Stats(
        rows=int(found["rows"]),
        row_bytes=round(found["bytes"] / found["rows"]) if found["rows"] else 0,
        ended=max(seconds, 1e-9),
        waited=found["waited"],
        readers=Work(seconds * found["threads"] - found["readers_waited"]),
        start_waited=found["start_waited"],
        gather_waited=found["gather_waited"],
        writer_waited=found["writer_waited"],
        placing=found["placing"],
        transforming=found["transforming"],
        threads=found["threads"],
    )
    busy = seconds * found["threads"]
    return found | {
        "rows_per_second": found["rows"] / seconds if seconds else None,
        "bytes_per_second": found["bytes"] / seconds if seconds else None,
        "waited_share": min(found["waited"] / seconds, 1.0) if seconds else None,
        "readers_idle": min(found["readers_waited"] / busy, 1.0) if busy else None,
        "bound": stats.bound,
        "verdict": stats.verdict(),
    }


def _rank(rank: int, runs: Sequence[Run]) -> dict[str, Any]:
    epochs = [epoch for run in runs for epoch in run.epochs]
    last = epochs[-1]
    return {
        "rank": rank,
        "epochs": len({epoch.epoch for epoch in epochs}),
        **_totals(epochs),
        "ended": last.ended,
        "last": _totals([_steady(epochs)]),
    }


def _together(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All ranks side by side, over the time of the one that ran longest."""
    seconds = max(rank["seconds"] for rank in ranks)
    rows, size = sum(rank["rows"] for rank in ranks), sum(rank["bytes"] for rank in ranks)
    return {
        "seconds": seconds,
        "epochs": max(rank["epochs"] for rank in ranks),
        "steps": max(rank["steps"] for rank in ranks),
        "rows": rows,
        "bytes": size,
        "rows_per_second": rows / seconds if seconds else None,
        "bytes_per_second": size / seconds if seconds else None,
    }


def _steady(epochs: Sequence[LoggedEpoch]) -> LoggedEpoch:
    """The last whole epoch, or else the last that has steps: what the feed does once it runs."""
    for wanted in (lambda each: each.ended == WHOLE, lambda each: True):
        for epoch in reversed(epochs):
            if wanted(epoch) and epoch.readings and epoch.readings[-1]["step"] > epoch.step:
                return epoch
    return epochs[-1]


def _epochs(runs: Sequence[Run], time: Axis) -> list[dict[str, Any]]:
    """Every epoch of every run, over all ranks; the last ones where there are many."""
    parts: dict[tuple[int, int], list[LoggedEpoch]] = {}
    for number, run in _numbered(runs):
        for each in run.epochs:
            parts.setdefault((number, each.epoch), []).append(each)
    found, before = [], None
    for (number, epoch), own in sorted(parts.items(), key=lambda item: min(each.began for each in item[1])):
        ranks = [_totals([each]) for each in own]
        slowest = max(ranks, key=lambda rank: rank["waited"])
        seconds = max(rank["seconds"] for rank in ranks)
        found.append(
            {
                "epoch": epoch,
                "run": number,
                "resumed": before is not None and number != before,
                "at": float(time.place(min(each.began for each in own))),
                "step": min(each.step for each in own),
                "steps": max(rank["steps"] for rank in ranks),
                "seconds": seconds,
                "rows": sum(rank["rows"] for rank in ranks),
                "rows_per_second": sum(rank["rows"] for rank in ranks) / seconds if seconds else None,
                "bytes_per_second": sum(rank["bytes"] for rank in ranks) / seconds if seconds else None,
                "waited_share": slowest["waited_share"],
                "ended": _ended([each.ended for each in own]),
                "verdict": slowest["verdict"],
            }
        )
        before = number
    return found[-MOST_EPOCHS:]


def _ended(ranks: Sequence[str | None]) -> str | None:
    """How an epoch ended, where ranks may differ; None where one of them has no end.

    >>> _ended(["whole", "whole"]), _ended(["whole", "left"]), _ended(["whole", None])
    ('whole', 'left on 1 of 2 ranks', None)
    """
    if None in ranks or len(set(ranks)) == 1:
        return ranks[0] if len(set(ranks)) == 1 else None
    other = sorted({each for each in ranks if each is not None and each != WHOLE})
    return "; ".join(f"{each} on {ranks.count(each)} of {len(ranks)} ranks" for each in other)


def _numbered(runs: Sequence[Run]) -> list[tuple[int, Run]]:
    """Runs with the number of the start they belong to: ranks of one start have names of their own."""
    seen: dict[int, int] = {}
    found = []
    for run in runs:
        seen[run.rank] = seen.get(run.rank, 0) + 1
        found.append((seen[run.rank], run))
    return found


def _timeline(runs: Sequence[Run], ranks: Sequence[int], time: Axis) -> dict[str, Any]:
    """Bytes and rows a second of all ranks together, and the share of its time that each rank waited."""
    edges = time.edges()
    width = edges[1] - edges[0]
    amounts = {rank: np.zeros((4, len(edges) - 1)) for rank in ranks}
    for run in runs:
        for epoch in run.epochs:
            at, totals = _running(epoch, time)
            for row, values in enumerate((totals["bytes"], totals["rows"], totals["waited"], at)):
                amounts[run.rank][row] += shared_out(at, values, edges)
    together = np.sum(list(amounts.values()), axis=0)
    covered = np.max([each[3] for each in amounts.values()], axis=0)
    there = covered > LEAST_COVERED * width
    groups = []
    for first, last in cut(len(ranks), MOST_RANKS):
        own = np.stack([amounts[rank] for rank in ranks[first:last]])
        known = own[:, 3] > LEAST_COVERED * width
        share = np.divide(own[:, 2], own[:, 3], out=np.zeros_like(own[:, 2]), where=known)
        # Of several the one that waited most: the others wait for it.
        worst = _listed(np.clip(share.max(axis=0), 0, 1), known.any(axis=0))
        groups.append({"ranks": [ranks[first], ranks[last - 1]], "waited": worst})
    return {
        "seconds": time.seconds,
        "edges": edges.tolist(),
        "pauses": [{"at": pause.at, "seconds": pause.seconds} for pause in time.pauses],
        "bytes_per_second": _listed(together[0] / np.where(there, covered, 1), there),
        "rows_per_second": _listed(together[1] / np.where(there, covered, 1), there),
        "waiting": groups,
    }


def _running(epoch: LoggedEpoch, time: Axis) -> tuple[Array, dict[str, Array]]:
    """The running totals of an epoch, and where on the axis they are known."""
    zero = dict.fromkeys(NUMBERS, 0.0)
    readings = [zero, *epoch.readings]
    at = np.array([reading["seconds"] for reading in readings])
    totals = {
        name: np.array([each[name] for each in readings], np.float64) for name in ("bytes", "rows", "waited")
    }
    return time.place(epoch.began) + at, totals


def _listed(values: Array, there: Array) -> list[float | None]:
    return [float(value) if known else None for value, known in zip(values, there, strict=True)]


def _notes(runs: Sequence[Run], time: Axis) -> list[dict[str, Any]]:
    """What was noted, by name; of many points each tells the mean, the least and the most of its neighbours."""
    names = list(dict.fromkeys(name for run in runs for name in run.notes))
    found = []
    for name in names[:MOST_NOTES]:
        by_rank: dict[int, list[Note]] = {}
        for run in runs:
            by_rank.setdefault(run.rank, []).extend(run.notes.get(name, []))
        noted = {rank: notes for rank, notes in sorted(by_rank.items()) if notes}
        values = [note.value for notes in noted.values() for note in notes]
        finite = [value for value in values if math.isfinite(value)]
        first = next(iter(noted.values()))
        found.append(
            {
                "name": name,
                "count": len(values),
                "not_finite": len(values) - len(finite),
                "first": _finite(first[0].value),
                "last": _finite(first[-1].value),
                "low": min(finite, default=None),
                "high": max(finite, default=None),
                "ranks": list(noted),
                "lines": [
                    {"rank": rank, "points": _points(notes, time)}
                    for rank, notes in list(noted.items())[:MOST_LINES]
                ],
            }
        )
    return found


def _points(notes: Sequence[Note], time: Axis) -> list[list[float | None]]:
    """[place, mean, least, most, epoch, step] of runs of neighbours; of numbers that are not finite, None."""
    ordered = sorted(notes, key=lambda note: note.time)
    places = time.place(np.array([note.time for note in ordered]))
    points: list[list[float | None]] = []
    for first, last in cut(len(ordered), POINTS):
        own = [note.value for note in ordered[first:last] if math.isfinite(note.value)]
        middle, note = float(places[first:last].mean()), ordered[last - 1]
        spread = [math.fsum(each / len(own) for each in own), min(own), max(own)] if own else [None] * 3
        points.append([middle, *spread, note.epoch, note.step])
    return points


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
