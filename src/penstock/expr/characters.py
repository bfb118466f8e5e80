"""What Python takes for a digit, a letter or white space, as ranges of code points for a regular expression.

Read out of the running Python, so that engines with another version of Unicode agree with it. Used by the kernels of
`penstock.expr.ops.python_texts`.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache

TESTS = ("isdigit", "isalpha", "isalnum", "isspace", "isdecimal", "isnumeric")
"""Tests of which a text passes one if it is not empty and every character does."""


@lru_cache(maxsize=16)
def ranges(test: str) -> tuple[tuple[int, int], ...]:
    """The code points for which a test holds, surrogates aside.

    >>> ranges("isspace")[:3]
    ((9, 13), (28, 32), (133, 133))
    """
    holds = getattr(str, test)
    found: list[tuple[int, int]] = []
    start = -1
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and not 0xD800 <= code < 0xE000 and holds(chr(code))
        if inside and start < 0:
            start = code
        elif not inside and start >= 0:
            found.append((start, code - 1))
            start = -1
    return tuple(found)


@lru_cache(maxsize=16)
def java_class(test: str) -> str:
    """The same as a character class of Java's regular expressions.

    >>> print(java_class("isspace")[:24])
    [\\x{9}-\\x{d}\\x{1c}-\\x{20
    """
    return "[" + "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges(test)) + "]"


@lru_cache(maxsize=1)
def decimal_digits() -> tuple[str, str]:
    """Every decimal digit beyond ASCII, and the ASCII digit each stands for, in the same order.

    >>> other, plain = decimal_digits()
    >>> plain[other.index("\\u0663")]
    '3'
    """
    codes = [code for low, high in ranges("isdecimal") for code in range(low, high + 1) if code > 127]
    return "".join(map(chr, codes)), "".join(str(unicodedata.decimal(chr(code))) for code in codes)
