"""The drawings and tables of docs/boundaries.md, out of docs/figures/figures.json. Nothing is measured here.

    python benchmarks/boundaries_figures.py

draws them again from the numbers that are there. Texts and axes have the colour of the page around them, so that they
can be read in light and in dark; Penstock's bars have its own.
"""

from __future__ import annotations

import io
import json
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

INK = "#010203"
"""Stands for the page's own colour, and is replaced by it in the finished drawing."""
ALONE = "#7d8590"
"""What that is where the drawing stands alone, as an image: readable on white and on black."""
WIDTH = 7.6
OURS, OTHERS = "#1897bd", "#98a2ad"
Found = dict[str, Any]


def drawn(name: str, height: float, paint: Callable[[Any], None]) -> str:
    """An SVG whose text is text, whose bytes depend on the numbers alone, and which can be part of a page."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    fixed = {"svg.fonttype": "none", "svg.hashsalt": "penstock", "font.size": 10, "font.family": "sans-serif"}
    with rc_context(fixed | dict.fromkeys(inked, INK)):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure.subplots())
        kept = io.StringIO()
        figure.savefig(kept, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = kept.getvalue().replace(INK, "currentColor")
    # What is said about the file, and a rule for "*": inside a page that would be a rule for all of it.
    svg = re.sub(
        r"<metadata>.*?</metadata>\s*|<style.*?</style>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL
    )
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px system-ui, sans-serif", svg)
    # Names inside a page are the page's, and it holds several drawings.
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
    return svg.replace("<svg ", f'<svg style="color: {ALONE}" ', 1)


def bars(
    file: str,
    names: Sequence[str],
    values: Sequence[float],
    labels: Sequence[str],
    unit: str,
    ours: Sequence[bool],
) -> str:
    """Bars from top to bottom, each with its label."""

    def paint(axes: Any) -> None:
        colours = [OURS if mine else OTHERS for mine in ours]
        axes.barh(range(len(names)), values, color=colours, height=0.7)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        for place, (value, label) in enumerate(zip(values, labels, strict=True)):
            axes.annotate(f" {label}", (value, place), va="center", fontsize=9)
        axes.set_xlim(0, max(values) * 1.22)
        axes.set_xlabel(unit)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)

    return drawn(file, 0.7 + 0.36 * len(names), paint)


def curves(found: Found) -> str:
    """Rows a second against the size of Arrow batches."""

    def paint(axes: Any) -> None:
        for curve, colour in zip(found["curves"], (OURS, OTHERS), strict=False):
            points = [
                (p["batch_rows"], p["rows_per_second"]) for p in curve["points"] if p["rows_per_second"]
            ]
            axes.loglog(*zip(*points, strict=True), marker="o", color=colour)
            axes.annotate(f" {curve['name']}", points[0], va="top", fontsize=9)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlabel("rows in a batch")
        axes.set_ylabel("rows a second")
        axes.spines[["top", "right"]].set_visible(False)

    return drawn("batches", 3.4, paint)


def median(way: Found) -> float:
    return statistics.median(way.get("seconds") or way["gigabytes_per_second"])


def named(way: Found) -> str:
    return way["way"] + (f" (1/{way['part']} of the rows, scaled)" if way.get("part", 1) > 1 else "")


def penstock(name: str) -> bool:
    return name.startswith(("pk.", "ds.", "lifted"))


def figures(found: Found) -> dict[str, str]:
    """Every drawing by its file's name."""
    ways = found["language"]["ways"]
    rates = [way["rows_per_second"] / 1e6 for way in ways]
    made = {
        "language": bars(
            "language",
            [way["name"] for way in ways],
            rates,
            [f"{rate:.2f}" for rate in rates],
            "million rows a second",
            [penstock(way["name"]) for way in ways],
        ),
        "batches": curves(found["language"]),
    }
    for name in ("tensors", "shards"):
        each = found[name]["ways"]
        made[name] = bars(
            name,
            [way["way"] for way in each],
            [median(way) for way in each],
            [f"{median(way):.1f}" for way in each],
            "seconds, less is better",
            [penstock(way["way"]) for way in each],
        )
    for size, each in found["feed"]["rows"].items():
        file = f"feed-{size.replace(' ', '').lower()}"
        made[file] = bars(
            file,
            [way["way"] for way in each],
            [median(way) for way in each],
            [f"{median(way):.2f}" for way in each],
            f"GB/s, rows of {size}",
            [penstock(way["way"]) for way in each],
        )
    return made


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in sorted(values))


def tables(found: Found) -> dict[str, str]:
    """Every piece of the page that holds numbers, by its name."""
    language, shards = found["language"], found["shards"]
    slowest = language["ways"][-1]["name"]
    made = {
        "run": f"{found['date']}, {found['machine']}, {found['versions']}; medians of {language['rounds']} rounds in "
        f"random turn. Other programs took {found['others']:.0%} of the processors meanwhile. Functions ran over "
        f"{language['rows']:,} rows, twice as many as became tensors and files.\n`{found['command']}`",
        "language": table(
            [
                "way",
                "how rows cross",
                f"seconds for {language['rows']:,} rows",
                "million rows a second",
                f"times {slowest}",
            ],
            [
                [
                    way["name"],
                    way["crosses"],
                    f"{way['seconds']['median']:.2f}",
                    f"{way['rows_per_second'] / 1e6:.2f}",
                    f"{way['speedup']:.1f}",
                ]
                for way in language["ways"]
            ],
        ),
        "tensors": table(
            ["way", timed(found["tensors"])],
            [[named(way), times(way)] for way in found["tensors"]["ways"]],
        ),
        "shards": table(["way", timed(shards)], [[named(way), times(way)] for way in shards["ways"]]),
    }
    for size, each in found["feed"]["rows"].items():
        made[f"feed {size}"] = table(
            [f"way, rows of {size}, {found['feed']['gigabytes']:g} GB", "GB/s: median (all)"],
            [[way["way"], f"{median(way):.2f} ({spread(way['gigabytes_per_second'], 2)})"] for way in each],
        )
    return made


def timed(part: Found) -> str:
    return f"seconds for {part['rows']:,} rows x {part['columns']}: median (all)"


def times(way: Found) -> str:
    return f"{median(way):.2f} ({spread(way['seconds'], 1)})"


def marks(name: str) -> tuple[str, str]:
    """What stands around a piece of the page."""
    return f"<!-- figures: {name} -->", "<!-- end -->"


def put(found: Found, page: Path) -> None:
    """Put every piece where the page has its marks."""
    text = page.read_text(encoding="utf-8")
    for name, piece in tables(found).items():
        begin, end = marks(name)
        if text.count(begin) != 1 or end not in text.partition(begin)[2]:
            raise SystemExit(f"{page} needs one place for {name!r}, between {begin!r} and {end!r}.")
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{piece}\n\n{end}{rest.partition(end)[2]}"
    page.write_text(text, encoding="utf-8")


def draw(found: Found, folder: Path) -> None:
    for name, svg in figures(found).items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    DOCS = Path(__file__).resolve().parents[1] / "docs"
    NUMBERS = json.loads((DOCS / "figures" / "figures.json").read_text(encoding="utf-8"))
    draw(NUMBERS, DOCS / "figures")
    put(NUMBERS, DOCS / "boundaries.md")
