"""One small interface over wherever a dataset lies, and `open_store`, which picks what fits a path.

Names are relative posix paths such as `shards/a.arrow`. A name that is not there is a `FileNotFoundError`, a range past
a file's end an `EOFError`; all that a disk or network refuses is a `StorageError`. Reading may happen in many threads.
`stores` holds the three kinds, what executors write through, and the cache that may stand before a far one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from penstock.dataset.stores.arrow import ArrowStore
from penstock.dataset.stores.cached import CachedStore, Content, knowing, uncached, with_cache
from penstock.dataset.stores.disk_cache import DiskCache, disk_cache
from penstock.dataset.stores.local import LocalStore
from penstock.dataset.stores.objects import SCHEMES, ObjectStore
from penstock.dataset.stores.terms import Entry, Target
from penstock.errors import StorageError

__all__ = [
    "CachedStore",
    "Content",
    "DiskCache",
    "Entry",
    "Store",
    "Target",
    "disk_cache",
    "knowing",
    "open_store",
    "uncached",
    "with_cache",
]


class Store(Protocol):
    """Storage below a dataset's root."""

    root: str
    """As the user wrote it."""
    exclusive: bool
    """Whether of writers that create one name at once exactly one succeeds."""
    local: str | None
    """The folder, where it is one of this machine."""

    def locate(self, name: str) -> str:
        """The full path or address of a name, for messages."""

    def prepare(self) -> None:
        """See that the root can be written, making what folders it needs."""

    def read(self, name: str) -> bytes:
        """The whole file."""

    def read_range(self, name: str, offset: int, length: int) -> Any:
        """Exactly these bytes, as something bytes-like."""

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        """Exactly these (offset, length), in their order; in parallel where that helps."""

    def size(self, name: str) -> int:
        """Bytes of the file."""

    def open_input(self, name: str) -> Any:
        """A seekable file that pyarrow's readers take."""

    def entries(self, folder: str = "") -> list[Entry]:
        """All files below a folder, sorted by name; none when there is no such folder."""

    def create(self, name: str, data: Any) -> bool:
        """Write a new file, whole or not at all; False when the name is taken."""

    def put(self, name: str, data: Any) -> None:
        """Write a file, whole or not at all, in place of one that may be there."""

    def touch(self, name: str) -> None:
        """Write an empty file, or make the one that is there young: a sign, which need not outlive a loss of power."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove files; those that are not there are fine."""

    def target(self) -> Target:
        """The same place as executors write to it."""


def open_store(path: str | os.PathLike[str]) -> Store:
    """The store for a path or address. Nothing is read or written yet.

    >>> open_store("/data/train").locate("shards/a.arrow")
    '/data/train/shards/a.arrow'
    """
    text = os.fspath(path)
    scheme, separator, _ = text.partition("://")
    if not separator:
        return LocalStore(text)
    if scheme == "file":
        return LocalStore(unquote(urlsplit(text).path))
    if not urlsplit(text).netloc and scheme in SCHEMES:
        remedy = f"Write it as {scheme}://bucket/folder."
        raise StorageError("open", text, "it names no bucket", remedy)
    return ObjectStore(text) if scheme in SCHEMES else ArrowStore(text)
