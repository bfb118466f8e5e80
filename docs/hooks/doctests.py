"""Lets the reference show the examples of docstrings as code: Markdown would take `>>>` for quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n\1 *\S.*)*", re.MULTILINE)
"""From its first prompt to the next empty line."""


def fenced(text: str) -> str:
    """The text with a fence around every example."""
    return EXAMPLE.sub(
        lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text
    )


class Doctests(griffe.Extension):
    """Puts the fences around."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Each object's docstring, once it is read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
