"""Numbers as a page shows them: a few digits, with their unit."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

from penstock.tools.size_units import show_bytes, show_rate, show_seconds

NOTHING = "none"
DIGITS = 3
UNIT = re.compile(r"(?<=\d) (?=(?:[kMGTPE]?B(?:/s)?|us|ms|s|min|h|d)\b)")


def count(found: Any) -> str:
    """A whole number, in full.

    >>> count(1234567), count(None), count("many")
    ('1,234,567', 'none', 'many')
    """
    if found is None:
        return NOTHING
    return f"{found:,.0f}" if isinstance(found, (int, float)) else str(found)


def number(found: Any) -> str:
    """A number in four digits; whole ones in full while they are short. Four digits may be a year, so they stay whole.

    >>> (
    ...     number(0.123456),
    ...     number(1234567),
    ...     number(1.5e-7),
    ...     number(-2.0),
    ...     number(12345.678),
    ...     number(4e20),
    ...     number(2002),
    ... )
    ('0.1235', '1,234,567', '1.5e-07', '-2', '12,346', '4e+20', '2002')
    """
    if found is None:
        return NOTHING
    if not isinstance(found, (int, float)) or not math.isfinite(found):
        return str(found)
    full = f"{found:.0f}" if abs(found) < 9999.5 else f"{found:,.0f}"
    if found == int(found) and abs(found) < 1e12:
        return full
    return full if 1e3 <= abs(found) < 1e9 else f"{found:.4g}"


def share(found: Any) -> str:
    """A part of a whole; none and all are told from nearly none and nearly all.

    >>> share(0.1234), share(0), share(0.0001), share(0.99999), share(1)
    ('12%', '0%', '<0.1%', '>99.9%', '100%')
    """
    if found is None:
        return NOTHING
    if 0 < found < 0.001:
        return "<0.1%"
    if 0.999 < found < 1:
        return ">99.9%"
    return f"{found:.1%}" if 0 < found < 0.0995 or 0.9 < found < 1 else f"{found:.0%}"


def size(found: Any) -> str:
    """Bytes.

    >>> size(17_621_644)
    '17.6 MB'
    """
    return NOTHING if found is None else show_bytes(found, DIGITS)


def rate(found: Any) -> str:
    """Bytes a second.

    >>> rate(2e9)
    '2 GB/s'
    """
    return NOTHING if found is None else show_rate(found, DIGITS)


def duration(found: Any) -> str:
    """A time.

    >>> duration(0.0125), duration(0)
    ('12.5 ms', '0 s')
    """
    if found is None:
        return NOTHING
    return "0 s" if not found else show_seconds(found, DIGITS)


def when(found: Any) -> str:
    """A moment, from its seconds since 1970 or as ISO 8601 writes it.

    >>> when(0), when("2026-11-17T03:18:36+00:00"), when("then")
    ('1 January 1970, 00:00 UTC', '17 November 2026, 03:18 UTC', 'then')
    """
    if found is None:
        return NOTHING
    try:
        moment = (
            datetime.fromisoformat(found) if isinstance(found, str) else datetime.fromtimestamp(found, UTC)
        )
    except (ValueError, OverflowError, OSError):
        return str(found)
    moment = moment.astimezone(UTC) if moment.tzinfo else moment
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def sentence(found: str) -> str:
    """With a capital at its beginning.

    >>> sentence("reading bounds.")
    'Reading bounds.'
    """
    return found[:1].upper() + found[1:]


def kept(found: str) -> str:
    """With units that stay in the line of their numbers.

    >>> kept("it took 3 MB/s and 2 steps")
    'it took 3\xa0MB/s and 2 steps'
    """
    return UNIT.sub("\u00a0", found)


def plural(found: Any, one: str, many: str | None = None) -> str:
    """A count and its noun.

    >>> plural(1, "shard"), plural(1200, "shard")
    ('1 shard', '1,200 shards')
    """
    return f"{count(found)} {one if found == 1 else many or one + 's'}"
