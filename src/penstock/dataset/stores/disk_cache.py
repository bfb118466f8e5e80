"""Bytes kept in a folder of this machine, below a limit: what `cached` puts in front of a store that is far away.

What comes out is what went in, or nothing. An entry is one file with its key, length and checksum, written under
another name and renamed; one that does not fit them is deleted. Several processes may share a folder: they lock a
file that holds the total, and an entry has its full size before it is counted, so the total stays below the limit
however many write. What was used longest ago goes first; a file that is being read stays readable until it is closed.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.dataset import checksum
from penstock.dataset.forks import in_forks
from penstock.dataset.stores.terms import refusal
from penstock.errors import DatasetError, StorageError, humane_bytes
from penstock.progress import notice

FOLDER = "penstock-cache"
"""Below the folder a user names: what else lies there is neither counted nor deleted."""
TOTAL = "total"
"""The file that is locked; it holds the bytes of all others."""
HEADER = struct.Struct("<8s8sQQ32s")
"""Mark, kind of checksum, length, checksum, key. 64 bytes, so that what follows is aligned."""
MARK = b"PSTKCH01"
ENTRY_NAME = re.compile(r"[0-9a-f]{32}(\.[0-9a-f]{12})?")
"""An entry's key; with an ending while it is written."""
LEAST = 1 << 20
ROOM_MADE = 20
"""A sweep looks at every file, so it makes more room than is needed: this part of the limit, one twentieth."""
REST_SECONDS = 60.0
"""After the disk refused, nothing is written for so long."""


@dataclass(frozen=True)
class _Found:
    """A file of the folder."""

    used: int
    """When last, in nanoseconds."""
    path: str
    bytes: int


class DiskCache:
    """A folder of entries, each a key's bytes.

    >>> import tempfile
    >>> cache = DiskCache(tempfile.mkdtemp(), 1 << 30)
    >>> key = "0" * 32
    >>> bytes(cache.through(key, 3, lambda: b"abc")), bytes(cache.through(key, 3, lambda: b"not called"))
    (b'abc', b'abc')
    """

    def __init__(self, folder: str, limit: int | None) -> None:
        """Without a limit: half of what the disk has free now, counting what the cache holds already."""
        self.folder = os.path.join(os.path.abspath(folder), FOLDER)
        try:
            os.makedirs(self.folder, exist_ok=True)
            with self._total() as total:
                self.limit = limit if limit is not None else self._half_of_what_is_free()
                _write_total(total, self._sweep())
        except OSError as error:
            raise refusal("cache in", folder, error) from error
        self._under_way: dict[str, Future[Any]] = {}
        """Without a lock: what is done to it is one step each, and the collector may run under any lock."""
        self._told = threading.Lock()
        """Taken by the first who tells, for good."""
        self._rests_until = 0.0
        in_forks(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process shares the folder, and nothing else."""
        return DiskCache, (os.path.dirname(self.folder), self.limit)

    def forked(self) -> None:
        """Those who read are the other process's: here nobody would ever hear from them."""
        self._under_way = {}

    def _half_of_what_is_free(self) -> int:
        disk, held = os.statvfs(self.folder), sum(each.bytes for each in self._files())
        return max((disk.f_bavail * disk.f_frsize + held) // 2, LEAST)

    def through(self, key: str, length: int, read: Callable[[], Any]) -> Any:
        """The entry's bytes; where there is none, what `read` gives, which is then kept. Threads read it once."""
        found = self.get(key, length)
        if found is not None:
            return found
        mine: Future[Any] = Future()
        job = self._under_way.setdefault(key, mine)
        if job is not mine:
            return job.result()
        try:
            # Who read it may have ended between the look above and the entry: then it is there by now.
            found = self.get(key, length)
            job.set_result(read() if found is None else found)
            if found is None:
                self.put(key, job.result())
        except BaseException as error:
            if not job.done():
                job.set_exception(error)
            raise
        finally:
            self._under_way.pop(key, None)  # a fork in the middle has forgotten it
        return job.result()

    def get(self, key: str, length: int) -> Any:
        """The entry's bytes, or None. A damaged one is deleted."""
        path = os.path.join(self.folder, key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            found = _whole(descriptor, key, length)
            if found is not None:
                with suppress(
                    OSError
                ):  # another user's entry, or a disk that is read only: it just looks older
                    os.utime(descriptor)
        except OSError:
            found = None
        finally:
            os.close(descriptor)
        if found is None:
            with suppress(OSError):
                os.unlink(path)
        return found

    def put(self, key: str, data: Any) -> None:
        """Keep an entry. A disk that refuses is told of once, and is no error: the cache only saves time."""
        view = memoryview(data).cast("B")
        size = HEADER.size + view.nbytes
        if size > self.limit:
            what = f"{humane_bytes(size)} were read at once, and the limit is {humane_bytes(self.limit)}"
            self._tell(
                f"{what}. Pass a larger cache_bytes, or write smaller blocks (block_bytes= of pk.write)"
            )
            return
        if time.monotonic() < self._rests_until:
            return
        waiting = os.path.join(self.folder, f"{key}.{uuid.uuid4().hex[:12]}")
        try:
            with open(self._reserved(waiting, size), "wb") as file:
                file.write(_header(key, view))
                file.write(view)
            with self._total():  # who counts just now would miss a file that changes its name
                os.rename(waiting, os.path.join(self.folder, key))
        except FileNotFoundError:
            pass  # swept away meanwhile by somebody with less room
        except OSError as error:
            self._rests_until = time.monotonic() + REST_SECONDS
            self._tell(f"{error.strerror or error}. Free space there, or pass another cache_dir")
        finally:
            with suppress(OSError):
                os.unlink(waiting)

    def _tell(self, why: str) -> None:
        if self._told.acquire(blocking=False):
            notice(f"not all is kept in {self.folder}, and is read from the storage each time: {why}.")

    def _reserved(self, path: str, size: int) -> int:
        """A new file that has its size already, so that whoever counts counts it; room was made for it."""
        with self._total() as total:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                os.ftruncate(descriptor, size)
                held = _read_total(total)
                if held is None or held + size > self.limit:
                    held = self._sweep(path)
                else:
                    held += size
                _write_total(total, held)
            except BaseException:
                os.close(descriptor)
                raise
        return descriptor

    def _sweep(self, keep: str = "") -> int:
        """Delete what was used longest ago until there is room; the bytes that are left."""
        files = sorted(self._files(), key=lambda each: each.used)
        held = sum(each.bytes for each in files)
        if held <= self.limit:
            return held
        for each in files:
            if held <= self.limit - self.limit // ROOM_MADE:
                break
            if each.path != keep:
                with suppress(FileNotFoundError):
                    os.unlink(each.path)
                held -= each.bytes
        return held

    def _files(self) -> Iterator[_Found]:
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if ENTRY_NAME.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        yield _Found(status.st_mtime_ns, entry.path, status.st_size)

    @contextmanager
    def _total(self) -> Iterator[int]:
        """The file with the total, locked. Opened each time: threads and forks would share a lock of one opening."""
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, TOTAL)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            try:
                # Not by closing alone: a process that was forked meanwhile has the same open file, and would keep it
                # locked for all, itself included.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            finally:
                os.close(descriptor)


def _read_total(descriptor: int) -> int | None:
    found = os.pread(descriptor, 9, 0)
    return int.from_bytes(found, "little") if len(found) == 8 else None


def _write_total(descriptor: int, held: int) -> None:
    os.pwrite(descriptor, held.to_bytes(8, "little"), 0)


def _header(key: str, data: Any) -> bytes:
    kind = checksum.best_kind()
    return HEADER.pack(MARK, kind.encode(), len(data), checksum.of(kind, data), key.encode())


def _whole(descriptor: int, key: str, length: int) -> Any:
    """The bytes after an entry's header, where all of it is as it was written."""
    if os.fstat(descriptor).st_size != HEADER.size + length:
        return None
    head = bytearray(HEADER.size)
    data = memoryview(np.empty(length, np.uint8).data)
    done = os.preadv(descriptor, [head, data], 0)
    while 0 < done < HEADER.size + length:
        more = os.preadv(descriptor, [data[done - HEADER.size :]], done)
        done = done + more if more else 0
    mark, kind, size, value, owner = HEADER.unpack(head)
    if done == 0 or (mark, size, owner) != (MARK, length, key.encode()):
        return None
    try:
        right = checksum.of(kind.rstrip(b"\0").decode(), data) == value
    except (ValueError, UnicodeDecodeError):
        return None
    return data if right else None


def disk_cache(folder: str | os.PathLike[str] | None, limit: int | None) -> DiskCache | None:
    """What `penstock.open(cache_dir=, cache_bytes=)` asks for; None where nothing is.

    >>> disk_cache(None, 1 << 30)
    Traceback (most recent call last):
    penstock.errors.DatasetError: cache_bytes=1073741824 limits a cache, and there is none: pass cache_dir, ...
    """
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < LEAST):
        raise DatasetError(
            f"cache_bytes={limit!r}: a whole number of bytes is wanted, such as 200 << 30; the least is {LEAST}."
        )
    if folder is None:
        if limit is not None:
            raise DatasetError(
                f"cache_bytes={limit} limits a cache, and there is none: pass cache_dir, the folder it is to lie in."
            )
        return None
    if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
        raise DatasetError(f"cache_dir={folder!r}: the path of a folder is wanted, such as '/ssd/cache'.")
    path = os.fspath(folder)
    if "://" in path:
        why, remedy = "it is no folder of this machine", "Pass a local path, such as '/ssd/cache'."
        raise StorageError("cache in", path, why, remedy)
    return DiskCache(path, limit)
