"""Checksums of bytes, in the words a manifest uses.

xxh3-64 where the machine has xxhash, which runs at memory speed; else crc32, which Python always has. Executors may
lack xxhash, so every shard names its own kind and readers take either.
"""

from __future__ import annotations

import zlib
from typing import Any, Protocol

from penstock.errors import MissingDependency

XXH3, CRC32 = "xxh3-64", "crc32"


class Checksum(Protocol):
    """A running checksum."""

    def update(self, data: Any) -> None:
        """Take bytes in."""

    def value(self) -> int:
        """The checksum of everything so far."""


class _Xxh3:
    def __init__(self) -> None:
        import xxhash

        self._hash = xxhash.xxh3_64()

    def update(self, data: Any) -> None:
        self._hash.update(data)

    def value(self) -> int:
        return int(self._hash.intdigest())


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Any) -> None:
        self._value = zlib.crc32(data, self._value)

    def value(self) -> int:
        return self._value


def best_kind() -> str:
    """The best kind this machine can compute.

    >>> best_kind()
    'xxh3-64'
    """
    try:
        import xxhash  # noqa: F401
    except ImportError:
        return CRC32
    return XXH3


def new(kind: str) -> Checksum:
    """A running checksum of this kind."""
    if kind == XXH3:
        try:
            return _Xxh3()
        except ImportError:
            raise MissingDependency("xxhash", extra="core") from None
    if kind == CRC32:
        return _Crc32()
    raise ValueError(f"checksum kind {kind!r} is not known; known are {XXH3!r} and {CRC32!r}")


def of(kind: str, *pieces: Any) -> int:
    """The checksum of some bytes.

    >>> of("crc32", b"ab", b"c") == of("crc32", b"abc")
    True
    """
    running = new(kind)
    for piece in pieces:
        running.update(piece)
    return running.value()


def text(kind: str, value: int) -> str:
    """How a manifest writes a checksum.

    >>> text("crc32", 255)
    'crc32:00000000000000ff'
    """
    return f"{kind}:{value:016x}"


def parse(written: str) -> tuple[str, int]:
    """Kind and value of a checksum as a manifest writes it; ValueError where it is none.

    >>> parse("crc32:00000000000000ff")
    ('crc32', 255)
    """
    kind, _, digits = written.partition(":")
    if kind not in (XXH3, CRC32) or len(digits) != 16 or set(digits) - set("0123456789abcdef"):
        raise ValueError(f"{written!r:.100} is not a checksum")
    return kind, int(digits, 16)
