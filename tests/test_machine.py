"""What the machine has, read from made-up /proc and /sys trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.machine import cores_of_each, free_memory, usable_cores

AVAILABLE = 8 << 30
MEMINFO = f"MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable:    {AVAILABLE >> 10} kB\nBuffers: 2 kB"
UNLIMITED = "9223372036854771712"  # how version 1 writes it

Files = dict[str, str]


def machine(root: Path, groups: str, files: Files, meminfo: str = MEMINFO) -> Path:
    """A root folder with this /proc/self/cgroup, these files under /sys/fs/cgroup and this /proc/meminfo."""
    tree = {"proc/self/cgroup": groups, "proc/meminfo": meminfo}
    tree |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def v2(folder: str, limit: object, used: int, cache: int = 0) -> Files:
    stat = f"anon 1\nfile 2\ninactive_anon 3\nactive_file 4\ninactive_file {cache}\nslab 5"
    return {
        f"{folder}memory.max": str(limit),
        f"{folder}memory.current": str(used),
        f"{folder}memory.stat": stat,
    }


def v1(folder: str, limit: object, used: int, cache: int = 0) -> Files:
    # inactive_file is what this group itself has, without the groups below, which used counts.
    stat = f"cache 1\ninactive_file 7\nactive_file 4\ntotal_inactive_file {cache}\ntotal_active_file 5"
    return {
        f"memory/{folder}memory.limit_in_bytes": str(limit),
        f"memory/{folder}memory.usage_in_bytes": str(used),
        f"memory/{folder}memory.stat": stat,
    }


V1 = "5:cpu,cpuacct:/a/b\n4:memory:/a/b\n1:name=systemd:/a\n0::/"


@pytest.mark.parametrize(
    ("groups", "files", "free"),
    [
        pytest.param("0::/", {}, AVAILABLE, id="v2, no limits"),
        pytest.param("0::/", v2("", 5000, 1000), 4000, id="v2"),
        pytest.param("0::/", v2("", 5000, 1000, 300), 4300, id="v2, page cache gives way"),
        pytest.param("0::/a", v2("a/", "max", 1000), AVAILABLE, id="v2, max"),
        pytest.param("0::/", v2("", 2 * AVAILABLE, 1), AVAILABLE, id="v2, the machine has less"),
        pytest.param("0::/", v2("", 5000, 6000), 0, id="v2, over its limit"),
        pytest.param("0::/", v2("", 5000, 100, 900), 5000, id="v2, more cache than use"),
        pytest.param("0::/a/b", v2("a/b/", "max", 10) | v2("a/", 900, 400), 500, id="v2, the parent's"),
        pytest.param("0::/a/b", v2("a/b/", 300, 10) | v2("a/", 900, 800), 100, id="v2, the parent is full"),
        pytest.param("0::/a/b", v2("a/b/", 300, 10) | v2("a/", 900, 20), 290, id="v2, the child's"),
        pytest.param("0::/a", v2("a/", 900, 20) | v2("b/", 1, 0), 880, id="v2, another group's"),
        pytest.param("0::/gone/away", v2("", 700, 20), 680, id="v2, a container's group as the root"),
        pytest.param("0::/../../x", v2("", 700, 20), 680, id="v2, a group outside the namespace"),
        pytest.param(V1, {}, AVAILABLE, id="v1, no files"),
        pytest.param(V1, v1("a/b/", 5000, 1000, 300), 4300, id="v1"),
        pytest.param(V1, v1("a/b/", UNLIMITED, 1000), AVAILABLE, id="v1, no limit"),
        pytest.param(V1, v1("a/b/", UNLIMITED, 10) | v1("a/", 900, 400, 50), 550, id="v1, the parent's"),
        pytest.param(V1, v1("", 900, 400), 500, id="v1, a container's group as the root"),
        pytest.param("5:cpu:/a\n0::/", v1("a/", 900, 400), AVAILABLE, id="v1, of another controller"),
        pytest.param("0::/", {"memory.max": "5000"}, 5000, id="a limit alone"),
        pytest.param("0::/", {"memory.max": "5000", "memory.current": "10"}, 4990, id="without memory.stat"),
        pytest.param(
            "0::/", {"memory.current": "10", "memory.stat": "inactive_file 5"}, AVAILABLE, id="no max"
        ),
        pytest.param("", v2("", 5000, 1000), AVAILABLE, id="no group"),
    ],
)
def test_free_memory_is_the_least_that_the_machine_and_the_groups_leave(tmp_path, groups, files, free):
    assert free_memory(machine(tmp_path, groups, files)) == free


def test_without_proc_it_is_half_of_the_memory(tmp_path):
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    assert free_memory(tmp_path) == half
    assert free_memory(machine(tmp_path, "0::/", {}, meminfo="MemTotal: 5 kB")) == half


CPU1 = {"cpu/a/b/cpu.cfs_quota_us": "200000", "cpu/a/b/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        pytest.param("0::/", {}, 8, id="v2, no quota"),
        pytest.param("0::/", {"cpu.max": "max 100000"}, 8, id="v2, max"),
        pytest.param("0::/", {"cpu.max": "300000 100000"}, 3, id="v2"),
        pytest.param("0::/", {"cpu.max": "250000 100000"}, 2, id="v2, a fraction is rounded down"),
        pytest.param("0::/", {"cpu.max": "50000 100000"}, 1, id="v2, less than one"),
        pytest.param("0::/", {"cpu.max": "6400000 100000"}, 8, id="v2, more than the affinity"),
        pytest.param("0::/a", {"a/cpu.max": "max 10", "cpu.max": "50 10"}, 5, id="v2, the parent's"),
        pytest.param(V1, CPU1, 2, id="v1"),
        pytest.param(V1, CPU1 | {"cpu/a/b/cpu.cfs_quota_us": "-1"}, 8, id="v1, no quota"),
        pytest.param(
            V1,
            CPU1 | {"cpu/a/cpu.cfs_quota_us": "10", "cpu/a/cpu.cfs_period_us": "10"},
            1,
            id="v1, the parent's",
        ),
        pytest.param(V1, {"cpu/a/b/cpu.cfs_quota_us": "10"}, 8, id="v1, no period"),
        pytest.param("4:memory:/a/b", CPU1, 8, id="v1, of another controller"),
        pytest.param("", {"cpu.max": "10 10"}, 8, id="no group"),
    ],
)
def test_cores_are_the_affinity_or_the_least_quota(tmp_path, monkeypatch, groups, files, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert usable_cores(machine(tmp_path, groups, files)) == cores


def test_without_proc_the_affinity_counts_or_else_all_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert usable_cores(tmp_path) == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores(tmp_path) == 1


@pytest.mark.parametrize(
    ("own", "parents", "processes", "cores"),
    [(16, 16, 1, 16), (16, 16, 4, 4), (16, 16, 5, 3), (16, 16, 64, 1), (2, 16, 8, 2), (2, 16, 1, 2)],
)
def test_cores_are_shared_unless_each_process_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: int, parents: int, processes: int, cores: int
) -> None:
    affinity = {0: own, os.getppid(): parents}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(affinity[process])), raising=False)
    assert cores_of_each(processes, machine(tmp_path, "0::/", {})) == cores


def test_cores_are_shared_where_nothing_tells_of_the_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def affinity(process: int) -> set[int]:
        if process:
            raise ProcessLookupError
        return set(range(16))

    monkeypatch.setattr(os, "sched_getaffinity", affinity, raising=False)
    assert cores_of_each(4, machine(tmp_path, "0::/", {})) == 4
