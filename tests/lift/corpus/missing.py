"""None handling: coalescing, defaults, safe arithmetic."""

from __future__ import annotations


def coalesce(a: float | None, b: float | None, c: float | None) -> float:
    if a is not None:
        return a
    if b is not None:
        return b
    return c if c is not None else 0.0


def safe_divide(a: float | None, b: float | None) -> float | None:
    if a is None or b is None or b == 0:
        return None
    return a / b


def default_name(name: str | None) -> str:
    return name or "anonymous"


def add_known(a: int | None, b: int | None) -> int:
    return (a or 0) + (b or 0)


def count_missing(a: float | None, b: float | None, c: float | None) -> int:
    return sum(x is None for x in (a, b, c))


def mean_known(a: float | None, b: float | None, c: float | None) -> float | None:
    total = 0.0
    n = 0
    for x in (a, b, c):
        if x is not None:
            total += x
            n += 1
    return total / n if n else None


def change(before: float | None, after: float | None) -> float | None:
    if not before or after is None:
        return None
    return (after - before) / before


def has_value(text: str | None) -> bool:
    return text is not None and text.strip() != ""


def length_or_none(text: str | None) -> int | None:
    return len(text) if text else None


def none_if_negative(x: float | None) -> float | None:
    return x if x is not None and x >= 0 else None


def larger(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    if b is None:
        return a
    return max(a, b)


def forgot_none(x: float | None) -> float:
    return x * 2


def maybe_flag(active: bool | None) -> str:
    if active is None:
        return "unknown"
    return "yes" if active else "no"


def first_known_text(a: str | None, b: str | None) -> str | None:
    for t in (a, b):
        if t is not None and t.strip():
            return t.strip()
    return None
