"""The batch-size curve of `penstock bench boundary` as values: points, which of them count, and where the knee lies.

Pure functions. A point counts only if the function really got batches of that size: Spark's setting does not rule
every source, and a time under a setting that was not in force says nothing about it. The points are measured in
`penstock.tools.bench_boundary_curve`, and without Spark in `penstock.tools.bench_boundary_alone`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.tools.bench_boundary_timing import Timing

SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
MOST_BATCHES = 10_000
"""A pandas_udf takes half a millisecond for a batch of one row: four million of them would take half an hour."""
NEAR = 0.9
"""The knee is the smallest batch that reaches this share of the best."""


@dataclass(frozen=True)
class Seen:
    """The batches that a function got under a setting: how many of each size, for each partition."""

    partitions: tuple[Mapping[int, int], ...]

    @property
    def usual(self) -> int:
        """The size that most rows came in."""
        rows: dict[int, int] = {}
        for sizes in self.partitions:
            for size, batches in sizes.items():
                rows[size] = rows.get(size, 0) + size * batches
        return max(rows, key=lambda size: (rows[size], size), default=0)

    def obeys(self, setting: int) -> bool:
        """Whether batches were full but for the last of each partition, and full ones held half of the rows.

        >>> Seen(({100: 3, 20: 1},)).obeys(100), Seen(({4096: 3},)).obeys(100), Seen(({60: 1},)).obeys(100)
        (True, False, False)
        """
        full = rows = 0
        for sizes in self.partitions:
            rests = sum(batches for size, batches in sizes.items() if size < setting)
            if rests > 1 or any(size > setting for size in sizes):
                return False
            full += setting * sizes.get(setting, 0)
            rows += sum(size * batches for size, batches in sizes.items())
        return rows > 0 and 2 * full >= rows

    def too_few_rows(self, setting: int) -> bool:
        """Whether partitions simply ended before a batch was full."""
        return all(
            sum(sizes.values()) <= 1 and all(size < setting for size in sizes) for sizes in self.partitions
        )


def refusals(seen: Mapping[int, Seen]) -> dict[int, str]:
    """For every setting why its point does not count; empty where it does.

    Where a source's own batches are seen under one setting, another that happens to equal them does not count, either.

    >>> set(refusals({1000: Seen(({10000: 6},)), 10000: Seen(({10000: 6},))}).values())
    {'not in force: the source gives batches of 10,000'}
    >>> refusals({10: Seen(({10: 600},)), 10000: Seen(({6000: 1},))})
    {10: '', 10000: 'not reached: partitions have 6,000 rows'}
    """
    own = {
        batches.usual
        for setting, batches in seen.items()
        if not batches.obeys(setting) and not batches.too_few_rows(setting)
    }
    found = {}
    for setting, batches in seen.items():
        if batches.too_few_rows(setting):
            found[setting] = f"not reached: partitions have {batches.usual:,} rows"
        elif not batches.obeys(setting) or batches.usual in own:
            found[setting] = f"not in force: the source gives batches of {batches.usual:,}"
        else:
            found[setting] = ""
    return found


@dataclass(frozen=True)
class Point:
    """One batch size: the rows it was tried on, the size seen, and the time; or why it does not count."""

    size: int
    rows: int
    seen: int
    timing: Timing | None
    refused: str = ""

    @property
    def rows_per_second(self) -> float | None:
        """Of the median round; None for a point that does not count."""
        return None if self.timing is None else self.rows / self.timing.median

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "batch_rows": self.size,
            "rows": self.rows,
            "batch_rows_seen": self.seen,
            "refused": self.refused or None,
            "seconds": None if self.timing is None else self.timing.to_dict(),
            "rows_per_second": self.rows_per_second,
        }


@dataclass(frozen=True)
class Curve:
    """One kind of function over all batch sizes."""

    name: str
    points: tuple[Point, ...]

    @property
    def rates(self) -> dict[int, float]:
        """Rows a second by batch size, of the points that count."""
        return {point.size: rate for point in self.points if (rate := point.rows_per_second) is not None}

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "name": self.name,
            "knee": knee(self.rates),
            "points": [point.to_dict() for point in self.points],
        }


def knee(*curves: Mapping[int, float]) -> int | None:
    """The smallest batch within 10 % of the best, on every curve; where none is, the one with the least loss.

    >>> knee({1: 1.0, 10: 9.0, 100: 50.0, 1000: 95.0, 10000: 100.0, 100000: 80.0})
    1000
    >>> knee({10: 95.0, 100: 100.0}, {10: 5.0, 100: 40.0})
    100
    >>> knee({10: 100.0, 100: 80.0}, {10: 60.0, 100: 100.0})
    100
    >>> knee({}) is None
    True
    """
    reached = shares(*curves)
    near = [size for size, share in reached.items() if share >= NEAR]
    return near[0] if near else max(reached, key=lambda size: reached[size], default=None)


def shares(*curves: Mapping[int, float]) -> dict[int, float]:
    """For every batch size that all curves have, its share of the best on the curve that suits it least.

    >>> shares({10: 100.0, 100: 80.0}, {10: 60.0, 100: 100.0})
    {10: 0.6, 100: 0.8}
    """
    curves = tuple(curve for curve in curves if curve)
    sizes = sorted(set.intersection(*map(set, curves))) if curves else []
    return {size: min(curve[size] / max(curve.values()) for curve in curves) for size in sizes}


def why(*curves: Mapping[int, float]) -> str:
    """What is special about the batch size that `knee` chooses.

    >>> why({10: 95.0, 100: 100.0})
    'the smallest within 10 % of the best'
    >>> why({10: 100.0, 100: 80.0}, {10: 60.0, 100: 100.0})
    'nearest to the best of all kinds, with 80 % of it or more'
    """
    size = knee(*curves)
    share = 0.0 if size is None else shares(*curves)[size]
    if share >= NEAR:
        return f"the smallest within {round(100 * (1 - NEAR))} % of the best"
    return f"nearest to the best of all kinds, with {share:.0%} of it or more".replace("%", " %")


def rows_for(size: int, rows: int) -> int:
    """How many rows a batch size is tried on.

    >>> rows_for(1, 4_000_000), rows_for(100_000, 4_000_000)
    (10000, 4000000)
    """
    return min(rows, size * MOST_BATCHES)
