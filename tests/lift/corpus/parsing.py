"""Parsing: versions, key=value pairs, durations, log lines, coordinates."""

from __future__ import annotations

import json


def domain_of(email: str) -> str | None:
    if "@" not in email:
        return None
    return email.split("@")[1].lower()


def file_extension(path: str) -> str:
    name = path.split("/")[-1]
    if "." not in name:
        return ""
    return name.split(".")[-1].lower()


def parse_duration(text: str) -> int:
    """'hh:mm:ss' to seconds."""
    parts = text.split(":")
    return int(parts[0]) * 3600 + int(parts[1]) * 60 + int(parts[2])


def major_version(v: str) -> int:
    v = v.strip().lower().removeprefix("v")
    return int(v.split(".")[0])


def parse_money(text: str) -> float:
    sign = 1
    if text.startswith("(") and text.endswith(")"):
        sign = -1
        text = text[1:-1]
    for symbol in ("$", "€", "£", ","):
        text = text.replace(symbol, "")
    return sign * float(text)


def parse_kilo(text: str) -> float:
    units = {"K": 1e3, "M": 1e6, "B": 1e9}
    suffix = text[-1].upper()
    if suffix in units:
        return float(text[:-1]) * units[suffix]
    return float(text)


def query_value(pair: str) -> str:
    at = pair.find("=")
    if at == -1:
        return ""
    return pair[at + 1 :]


def utm_source(url: str) -> str | None:
    marker = "utm_source="
    start = url.find(marker)
    if start < 0:
        return None
    rest = url[start + len(marker) :]
    end = rest.find("&")
    return rest if end < 0 else rest[:end]


def safe_int(text: str | None) -> int:
    try:
        return int(text)
    except (TypeError, ValueError):
        return 0


def year_from_text(text: str) -> int | None:
    head = text[:4]
    if len(head) == 4 and head.isdigit():
        return int(head)
    return None


def sku_category(sku: str) -> str:
    prefix, _, rest = sku.partition("-")
    return prefix if rest else "none"


def json_field(blob: str) -> float:
    return json.loads(blob)["value"]


def roman_to_int(text: str) -> int:
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
    total = 0
    previous = 0
    for c in reversed(text):
        value = values[c]
        total += value if value >= previous else -value
        previous = value
    return total


def hex_to_int(code: str) -> int:
    return int(code.lstrip("#"), 16)


def country_from_locale(locale: str) -> str:
    return locale.replace("_", "-").split("-")[-1].upper()


def first_word(text: str) -> str:
    words = text.split()
    return words[0] if words else ""
