"""The sketch of quantiles: exact while few, and within its bound afterwards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.backends.arrow.quantiles import QuantileSketch

SHARES = [0.0, 0.001, 0.1, 0.25, 0.5, 0.75, 0.999, 1.0]


@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=40), max_size=12))
def test_few_are_exact(parts: list[list[float]]) -> None:
    sketch = QuantileSketch()
    for part in parts:
        sketch.add(np.array(part, float))
    everything = np.sort(np.concatenate([*map(np.array, parts), np.zeros(0)]))
    if not len(everything):
        assert sketch.at(SHARES) == ()
        return
    places = [max(int(np.ceil(share * len(everything))), 1) - 1 for share in SHARES]
    assert sketch.at(SHARES) == tuple(everything[places])


@pytest.mark.parametrize("kind", ["random", "rising", "falling", "few"])
def test_many_are_within_the_bound(kind: str) -> None:
    length, rows = 256, 60_000
    random = np.random.default_rng(5)
    numbers = {
        "random": random.normal(size=rows),
        "rising": np.arange(rows, dtype=float),
        "falling": -np.arange(rows, dtype=float),
        "few": random.integers(0, 5, rows).astype(float),
    }[kind]
    sketch = QuantileSketch(length)
    for part in np.array_split(numbers, 77):
        sketch.add(part)
    ordered = np.sort(numbers)
    levels = int(np.ceil(np.log2(rows / length))) + 1
    bound = levels / (2 * length) + 1 / length
    for share, value in zip(SHARES, sketch.at(SHARES), strict=True):
        low = np.searchsorted(ordered, value, "left") / rows
        high = np.searchsorted(ordered, value, "right") / rows
        assert low - bound <= share <= high + bound
