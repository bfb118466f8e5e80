"""Methods of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.expr.words.base import Words

if TYPE_CHECKING:
    from penstock.expr.nodes import Expression


class Texts(Words):
    """What texts can do."""

    __slots__ = ()

    def lower(self) -> Expression:
        """In lower case, by Unicode's full mapping.

        Letters that came to Unicode after Python's or Java's release stay as they are in that engine.
        """
        return self._call("lower")

    def upper(self) -> Expression:
        """In upper case, by Unicode's full mapping: "ß" becomes "SS". About new letters see `lower`."""
        return self._call("upper")

    def strip(self) -> Expression:
        """Without the white space around it: all that Python's `str.strip` takes for it, no-break spaces too."""
        return self._call("strip")

    def length(self) -> Expression:
        """How many code points it has."""
        return self._call("length")

    def contains(self, text: str) -> Expression:
        """Whether the text is in it."""
        return self._call("contains", params={"text": text})

    def startswith(self, text: str) -> Expression:
        """Whether it begins with the text."""
        return self._call("startswith", params={"text": text})

    def endswith(self, text: str) -> Expression:
        """Whether it ends with the text."""
        return self._call("endswith", params={"text": text})

    def replace(self, old: str, new: str) -> Expression:
        """With every occurrence of a text replaced. No pattern: `old` means itself.

        >>> from penstock.expr.build import col
        >>> col("price").replace(",", "").cast("float64")
        col('price').replace(',', '').cast('float64')
        """
        return self._call("replace", params={"old": old, "new": new})

    def split(self, separator: str) -> Expression:
        """The list of parts between separators, empty ones included. No pattern: the separator means itself.

        >>> from penstock.expr.build import col
        >>> col("genres").split("|").hash(500).pad(4, 0)
        col('genres').split('|').hash(500).pad(4, 0)
        """
        return self._call("split", params={"separator": separator})

    def substring(self, start: int, length: int) -> Expression:
        """So many code points from a place on, counted from 0; fewer where the text ends."""
        return self._call("substring", params={"start": start, "length": length})

    def regex_extract(self, pattern: str, group: int = 1) -> Expression:
        r"""What a group of the pattern matched first; group 0 is all of it. Null where nothing matches.

        Patterns are those that RE2 and Java read the same way; others are refused with the reason.

        >>> from penstock.expr.build import col
        >>> col("url").regex_extract(r"item=(\d+)").cast("int64")
        col('url').regex_extract('item=(\\d+)', 1).cast('int64')
        """
        return self._call("regex_extract", params={"pattern": pattern, "group": group})
