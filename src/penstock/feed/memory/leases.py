"""Files that are safe to map: none of them is cut short while somebody reads out of the map.

Rows that are gathered out of a map are copied once, where reading copies them twice. But a file that becomes shorter
under a map ends the process (SIGBUS), where a read gives an error. So every mapped shard is leased from the kernel: who
wants to write to it is made to wait until no gather is under way, and after it the file is looked at anew.
Where there are no leases, or none that hold (file systems that other machines write to, other people's files, other
systems), files are read. `penstock.feed.memory.mapped` maps them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.dataset.manifest import Shard
from penstock.errors import CorruptError, StorageError
from penstock.feed.ending import wait_out
from penstock.feed.reading.limits import FILES
from penstock.feed.reading.stages import Worker

try:
    import fcntl

    LEASE, SIGNAL = fcntl.F_SETLEASE, fcntl.F_SETSIG
except (ImportError, AttributeError):  # not Linux
    LEASE = SIGNAL = 0

FILE_SYSTEMS = frozenset(
    {
        0xEF53,  # ext2, ext3, ext4
        0x58465342,  # xfs
        0x9123683E,  # btrfs
        0x2FC12FC1,  # zfs
        0xF2F52010,  # f2fs
        0xCA451A4E,  # bcachefs
        0x3153464A,  # jfs
        0x01021994,  # tmpfs
        0x858458F6,  # ramfs
        0x794C7630,  # overlay
    }
)
"""Those whose files this machine alone writes to, by the number that statfs tells. On others, such as what FUSE and 9p
show, a lease is given and does not bind who writes on the far side."""
BREAK_TIME = Path("/proc/sys/fs/lease-break-time")
LEAST_SECONDS = 5
"""Who breaks a lease is let in after the system's time whether or not it was given back, 45 seconds as a rule."""
PATIENCE_SECONDS = 10.0
"""How long a gather waits for somebody who keeps a shard open for writing."""
LOOK_SECONDS = 0.25
"""How often it is looked whether somebody waits to write."""
STALE_SECONDS = 2.0
"""After which a look counts no more: the thread that looks may have to wait for a processor."""


class NoLease(Exception):
    """A file cannot be leased; the reason is for debugging alone, since files can be read instead."""


class Leases:
    """Shards of a dataset, open for reading and leased."""

    def __init__(self, folder: str, shards: Sequence[Shard]) -> None:
        self._folder, self._shards = folder, shards
        self.files: list[int] = []
        self._away: set[int] = set()
        """Shards that somebody waits to write to, or was let into, as far as it has been looked."""
        self._lost: set[int] = set()
        """Of these, the ones whose lease was given up."""
        self._using: Counter[int] = Counter()
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._watcher = Worker(self._watch, "leases")
        self._process = os.getpid()
        try:
            _check_system()
            for shard in shards:
                self._open(shard)
            self._looked = time.monotonic()
            self._watcher.start()
        except BaseException:
            self._ended.set()
            wait_out(self._watcher.wait)
            self._close_files()
            raise

    def _open(self, shard: Shard) -> None:
        # Counted with what readers keep open: both together may have half of what the process may.
        if not FILES.take():
            raise NoLease("so many files are open already")
        try:
            file = os.open(os.path.join(self._folder, shard.file), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            FILES.give_back(1)
            raise NoLease(str(error)) from None  # who reads it says what is wrong
        self.files.append(file)
        _check_file_system(file)
        try:
            _lease(file)
        except OSError as error:
            raise NoLease(str(error)) from None
        if os.fstat(file).st_size < shard.bytes:
            raise CorruptError([shard.file], "the file ends too early")

    @contextmanager
    def held(self, shards: Iterable[int]) -> Iterator[None]:
        """While rows are taken out of these shards: none of them changes, or an error names it.

        Every gather comes here, so it asks the system nothing: who breaks a lease waits for seconds, and the thread
        that watches is quicker.
        """
        wanted = list(shards)
        until = time.monotonic() + PATIENCE_SECONDS
        with self._changed:
            if until - PATIENCE_SECONDS - self._looked > STALE_SECONDS:
                self._away.update(filter(self._is_away, wanted))
            while (away := next((shard for shard in wanted if shard in self._away), None)) is not None:
                if not self._regained(away):
                    if time.monotonic() > until:
                        raise self._error(away, "somebody has it open for writing")
                    self._changed.wait(0.01)
            self._using.update(wanted)
        try:
            yield
        finally:
            with self._changed:
                self._using.subtract(wanted)
                if self._away:
                    self._changed.notify_all()

    def _is_away(self, shard: int) -> bool:
        """Whether somebody waits to write to it, or was let in, as the system says it."""
        try:
            return fcntl.fcntl(self.files[shard], fcntl.F_GETLEASE) != fcntl.F_RDLCK
        except OSError:
            return True  # who needs it next tries to lease it anew, and tells what is wrong

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            now = time.monotonic()
            away = {shard for shard in range(len(self.files)) if self._is_away(shard)}
            if away or self._away:
                with self._changed:
                    # Leased anew since it was looked at: what was found then is old.
                    self._away |= {shard for shard in away if self._is_away(shard)}
                    for shard in self._away:
                        self._let_in(shard)
            self._looked = now

    def _let_in(self, shard: int) -> None:
        """Let those in who wait, once nobody uses the shard; new users wait too, so that takes a gather at most."""
        if shard not in self._lost and not self._using[shard]:
            self._lost.add(shard)
            # The lease may be gone already: the system waits for nobody longer than its time.
            with suppress(OSError):
                fcntl.fcntl(self.files[shard], LEASE, fcntl.F_UNLCK)

    def _regained(self, shard: int) -> bool:
        """Whether the other one is out again; what it left is looked at."""
        self._let_in(shard)
        if shard not in self._lost:
            return False
        try:
            _lease(self.files[shard])
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._error(shard, error.strerror or str(error)) from None
        if os.fstat(self.files[shard]).st_size < self._shards[shard].bytes:
            raise CorruptError([self._shards[shard].file], "the file ends too early")
        self._lost.discard(shard)
        self._away.discard(shard)
        return True

    def _error(self, shard: int, what: str) -> StorageError:
        path = os.path.join(self._folder, self._shards[shard].file)
        return StorageError("read", path, what, "Shards must not change once they are there.")

    def close(self) -> None:
        """Close the files, which ends their leases."""
        if self._process == os.getpid():
            self._ended.set()
            interrupt = wait_out(self._watcher.wait)
        else:
            interrupt = None  # a fork has no such thread
        self._close_files()
        if interrupt is not None:
            raise interrupt

    def _close_files(self) -> None:
        while self.files:
            file = self.files.pop()
            # Not by closing alone: a process that was forked meanwhile has the same open file. That one, in turn, must
            # not give up a lease that is the other's.
            if self._process == os.getpid():
                with suppress(OSError):
                    fcntl.fcntl(file, LEASE, fcntl.F_UNLCK)
            os.close(file)
            FILES.give_back(1)


def _lease(file: int) -> None:
    # Without it the kernel's signal would end the process; this one is ignored by default. A lease that ends undoes it.
    fcntl.fcntl(file, SIGNAL, signal.SIGURG)
    fcntl.fcntl(file, LEASE, fcntl.F_RDLCK)


def _check_system() -> None:
    if not LEASE:
        raise NoLease("this system has no leases")
    try:
        seconds = int(BREAK_TIME.read_text())
    except (OSError, ValueError) as error:
        raise NoLease(str(error)) from None
    if seconds < LEAST_SECONDS:
        raise NoLease(f"leases are broken after {seconds} seconds")


def _check_file_system(file: int) -> None:
    """Refuse a file that somebody may change whom a lease on this machine does not hold up."""
    libc = ctypes.CDLL(None, use_errno=True)
    told = (ctypes.c_long * 64)()  # more than it fills; the kind stands first
    if libc.fstatfs(file, told):
        raise NoLease(os.strerror(ctypes.get_errno()))
    if told[0] & 0xFFFFFFFF not in FILE_SYSTEMS:
        raise NoLease(f"a file system of kind {told[0] & 0xFFFFFFFF:#x} may be written to from elsewhere")
