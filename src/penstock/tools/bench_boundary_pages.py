"""How the result of `penstock bench boundary` looks: a sentence, tables on a terminal, and the same as plain text.

The picture is drawn by `penstock.tools.bench_boundary_plot`.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from penstock.tools.bench_boundary_knee import Curve, knee, why

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.tools.bench_boundary_result import BoundaryBench
    from penstock.tools.bench_boundary_timing import Timing

WIDTH = 110
SOURCES = (
    "The setting rules where Spark hands over rows, as from spark.range here, filters, joins and shuffles. Cached "
    "and Parquet input comes in its own batches: spark.sql.inMemoryColumnarStorage.batchSize (10,000 rows unless set) "
    "and spark.sql.parquet.columnarReaderBatchSize (4,096)."
)


def sentence(found: BoundaryBench) -> str:
    """What was found, in one sentence."""
    last = found.ways[-1]
    first, *others = sorted(found.ways[:-1], key=lambda way: way.timing.median)
    more = "".join(f", {way.name} {_times(found.speedup(way))}" for way in others)
    said = (
        f"{found.rows:,} doubles standardised and clipped in {len(found.ways)} ways, equal to the last bit: "
        f"{first.name} is {_times(found.speedup(first))} as fast as {last.name} with its "
        f"{humane_rate(found.rows_per_second(last))}{more}"
    )
    size = found.recommended
    if size is None:
        return f"{said}; no batch size could be measured."
    return f"{said}; batches of {size:,} rows are {why(*(curve.rates for curve in found.curves))}."


def _times(ratio: float) -> str:
    return f"{ratio:.1f} x" if ratio < 10 else f"{ratio:.0f} x"


def humane_rate(rate: float) -> str:
    """Rows a second, in three digits.

    >>> humane_rate(1_234_567), humane_rate(45_678), humane_rate(12_345_678.0)
    ('1.23 M rows/s', '45.7 k rows/s', '12.3 M rows/s')
    """
    scale, unit = (1e6, "M ") if rate >= 1e6 else (1e3, "k ") if rate >= 1e3 else (1.0, "")
    digits = 2 if rate / scale < 10 else 1 if rate / scale < 100 else 0
    return f"{rate / scale:.{digits}f} {unit}rows/s"


def ways_table(found: BoundaryBench) -> Table:
    """The ways, the slowest last."""
    table = Table(box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("way")
    table.add_column("how rows cross")
    titles = ["seconds", "low to high", "rows/s", "faster"]
    net = found.scan is not None
    for title in [*titles, *(["net of scan, s", "faster, net"] if net else [])]:
        table.add_column(title, justify="right")
    if found.scan is not None:
        rate = humane_rate(found.rows / found.scan.median).removesuffix(" rows/s")
        table.add_row("scan alone", "", *_seconds(found.scan), rate, "", "", "", style="dim")
    for way in found.ways:
        more = found.net_speedup(way)
        cells = [
            *_seconds(way.timing),
            humane_rate(found.rows_per_second(way)).removesuffix(" rows/s"),
            _times(found.speedup(way)),
        ]
        if net:
            cells += [f"{found.net(way):.3f}", "too near" if more is None else _times(more)]
        table.add_row(Text(way.name), Text(way.crosses), *cells)
    return table


def _seconds(timing: Timing) -> tuple[str, str]:
    digits = 3 if timing.median >= 0.1 else 5
    return f"{timing.median:.{digits}f}", f"{timing.low:.{digits}f} to {timing.high:.{digits}f}"


def curve_table(curves: tuple[Curve, ...]) -> Table:
    """The batch sizes, with a column for each curve; its knee is marked."""
    table = Table(box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("batch rows", justify="right")
    table.add_column("rows tried", justify="right")
    for curve in curves:
        table.add_column(curve.name, justify="right")
        table.add_column("low to high, s", justify="right")
    for place, point in enumerate(curves[0].points):
        cells = [f"{point.size:,}", f"{point.rows:,}"]
        for curve in curves:
            at = curve.points[place]
            rate = at.rows_per_second
            if at.timing is None or rate is None:
                cells += [at.refused, ""]
            else:
                mark = "knee  " if knee(curve.rates) == at.size else ""
                cells += [mark + humane_rate(rate), _seconds(at.timing)[1]]
        table.add_row(*map(Text, cells))
    return table


def advice(found: BoundaryBench) -> str:
    """The setting to choose, and where it has no effect; empty where there is none."""
    if found.setting is None:
        return ""
    size = found.recommended
    chosen = (
        f"Recommended: {found.setting} = {size}, for rows as narrow as these; wide ones take more memory."
        if size is not None
        else f"No value of {found.setting} was in force."
    )
    return f"{chosen} {SOURCES}"


def on_terminal(found: BoundaryBench) -> RenderableType:
    """All of it, drawn by rich."""
    rounds = f"{found.rounds} round{'s' if found.rounds != 1 else ''} in random turn"
    parts: list[RenderableType] = [
        Text(sentence(found), style="bold"),
        Text(f"{found.engine}. Medians of {rounds}, after one to warm up.", style="dim"),
        ways_table(found),
    ]
    if found.curves:
        parts.append(curve_table(found.curves))
    if said := advice(found):
        parts.append(Text(said, style="green"))
    return Group(*parts)


def show(found: BoundaryBench) -> None:
    """Print it: drawn on a terminal, as text of its own width for whatever else reads."""
    console = Console()
    if console.is_terminal:
        console.print(found)
    else:
        console.print(Text(as_text(found)), soft_wrap=True)


def as_json(found: BoundaryBench) -> str:
    """All of it as JSON."""
    return json.dumps(found.to_dict(), indent=1)


def as_text(found: BoundaryBench) -> str:
    """The same without colours."""
    page = io.StringIO()
    Console(file=page, width=WIDTH, color_system=None, highlight=False).print(on_terminal(found))
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())
