"""What `penstock bench boundary` found, as values; how they look stands in `penstock.tools.bench_boundary_pages`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.tools.bench_boundary_knee import Curve, knee, why
from penstock.tools.bench_boundary_pages import as_text, on_terminal, sentence
from penstock.tools.bench_boundary_plot import plot
from penstock.tools.bench_boundary_timing import Timing

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class WayTiming:
    """One way and its seconds for all rows."""

    name: str
    crosses: str
    timing: Timing


@dataclass(frozen=True, repr=False)
class BoundaryBench:
    """The ways with their times, which all computed the same, and the batch-size curves.

    Printed it is tables, `rich.print` draws it for a terminal, and `.plot(path)` as a picture. Times are medians;
    `to_dict()` has all rounds. Made by `bench_boundary`.

    >>> from penstock.tools.bench_boundary import bench_boundary
    >>> found = bench_boundary(20_000, with_spark=False, rounds=1)
    >>> [way["name"] for way in found.to_dict()["ways"]]
    ['whole column', 'batches of 10,000', 'rows', 'pickled rows']
    """

    engine: str
    rows: int
    rounds: int
    seed: int
    ways: tuple[WayTiming, ...]
    """The last is what speed-ups are told against."""
    scan: Timing | None
    """The rows made and handed over, with nothing computed."""
    curves: tuple[Curve, ...]
    setting: str | None
    """What sets the size of batches."""
    settings: Mapping[str, str | None] = field(default_factory=dict)
    """The session's, as far as they matter here."""

    @property
    def recommended(self) -> int | None:
        """The knee of all curves together, as `bench_boundary_knee.knee` has it; None where no point counts."""
        return knee(*(curve.rates for curve in self.curves))

    def rows_per_second(self, way: WayTiming) -> float:
        """Of the whole query, its scan with it."""
        return self.rows / way.timing.median

    def net(self, way: WayTiming) -> float | None:
        """Median seconds beyond the scan's; None where nothing was scanned."""
        return None if self.scan is None else way.timing.median - self.scan.median

    def speedup(self, way: WayTiming) -> float:
        """How many times faster than the last way, scan and all."""
        return self.ways[-1].timing.median / way.timing.median

    def net_speedup(self, way: WayTiming) -> float | None:
        """The same without the scan; None where the scan's rounds lie further apart than the way and the scan do."""
        ours, last = self.net(way), self.net(self.ways[-1])
        if self.scan is None or ours is None or last is None or len(self.scan.seconds) < 2:
            return None
        spread = self.scan.high - self.scan.low
        return last / ours if ours > spread and last > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        rates = [curve.rates for curve in self.curves]
        return {
            "sentence": sentence(self),
            "engine": self.engine,
            "rows": self.rows,
            "rounds": self.rounds,
            "seed": self.seed,
            "equal_to_the_last_bit": True,
            "scan_seconds": None if self.scan is None else self.scan.to_dict(),
            "ways": [
                {
                    "name": way.name,
                    "crosses": way.crosses,
                    "seconds": way.timing.to_dict(),
                    "rows_per_second": self.rows_per_second(way),
                    "seconds_net_of_scan": self.net(way),
                    "speedup": self.speedup(way),
                    "speedup_net_of_scan": self.net_speedup(way),
                }
                for way in self.ways
            ],
            "speedup_against": self.ways[-1].name,
            "curves": [curve.to_dict() for curve in self.curves],
            "recommended_batch_rows": self.recommended,
            "recommended_because": None if self.recommended is None else why(*rates),
            "setting": self.setting,
            "settings": dict(self.settings),
        }

    def plot(self, path: str | Path) -> Path:
        """Draw it into a file, .png or .svg; needs matplotlib (`pip install "penstock[report]"`)."""
        return plot(self, Path(path))

    def __str__(self) -> str:
        return as_text(self)

    __repr__ = __str__

    def __rich__(self) -> RenderableType:
        return on_terminal(self)
