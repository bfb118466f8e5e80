"""Small pieces of HTML and SVG, made so that whatever is in the data stays text. `charts` puts them together."""

from __future__ import annotations

from html import escape


class Drawn(str):
    """Markup of our own making, which a template leaves as it is.

    >>> Drawn("<b>").__html__()
    '<b>'
    """

    def __html__(self) -> str:
        return str(self)

    def __add__(self, other: str) -> Drawn:
        return Drawn(str(self) + (other if isinstance(other, Drawn) else escape(other)))


def tag(name: str, *content: str, title: str | None = None, **attributes: object) -> Drawn:
    """An element; texts and attributes are escaped, `Drawn` is not, and a title is what is seen when pointing at it.

    >>> print(tag("p", "a < b", cls="note", data_at=3))
    <p class="note" data-at="3">a &lt; b</p>
    """
    named = {"cls": "class", "hint": "title"}
    said = "".join(
        f' {named.get(key, key.replace("_", "-"))}="{escape(shown(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = [] if title is None else [Drawn(f"<title>{escape(title)}</title>")]
    inner = "".join(each if isinstance(each, Drawn) else escape(each) for each in [*inside, *content])
    return Drawn(f"<{name}{said}>{inner}</{name}>")


def shown(value: object) -> str:
    """A coordinate in as few letters as it needs.

    >>> shown(12.50001), shown(3.0), shown("a")
    ('12.5', '3', 'a')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def svg(*content: str, width: float, height: float, label: str) -> Drawn:
    """A drawing that is stretched to its place; `label` tells it to who cannot see it."""
    return tag(
        "svg",
        *content,
        viewBox=f"0 0 {shown(width)} {shown(height)}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def percent(part: float) -> str:
    """A share as CSS writes it.

    >>> percent(0.25)
    '25%'
    """
    return f"{shown(100.0 * part)}%"
