"""Cleaning: prices, amounts, ratings, e-mails, codes, as they come out of exports."""

from __future__ import annotations

import math
import re


def clean_price(raw: str | None) -> float | None:
    if raw is None:
        return None
    text = raw.strip().replace("$", "").replace(",", "")
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def clean_percentage(raw: str) -> float:
    s = raw.strip()
    if s.endswith("%"):
        return float(s[:-1]) / 100
    return float(s)


def clip_outlier(x: float) -> float:
    return max(-3.0, min(3.0, x))


def fix_negative_age(age: int) -> int:
    return abs(age) if age < 0 else age


def sentinel_to_none(value: float) -> float | None:
    return None if value in (-999.0, -9999.0, 9999.0) else value


def nan_to_zero(x: float) -> float:
    if math.isnan(x):
        return 0.0
    return x


def normalize_gender(raw: str | None) -> str:
    if not raw:
        return "unknown"
    g = raw.strip().lower()
    if g in ("m", "male", "man"):
        return "male"
    if g in ("f", "female", "woman"):
        return "female"
    return "other"


YES = {"y", "yes", "true", "1", "t"}
NO = {"n", "no", "false", "0", "f"}


def parse_flag(raw: str) -> bool | None:
    v = raw.strip().lower()
    if v in YES:
        return True
    if v in NO:
        return False
    return None


def clean_phone(raw: str) -> str:
    digits = raw.replace("-", "").replace(" ", "").replace("(", "").replace(")", "")
    if digits.startswith("+1"):
        digits = digits[2:]
    if len(digits) == 10 and digits.isdigit():
        return digits[:3] + "-" + digits[3:6] + "-" + digits[6:]
    return ""


def valid_email(email: str) -> bool:
    at = email.find("@")
    return at > 0 and "." in email[at:] and " " not in email


def mask_card(number: str) -> str:
    clean = number.replace(" ", "")
    return "*" * (len(clean) - 4) + clean[-4:]


def zip5(code: str) -> str:
    return code.strip().split("-")[0].zfill(5)


def collapse_spaces(text: str) -> str:
    return " ".join(text.split())


def strip_accents_marker(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


def tidy_name(name: str) -> str:
    return name.strip().title()


def celsius(temp: float, unit: str) -> float:
    if unit == "F":
        return (temp - 32) * 5 / 9
    elif unit == "K":
        return temp - 273.15
    return temp


def clean_rating(stars: str) -> int | None:
    if stars.isdigit():
        n = int(stars)
        if 1 <= n <= 5:
            return n
    return None
