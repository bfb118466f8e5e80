"""The picture of `penstock size`: reading and computing an epoch against bandwidth, the crossing marked.

matplotlib draws it, without its global state: no window is opened and no setting of a notebook is touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import MissingDependency, SizeError
from penstock.tools.plot_files import make_folder, save
from penstock.tools.size_units import show_bytes, show_rate, show_seconds

if TYPE_CHECKING:
    from penstock.tools.size import Sizing

FORMATS = (".png", ".svg", ".pdf")
AROUND = 30
"""The picture reaches so many times below and above what it is about."""
POINTS = 200
READ, COMPUTE, QUIET = "#1f6feb", "#d1652f", "#8a94a6"


def plot(found: Sizing, path: Path) -> Path:
    """Draw it into a file and return its path."""
    if path.suffix.lower() not in FORMATS:
        raise SizeError(
            f"a plot is written as {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, and {str(path)!r} ends in none of "
            "them. Choose another name."
        )
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, NullFormatter
    except ModuleNotFoundError as error:
        raise MissingDependency("matplotlib", extra="report") from error
    epoch = found.epoch
    centres = [each for each in (epoch.bandwidth, epoch.flip_bandwidth) if each is not None]
    if not centres:
        raise SizeError(
            "there is nothing to draw without a bandwidth or a time of computing. Give one of them (--bandwidth or "
            "--compute)."
        )
    make_folder(path, SizeError)
    low, high = min(centres) / AROUND, max(centres) * AROUND
    rates = [low * (high / low) ** (number / (POINTS - 1)) for number in range(POINTS)]
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    reading = f"reading {show_bytes(epoch.worker_bytes)} a worker"
    axes.loglog(rates, [epoch.worker_bytes / rate for rate in rates], color=READ, label=reading)
    if epoch.compute is not None and epoch.flip_bandwidth is not None:
        computing = f"computing, {show_seconds(epoch.compute)}"
        axes.axhline(epoch.compute, color=COMPUTE, label=computing)
        axes.plot([epoch.flip_bandwidth], [epoch.compute], "o", color="black", zorder=3)
        axes.annotate(
            f"they cross at {show_rate(epoch.flip_bandwidth)}",
            (epoch.flip_bandwidth, epoch.compute),
            xytext=(8, 10),
            textcoords="offset points",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )
        axes.axvspan(low, epoch.flip_bandwidth, color=READ, alpha=0.06, linewidth=0)
        for at, text, side in (
            (0.02, "storage bounds", "left"),
            (0.98, "computing bounds", "right"),
        ):
            axes.text(at, 0.03, text, ha=side, color=QUIET, transform=axes.transAxes)
    if epoch.bandwidth is not None and epoch.read_seconds is not None:
        given = f"{show_rate(epoch.bandwidth)}: {show_seconds(epoch.read_seconds)}"
        axes.axvline(epoch.bandwidth, color=QUIET, linestyle=":", label=given)
        axes.plot([epoch.bandwidth], [epoch.read_seconds], "s", color=READ, zorder=3)
    axes.set_xlim(low, high)
    axes.set_xlabel("bandwidth of storage for each worker")
    axes.set_ylabel("an epoch")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: show_rate(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g} s"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    axes.set_title(found.subject, loc="left", fontsize=11)
    return save(figure, path, SizeError)
