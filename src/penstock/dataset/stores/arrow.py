"""Datasets on hdfs:// and whatever else pyarrow or fsspec has a filesystem for. These cannot create exclusively.

What is guaranteed instead stands at `ArrowStore.create`. See `store` for the contract.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from penstock.dataset.stores.target import RemoteTarget, from_uri
from penstock.dataset.stores.terms import Entry, ended_early, telling
from penstock.errors import StorageError

AT_ONCE = 10


class ArrowStore:
    """A folder of a pyarrow filesystem, by its URI."""

    exclusive = False

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.local: str | None = None
        with telling("open", self.root):
            self._filesystem, self._base = from_uri(self.root)

    def locate(self, name: str) -> str:
        """The file's URI."""
        return f"{self.root}/{name}" if name else self.root

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}" if name else self._base

    def _exists(self, name: str) -> bool:
        return bool(self._filesystem.get_file_info(self._path(name)).type.name != "NotFound")

    def prepare(self) -> None:
        """Make the folder."""
        with telling("write", self.root):
            if self._filesystem.get_file_info(self._base).is_file:
                raise StorageError("write", self.root, "it is a file", "Remove it or choose another path.")
            self._filesystem.create_dir(self._base, recursive=True)

    def read(self, name: str) -> bytes:
        """The whole file."""
        with telling("read", self.locate(name), absent=True):
            if (fetch := self._fsspec()) is not None:
                return bytes(fetch.cat_file(self._path(name)))
            with self._filesystem.open_input_file(self._path(name)) as file:
                return bytes(file.read())

    def read_range(self, name: str, offset: int, length: int) -> Any:
        """Some bytes of the file."""
        with telling("read", self.locate(name), absent=True):
            if (fetch := self._fsspec()) is not None:
                found = fetch.cat_file(self._path(name), start=offset, end=offset + length)
            else:
                with self._filesystem.open_input_file(self._path(name)) as file:
                    found = file.read_at(length, offset)
            if len(found) < length:
                raise ended_early(self.locate(name), offset, length, self.size(name))
            return found

    def _fsspec(self) -> Any:
        """fsspec's own filesystem, where that is what is used: some hand the same open file to every thread."""
        return getattr(getattr(self._filesystem, "handler", None), "fs", None)

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        """Several ranges, in parallel."""
        with ThreadPoolExecutor(max(min(len(ranges), AT_ONCE), 1)) as threads:
            return list(threads.map(lambda span: self.read_range(name, *span), ranges))

    def size(self, name: str) -> int:
        """Bytes of the file."""
        with telling("read", self.locate(name), absent=True):
            found = self._filesystem.get_file_info(self._path(name))
            if not found.is_file:
                raise FileNotFoundError(self.locate(name))
            return int(found.size)

    def open_input(self, name: str) -> Any:
        """The file, as pyarrow opens it."""
        with telling("read", self.locate(name), absent=True):
            return self._filesystem.open_input_file(self._path(name))

    def entries(self, folder: str = "") -> list[Entry]:
        """All files below a folder, sorted by name."""
        from pyarrow import fs

        with telling("list", self.locate(folder)):
            selector = fs.FileSelector(self._path(folder), allow_not_found=True, recursive=True)
            found = [info for info in self._filesystem.get_file_info(selector) if info.is_file]
        now = time.time()  # a file of unknown age counts as new, so that nobody deletes it for being old
        start = len(self._base) + 1
        return sorted(
            (
                Entry(info.path[start:], info.size, now if info.mtime is None else info.mtime.timestamp())
                for info in found
            ),
            key=lambda entry: entry.name,
        )

    def create(self, name: str, data: Any) -> bool:
        """Write a new file; False when the name is taken.

        It is looked for, written under another name, moved into place and read back. Writers one after the other
        never replace each other's file. Two in the same instant can: the later one's file stays, and the earlier one is
        told False if it reads back after that, but True if it did before. Let one writer at a time commit here.
        """
        with telling("create", self.locate(name)):
            if self._exists(name):
                return False
            if not self._place(name, data, replace=False):
                return False
            return self.read(name) == bytes(data)

    def put(self, name: str, data: Any) -> None:
        """Write a file, in place of one that may be there; for a moment there may be none."""
        with telling("write", self.locate(name)):
            self._place(name, data, replace=True)

    def _place(self, name: str, data: Any, *, replace: bool) -> bool:
        path = self._path(name)
        waiting = f"{path}.{uuid.uuid4().hex}.tmp"
        self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        try:
            with self._filesystem.open_output_stream(waiting) as file:
                file.write(data)
            if replace and self._exists(name):
                self._filesystem.delete_file(path)
            try:
                self._filesystem.move(waiting, path)
            except OSError:
                if not replace and self._exists(name):
                    return False  # HDFS does not move onto a file that is there
                raise
        finally:
            with suppress(FileNotFoundError):
                self._filesystem.delete_file(waiting)
        return True

    def touch(self, name: str) -> None:
        """Write an empty file anew."""
        self.put(name, b"")

    def delete(self, names: Sequence[str]) -> None:
        """Remove files."""
        for name in names:
            with telling("delete", self.locate(name)), suppress(FileNotFoundError):
                self._filesystem.delete_file(self._path(name))

    def target(self) -> RemoteTarget:
        """The same place, for executors."""
        return RemoteTarget("uri", self.root)
