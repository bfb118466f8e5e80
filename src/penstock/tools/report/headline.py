"""The sentences a report begins and ends with: what there is to know first, and what it could not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import listed
from penstock.tools.size_units import show_bytes, show_count, show_many, show_rate

NO_LOG = (
    "No training log was given, so nothing is said about the feed. Make one with ds.torch(..., log='log.jsonl'), and "
    "pass it as log= (--log)."
)
NO_RECIPE = "The rows came through no recipe, so there is nothing that was learned from them."
NO_EXPLANATION = (
    "No explanation was given, so nothing is said about where rows left the JVM. Pass what pk.explain returned, or "
    "what `penstock explain --json` printed (--explain)."
)
PLAIN = (
    "The files were not written by Penstock: they have no versions, no checksums, and no record of who wrote them. "
    "`penstock convert` makes a dataset of them."
)
EMPTY = "There are no rows, so nothing is said about values and sizes."


def headline(facts: Mapping[str, Any]) -> str:
    """One sentence: how well the training is fed, or else what lies ready."""
    feed = facts["feed"]
    if feed is None or feed["other_dataset"] or not any(rank["rows"] for rank in feed["ranks"]):
        return _ready(facts)
    ranks = [rank for rank in feed["ranks"] if rank["waited_share"] is not None and rank["bound"]]
    worst = max(ranks, key=lambda rank: rank["waited"] / rank["seconds"] + _worked(rank))
    share, bound = f"{worst['waited_share']:.0%}", worst["bound"]
    on_gpu, several = str(feed["about"]["device"]).startswith("cuda"), len(ranks) > 1
    who = "The GPU" if on_gpu and not several else "The training"
    where = f" on {len(ranks)} GPUs" if on_gpu and several else ""
    much = f"up to {share}" if several else share
    if bound == "consumer":
        rate = show_rate(feed["together"]["bytes_per_second"], 3)
        waited = f"waited {much} of its time" if worst["waited_share"] >= 0.005 else "hardly ever waited"
        return f"{who} was kept busy: it took {rate}{where} and {waited} for rows."
    if bound in ("transform", "placing"):
        what = "the transform of batches" if bound == "transform" else "placing batches on the device"
        return f"The training spent {_worked(worst):.0%} of its time on {what}, and waited {much} of it for rows."
    what = {
        "write": "most of it because the rows were still being written",
        "start": "nearly all of it for the first batch of an epoch",
        "gather": "because putting batches together bounds",
        "reading": "because reading bounds",
    }[bound]
    return f"{who} waited {much} of its time for rows{where}, {what}."


def _worked(rank: Mapping[str, Any]) -> float:
    """The share of its time in which the consumer's thread was at work on batches."""
    return float((rank["placing"] + rank["transforming"]) / rank["seconds"])


def _ready(facts: Mapping[str, Any]) -> str:
    about = facts["dataset"]
    if not about["rows"]:
        return "There is a dataset here, and no row in it."
    rows = f"{show_many(about['rows'], 'row')} of {show_bytes(about['row_bytes'], 3)}"
    lie = "lies" if about["rows"] == 1 else "lie"
    if about["plain"]:
        files = f"{about['shards']} file{'s' if about['shards'] != 1 else ''}"
        unread = [tensor["name"] for tensor in facts["tensors"] if "unread" in tensor]
        ready = (
            f"but {listed(unread, 3)} cannot be read as it is" if unread else "ready to train on as they are"
        )
        return f"{rows} {lie} in {files} of {about['format']}, {ready}."
    shards = about["shards"]
    even = "even " if facts["shards"]["unevenness"] < 0.01 else ""
    where = "in one shard" if shards == 1 else f"in {show_count(shards)} {even}shards"
    # Of what was not checked nobody knows that it can be trained on.
    if _unchecked(facts):
        return f"{rows} {lie} {where}, whose checksums were not all checked."
    return f"{rows} {lie} ready to train on, {where}."


def _unchecked(facts: Mapping[str, Any]) -> int:
    """Blocks that have checksums, and were not held against them."""
    sample = facts["sample"]
    return 0 if facts["dataset"]["plain"] else sample["of_blocks"] - sample["checked_blocks"]


def left_out(facts: Mapping[str, Any]) -> list[str]:
    """What the report does not tell, and how to have it told."""
    feed, sample = facts["feed"], facts["sample"]
    said = [
        (not facts["dataset"]["rows"], EMPTY),
        (feed is None, NO_LOG),
        (
            feed is not None and feed["other_dataset"],
            "The log is of another dataset or version: its fingerprint is another. The sizing leaves it out.",
        ),
        (
            feed is not None and feed["skipped_lines"],
            f"{feed['skipped_lines'] if feed else 0} lines of the log could not be read, as when a process is killed.",
        ),
        (facts["dataset"]["plain"], PLAIN),
        (
            _unchecked(facts),
            f"Of {show_count(sample['of_blocks'])} blocks {show_count(sample['checked_blocks'])} were "
            "read whole and held against their checksums; of damage in the others nothing is said. `penstock verify` "
            "checks every byte.",
        ),
        (facts["recipe"] is None and not facts["dataset"]["plain"], NO_RECIPE),
        (facts["boundaries"] is None, NO_EXPLANATION),
    ]
    return [text for missing, text in said if missing]
