"""What a dataset holds, as a page on the terminal or as JSON: `penstock inspect`."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penstock.errors import humane_bytes
from penstock.tools.size_units import show_many

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.feed.dataset import Dataset

BARS, BAR_WIDTH = 16, 32


def facts(ds: Dataset) -> dict[str, Any]:
    """Everything the page shows, as plain values."""
    rows = [shard.rows for shard in ds.shards]
    mean = sum(rows) / len(rows) if rows else 0.0
    return {
        "path": ds.path,
        "version": ds.version,
        "versions": ds.versions(),
        "fingerprint": ds.fingerprint,
        "rows": ds.rows,
        "bytes": ds.bytes,
        "tensors": [str(spec) for spec in ds.tensors.values()],
        "options": dict(ds.options),
        "shards": [{"file": shard.file, "rows": shard.rows, "bytes": shard.bytes} for shard in ds.shards],
        "unevenness": (max(rows) - min(rows)) / mean if mean else 0.0,
    }


def as_json(ds: Dataset) -> str:
    """The facts as JSON."""
    return json.dumps(facts(ds), indent=1)


def show(ds: Dataset) -> None:
    """Print the page; where no terminal reads it, without the blanks that fill its lines up."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        _draw(ds, console)
        return
    page = io.StringIO()
    _draw(ds, Console(file=page, width=console.width, color_system=None))
    print("\n".join(line.rstrip() for line in page.getvalue().splitlines()))


def _draw(ds: Dataset, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    found = facts(ds)
    console.print(found["path"], style="bold", highlight=False, markup=False, soft_wrap=True)
    about = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    about.add_row("version", _versions(ds))
    about.add_row("rows", f"{ds.rows:,}")
    about.add_row("size", f"{humane_bytes(ds.bytes)} in {show_many(len(ds.shards), 'shard')}")
    about.add_row("fingerprint", ds.fingerprint)
    for place, tensor in enumerate(found["tensors"]):
        about.add_row("" if place else "tensors", Text(tensor))
    if ds.options:
        said = ", ".join(f"{name} {value}" for name, value in ds.options.items() if value is not None)
        about.add_row("written with", said)
    console.print(about)
    if ds.shards:
        console.print(
            f"\nrows per shard (largest and smallest differ by {found['unevenness']:.2%} of the mean)"
        )
        console.print(balance([shard.rows for shard in ds.shards]), highlight=False)


def _versions(ds: Dataset) -> str:
    if ds.version is None:
        return "none: plain files"
    others = [str(version) for version in ds.versions() if version != ds.version]
    return f"{ds.version}" + (f" (also there: {', '.join(others)})" if others else "")


def balance(rows: list[int]) -> str:
    """Rows of the shards as bars; many shards share one, which then shows their least and most.

    >>> print(balance([4, 2]))
    0    ████████████████████████████████  4
    1    ████████████████                  2
    """
    groups = min(len(rows), BARS)
    edges = [place * len(rows) // groups for place in range(groups + 1)]
    lines, most = [], max(*rows, 1)
    names = [f"{first}" if last - first == 1 else f"{first}-{last - 1}" for first, last in pairwise(edges)]
    width = max(4, *map(len, names))
    for name, (first, last) in zip(names, pairwise(edges), strict=True):
        part = rows[first:last]
        bar = "█" * round(BAR_WIDTH * sum(part) / len(part) / most)
        count = f"{part[0]:,}" if min(part) == max(part) else f"{min(part):,} to {max(part):,}"
        lines.append(f"{name:<{width}} {bar:<{BAR_WIDTH}}  {count}")
    return "\n".join(lines)
