"""What the machine has for this process: cores and memory, seen through affinity and container limits, and a folder.

A container sees the whole machine in /proc; what it may use of it stands in its control group, and in every
group above. `usable_cores` and `free_memory` promise the least of all these, and `cores_of_each` shares the cores
out. They read files and change nothing; where there are none (macOS), they say what Python knows. `root` is where
/proc and /sys are found.

`cache_folders` says where something may lie for longer than a run.

Go next to `penstock.jobs.settings`, which sizes a local session by it, and to `penstock.jobs.tensors`, which
bounds a transfer by it: an out-of-memory kill leaves no message, a bound does.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Version 2 and version 1 of control groups: the limit's file, the file of what is used, and the line of
# memory.stat for page cache. All count the groups below; version 1's plain inactive_file would not.
MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that this process may use: its affinity, or its container's quota if that is less; at least 1.

    >>> usable_cores() >= 1
    True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = (quota for folder in _groups("cpu", root) for quota in _quotas(folder))
    return max(1, int(min([cores, *quotas])))


def cores_of_each(processes: int, root: Path = Path("/")) -> int:
    """Cores for each of so many processes like this one: a share; or its own, where it was given some; at least 1.

    Launchers that bind each process to cores of its own leave it fewer than they have themselves.

    >>> 1 <= cores_of_each(4) <= usable_cores()
    True
    """
    cores = usable_cores(root)
    if processes == 1 or _bound():
        return cores
    return max(cores // processes, 1)


def _bound() -> bool:
    """Whether this process may run on fewer cores than its parent."""
    try:
        return len(os.sched_getaffinity(0)) < len(os.sched_getaffinity(os.getppid()))
    except (AttributeError, OSError):  # not Linux; the parent has ended
        return False


def free_memory(root: Path = Path("/")) -> int:
    """Bytes that this process could still take: the least of what the machine and its groups leave.

    >>> free_memory() > 0
    True
    """
    left = (free for folder in _groups("memory", root) for free in _left(folder))
    return min([_available(root), *left])


def cache_folders() -> Iterator[Path]:
    """Where Penstock may keep files, best first: the user's cache, else a folder of theirs for temporary files.

    >>> all(folder.is_absolute() for folder in cache_folders())
    True
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # the XDG rules say that a relative path is to be ignored
        yield Path(named) / "penstock"
    else:
        home = os.path.expanduser("~")
        if os.path.isabs(home):  # some containers' users have none
            yield Path(home) / ".cache" / "penstock"
    yield Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"


def own_folder(folder: Path) -> None:
    """Create `folder` for this user alone, or refuse one that somebody else could have prepared."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def _available(root: Path) -> int:
    """What the machine has available, containers aside."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    if found:
        return int(found.group(1)) << 10
    # Not Linux: half of the memory there is, since what is free is not told in a portable way.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _left(folder: Path) -> Iterator[int]:
    """What a group's memory limit leaves; nothing where it has no limit."""
    for limit_file, used_file, cache_line in MEMORY_FILES:
        limit, used = _read(folder / limit_file), _read(folder / used_file)
        if not limit.isdigit():  # no such file, or "max"
            continue
        # Page cache counts as used, yet gives way.
        cache = re.search(rf"^{cache_line} (\d+)$", _read(folder / "memory.stat"), re.MULTILINE)
        taken = (int(used) if used.isdigit() else 0) - (int(cache.group(1)) if cache else 0)
        yield max(int(limit) - max(taken, 0), 0)


def _quotas(folder: Path) -> Iterator[float]:
    """A group's limit in cores; nothing where it has none."""
    period = _read(folder / "cpu.cfs_period_us")
    for text in (_read(folder / "cpu.max"), f"{_read(folder / 'cpu.cfs_quota_us')} {period}"):
        if found := re.fullmatch(r"(\d+) (\d+)", text):  # else no such file, or "max", or -1
            yield int(found.group(1)) / int(found.group(2))


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders of this process's control groups for `controller`, from its own up to the root.

    Version 2 has one tree of groups, version 1 one per controller. In a container the group's own path often
    leads nowhere, because the container sees its group as the root; hence all the folders upward.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controllers and controller)
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(top):
                break
            yield folder


def _read(path: Path) -> str:
    """A file's text; empty where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
