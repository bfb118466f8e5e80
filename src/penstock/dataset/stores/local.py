"""Datasets on local and mounted disks: hard links make creation exclusive, renames make replacement atomic.

See `store` for the contract and `target` for how executors write to the same folder.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from penstock.dataset.stores.target import LocalTarget
from penstock.dataset.stores.terms import Entry, ended_early, refusal, telling
from penstock.errors import StorageError

NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class LocalStore:
    """A folder.

    >>> import tempfile
    >>> store = LocalStore(tempfile.mkdtemp())
    >>> store.create("a/b", b"one"), store.create("a/b", b"two"), store.read("a/b")
    (True, False, b'one')
    """

    exclusive = True

    def __init__(self, root: str) -> None:
        self.root = root
        self._base = os.path.abspath(root)
        self.local: str | None = self._base

    def locate(self, name: str) -> str:
        """The file's path."""
        return os.path.join(self._base, *name.split("/")) if name else self._base

    def prepare(self) -> None:
        """Make the folder, and see that it can be written to."""
        try:
            os.makedirs(self._base, exist_ok=True)
        except FileExistsError:
            raise StorageError(
                "write", self._base, "it is a file", "Remove it or choose another path."
            ) from None
        except OSError as error:
            raise refusal("make the folder", self._base, error) from error
        if not os.access(self._base, os.W_OK | os.X_OK, effective_ids=True):
            raise refusal("write", self._base, OSError(errno.EACCES, ""))

    def read(self, name: str) -> bytes:
        """The whole file."""
        with telling("read", self.locate(name), absent=True), open(self.locate(name), "rb") as file:
            return file.read()

    def read_range(self, name: str, offset: int, length: int) -> Any:
        """Some bytes of the file."""
        return self.read_ranges(name, [(offset, length)])[0]

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        """Several ranges of the file."""
        path = self.locate(name)
        with telling("read", path, absent=True), open(path, "rb", buffering=0) as file:
            return [_exactly(file.fileno(), offset, length, path) for offset, length in ranges]

    def size(self, name: str) -> int:
        """Bytes of the file."""
        with telling("read", self.locate(name), absent=True):
            return os.stat(self.locate(name)).st_size

    def open_input(self, name: str) -> Any:
        """The file, to be read; a map of it would end the process where the file is cut short under it."""
        import pyarrow as pa

        with telling("read", self.locate(name), absent=True):
            return pa.OSFile(self.locate(name))

    def entries(self, folder: str = "") -> list[Entry]:
        """All files below a folder, sorted by name."""

        def fail(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):  # deleted meanwhile, or never there
                raise error

        found = []
        with telling("list", self.locate(folder)):
            for path, _, files in os.walk(self.locate(folder), onerror=fail):
                for file in files:
                    with suppress(FileNotFoundError):
                        status = os.stat(os.path.join(path, file))
                        name = os.path.relpath(os.path.join(path, file), self._base)
                        found.append(Entry(name.replace(os.sep, "/"), status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: entry.name)

    def create(self, name: str, data: Any) -> bool:
        """Write a new file, never half there; False when the name is taken."""
        path = self.locate(name)
        with telling("create", path), _beside(path, data) as waiting:
            try:
                os.link(waiting, path)
            except FileExistsError:
                # A network filesystem may repeat a request that had succeeded; two links tell that it had.
                if os.stat(waiting).st_nlink < 2:
                    return False
            except OSError as error:
                if error.errno not in NO_HARD_LINKS:
                    raise
                if not _create_without_links(path, data):
                    return False
            _sync_folder(os.path.dirname(path))
            return True

    def put(self, name: str, data: Any) -> None:
        """Write a file, in place of one that may be there."""
        path = self.locate(name)
        with telling("write", path), _beside(path, data) as waiting:
            os.replace(waiting, path)
            _sync_folder(os.path.dirname(path))

    def touch(self, name: str) -> None:
        """Make a file young, with nothing forced to the disk: a sign of life that waits for a busy one comes late."""
        path = self.locate(name)
        with telling("write", path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
            os.utime(path)

    def delete(self, names: Sequence[str]) -> None:
        """Remove files."""
        for name in names:
            with telling("delete", self.locate(name)), suppress(FileNotFoundError):
                os.unlink(self.locate(name))

    def target(self) -> LocalTarget:
        """The same folder, for executors that see it."""
        return LocalTarget(self._base)


def _exactly(descriptor: int, offset: int, length: int, path: str) -> bytes:
    found = os.pread(descriptor, length, offset)
    while len(found) < length:  # one call gives 2 GB at most
        more = os.pread(descriptor, length - len(found), offset + len(found))
        if not more:
            raise ended_early(path, offset, length, os.fstat(descriptor).st_size)
        found += more
    return found


@contextmanager
def _beside(path: str, data: Any) -> Iterator[str]:
    """A complete file in the same folder under a name of its own, gone at the end unless it was renamed."""
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    waiting = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
    try:
        _write_new(waiting, data)
        yield waiting
    finally:
        with suppress(FileNotFoundError):
            os.unlink(waiting)


def _write_new(path: str, data: Any) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _create_without_links(path: str, data: Any) -> bool:
    """Exclusive still, but a crash in the middle leaves part of a file: no way without links avoids both."""
    try:
        _write_new(path, data)
    except FileExistsError:
        return False
    except OSError:
        os.unlink(path)
        raise
    return True


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some filesystems cannot, and need not
            raise
    finally:
        os.close(descriptor)
