"""How values are spread: moments, histograms and the most frequent values, as plain numbers. No drawing here."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.dtypes import Array

BINS = 40
FEW = 12
"""So many different values are shown one by one."""
TOP = 10
TAIL = 0.005
"""Of the values on each side, that may lie outside a histogram whose range they would stretch too far."""
STRETCH = 4.0


def numbers(values: Array, bins: int = BINS) -> dict[str, Any]:
    """Moments, shares and the spread of numbers of any shape.

    >>> found = numbers(np.array([0.0, 1.0, np.nan, 3.0]))
    >>> found["count"], found["nan"], found["zeros"], found["low"], found["high"]
    (4, 0.25, 0.25, 0.0, 3.0)
    """
    flat = np.asarray(values).reshape(-1)
    if flat.dtype.kind == "b":
        flat = flat.view(np.uint8)
    count = len(flat)
    found: dict[str, Any] = {"count": count}
    if not count:
        return found
    is_float = flat.dtype.kind == "f"
    finite = flat[np.isfinite(flat)] if is_float else flat
    if is_float:
        nans = int(np.isnan(flat).sum())
        found |= {"nan": nans / count, "infinite": (count - len(finite) - nans) / count}
    found["zeros"] = int((flat == 0).sum()) / count
    if not len(finite):
        return found
    low, high = finite.min(), finite.max()
    # Divided first, so that sums of the largest float64 do not overflow.
    scale = max(abs(float(low)), abs(float(high)), 1.0)
    scaled = finite.astype(np.float64) / scale
    found |= {
        "low": _plain(low),
        "high": _plain(high),
        "mean": float(scaled.mean()) * scale,
        "deviation": float(scaled.std()) * scale,
    }
    different, counts = np.unique(finite, return_counts=True)
    found["different"] = len(different)
    if len(different) <= FEW:
        found["counted"] = [[_plain(v), int(c)] for v, c in zip(different, counts, strict=True)]
    else:
        found["histogram"] = histogram(finite, bins)
        if flat.dtype.kind in "iu":
            order = np.argsort(-counts, kind="stable")[:TOP]
            found["most_frequent"] = [[_plain(different[place]), int(counts[place])] for place in order]
    return found


def histogram(finite: Array, bins: int = BINS) -> dict[str, Any]:
    """Counts between edges; where a few values would stretch the range, they are counted beside it.

    Of whole numbers an edge is the first number of its bin, and the last edge one more than the last number.

    >>> histogram(np.arange(100), bins=4)["edges"]
    [0, 25, 50, 75, 100]
    """
    low, high = _plain(finite.min()), _plain(finite.max())
    with np.errstate(over="ignore"):  # between the largest numbers there are
        first, last = (float(each) for each in np.quantile(finite.astype(np.float64), [TAIL, 1 - TAIL]))
    if high - low > STRETCH * (last - first) > 0:
        low, high = (min(max(type(low)(each), low), high) for each in (first, last))
    inside = finite[(finite >= low) & (finite <= high)]
    whole = isinstance(low, int)
    edges, counts = (_whole_bins if whole else _bins)(inside, low, high, bins)
    below, above = int((finite < low).sum()), int((finite > high).sum())
    return {"edges": edges, "counts": counts, "below": below, "above": above, "whole": whole}


def _whole_bins(inside: Array, low: Any, high: Any, bins: int) -> tuple[list[Any], list[int]]:
    """Each bin holds as many whole numbers as the next, but the last, which ends where they do."""
    width = -(-(high - low + 1) // bins)
    edges = [*range(low, high + 1, width), high + 1]
    # Distances are exact where the numbers themselves are beyond what a float64 holds.
    away = inside.astype(np.uint64) - np.uint64(low % (1 << 64))
    counts = np.bincount((away // np.uint64(width)).astype(np.int64), minlength=len(edges) - 1)
    return edges, counts.tolist()


def _bins(inside: Array, low: Any, high: Any, bins: int) -> tuple[list[Any], list[int]]:
    # By shares of both ends, since their distance may be more than a float64 holds.
    part = np.linspace(0.0, 1.0, bins + 1)
    edges = low * (1 - part) + high * part
    return edges.tolist(), np.histogram(inside.astype(np.float64), edges)[0].tolist()


def _plain(value: Any) -> int | float:
    return value.item() if hasattr(value, "item") else value  # type: ignore[no-any-return]
