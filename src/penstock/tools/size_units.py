"""Units as people write them, in and out: "2 GB/s", "3 min", "1.5 TiB", "2e9"; for `penstock size`.

What is read is exact: "0.2 GB/s" is 200,000,000 bytes a second, to the last digit. What is written has four digits,
and can be read back. Bytes count in powers of ten, and in powers of two where the unit says so (KiB, MiB, ...).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, DecimalException

from penstock.errors import SizeError

BYTES = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTPE", 1)},
    "KB": 1000,
}
"""With their case: b is a bit, and B a byte."""
SECONDS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Decimal(1)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), Decimal(60)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Decimal(3600)),
    **dict.fromkeys(("d", "day", "days"), Decimal(86400)),
}
"""In any case."""
COUNTS = {
    **dict.fromkeys(("k", "thousand", "thousands"), 10**3),
    **dict.fromkeys(("m", "million", "millions"), 10**6),
    **dict.fromkeys(("g", "billion", "billions"), 10**9),
    **dict.fromkeys(("t", "trillion", "trillions"), 10**12),
}
"""In any case."""
MOST = 10**24
"""Beyond it a number is a mistake."""

LEAST_BARE_RATE = 1000
"""Bytes a second; a text that says less has to name its unit."""

Amount = str | float
"""A number in the base unit (bytes, seconds, rows), or a text with a unit."""

# A comma stands before three digits alone: in much of the world 2,5 is two and a half, and must not become 25.
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9][0-9_]*)"
_NUMBER = rf"{_WHOLE}(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
_PART = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµ]*)\s*")


def count(given: Amount, what: str = "rows") -> int:
    """A whole number of at least 1.

    >>> count("2e9"), count(2e9), count("336,776"), count("2 billion")
    (2000000000, 2000000000, 336776, 2000000000)
    """
    found = _one(given, COUNTS, what, "2e9, 2_000_000 or '2 billion'")
    if found != int(found) or found < 1:
        raise SizeError(f"{what}={given!r}: a whole number of at least 1 is wanted.")
    return int(found)


def size(given: Amount, what: str = "bytes") -> int:
    """Bytes, rounded up.

    >>> size("1.5 TiB"), size("16MB"), size(2e9)
    (1649267441664, 16000000, 2000000000)
    """
    return -int(-_one(given, BYTES, what, "'1.5 TiB' or 2e9") // 1)


def rate(given: Amount, what: str = "bandwidth") -> float:
    """Bytes a second. Networks are sold in bits, so those are understood: "16 Gbit/s".

    >>> rate("2 GB/s"), rate("0.2 GB/s"), rate("16 Gbit/s"), rate(2e9)
    (2000000000.0, 200000000.0, 2000000000.0, 2000000000.0)
    """
    example = "'2 GB/s', '16 Gbit/s' or 2e9"
    if isinstance(given, str):
        text = re.sub(r"\s*(/\s*(?i:s|secs?|seconds?)|ps)\s*$", "", given)
        bits = re.fullmatch(rf"\s*({_NUMBER})\s*([kKMGT]?)(?:bits?|b)\s*", text)
        if bits:
            scale = 1000 ** " KMGT".index(bits[2].upper() or " ")
            found = _decimal(bits[1], given, what, example) * scale / 8
        elif text == given and _PART.fullmatch(text) and not _bare(text):
            raise SizeError(f"{what}={given!r} is a size, not a speed. Write {example}.")
        else:
            found = _one(text, BYTES, what, example, seen=given)
            # Whoever writes 2 means gigabytes, or gigabits; nobody means 2 bytes a second.
            if _bare(text) and 0 < found < LEAST_BARE_RATE:
                raise SizeError(
                    f"{what}={given!r} has no unit, and would be bytes a second. Write {example}."
                )
    else:
        found = _one(given, {}, what, example)
    return _positive(found, given, what, example)


def seconds(given: Amount, what: str = "time") -> float:
    """A time in seconds; several parts add up.

    >>> seconds("3 min"), seconds("1h30m"), seconds("12.5 ms"), seconds(64), seconds("64")
    (180.0, 5400.0, 0.0125, 64.0, 64.0)
    """
    example = "'3 min', '1h 30min', '250 ms' or 180 (seconds)"
    if not isinstance(given, str) or _bare(given):
        return _positive(_one(given, {}, what, example), given, what, example)
    total, at = Decimal(0), 0
    while at < len(given):
        part = _PART.match(given, at)
        if not part or part[2].lower() not in SECONDS:
            raise SizeError(
                f"{what}={given!r} is no time that is understood. Write {example}.{_commas(given)}"
            )
        total += _decimal(part[1], given, what, example) * SECONDS[part[2].lower()]
        at = part.end()
    return _positive(total, given, what, example)


def show_bytes(found: float, digits: int = 4) -> str:
    """Bytes in so many digits.

    >>> show_bytes(2.048e12), show_bytes(128e9), show_bytes(999_999), show_bytes(12)
    ('2.048 TB', '128 GB', '1 MB', '12 B')
    """
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    return _show(found, [(1000**power, unit) for power, unit in enumerate(units)], digits)


def show_rate(found: float, digits: int = 4) -> str:
    """Bytes a second in so many digits.

    >>> show_rate(711_111_111.1)
    '711.1 MB/s'
    """
    return f"{show_bytes(found, digits)}/s"


def show_seconds(found: float, digits: int = 4) -> str:
    """A time in so many digits; up to twenty minutes in seconds, which are easily compared.

    >>> show_seconds(64), show_seconds(640), show_seconds(0.0125), show_seconds(5400), show_seconds(86400 * 3)
    ('64 s', '640 s', '12.5 ms', '90 min', '3 d')
    """
    scales = [(1e-6, "us"), (1e-3, "ms"), (1.0, "s"), (60.0, "min"), (3600.0, "h"), (86400.0, "d")]
    edges = [0.0, 1e-3, 1.0, 1200.0, 7200.0, 172800.0]
    place = max(number for number, edge in enumerate(edges) if found >= edge)
    return _digits(found / scales[place][0], scales[place][1], digits)


def show_count(found: float) -> str:
    """A count in full.

    >>> show_count(2_000_000_000)
    '2,000,000,000'
    """
    return f"{found:,.0f}"


def show_many(found: float, one: str) -> str:
    """A count in full, and its noun.

    >>> show_many(1, "row"), show_many(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{show_count(found)} {one}{'' if found == 1 else 's'}"


def _show(found: float, scales: list[tuple[int, str]], digits: int) -> str:
    for number, (scale, unit) in enumerate(scales):
        # Rounded first: 999,999 bytes are 1 MB in four digits, not 1000 kB.
        if float(f"{found / scale:.{digits}g}") < 1000 or number == len(scales) - 1:
            return _digits(found / scale, unit, digits)
    raise AssertionError("unreachable: the last unit always returns")


def _digits(found: float, unit: str, digits: int) -> str:
    rounded = float(f"{found:.{digits}g}")
    return f"{rounded:.10f}".rstrip("0").rstrip(".") + f" {unit}"


def _one(
    given: Amount, units: Mapping[str, int], what: str, example: str, seen: Amount | None = None
) -> Decimal:
    """One number with one unit, exactly."""
    shown = given if seen is None else seen
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        raise SizeError(f"{what}={shown!r} is neither a number nor a text. Write {example}.")
    if not isinstance(given, str):
        return _limited(Decimal(given), shown, what)
    part = _PART.fullmatch(given)
    unit = part[2] if part else ""
    # No unit of bytes is in small letters alone, so that these are only found as they are written.
    unit = unit if unit in units else unit.lower()
    if not part or (unit and unit not in units):
        known = f" Units are {', '.join(units)}." if part and units else ""
        raise SizeError(f"{what}={shown!r} is not understood. Write {example}.{known}{_commas(given)}")
    return _limited(_decimal(part[1], shown, what, example) * (units[unit] if unit else 1), shown, what)


def _decimal(text: str, given: Amount, what: str, example: str) -> Decimal:
    try:
        return Decimal(text.replace(",", "").replace("_", ""))
    except DecimalException:
        raise SizeError(f"{what}={given!r} is not understood. Write {example}.") from None


def _commas(text: str) -> str:
    """What a comma means, where there is one."""
    return " Commas are for thousands: 2,500 is 2500; for two and a half write 2.5." if "," in text else ""


def _limited(found: Decimal, given: Amount, what: str) -> Decimal:
    if not found.is_finite() or not 0 <= found <= MOST:
        raise SizeError(f"{what}={given!r}: a number from 0 to {MOST:.0e} is wanted.")
    return found


def _positive(found: Decimal, given: Amount, what: str, example: str) -> float:
    value = float(_limited(found, given, what))
    if value < 1e-12:
        raise SizeError(f"{what}={given!r}: it has to be more than nothing. Write {example}.")
    return value


def _bare(text: str) -> bool:
    """Whether it is a number without a unit."""
    part = _PART.fullmatch(text)
    return part is not None and not part[2]
