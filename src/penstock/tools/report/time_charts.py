"""Charts over time: how much was fed, which rank waited when, and what was noted; all on one axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from penstock.tools.report.drawing import Drawn, percent, shown, svg, tag
from penstock.tools.report.wording import count, duration, number, rate, share

WIDTH, HEIGHT = 1000.0, 100.0
PHONE, SCREEN = 288.0, 588.0
"""Pixels of the narrowest axis: on a phone, and where the page is wider than `.wide` of page.css asks for."""
LETTER, APART = 7.5, 10.0
"""Pixels of a letter of a label, rather more than it takes, and between two labels."""


def throughput(feed: Mapping[str, Any]) -> Drawn:
    """Bytes a second of all ranks together, as a line over an area, with its epochs."""
    line = feed["timeline"]
    values, rows, edges = line["bytes_per_second"], line["rows_per_second"], line["edges"]
    top, ticks = scale(max([value for value in values if value is not None] + [0.0]))
    area, path, columns = [], [], []
    for run in _runs(values):
        points = [(_x((edges[at] + edges[at + 1]) / 2, line), _y(values[at], top)) for at in run]
        # From edge to edge, so that what is known for a moment alone is seen as well.
        points = [
            (_x(edges[run[0]], line), points[0][1]),
            *points,
            (_x(edges[run[-1] + 1], line), points[-1][1]),
        ]
        path.append("M" + "L".join(f"{shown(x)} {shown(y)}" for x, y in points))
        area.append(f"{path[-1]}L{shown(points[-1][0])} 100L{shown(points[0][0])} 100Z")
    for at, value in enumerate(values):
        if value is not None:
            told = f"{duration(edges[at])}: {rate(value)}, {count(rows[at])} rows/s"
            columns.append(_column(edges[at], edges[at + 1], line, told))
    known = [value for value in values if value is not None]
    label = f"Throughput over {duration(line['seconds'])}"
    label += f", between {rate(min(known))} and {rate(max(known))}" if known else ""
    drawn = svg(
        *_grid(ticks, top),
        tag("path", d="".join(area), cls="area"),
        tag("path", d="".join(path), cls="line"),
        *_epoch_lines(feed),
        *columns,
        width=WIDTH,
        height=HEIGHT,
        label=label,
    )
    plot = tag("div", drawn, *_tick_labels(ticks, top, rate), cls="plot tall")
    return tag("div", *_epoch_labels(feed), cls="marks") + plot


def waiting(feed: Mapping[str, Any]) -> Drawn:
    """A strip for each rank, as full as it waited."""
    line = feed["timeline"]
    rows = []
    for group in line["waiting"]:
        first, last = group["ranks"]
        name = f"rank {first}" if first == last else f"ranks {first} to {last}"
        parts = [None if part is None else round(part, 2) for part in group["waited"]]
        cells = [_strip(run[0], run[-1] + 1, line, 1.0, "track", f"{name} ran") for run in _runs(parts)]
        at = 0
        for part, same in groupby(parts):
            stop = at + len(list(same))
            if part is not None:
                seconds = f"{duration(line['edges'][at])} to {duration(line['edges'][stop])}"
                cells.append(_strip(at, stop, line, part, "bar", f"{name}, {seconds}: waited {share(part)}"))
            at = stop
        known = [part for part in group["waited"] if part is not None]
        mean = sum(known) / len(known) if known else 0.0
        label = f"How much {name} waited over time, {share(mean)} on average"
        rows.append(
            tag("li", tag("span", name, cls="value"), svg(*cells, width=WIDTH, height=1, label=label))
        )
    return tag("ol", *rows, cls="ranks")


def _every(places: Sequence[tuple[float, str]], width: float) -> int:
    """1 where all labels keep apart on an axis of so many pixels, 2 where every second does, and so on.

    >>> (
    ...     _every([(0.0, "0"), (0.5, "500 ms"), (1.0, "1000 ms")], 288.0),
    ...     _every([(0.0, "0"), (0.1, "1 s")], 100.0),
    ... )
    (1, 2)
    """
    boxes = [(min(at * width, width - LETTER * len(said)), LETTER * len(said) + APART) for at, said in places]
    for step in range(1, len(boxes)):
        if all(one[0] + one[1] <= next_one[0] for one, next_one in pairwise(boxes[::step])):
            return step
    return max(len(boxes), 1)


def _strip(first: int, last: int, line: Mapping[str, Any], height: float, cls: str, told: str) -> Drawn:
    left, right = _x(line["edges"][first], line), _x(line["edges"][last], line)
    return tag("rect", title=told, x=left, y=1.0 - height, width=right - left, height=height, cls=cls)


def time_axis(feed: Mapping[str, Any]) -> Drawn:
    """Labels of the axis that all charts share, and where pauses were shortened."""
    line = feed["timeline"]
    total, labels = line["seconds"], []
    ticks = ticks_of_time(total)
    step = ticks[1] if len(ticks) > 1 else total
    places = [(second / total, tick_of_time(second, step)) for second in ticks]
    screen = _every(places, SCREEN)
    phone = _every(places[::screen], PHONE)
    for nth, (at, said) in enumerate(places[::screen]):
        # A label stands behind its time, and as far before it as it has to at the end.
        left = f"left:min({percent(at)}, 100% - {shown(LETTER * len(said))}px)"
        labels.append(tag("span", said, style=left, cls="wide" if nth % phone else None))
    for pause in line["pauses"]:
        told = f"paused {duration(pause['seconds'])}"
        labels.append(tag("i", cls="pause", style=f"left:{percent(pause['at'] / total)}", hint=told))
    return tag("div", *labels, cls="axis")


def noted(note: Mapping[str, Any], feed: Mapping[str, Any]) -> Drawn:
    """The numbers of one name: a line for each rank, with the least and the most around it where points were joined."""
    line, low, high = feed["timeline"], note["low"], note["high"]
    if low is None or high is None:
        return Drawn("")
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    low, high = low - room, high + room
    parts: list[Drawn] = [*_epoch_lines(feed)]
    for each in note["lines"]:
        points = each["points"]
        bands, path, columns, dots = [], [], [], []
        for run in _runs([point[1] for point in points]):
            own = [points[at] for at in run]
            xs = [_x(point[0], line) for point in own]
            middle, least, most = ([_y(point[at] - low, high - low) for point in own] for at in (1, 2, 3))
            path.append("M" + "L".join(f"{shown(x)} {shown(y)}" for x, y in zip(xs, middle, strict=True)))
            if any(point[2] != point[3] for point in own):
                there = "L".join(f"{shown(x)} {shown(y)}" for x, y in zip(xs, most, strict=True))
                back = "L".join(f"{shown(x)} {shown(y)}" for x, y in zip(xs[::-1], least[::-1], strict=True))
                bands.append(f"M{there}L{back}Z")
            if len(own) == 1 or len(points) <= 12:
                dots += [f"M{shown(x)} {shown(y)}h0" for x, y in zip(xs, middle, strict=True)]
        ends = [0.0, *((a[0] + b[0]) / 2 for a, b in pairwise(points)), line["seconds"]]
        for place, point in enumerate(points):
            told = f"rank {each['rank']}, epoch {point[4]}, step {count(point[5])}: "
            told += "not finite" if point[1] is None else number(point[1])
            columns.append(_column(ends[place], ends[place + 1], line, told))
        parts += [tag("path", d="".join(bands), cls="area")] if bands else []
        parts += [tag("path", d="".join(path), cls="line")]
        parts += [tag("path", d="".join(dots), cls="dots")] if dots else []
        parts += columns if each is note["lines"][-1] else []
    label = f"{note['name']}: {count(note['count'])} numbers between {number(note['low'])} and {number(note['high'])}"
    return tag("div", svg(*parts, width=WIDTH, height=HEIGHT, label=label), cls="plot small")


def _runs(values: Sequence[float | None]) -> Iterator[list[int]]:
    """Places of neighbours that have a value."""
    run: list[int] = []
    for at, value in enumerate(values):
        if value is not None:
            run.append(at)
        elif run:
            yield run
            run = []
    if run:
        yield run


def scale(most: float) -> tuple[float, list[float]]:
    """A round number at or above the most, and the round numbers to draw lines at.

    >>> scale(87.0)
    (100.0, [50.0, 100.0])
    """
    if most <= 0:
        return 1.0, []
    unit = 10.0 ** math.floor(math.log10(most))
    step = next(unit * part for part in (0.2, 0.5, 1.0, 2.0, 5.0) if most <= 4 * unit * part)
    count_of = math.ceil(most / step - 1e-9)
    return step * count_of, [step * at for at in range(1, count_of + 1)]


def ticks_of_time(total: float) -> list[float]:
    """Round times along an axis, a few of them.

    >>> ticks_of_time(17.0), ticks_of_time(5400.0)
    ([0.0, 5.0, 10.0, 15.0], [0.0, 900.0, 1800.0, 2700.0, 3600.0, 4500.0, 5400.0])
    """
    decimal, sixty = (1, 2, 5, 10, 20, 50, 100, 200, 500), (1, 2, 5, 10, 15, 30)
    parts = {
        1e-6: decimal,
        1e-3: decimal,
        1.0: sixty,
        60.0: sixty,
        3600.0: (1, 2, 3, 6, 12),
        86400.0: decimal,
    }
    steps = [unit * part for unit, each in parts.items() for part in each]
    step = next((each for each in steps if total / each <= 6), total)
    return [step * at for at in range(int(total / step) + 1)]


def tick_of_time(second: float, step: float) -> str:
    """A label, in the unit that all labels of an axis share.

    >>> tick_of_time(3600.0, 900.0), tick_of_time(0.0, 900.0), tick_of_time(0.15, 0.05)
    ('60 min', '0', '150 ms')
    """
    units = [(86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us")]
    size, unit = next((each for each in units if step >= each[0]), units[-1])
    return f"{second / size:g} {unit}" if second else "0"


def _x(second: float, line: Mapping[str, Any]) -> float:
    return WIDTH * float(second) / float(line["seconds"])


def _y(value: float, top: float) -> float:
    return HEIGHT * (1 - value / top)


def _column(start: float, stop: float, line: Mapping[str, Any], told: str) -> Drawn:
    """Something to point at."""
    left, right = _x(start, line), _x(stop, line)
    return tag("rect", title=told, x=left, y=0, width=max(right - left, 0.0), height=100, cls="point")


def _grid(ticks: Sequence[float], top: float) -> list[Drawn]:
    return [tag("line", x1=0, x2=WIDTH, y1=_y(tick, top), y2=_y(tick, top), cls="grid") for tick in ticks]


def _tick_labels(ticks: Sequence[float], top: float, word: Any) -> list[Drawn]:
    return [tag("span", word(tick), cls="tick", style=f"bottom:{percent(tick / top)}") for tick in ticks]


def _epoch_lines(feed: Mapping[str, Any]) -> list[Drawn]:
    line = feed["timeline"]
    return [
        tag("line", x1=_x(epoch["at"], line), x2=_x(epoch["at"], line), y1=0, y2=100, cls="epoch")
        for epoch in feed["epochs"]
        if epoch["at"] > 0
    ]


def _epoch_labels(feed: Mapping[str, Any]) -> list[Drawn]:
    """Where there is room for them: on a phone fewer, and shorter."""
    total, found, ends = feed["timeline"]["seconds"], [], {PHONE: 0.0, SCREEN: 0.0}
    for epoch in feed["epochs"]:
        at, said = epoch["at"] / total, f"epoch {epoch['epoch']}"
        more = ", resumed" if epoch["resumed"] and epoch["step"] else ""
        fits = {}
        for width, text in ((PHONE, said), (SCREEN, said + more)):
            end = at * width + LETTER * len(text)
            fits[width] = at * width >= ends[width] and end <= width
            ends[width] = end + APART if fits[width] else ends[width]
        if fits[SCREEN]:
            rest = [tag("span", more, cls="wide")] if more else []
            cls = None if fits[PHONE] else "wide"
            found.append(tag("span", said, *rest, style=f"left:{percent(at)}", cls=cls))
    return found
