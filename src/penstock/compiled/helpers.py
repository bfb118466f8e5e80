"""The text of the arithmetic that a program calls: functions of `exact` and `exact_floats`, and the C library's."""

from __future__ import annotations

import inspect
import re

from penstock.compiled import exact, exact_floats
from penstock.compiled.calls import ONE_REAL

CHECKED = """def m_{name}(a):
    found = c_{name}(a)
    if found != found:
        if a == a:
            raise ValueError
    elif math.isinf(found) and not math.isinf(a):
        raise OverflowError
    return found
"""
"""A function of `math` as CPython checks it: nan only of nan, and an infinity only of one."""
NAME = re.compile(r"[A-Za-z_]\w*")


def texts() -> dict[str, str]:
    """The text of every helper, by name.

    >>> print(texts()["neg_m"])
    def neg_m(a: float) -> float:
        ...
    """
    found = {name: CHECKED.format(name=name[2:]) for name in (f"m_{one}" for one in ONE_REAL)}
    for module in (exact, exact_floats):
        for name, function in vars(module).items():
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                found[name] = inspect.getsource(function)
    return found


def needed(text: str) -> list[str]:
    """The text of every helper that a text names, and of those that these name, in an order in which they can stand."""
    known, found = texts(), dict[str, str]()

    def visit(one: str) -> None:
        for name in dict.fromkeys(NAME.findall(one)):
            if name in known and name not in found:
                body = known[name]
                visit(body.partition(":\n")[2])
                found.setdefault(name, body)

    visit(text)
    return list(found.values())
