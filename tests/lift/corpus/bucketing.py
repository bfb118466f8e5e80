"""Bucketing: ages, incomes, hours, scores into groups."""

from __future__ import annotations

import bisect
import math


def age_group(age: int) -> str:
    if age < 0:
        return "invalid"
    elif age < 18:
        return "minor"
    elif age < 35:
        return "young adult"
    elif age < 65:
        return "adult"
    else:
        return "senior"


def decile(score: float) -> int:
    return min(int(score * 10), 9)


def income_band(income: float | None) -> str:
    if income is None or math.isnan(income):
        return "missing"
    for limit, name in ((20000, "low"), (60000, "middle"), (150000, "upper")):
        if income < limit:
            return name
    return "top"


def part_of_day(hour: int) -> str:
    if 5 <= hour < 12:
        return "morning"
    if 12 <= hour < 17:
        return "afternoon"
    if 17 <= hour < 22:
        return "evening"
    return "night"


def size_bucket(n: int) -> int:
    bucket = 0
    if n > 10:
        bucket += 1
    if n > 100:
        bucket += 1
    if n > 1000:
        bucket += 1
    return bucket


def round_down_to_50(x: int) -> int:
    return x // 50 * 50


def quartile(x: float, q1: float, q2: float, q3: float) -> int:
    return 1 if x <= q1 else 2 if x <= q2 else 3 if x <= q3 else 4


EDGES = [0, 10, 25, 50, 100]


def bisect_bucket(x: float) -> int:
    return bisect.bisect_right(EDGES, x)


def bmi_class(weight_kg: float, height_m: float) -> str:
    bmi = weight_kg / height_m**2
    if bmi < 18.5:
        return "underweight"
    if bmi < 25:
        return "normal"
    if bmi < 30:
        return "overweight"
    return "obese"


GRADES = {"A": 90, "B": 80, "C": 70, "D": 60}


def letter_grade(points: float) -> str:
    for letter, least in GRADES.items():
        if points >= least:
            return letter
    return "F"


def log_bucket(x: float) -> int:
    if x <= 0:
        return -1
    return int(math.log10(x))


def hour_angle_bucket(degrees: float) -> int:
    return int((degrees % 360) // 30)


def price_tier(price: float, currency: str = "USD") -> str:
    rate = {"USD": 1.0, "EUR": 1.1, "GBP": 1.3}.get(currency, 1.0)
    usd = price * rate
    return "cheap" if usd < 10 else "fair" if usd < 100 else "expensive"


def latency_class(ms: float) -> int:
    thresholds = (50, 100, 250, 500, 1000)
    return sum(ms > t for t in thresholds)


def hash_bucket(key: str) -> int:
    return hash(key) % 16


def even_odd(n: int) -> str:
    return "even" if n % 2 == 0 else "odd"
