"""What ranks print, line by line and as it comes, each line marked with its rank.

`Lines` cuts one stream's bytes into lines; `show` prints one. A progress bar redraws its line many times a second by
returning to its beginning: of those, one a second is a line here.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable

LONGEST = 64 << 10
"""Bytes after which a line is shown although it has not ended."""
REDRAWN = 1.0
"""Seconds between two showings of a line that is redrawn."""

Show = Callable[[int, bool, str], None]
"""Takes a rank, whether it is standard error, and a line."""

_printing = threading.Lock()


class Lines:
    """Lines of one stream.

    >>> lines = Lines()
    >>> lines.feed(b"one\\ntw"), lines.feed(b"o\\r\\n"), lines.feed(b"rest"), lines.end()
    (['one'], ['two'], [], ['rest'])
    """

    def __init__(self) -> None:
        self._rest = b""
        self._redrawn = float("-inf")

    def feed(self, data: bytes) -> list[str]:
        """The lines that are whole now."""
        *whole, self._rest = re.split(rb"(?<=\n)|(?<=\r)(?!\n|\Z)", self._rest + data)
        if len(self._rest) > LONGEST:
            whole, self._rest = [*whole, self._rest], b""
        return [_text(piece) for piece in whole if piece and self._wanted(piece)]

    def _wanted(self, piece: bytes) -> bool:
        if not piece.endswith(b"\r"):
            return True
        now = time.monotonic()
        if not piece.strip() or now - self._redrawn < REDRAWN:
            return False
        self._redrawn = now
        return True

    def end(self) -> list[str]:
        """What is left when the stream has ended."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest.strip() else []


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "replace").rstrip("\r\n")


def show(rank: int, error: bool, line: str) -> None:
    """Print a rank's line, on standard output or error as the rank did."""
    stream = sys.stderr if error else sys.stdout
    text = f"[rank {rank}] {line}\n"
    with _printing:
        try:
            stream.write(text)
        except UnicodeEncodeError:  # a log in ASCII must not end a training
            encoding = stream.encoding
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
