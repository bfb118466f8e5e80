"""Dates: seasons, weekends, ages, fiscal years, epochs."""

from __future__ import annotations

from datetime import date, datetime


def is_weekend(d: date) -> bool:
    return d.weekday() >= 5


def season(d: date) -> str:
    if d.month in (12, 1, 2):
        return "winter"
    if d.month in (3, 4, 5):
        return "spring"
    if d.month in (6, 7, 8):
        return "summer"
    return "autumn"


def quarter(d: date) -> int:
    return (d.month - 1) // 3 + 1


def fiscal_year(d: date) -> int:
    return d.year + 1 if d.month >= 10 else d.year


def days_apart(a: date, b: date) -> int:
    return abs((a - b).days)


def age_on(birth: date, today: date) -> int:
    years = today.year - birth.year
    if (today.month, today.day) < (birth.month, birth.day):
        years -= 1
    return years


def year_month(d: date) -> str:
    return f"{d.year}-{d.month:02d}"


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if is_leap(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def minute_of_day(at: datetime) -> int:
    return at.hour * 60 + at.minute


def rush_hour(at: datetime) -> bool:
    return at.weekday() < 5 and (7 <= at.hour <= 9 or 16 <= at.hour <= 18)


def epoch_to_hour(epoch: int) -> int:
    return epoch // 3600 % 24


def iso_label(d: date) -> str:
    return d.strftime("%Y-%m-%d")


def parse_day(text: str) -> int:
    return datetime.strptime(text, "%Y-%m-%d").day


def month_name(month: int) -> str:
    names = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    return names[month - 1]


def overdue(due: date | None, today: date) -> bool:
    return due is not None and due < today


def shift(at: datetime) -> str:
    h = at.hour
    return "early" if 6 <= h < 14 else "late" if 14 <= h < 22 else "night"
