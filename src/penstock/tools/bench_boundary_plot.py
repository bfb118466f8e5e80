"""The picture of `penstock bench boundary`: the ways as bars, and rows a second against the size of batches.

matplotlib draws it, without its global state: no window is opened and no setting of a notebook is touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import MissingDependency, PenstockError
from penstock.tools.bench_boundary_knee import knee, why
from penstock.tools.bench_boundary_pages import humane_rate
from penstock.tools.plot_files import make_folder, save

if TYPE_CHECKING:
    from penstock.tools.bench_boundary_result import BoundaryBench

FORMATS = (".png", ".svg")
QUIET, STRONG = "#8a94a6", "#1f6feb"


def figure_for(path: Path) -> Any:
    """An empty figure that can be saved there, or the error that says why not; a benchmark asks before it begins."""
    if path.suffix.lower() not in FORMATS:
        raise PenstockError(
            f"a plot is written as {' or '.join(FORMATS)}, and {str(path)!r} ends in neither. Choose another name."
        )
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingDependency("matplotlib", extra="report") from error
    make_folder(path, PenstockError)
    return Figure(figsize=(12, 4.8), layout="constrained")


def plot(found: BoundaryBench, path: Path) -> Path:
    """Draw both into a file and return its path."""
    figure = figure_for(path)
    left, right = figure.subplots(1, 2)
    _ways(left, found)
    _curves(right, found)
    figure.suptitle(f"Standardise and clip {found.rows:,} doubles. {found.engine}", fontsize=11)
    return save(figure, path, PenstockError)


def _ways(axes: Any, found: BoundaryBench) -> None:
    ways = found.ways[::-1]  # bars are stacked from below
    rates = [found.rows_per_second(way) for way in ways]
    # From the slowest to the fastest round, which lie around the median on either side.
    spread = [
        [rate - found.rows / way.timing.high for rate, way in zip(rates, ways, strict=True)],
        [found.rows / way.timing.low - rate for rate, way in zip(rates, ways, strict=True)],
    ]
    colours = [QUIET if "call per row" in way.crosses else STRONG for way in ways]
    axes.barh([way.name for way in ways], rates, xerr=spread, color=colours, ecolor="#444", capsize=3)
    for place, (rate, way) in enumerate(zip(rates, ways, strict=True)):
        axes.annotate(
            f" {humane_rate(rate)}, {found.speedup(way):.1f} x",
            (found.rows / way.timing.low, place),
            va="center",
            fontsize=9,
        )
    if found.scan is not None:
        axes.axvline(found.rows / found.scan.median, color=QUIET, linestyle=":", label="scan alone")
        axes.legend(loc="lower right", frameon=False, fontsize=9)
    axes.set_xlabel("rows per second")
    axes.set_xlim(0, max(found.rows / way.timing.low for way in ways) * 1.45)
    axes.spines[["top", "right"]].set_visible(False)


def _curves(axes: Any, found: BoundaryBench) -> None:
    for curve in found.curves:
        if not curve.rates:
            continue
        (line,) = axes.loglog(list(curve.rates), list(curve.rates.values()), marker="o", label=curve.name)
        at = knee(curve.rates)
        if at is not None:
            axes.plot(
                [at], [curve.rates[at]], "o", markersize=13, markerfacecolor="none", color=line.get_color()
            )
    refused = sorted({point.size for curve in found.curves for point in curve.points if point.refused})
    if refused:
        sizes = ", ".join(f"{size:,}" for size in refused)
        axes.set_title(f"Not shown, because they were not in force: {sizes}", fontsize=9)
    if found.recommended is not None:
        label = f"{found.recommended:,}: {why(*(curve.rates for curve in found.curves))}"
        axes.axvline(found.recommended, color=QUIET, linestyle=":", label=label)
        axes.legend(frameon=False, fontsize=9)
    else:
        axes.text(0.5, 0.5, "no batch size was in force", ha="center", transform=axes.transAxes)
    axes.set_xlabel("rows in a batch, as the function saw them")
    axes.set_ylabel("rows per second")
    axes.spines[["top", "right"]].set_visible(False)
