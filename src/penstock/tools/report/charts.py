"""Charts of values: histograms, bars of frequent values, the map of shards and blocks. `time_charts` has the others.

A drawing is stretched to its place, so lines keep their width (`vector-effect`) and all text stands beside it in HTML:
it stays readable on a narrow screen, and colours come from the page's own classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from penstock.tools.report.drawing import Drawn, percent, svg, tag
from penstock.tools.report.wording import count, number, plural, share, size

FAINTEST = 0.35
"""How strongly the block with the fewest bytes a row is drawn, of one that has most."""


def histogram(found: Mapping[str, Any], name: str) -> Drawn:
    """Counts between edges, with what lies outside told at the ends."""
    (low, _), (_, high) = _ranges(found)[0], _ranges(found)[-1]
    below, above = found["below"], found["above"]
    ends = tag(
        "div",
        tag("span", f"{count(below)} under {number(low)}" if below else number(low)),
        tag("span", f"{count(above)} over {number(high)}" if above else number(high)),
        cls="ends",
    )
    return tag("div", _columns(found["counts"], _names(found), name), ends, cls="histogram")


def spark(found: Mapping[str, Any], name: str) -> Drawn:
    """The same in a line of a table."""
    if "histogram" in found:
        inner = found["histogram"]
        return tag("span", _columns(inner["counts"], _names(inner), name), cls="spark")
    pairs = found.get("counted", [])
    names = [number(value) for value, _ in pairs]
    return (
        tag("span", _columns([each for _, each in pairs], names, name), cls="spark") if pairs else Drawn("")
    )


def _ranges(found: Mapping[str, Any]) -> list[tuple[float, float]]:
    """What each count is of: from and to; of whole numbers the first and the last."""
    return [(low, high - found["whole"]) for low, high in pairwise(found["edges"])]


def _names(found: Mapping[str, Any]) -> list[str]:
    return [
        number(low) if low == high else f"{number(low)} to {number(high)}" for low, high in _ranges(found)
    ]


def _columns(counts: Sequence[int], names: Sequence[str], of: str) -> Drawn:
    most, total = max([*counts, 1]), max(sum(counts), 1)
    bars = []
    for place, (each, what) in enumerate(zip(counts, names, strict=True)):
        # What is there at all is seen.
        height = max(100.0 * each / most, 1.5) if each else 0.0
        told = f"{what}: {count(each)} ({share(each / total)})"
        place_in = {"x": place + 0.06, "y": 100.0 - height, "width": 0.88, "height": height}
        bars.append(tag("rect", title=told, cls="bar", **place_in))
    peak = names[counts.index(max(counts))]
    label = f"How the values of {of} are spread over {plural(len(counts), 'column')}, the highest at {peak}"
    return svg(*bars, width=len(counts), height=100, label=label)


def value_bars(pairs: Sequence[Sequence[Any]], total: int, name: str) -> Drawn:
    """Values and how often they come, each a bar; of `total`."""
    most = max([each for _, each in pairs] + [1])
    rows = []
    for value, each in pairs:
        part = each / max(total, 1)
        text = str(value).lower() if isinstance(value, bool) else number(value)
        bar = svg(
            tag("rect", x=0, y=0, width=100.0 * each / most, height=1, cls="bar"),
            width=100,
            height=1,
            label=f"{text} of {name}: {share(part)}",
        )
        rows.append(
            tag(
                "li",
                tag("span", text or "(empty)", cls="value"),
                bar,
                tag("span", share(part), cls="share"),
            )
        )
    return tag("ol", *rows, cls="values")


def block_map(shards: Mapping[str, Any]) -> Drawn:
    """Every shard a bar as long as its rows, cut into its blocks; stronger ones have more bytes a row."""
    groups = shards["groups"]
    longest = max([group["rows"] / (group["last"] - group["first"] + 1) for group in groups] + [1])
    weights = [_weight(block) for group in groups for block in group["blocks"]]
    heaviest, lightest = max(weights, default=0.0), min(weights, default=0.0)
    rows = []
    for group in groups:
        several = group["last"] - group["first"] + 1
        title = f"{group['first']}" if several == 1 else f"{group['first']} to {group['last']}"
        parts, at = [], 0.0
        for place, block in enumerate(group["blocks"]):
            width = 100 * block["rows"] / several / longest
            parts.append(
                tag(
                    "rect",
                    title=_block(group, place, block),
                    x=at,
                    y=0,
                    width=width,
                    height=1,
                    cls="block",
                    fill_opacity=_strength(_weight(block), lightest, heaviest),
                )
            )
            at += width
        drawn = svg(
            *parts,
            width=100,
            height=1,
            label=f"Shard {title}: {count(group['rows'])} rows, {size(group['bytes'])}",
        )
        told = count(group["least"])
        told += "" if group["least"] == group["most"] else f" to {count(group['most'])}"
        rows.append(tag("li", tag("span", title, cls="value"), drawn, tag("span", told, cls="share")))
    return tag("ol", *rows, cls="shards")


def _weight(block: Mapping[str, Any]) -> float:
    return block["bytes"] / block["rows"] if block["bytes"] and block["rows"] else 0.0


def _strength(weight: float, lightest: float, heaviest: float) -> float:
    """Even blocks are even: only where they differ by more than their framing is that shown."""
    if heaviest <= lightest * 1.05:
        return 0.75
    return FAINTEST + (1 - FAINTEST) * (weight - lightest) / (heaviest - lightest)


def _block(group: Mapping[str, Any], place: int, block: Mapping[str, Any]) -> str:
    if block["blocks"] > 1:
        what = f"{block['blocks']} blocks"
    else:
        what = f"block {place} of {group['file']}"
    told = f"{what}: {count(block['rows'])} rows"
    if block["bytes"] is not None:
        told += f", {size(block['bytes'])}, {size(_weight(block))} a row"
    return told


def meter(part: float, label: str) -> Drawn:
    """A share as a short bar."""
    return tag(
        "span",
        svg(
            tag("rect", x=0, y=0, width=100, height=1, cls="track"),
            tag("rect", x=0, y=0, width=100.0 * min(max(part, 0.0), 1.0), height=1, cls="bar"),
            width=100,
            height=1,
            label=label,
        ),
        cls="meter",
        style=f"--part:{percent(part)}",
    )
