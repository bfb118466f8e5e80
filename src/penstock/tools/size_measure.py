"""What storage gives this machine: a short sequential read, and a write where a folder is named.

The page cache would answer in storage's place, so the file is dropped from it first, read past it (O_DIRECT) where
the filesystem allows that, and probed for pages that stayed. The result says which of these held. One reader reads in
order; what lies below the kernel, such as the cache of a controller or of a virtual machine's host, is not seen.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import SizeError
from penstock.tools.size_units import show_bytes, show_rate, show_seconds

PIECE = 8 << 20
"""Read and written at once."""
MOST_BYTES = 256 << 20
MOST_SECONDS = 3.0
"""Either ends a measurement."""
LEAST_BYTES = 32 << 20
"""Of a file; a shorter one is over while storage still starts, so that the time is its latency."""
PROBES = 16
IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs")
"""Filesystems that are memory: there is no storage behind them to measure."""


@dataclass(frozen=True)
class Measurement:
    """What was measured on a path."""

    path: str
    bandwidth: float
    """Bytes a second, read."""
    bytes: int
    seconds: float
    direct: bool
    """Whether O_DIRECT was in force, which reads past the page cache."""
    cached: float | None
    """The share of probes that found the file in the page cache just before; None where that cannot be asked."""
    filesystem: str | None
    write_bandwidth: float | None = None
    """Bytes a second of writing a temporary file and syncing it; None where a file was read that was there."""

    @property
    def in_memory(self) -> bool:
        """Whether memory answered and not storage."""
        return self.filesystem in IN_MEMORY or (not self.direct and bool(self.cached))

    def __str__(self) -> str:
        what = "a file" if self.write_bandwidth is None else "a temporary file"
        said = (
            f"{show_rate(self.bandwidth)} measured: {what} on {self.path}"
            f"{f' ({self.filesystem})' if self.filesystem else ''}, {show_bytes(self.bytes)} in "
            f"{show_seconds(self.seconds)} by one reader in order, {self._past()}"
        )
        if self.write_bandwidth is not None:
            said += f"; written and synced at {show_rate(self.write_bandwidth)}"
        return f"{said}."

    def _past(self) -> str:
        if self.filesystem in IN_MEMORY:
            return "which is memory and no storage"
        if self.direct:
            return "past the page cache (O_DIRECT)"
        if self.cached is None:
            return "through the page cache, which was asked to drop it and could not be asked whether it did"
        if self.cached:
            return f"of which about {self.cached:.0%} still lay in the page cache, so storage is slower than that"
        return "after the page cache had dropped it"

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {**vars(self), "in_memory": self.in_memory}


def measure(
    path: str | os.PathLike[str],
    *,
    most_bytes: int = MOST_BYTES,
    most_seconds: float = MOST_SECONDS,
    least_bytes: int = LEAST_BYTES,
) -> Measurement:
    """Read a file of at least so many bytes, or write a temporary one into a folder and read it; it is deleted.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = measure(folder, most_bytes=1 << 20)
    ...     left = os.listdir(folder)
    >>> found.bandwidth > 0, found.bytes, left
    (True, 1048576, [])
    """
    if "://" in str(path):
        raise SizeError(
            f"measure={str(path)!r} is not on this machine, and only paths of this machine are measured. Give the "
            "bandwidth instead (--bandwidth '2 GB/s')."
        )
    place = Path(path)
    if not place.exists():
        raise SizeError(f"measure={str(path)!r}: there is no such file or folder. Name one that is there.")
    try:
        if place.is_dir():
            return _measured_folder(place, most_bytes, most_seconds)
        if not place.is_file():
            raise SizeError(f"measure={str(path)!r} is neither a file nor a folder. Name one of those.")
        if (length := place.stat().st_size) < least_bytes:
            raise SizeError(
                f"measure={str(path)!r} has {show_bytes(length)}, too little: the time would be that of starting to "
                f"read. Name a file of at least {show_bytes(least_bytes)}, or its folder, in which a temporary file "
                "is measured and removed."
            )
        return _measured_file(place, most_bytes, most_seconds)
    except OSError as error:
        raise SizeError(
            f"measure={str(path)!r} cannot be measured: {error.strerror or error}. Name another path, or give the "
            "bandwidth (--bandwidth '2 GB/s')."
        ) from error


def _measured_folder(folder: Path, most_bytes: int, most_seconds: float) -> Measurement:
    free = shutil.disk_usage(folder).free
    if free < 2 * most_bytes:
        raise SizeError(
            f"measure={str(folder)!r} has {show_bytes(free)} free, and a temporary file of {show_bytes(most_bytes)} "
            "would fill it. Name a file that is there."
        )
    with tempfile.NamedTemporaryFile(dir=folder, prefix="penstock-size-") as file:
        written, spent = 0, 0.0
        while written < most_bytes and (not written or spent < most_seconds):
            # Made anew and outside of the clock: storage that compresses or shares equal pieces would be too fast.
            piece = os.urandom(min(PIECE, most_bytes - written))
            began = time.perf_counter()
            written += os.write(file.fileno(), piece)
            spent += time.perf_counter() - began
        began = time.perf_counter()
        os.fsync(file.fileno())
        spent += time.perf_counter() - began
        found = _measured_file(Path(file.name), most_bytes, most_seconds)
    return Measurement(**{**vars(found), "path": str(folder), "write_bandwidth": written / max(spent, 1e-9)})


def _measured_file(path: Path, most_bytes: int, most_seconds: float) -> Measurement:
    until = min(path.stat().st_size, most_bytes)
    cached = _dropped(path, until)
    with _opened(path) as (handle, direct), mmap.mmap(-1, PIECE) as memory:
        # An anonymous mapping begins at a page, as O_DIRECT demands.
        buffer = memoryview(memory)
        try:
            done, spent, direct = _read(handle, buffer, until, most_seconds, direct)
        finally:
            buffer.release()
    return Measurement(str(path), done / max(spent, 1e-9), done, spent, direct, cached, filesystem_of(path))


def _read(
    handle: int, buffer: memoryview, until: int, most_seconds: float, direct: bool
) -> tuple[int, float, bool]:
    """Bytes read, seconds, and whether it was past the cache to the end."""
    done, began = 0, time.perf_counter()
    while done < until and (not done or time.perf_counter() - began < most_seconds):
        try:
            # In whole pieces: O_DIRECT wants lengths of whole sectors, and at the file's end gives what there is.
            got = os.preadv(handle, [buffer], done)
        except OSError as error:
            if not direct or error.errno != errno.EINVAL:
                raise
            # The filesystem took the flag and refuses the read; without the flag it reads.
            _undirect(handle)
            done, began, direct = 0, time.perf_counter(), False
            continue
        if not got:
            break
        done += got
        if direct and done % mmap.PAGESIZE:
            break  # the end of the file; the next read would begin inside a sector
    return done, time.perf_counter() - began, direct


def _dropped(path: Path, until: int) -> float | None:
    """Ask the page cache to drop a file; the share of probes that still find it there."""
    handle = os.open(path, os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            # What is not on storage yet cannot be dropped, hence the sync; some files cannot be synced, and need not.
            with _ignored(errno.EINVAL, errno.EROFS, errno.EBADF, errno.EACCES):
                os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        return _cached_share(handle, until)
    finally:
        os.close(handle)


def _cached_share(handle: int, until: int) -> float | None:
    """By reads that only take what is in the cache."""
    flag = getattr(os, "RWF_NOWAIT", None)
    if flag is None:
        return None
    buffer, found = bytearray(512), 0
    # From the end on: a probe that misses may have the kernel read ahead, into what the next one would look at.
    for number in reversed(range(PROBES)):
        try:
            found += os.preadv(handle, [buffer], until * number // PROBES, flag) > 0
        except BlockingIOError:
            continue
        except OSError:
            return None  # this filesystem does not know the question
    return found / PROBES


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, bool]]:
    """The file, past the page cache where that is possible."""
    flag = getattr(os, "O_DIRECT", 0)
    try:
        handle, direct = os.open(path, os.O_RDONLY | flag), bool(flag)
    except OSError as error:
        if not flag or error.errno != errno.EINVAL:
            raise
        handle, direct = os.open(path, os.O_RDONLY), False
    try:
        yield handle, direct
    finally:
        os.close(handle)


def _undirect(handle: int) -> None:
    import fcntl

    flags = fcntl.fcntl(handle, fcntl.F_GETFL)
    fcntl.fcntl(handle, fcntl.F_SETFL, flags & ~getattr(os, "O_DIRECT", 0))


@contextmanager
def _ignored(*numbers: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise


def filesystem_of(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """The kind of filesystem a path lies on; None where it is not told."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    place, best, found = path.resolve(), -1, None
    for line in lines:
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        # Spaces in a mount's path are written as octal numbers.
        mount = Path(parts[1].replace("\\040", " "))
        # Of two mounts on one folder the later one is seen.
        if place.is_relative_to(mount) and len(mount.parts) >= best:
            best, found = len(mount.parts), parts[2]
    return found
