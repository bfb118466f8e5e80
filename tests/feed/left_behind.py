"""What a loader may leave behind, looked for from outside: threads of the feed, open files and maps of its shards.

Only what came since the test began (`conftest` calls `begin`): other tests of the same process may have left something,
and Spark, or a framework, opens files and starts threads whenever it likes.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from pathlib import Path

import penstock as pk
from penstock.feed.reading.stages import THREADS

SECONDS = 60
_before: set[threading.Thread] = set()


def begin() -> None:
    """Leave out what is there already."""
    _before.clear()
    _before.update(threading.enumerate())


def shard_paths(ds: pk.Dataset) -> list[str]:
    return [str(Path(ds.path).resolve() / shard.file) for shard in ds.shards]


def open_files() -> dict[int, str]:
    """Descriptors of this process, and what they are of."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        # A thread of the feed may close one between the listing and the look at it.
        with contextlib.suppress(FileNotFoundError):
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def open_below(folder: Path) -> list[str]:
    """Files in a folder that this process has open, deleted ones too."""
    return [path for path in open_files().values() if Path(path).is_relative_to(folder.resolve())]


def left_over(ds: pk.Dataset) -> list[str]:
    """The dataset's shards that are open or mapped."""
    files, maps = set(open_files().values()), Path("/proc/self/maps").read_text()
    return [path for path in shard_paths(ds) if path in files or path in maps]


def threads() -> list[str]:
    """The feed's threads that are alive."""
    return [thread.name for thread in _new_threads() if thread.name.startswith(THREADS)]


def _new_threads() -> list[threading.Thread]:
    # Threads that Python did not start, such as those of Arrow's pool, appear once they have called something of ours.
    return [
        thread
        for thread in threading.enumerate()
        if thread not in _before and not isinstance(thread, threading._DummyThread)
    ]


def ended() -> bool:
    """Whether the feed's threads end by themselves."""
    until = time.monotonic() + SECONDS
    while threads():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def strangers() -> list[str]:
    """Threads of any name that came since the test began and stay."""
    if _new_threads():
        gc.collect()  # what an error of the test's own still held
    until = time.monotonic() + SECONDS
    while (found := _new_threads()) and time.monotonic() < until:
        time.sleep(0.02)
    return [thread.name for thread in found]
