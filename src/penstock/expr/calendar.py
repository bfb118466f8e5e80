"""Days and microseconds to years, months, hours: integer arithmetic that NumPy arrays and tensors both take.

`//` and `%` must floor, as they do for both. The calendar is the Gregorian one, also before it was invented, which
is what Spark, Arrow and Python do as well.
"""

from __future__ import annotations

from typing import Any

DAY = 86_400_000_000
"""Microseconds of a day."""
SECOND = 1_000_000


def civil(days: Any) -> tuple[Any, Any, Any]:
    """Year, month and day of days since 1970-01-01 (Howard Hinnant's algorithm, with years from March to February).

    >>> civil(0), civil(19782)
    ((1970, 1, 1), (2024, 2, 29))
    """
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    march = (5 * of_year + 2) // 153
    january = march // 10  # 1 for January and February, which belong to the next year
    return years + era * 400 + january, march + 3 - 12 * january, of_year - (153 * march + 2) // 5 + 1


def first_day(year: Any) -> Any:
    """The day number of January 1 of a year.

    >>> first_day(1970), first_day(1971)
    (0, 365)
    """
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 - 719_162


def field(name: str, days: Any, micros: Any) -> Any:
    """A field of a day and of the microseconds since its midnight.

    >>> field("weekday", 0, 0), field("day_of_year", 19782, 0), field("minute", 0, 61_000_000)
    (3, 60, 1)
    """
    if name == "weekday":
        return (days + 3) % 7
    if name == "hour":
        return micros // (3600 * SECOND)
    if name == "minute":
        return micros // (60 * SECOND) % 60
    if name == "second":
        return micros // SECOND % 60
    year, month, day = civil(days)
    if name == "day_of_year":
        return days - first_day(year) + 1
    return {"year": year, "month": month, "day": day}[name]
