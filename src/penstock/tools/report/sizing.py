"""Whether storage keeps up: `pk.size` of a dataset, with the speed and the time of a step that a log shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import SizeError
from penstock.feed.dataset import Dataset
from penstock.tools.report.feed import feed_facts
from penstock.tools.report.log_lines import Logs, read_logs
from penstock.tools.size import BATCH_SIZE, MOST_WORKERS, size

MOST_BATCH = 1 << 40
LEAST_BUSY = 0.02
"""Readers that are busy less of the time tell too little about how fast they could be."""


def sizing_facts(ds: Dataset, feed: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What `pk.size` says, and what it was told; None of a dataset without rows."""
    if not ds.rows:
        return None
    seen = None if feed is None or feed["other_dataset"] else _seen(feed)
    try:
        if seen is None:
            return {**size(dataset=ds).to_dict(), "seen": None}
        found = size(
            dataset=ds,
            workers=seen["workers"],
            bandwidth=seen["bandwidth"],
            step=seen["step"],
            batch_size=seen["batch_size"],
        )
    except SizeError:
        return None
    return {**found.to_dict(), "seen": seen}


def logged_step(log: Logs) -> tuple[float, int, int]:
    """Seconds that a step of a logged training computes, its rows, and its ranks: what `penstock size --log` asks."""
    seen = _seen(feed_facts(read_logs(log), ()))
    if seen is None:
        raise SizeError(
            f"log={log!r} shows no step that was taken, and so not how long one takes. Name the log of a training "
            "that ran (log= of a loader), or give the time (--step '12 ms')."
        )
    return seen["step"], seen["batch_size"], seen["workers"]


def _seen(feed: Mapping[str, Any]) -> dict[str, Any] | None:
    """How fast a rank can be fed, and how long it computes a step: of the slowest rank, in its last whole epoch.

    Where the consumer waited for the feed all along, it was as fast as it can be. Otherwise its readers had nothing to
    do part of the time, and could have read more in it.
    """
    last = min((rank["last"] for rank in feed["ranks"]), key=lambda each: each["bytes_per_second"] or 0.0)
    own, steps = last["seconds"] - last["waited"], last["steps"]
    if not last["bytes_per_second"] or not steps or own <= 0:
        return None
    achieved, batch = last["bound"] in ("reading", "gather", "write"), feed["about"]["batch_size"]
    busy = max(1 - (last["readers_idle"] or 0.0), LEAST_BUSY)
    return {
        "workers": min(max(feed["world"], 1), MOST_WORKERS),
        "bandwidth": last["bytes_per_second"] / (1 if achieved else busy),
        "achieved": achieved,
        "at_least": not achieved and busy <= LEAST_BUSY,
        "readers_busy": busy,
        "step": own / steps,
        "batch_size": batch if isinstance(batch, int) and 0 < batch < MOST_BATCH else BATCH_SIZE,
    }
