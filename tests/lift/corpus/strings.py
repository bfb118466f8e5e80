"""Strings: initials, slugs, checks, keys."""

from __future__ import annotations


def initials(first: str, last: str) -> str:
    return (first[:1] + last[:1]).upper()


def slug(title: str) -> str:
    return title.strip().lower().replace(" ", "-").replace("_", "-")


def is_palindrome(text: str) -> bool:
    t = text.lower().replace(" ", "")
    return t == t[::-1]


def full_name(first: str | None, last: str | None) -> str:
    parts = [first or "", last or ""]
    return " ".join(parts).strip()


def truncate(text: str, limit: int = 20) -> str:
    if len(text) <= limit:
        return text
    return text[: limit - 3] + "..."


def has_prefix(code: str) -> bool:
    return code.startswith(("AB", "CD", "X"))


def order_key(region: str, number: int) -> str:
    return f"{region.upper()}-{number:06d}"


def word_count(text: str) -> int:
    return len(text.split())


def vowels(text: str) -> int:
    t = text.lower()
    return t.count("a") + t.count("e") + t.count("i") + t.count("o") + t.count("u")


def middle(text: str) -> str:
    n = len(text)
    return text[n // 2] if n % 2 else text[n // 2 - 1 : n // 2 + 1]


def capital_share(text: str) -> float:
    if not text:
        return 0.0
    return sum(1 for c in text if c.isupper()) / len(text)


def check_digit(code: str) -> bool:
    return len(code) == 9 and code[:8].isdigit() and code[-1].isalpha()


def pad_id(n: int) -> str:
    return str(n).zfill(8)


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def describe(name: str, n: int) -> str:
    plural = "" if n == 1 else "s"
    return f"{n} {name}{plural}"


def same_ignoring_case(a: str, b: str) -> bool:
    return a.strip().lower() == b.strip().lower()


def last_name_first(name: str) -> str:
    parts = name.split()
    if len(parts) < 2:
        return name
    return parts[-1] + ", " + parts[0]


def contains_any(text: str) -> bool:
    t = text.lower()
    return any(word in t for word in ("refund", "cancel", "broken"))


def caesar(text: str) -> str:
    return "".join(chr((ord(c) - 97 + 3) % 26 + 97) for c in text)
