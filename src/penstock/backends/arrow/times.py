"""Dates and timestamps in NumPy: integer arithmetic (`penstock.expr.calendar`) and tables of zones."""

from __future__ import annotations

import numpy as np

from penstock.backends.arrow.values import Flat, both
from penstock.backends.base import Kernel, Site
from penstock.dtypes import Array
from penstock.expr import calendar
from penstock.expr.ops.times import CLOCKED, DATED
from penstock.expr.zones import CYCLE, REPEATS, offsets_of


def local(micros: Array, zone: str) -> Array:
    """What clocks in a zone show, as microseconds."""
    if zone == "UTC":
        return micros
    starts, offsets = offsets_of(zone)
    seconds = micros // calendar.SECOND
    cycles = np.maximum((seconds - REPEATS) // CYCLE + 1, 0)
    places = np.searchsorted(np.array(starts), seconds - cycles * CYCLE, side="right") - 1
    return np.asarray(micros + np.array(offsets)[np.maximum(places, 0)] * calendar.SECOND)


def _field(site: Site, x: Flat) -> Flat:
    if site.types[0].kind == "date":
        return Flat(calendar.field(site.op, x.values, 0), x.valid)
    micros = local(x.values, site.params["zone"]) if "zone" in site.params else x.values
    days = micros // calendar.DAY
    return Flat(calendar.field(site.op, days, micros - days * calendar.DAY), x.valid)


def _epoch(site: Site, x: Flat) -> Flat:
    if site.types[0].kind == "date":
        return Flat((x.values * 86_400).astype(np.float64), x.valid)
    return Flat(x.values.astype(np.float64) / 1e6, x.valid)


def _between(site: Site, left: Flat, right: Flat) -> Flat:
    valid = both(left.valid, right.valid)
    return _epoch(site, Flat(left.values - right.values, valid))


KERNELS: dict[str, Kernel] = {
    **dict.fromkeys((*DATED, *CLOCKED), _field),
    "epoch_seconds": _epoch,
    "date_of": lambda site, x: Flat(x.values // calendar.DAY, x.valid),
    "microsecond": lambda site, x: Flat(x.values % calendar.SECOND, x.valid),
    "seconds_between": _between,
}
