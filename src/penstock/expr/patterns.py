"""Regular expressions, in the part where RE2 (Arrow) and Java (Spark) say the same.

`parse_pattern` reads a pattern and writes it anew, in a spelling that both engines take for the same: `.` is any
character but a line feed, `\\d`, `\\w` and `\\s` are ASCII, `^` and `$` are the text's begin and end. What the
engines see differently is refused with the reason. Used by `penstock.expr.ops.texts` and by the engines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from penstock.errors import ExpressionError

SETS = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\x0b\f\r "}
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
WHITE = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
"""The white space that `strip` removes: what `str.strip` does. There is none beyond U+3000."""
MOST_REPEATS = 1000
"""RE2's limit for one repetition."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern in the spelling both engines share, and how many groups it captures."""

    text: str
    groups: int


@lru_cache(maxsize=256)
def parse_pattern(pattern: str) -> Pattern:
    r"""A pattern in the common spelling, or an error that says what is not common.

    >>> parse_pattern(r"^id-(\d+)")
    Pattern(text='\\Aid\\-([0-9]+)', groups=1)
    """
    reader = _Reader(pattern)
    text, _, _ = reader.alternatives()
    if reader.place < len(pattern):
        reader.refuse("a closing parenthesis without its opening one")
    return Pattern(text, reader.groups)


Piece = tuple[str, bool, bool]
"""The text, whether it can match nothing, and whether it captures."""


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.groups = 0

    def refuse(self, what: str, instead: str = "") -> None:
        raise ExpressionError(
            f"the pattern {self.pattern!r}, at character {self.place}: {what} is not offered, because engines differ "
            f"in it or lack it. {instead}".strip()
        )

    def peek(self, count: int = 1) -> str:
        return self.pattern[self.place : self.place + count]

    def take(self) -> str:
        character = self.peek()
        if not character:
            self.refuse("a pattern that ends in the middle")
        self.place += 1
        return character

    def alternatives(self) -> Piece:
        branches = [self.sequence()]
        while self.peek() == "|":
            self.place += 1
            branches.append(self.sequence())
        return (
            "|".join(text for text, _, _ in branches),
            any(empty for _, empty, _ in branches),
            any(captures for _, _, captures in branches),
        )

    def sequence(self) -> Piece:
        texts, can_be_empty, captures = [], True, False
        while self.peek() and self.peek() not in "|)":
            text, empty, captured = self.quantified(self.atom())
            texts.append(text)
            can_be_empty, captures = can_be_empty and empty, captures or captured
        return "".join(texts), can_be_empty, captures

    def quantified(self, atom: Piece) -> Piece:
        text, empty, captures = atom
        found = re.compile(r"[*+?]|\{(\d+)(?:(,)(\d*))?\}").match(self.pattern, self.place)
        if found is None:
            if self.peek() == "{":
                self.refuse("a brace that is no repetition", r"Write \{ for the character.")
            return atom
        if empty:
            self.refuse("a repetition of what can match nothing")
        if captures and found[0] != "?" and not text.startswith("("):
            self.refuse("a repetition around a group", "Use (?:...) inside.")
        if captures and found[0] != "?" and text.count("(") - text.count(r"\(") > 1:
            self.refuse("a repetition around a group", "Use (?:...) inside.")
        least = 0 if found[0] in "*?" else 1 if found[0] == "+" else int(found[1])
        most = int(found[3] or found[1]) if found[1] else 0
        if max(least, most) > MOST_REPEATS or (found[3] and most < least):
            self.refuse(f"a repetition outside 0 to {MOST_REPEATS}, or backwards,")
        self.place = found.end()
        lazy = self.peek() == "?"
        self.place += lazy
        if self.peek() and self.peek() in "*+?{":
            self.refuse("a repetition of a repetition, or one that gives nothing back (possessive)")
        return text + found[0] + "?" * lazy, least == 0, captures

    def atom(self) -> Piece:
        character = self.take()
        if character == "(":
            return self.group()
        if character == "[":
            return self.klass(), False, False
        if character == ".":
            return r"[^\n]", False, False
        if character in "^$":
            if self.peek() and self.peek() in "*+?{":
                self.refuse("a repetition of an anchor")
            return (r"\A" if character == "^" else r"\z"), True, False
        if character in "*+?{":
            self.place -= 1
            self.refuse("a repetition of nothing")
        if character == "\\":
            escaped = self.take()
            if escaped.lower() in SETS:
                return f"[{'^' * escaped.isupper()}{SETS[escaped.lower()]}]", False, False
            return _literal(self.escaped(escaped)), False, False
        return _literal(character), False, False

    def escaped(self, character: str) -> str:
        if character in CONTROLS:
            return CONTROLS[character]
        if character.isascii() and not character.isalnum():
            return character
        self.refuse(f"\\{character}", "Escapes are \\d \\w \\s \\t \\n \\r \\f and punctuation.")
        raise AssertionError("unreachable: refuse raises")

    def group(self) -> Piece:
        captures = True
        if self.peek() == "?":
            if self.peek(2) != "?:":
                self.refuse(
                    "a group of this kind (flags, names, looking ahead or behind)", "Use (...) or (?:...)."
                )
            self.place += 2
            captures = False
        else:
            self.groups += 1
        text, empty, inside = self.alternatives()
        if self.peek() != ")":
            self.refuse("a group without its end")
        self.place += 1
        return f"({'' if captures else '?:'}{text})", empty, captures or inside

    def klass(self) -> str:
        negated = self.peek() == "^"
        self.place += negated
        parts: list[str] = []
        while self.peek() != "]" or not parts:
            low = self.member()
            if len(low) != 1:
                parts.append(low[1:])
                continue
            if self.peek() == "-" and self.peek(2) != "-]":
                self.place += 1
                high = self.member()
                if len(high) != 1 or high < low:
                    self.refuse("a range backwards, or to a set")
                parts.append(f"{_literal(low)}-{_literal(high)}")
            else:
                parts.append(_literal(low))
        self.place += 1
        return f"[{'^' * negated}{''.join(parts)}]"

    def member(self) -> str:
        """A character, or a set as `\\` and what it holds."""
        character = self.take()
        if character == "[":
            self.refuse("[ inside [...]", r"Write \[ for the character.")
        if character != "\\":
            return character
        escaped = self.take()
        if escaped in SETS:
            return "\\" + SETS[escaped]
        return self.escaped(escaped)


def _literal(character: str) -> str:
    """A character as itself, inside and outside [...]; both engines take a backslash before punctuation."""
    if character in "\t\n\r\f":
        return "\\" + {value: name for name, value in CONTROLS.items()}[character]
    return (
        "\\" + character
        if character.isascii() and character.isprintable() and not character.isalnum()
        else character
    )
