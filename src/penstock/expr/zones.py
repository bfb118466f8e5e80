"""Time zones as tables: from which second on a zone's clocks are how far from UTC.

Engines that compute on arrays look offsets up in `offsets_of`'s table, so that NumPy and a GPU do the same; Spark
asks Java, whose data is of the same origin. The table comes from Python's `zoneinfo`, asked day by day and
bisected, because its own list of transitions is private.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

CYCLE = 146_097 * 86_400
"""Seconds of 400 years, after which weekdays, leap years and therefore all rules for summer time repeat."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _second(year: int) -> int:
    return int((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())


REPEATS = _second(2500)
"""From here on the table repeats: subtract `CYCLE` until it lies below."""

_DAY = 86_400
_GRID = ((_second(1800), 30 * _DAY), (_second(1880), _DAY), (_second(2038), 14 * _DAY), (REPEATS, 1))


def is_zone(name: str) -> bool:
    """Whether this is UTC or a zone of the IANA database, by a name that every engine knows.

    >>> is_zone("Europe/Berlin"), is_zone("CET"), is_zone("Mars/Base")
    (True, False, False)
    """
    if name == "UTC":
        return True
    if "/" not in name or name.startswith(("posix/", "right/", "/", ".")):
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


@cache
def offsets_of(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The seconds at which a zone's offset changes, and the offset, in seconds, from each on.

    The first offset holds from ever. Instants from `REPEATS` on are looked up whole cycles earlier.

    >>> starts, offsets = offsets_of("Europe/Berlin")
    >>> offsets[0], offsets[-1]
    (3208, 3600)
    """
    zone = ZoneInfo(name)

    def offset(second: int) -> int:
        shift = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
        assert shift is not None
        return int(shift.total_seconds())

    starts, offsets = [_GRID[0][0]], [offset(_GRID[0][0])]
    for (begin, step), (end, _) in itertools.pairwise(_GRID):
        for second in range(begin + step, end + step, step):
            if offset(second) != offsets[-1]:
                low, high = second - step, second
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
                starts.append(high)
                offsets.append(offset(high))
    return tuple(starts), tuple(offsets)
