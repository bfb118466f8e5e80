"""Which rows of a step are a rank's, by the definition: row by row, and slow."""

from __future__ import annotations

import numpy as np

from penstock.dtypes import Array
from penstock.feed.plan.order import Steps
from penstock.feed.plan.route import Route


def rows_of_rank(steps: Steps, step: int, rank: int, world: int, lanes: int, start: int = 0) -> Array:
    """Their numbers in the epoch, in their order; steps are counted from row `start`.

    Where the world divides the lanes, a rank's rows are those with t % world == rank: each lane has one owner. Else the
    step's rows are sorted by lane and cut into equal slices.
    """
    first = start + step * steps.batch
    t = np.arange(first, min(first + steps.batch, steps.rows), dtype=np.int64)
    if lanes % world == 0:
        return np.asarray(t[t % world == rank])
    by_lane = t[np.argsort(t % lanes, kind="stable")]
    return np.asarray(by_lane[len(t) * rank // world : len(t) * (rank + 1) // world])


def rows_of_route(route: Route, first_step: int, last_step: int) -> Array:
    """Likewise of some steps of a route, one after the other."""
    lanes = route.order.lanes
    found = [
        rows_of_rank(route.steps, step, route.rank, route.world, lanes, route.t)
        for step in range(first_step, last_step)
    ]
    return np.concatenate([np.zeros(0, np.int64), *found])
