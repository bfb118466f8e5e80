"""`penstock bench boundary --no-spark`: the same experiment in one process, without Spark and Java.

What a boundary costs has two parts, a call per row instead of one per column, and rows that are pickled on their way.
Both can be had without a JVM, so this is what to run where there is none, and what Spark's figures can be held against.
All ways begin and end with a NumPy array.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from penstock.errors import WaysDiffer
from penstock.tools.bench_boundary_knee import SIZES, Curve, Point, Seen, refusals, rows_for
from penstock.tools.bench_boundary_result import BoundaryBench, WayTiming
from penstock.tools.bench_boundary_timing import Job, Told, timed, unheard
from penstock.tools.bench_boundary_ways import STEP, TURN, WIDTH, on_arrays, standardise_then_clip

PICKLED_ROWS = 100
"""Rows that Spark pickles at once, by default."""
BATCH_ROWS = 10_000
"""Rows of an Arrow batch, by default."""

Alone = Callable[[Any], Any]
"""A way without Spark: from an array to an array."""


def bench_alone(
    rows: int,
    *,
    rounds: int,
    seed: int,
    ways: dict[str, Alone] | None = None,
    sizes: Sequence[int] = SIZES,
    told: Told = unheard,
) -> BoundaryBench:
    """The experiment; `ways` stands for other ways, of which the last is what the others are compared with.

    >>> bench_alone(1000, rounds=1, seed=0).rows
    1000
    """
    values = numbers(rows, seed)
    ways = ways or {
        "whole column": on_arrays,
        f"batches of {BATCH_ROWS:,}": partial(by_batch, size=BATCH_ROWS),
        "rows": by_row,
        "pickled rows": by_pickled_row,
    }
    check_equal(values, ways)
    timings = timed([Job(name, partial(way, values)) for name, way in ways.items()], rounds, seed, told)
    curve = _curve(values, sizes, rounds, seed, told)
    return BoundaryBench(
        "one process, without Spark",
        rows,
        rounds,
        seed,
        tuple(WayTiming(name, CROSSES.get(name, ""), timings[name]) for name in ways),
        None,
        (curve,),
        None,
    )


CROSSES = {
    "whole column": "one call",
    f"batches of {BATCH_ROWS:,}": "a call per batch",
    "rows": "a call per row",
    "pickled rows": f"a call per row, {PICKLED_ROWS} rows pickled there and back",
}


def _curve(values: Any, sizes: Sequence[int], rounds: int, seed: int, told: Told) -> Curve:
    parts = {size: values[: rows_for(size, len(values))] for size in sizes}
    seen = {size: _seen(parts[size], size) for size in sizes}
    refused = refusals(seen)
    jobs = [
        Job(f"batches of {size:,} rows", partial(by_batch, parts[size], size=size))
        for size in sizes
        if not refused[size]
    ]
    timings = timed(jobs, rounds, seed, told)
    return Curve(
        "NumPy",
        tuple(
            Point(
                size,
                len(parts[size]),
                seen[size].usual,
                timings.get(f"batches of {size:,} rows"),
                refused[size],
            )
            for size in sizes
        ),
    )


def _seen(values: Any, size: int) -> Seen:
    found: dict[int, int] = {}
    for batch in _batches(values, size):
        found[len(batch)] = found.get(len(batch), 0) + 1
    return Seen((found,))


def numbers(rows: int, seed: int) -> Any:
    """The values that `penstock.tools.bench_boundary_ways.numbers` has in column x.

    >>> numbers(2, seed=0).tolist()
    [0.0, 61.803398677147925]
    """
    import numpy as np

    return ((np.arange(rows) * STEP + seed) % TURN).astype(np.float64) * (WIDTH / TURN)


def by_batch(values: Any, size: int) -> Any:
    """The function on arrays, batch by batch.

    >>> import numpy as np
    >>> by_batch(np.array([50.0, 99.0, 0.0]), size=2).tolist()
    [0.0, 1.5, -1.5]
    """
    import numpy as np

    return np.concatenate([on_arrays(batch) for batch in _batches(values, size)])


def by_row(values: Any) -> Any:
    """The function itself, row by row.

    >>> import numpy as np
    >>> by_row(np.array([50.0, 99.0])).tolist()
    [0.0, 1.5]
    """
    import numpy as np

    return np.array([standardise_then_clip(value) for value in values.tolist()])


def by_pickled_row(values: Any) -> Any:
    """The same, with rows pickled on their way there and results on their way back.

    >>> import numpy as np
    >>> by_pickled_row(np.array([50.0, 99.0])).tolist()
    [0.0, 1.5]
    """
    import numpy as np

    found: list[float] = []
    for batch in _batches(values, PICKLED_ROWS):
        sent = pickle.loads(pickle.dumps([(value,) for value in batch.tolist()]))
        found += pickle.loads(pickle.dumps([standardise_then_clip(*row) for row in sent]))
    return np.array(found)


def _batches(values: Any, size: int) -> Iterator[Any]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def check_equal(values: Any, ways: dict[str, Alone]) -> None:
    """Raise `WaysDiffer` if a way differs from the last one in a single bit."""
    import numpy as np

    *others, last = ways
    wanted = ways[last](values)
    for name in others:
        seen = ways[name](values)
        places = np.flatnonzero(seen.view(np.int64) != wanted.view(np.int64))
        if len(places):
            first = int(places[0])
            value, got, right = float(values[first]), float(seen[first]), float(wanted[first])
            raise WaysDiffer(name, last, first, value, got, right, len(places), len(values))
