"""The demo's end: a page about it, where the time went, how good both models are, and where everything lies."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import penstock as pk
from penstock.errors import humane_bytes
from penstock.tools.demo import acts
from penstock.tools.demo.folder import FACTS, REPORT
from penstock.tools.demo.interrupts import undisturbed
from penstock.tools.demo.run import Run
from penstock.tools.demo.screen import BESIDE, source


def closed(run: Run, explanation: pk.Explanation) -> None:
    """The page, the end of Spark, and then all that matters on one screen: the timeline, both AUCs, and the paths."""
    reported(run, explanation)
    with run.screen.busy("stopping Spark"), undisturbed():
        run.stop_spark()
    kept = run.folder.kept()
    run.facts["paths"] = {"report": str(kept / REPORT), "facts": str(kept / FACTS)}
    if run.folder.stays:
        run.facts["paths"] |= {name: f"{run.path}/{name}" for name in ("train", "evaluate", "run")}
    stages = [vars(stage) for stage in run.screen.stages]
    run.facts["seconds"] = time.perf_counter() - run.began
    rest = run.facts["seconds"] - sum(stage["seconds"] for stage in stages)
    run.facts["stages"] = [*stages, {"name": BESIDE, "seconds": rest}]
    (run.folder.work / FACTS).write_text(json.dumps(run.facts, indent=1) + "\n")
    run.folder.keep()
    run.screen.timeline(rest)
    run.screen.pairs("What came out", _told(run))


def _told(run: Run) -> dict[str, str]:
    """The last lines: how good, how fast, and where."""
    facts, auc = run.facts, run.facts["auc"]
    return {
        run.options.trainer: f"AUC {auc['model']:.4f} on {facts['scoring']['rows']:,} flights of the later days",
        "logistic regression": f"AUC {auc['baseline']:.4f} on the same",
        "hand-off": f"{_rate(facts['hand_off'])}, written by Spark",
        "feed": f"{_rate(facts['feed'])}, all rows once, shuffled, nobody training",
        "training": _waited(facts["training"]),
        **facts["paths"],
    }


def reported(run: Run, explanation: pk.Explanation) -> None:
    """The page, and what its facts say about who waited."""
    with run.screen.stage(
        "A page about it", "The data, what the recipe learned, and how the training was fed."
    ):
        run.screen.code(source(acts.report))
        found = acts.report(run.path, f"{run.path}/{REPORT}", explanation)
        rank = max(found.facts["feed"]["ranks"], key=lambda each: each["waited_share"] or 0.0)
        run.screen.say(found.facts["headline"])
        run.facts["training"] |= {
            name: rank[name] for name in ("rank", "seconds", "waited", "bytes_per_second", "verdict")
        }


def _rate(moved: Mapping[str, float]) -> str:
    """Bytes and seconds, and what they come to.

    >>> _rate({"bytes": 3_000_000_000, "seconds": 2.0})
    '3.0 GB in 2.00 s, 1.5 GB/s'
    """
    size, seconds = moved["bytes"], moved["seconds"]
    return f"{humane_bytes(int(size))} in {seconds:.2f} s, {humane_bytes(int(size / seconds))}/s"


def _waited(training: Mapping[str, float]) -> str:
    """How long the rank that waited most has waited for rows.

    >>> _waited({"rank": 1, "seconds": 8.0, "waited": 0.2})
    'rank 1 waited 0.20 s of 8.0 s for rows (2.5%)'
    """
    seconds, waited = training["seconds"], training["waited"]
    return (
        f"rank {training['rank']} waited {waited:.2f} s of {seconds:.1f} s for rows ({waited / seconds:.1%})"
    )
