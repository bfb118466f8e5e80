"""A store that is far away, with the bytes of its data files kept on a disk of this machine (`disk_cache`).

Only files whose content is known beforehand are kept (`knowing`): shards by the checksum in their manifest, plain
files by the size, time and tag they were listed with. Their keys carry that, and where the dataset lies, so neither
datasets nor versions nor stores mix, and a file that was replaced is read anew. Manifests, indexes and listings
always come from the store itself, and what is written goes there. See `store` for the contract.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.dataset.stores.disk_cache import DiskCache
from penstock.dataset.stores.objects import AT_ONCE, neighbours
from penstock.dataset.stores.terms import Entry, Target, ended_early

if TYPE_CHECKING:
    from penstock.dataset.store import Store

PAGE = 4 << 20
"""Of a file that only pyarrow finds its way in, pieces of this size are kept."""
PARQUET = (".parquet", ".pq")

Span = tuple[int, int]
"""Offset and length."""


@dataclass(frozen=True)
class Content:
    """What tells a file's content from any other that its name may have had.

    >>> Content(4096, "xxh3-64:00000000000000ff").bytes
    4096
    """

    bytes: int
    tag: str


class CachedStore:
    """A store behind a cache. `contents`: the files that are kept."""

    def __init__(self, store: Store, cache: DiskCache, contents: Mapping[str, Content]) -> None:
        self.store, self.cache, self._contents = store, cache, contents
        self.root, self.exclusive, self.local = store.root, store.exclusive, store.local

    def read_range(self, name: str, offset: int, length: int) -> Any:
        """Some bytes of the file."""
        return self.read_ranges(name, [(offset, length)])[0]

    def read_ranges(self, name: str, ranges: Sequence[Span]) -> list[Any]:
        """Several ranges of the file, from the disk where they were read before.

        What is kept are the spans that neighbours make up: a loader asks for the same of every block in every epoch.
        Of Parquet files pages are kept, because pyarrow reads them in pieces of its own (`open_input`).
        """
        content = self._contents.get(name)
        if content is None:
            return self.store.read_ranges(name, ranges)
        for offset, length in ranges:
            if offset + length > content.bytes:
                raise ended_early(self.locate(name), offset, length, content.bytes)
        if name.endswith(PARQUET):
            return [self.paged(name, content, *span) for span in ranges]
        groups = neighbours(ranges)
        found: list[Any] = [b""] * len(ranges)
        for ((start, _), members), span in zip(
            groups, self._kept(name, content, [span for span, _ in groups]), strict=True
        ):
            view = memoryview(span)
            for place in members:
                offset, length = ranges[place]
                found[place] = view[offset - start : offset - start + length]
        return found

    def paged(self, name: str, content: Content, offset: int, length: int) -> Any:
        """A range put together from pages."""
        if length == 0:
            return b""
        first = offset // PAGE * PAGE
        pages = [(at, min(PAGE, content.bytes - at)) for at in range(first, offset + length, PAGE)]
        found = self._kept(name, content, pages)
        if len(found) == 1:
            return memoryview(found[0])[offset - first : offset - first + length]
        whole = np.empty(length, np.uint8)
        for (at, size), page in zip(pages, found, strict=True):
            start, stop = max(at, offset), min(at + size, offset + length)
            # NumPy lets other threads run meanwhile; a memoryview would not.
            whole[start - offset : stop - offset] = np.frombuffer(page, np.uint8)[start - at : stop - at]
        return memoryview(whole.data)

    def _kept(self, name: str, content: Content, spans: Sequence[Span]) -> list[Any]:
        def one(span: Span) -> Any:
            key = self._key(name, content, span)
            return self.cache.through(key, span[1], lambda: self.store.read_ranges(name, [span])[0])

        if len(spans) < 2:
            return [one(span) for span in spans]
        with ThreadPoolExecutor(min(len(spans), AT_ONCE)) as threads:
            return list(threads.map(one, spans))

    def _key(self, name: str, content: Content, span: Span) -> str:
        # Executors' address of the place, and not the root as it was typed, which leaves out the server.
        text = repr((self.store.target(), name, content.bytes, content.tag, span))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def open_input(self, name: str) -> Any:
        """The file for pyarrow, over pages that are kept."""
        import pyarrow as pa

        content = self._contents.get(name)
        if content is None:
            return self.store.open_input(name)
        return pa.PythonFile(PagedFile(self, name, content), mode="r")

    def locate(self, name: str) -> str:
        """As the store says."""
        return self.store.locate(name)

    def prepare(self) -> None:
        """As the store does."""
        self.store.prepare()

    def read(self, name: str) -> bytes:
        """The whole file, always from the store: manifests and indexes are read so."""
        return self.store.read(name)

    def size(self, name: str) -> int:
        """As the store says now."""
        return self.store.size(name)

    def entries(self, folder: str = "") -> list[Entry]:
        """As the store says now."""
        return self.store.entries(folder)

    def create(self, name: str, data: Any) -> bool:
        """As the store does."""
        return self.store.create(name, data)

    def put(self, name: str, data: Any) -> None:
        """As the store does."""
        self.store.put(name, data)

    def touch(self, name: str) -> None:
        """As the store does."""
        self.store.touch(name)

    def delete(self, names: Sequence[str]) -> None:
        """As the store does; what was kept of them is not asked for again, and makes room in its turn."""
        self.store.delete(names)

    def target(self) -> Target:
        """As the store does."""
        return self.store.target()


class PagedFile:
    """A file of a cached store as pyarrow takes it: one position, reads from there."""

    def __init__(self, store: CachedStore, name: str, content: Content) -> None:
        self._store, self._name, self._content = store, name, content
        self._position = 0
        self.closed = False

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """No."""
        return False

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._content.bytes}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def read_buffer(self, size: int) -> Any:
        """The next bytes, without the copy that `read` makes: what pyarrow calls, where it is there."""
        length = max(min(size, self._content.bytes - self._position), 0)
        found = self._store.paged(self._name, self._content, self._position, length)
        self._position += length
        return found

    def read(self, size: int = -1) -> bytes:
        """The next bytes; all that are left without a size."""
        return bytes(self.read_buffer(size if size >= 0 else self._content.bytes))

    def close(self) -> None:
        """Nothing is held."""
        self.closed = True


def with_cache(store: Store, cache: DiskCache | None) -> Store:
    """The same place behind a cache; itself where there is none, or where it is a folder of this machine already."""
    return store if cache is None or store.local is not None else CachedStore(store, cache, {})


def knowing(store: Store, contents: Mapping[str, Content]) -> Store:
    """The store, now that these are known to be the files' contents: a cache may keep them."""
    if not isinstance(store, CachedStore):
        return store
    return CachedStore(store.store, store.cache, contents)


def uncached(store: Store) -> Store:
    """The store itself, for who wants to see what lies there and not what was read before."""
    return store.store if isinstance(store, CachedStore) else store
