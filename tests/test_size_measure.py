"""`penstock size --measure`: what was read, past which cache, and that nothing stays behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.errors import SizeError
from penstock.tools import size_measure
from penstock.tools.size_measure import IN_MEMORY, Measurement, filesystem_of, measure

MIB = 1 << 20


def test_a_folder_is_written_and_read_and_left_as_it_was(tmp_path: Path) -> None:
    found = measure(tmp_path, most_bytes=3 * MIB + 1)
    assert list(tmp_path.iterdir()) == []
    assert (found.path, found.bytes) == (str(tmp_path), 3 * MIB + 1)
    assert found.bandwidth == pytest.approx(found.bytes / found.seconds)
    assert found.write_bandwidth is not None
    assert found.write_bandwidth > 0
    assert "written and synced at" in str(found)


@pytest.mark.parametrize("length", [1, 511, 4096, 5000, 9 * MIB, 9 * MIB + 7])
def test_a_file_is_read_to_its_end_and_stays_as_it_is(tmp_path: Path, length: int) -> None:
    path, content = tmp_path / "file", os.urandom(length)
    path.write_bytes(content)
    found = measure(path, least_bytes=1)
    assert (found.bytes, found.write_bandwidth) == (length, None)
    assert path.read_bytes() == content
    assert found.to_dict()["in_memory"] is found.in_memory


def test_latency_is_not_taken_for_bandwidth(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(5000))
    with pytest.raises(SizeError, match=r"has 5 kB, too little: .* at least 33\.55 MB, or its folder"):
        measure(path)
    with path.open("r+b") as file:
        file.truncate(size_measure.LEAST_BYTES)
    assert measure(path).bytes == size_measure.LEAST_BYTES


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(20 * MIB))
    assert measure(path, least_bytes=1, most_bytes=8 * MIB).bytes == 8 * MIB
    assert measure(path, least_bytes=1, most_seconds=0.0).bytes == 8 * MIB


def test_the_page_cache_is_dropped_and_probed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(4 * MIB))
    if filesystem_of(path) in (*IN_MEMORY, "overlay", None):
        pytest.skip("the probe is about a disk's filesystem")
    handle = os.open(path, os.O_RDONLY)
    before = size_measure._cached_share(handle, 4 * MIB)
    os.close(handle)
    if before is None:
        pytest.skip("this kernel cannot be asked")
    assert before == 1.0
    found = measure(path, least_bytes=1).cached
    assert found is not None
    assert found < 0.5  # the kernel keeps a page that it has at hand just then


def test_a_filesystem_that_refuses_reads_past_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MIB))
    real_open, real_read, refused = os.open, os.preadv, []

    def refusing_open(name: object, flags: int, *more: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "no")
        return real_open(name, flags, *more)

    monkeypatch.setattr(os, "open", refusing_open)
    found = measure(path, least_bytes=1)
    assert (found.direct, found.bytes) == (False, MIB)
    monkeypatch.setattr(os, "open", real_open)

    def refusing_read(handle: int, buffers: list[memoryview], at: int, *flags: int) -> int:
        import fcntl

        if not flags and fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(at)
            raise OSError(errno.EINVAL, "no")
        return real_read(handle, buffers, at, *flags)

    monkeypatch.setattr(os, "preadv", refusing_read)
    found = measure(path, least_bytes=1)
    assert (found.direct, found.bytes) == (False, MIB)
    # A filesystem that refuses the flag already never comes to the read.
    assert len(refused) <= 1


def test_memory_is_called_memory() -> None:
    if filesystem_of(Path("/dev/shm")) != "tmpfs":
        pytest.skip("no tmpfs here")
    found = measure("/dev/shm", most_bytes=MIB)
    assert found.in_memory
    assert "which is memory and no storage" in str(found)


@pytest.mark.parametrize(
    ("direct", "cached", "said"),
    [
        (True, 1.0, "past the page cache (O_DIRECT)"),
        (False, 0.0, "after the page cache had dropped it"),
        (False, 0.25, "about 25% still lay in the page cache, so storage is slower"),
        (False, None, "could not be asked"),
    ],
)
def test_it_says_what_was_measured(direct: bool, cached: float | None, said: str) -> None:
    found = Measurement("d", 2e9, 10**9, 0.5, direct, cached, "ext4")
    assert said in str(found)
    assert "2 GB/s measured: a file on d (ext4), 1 GB in 500 ms by one reader in order" in str(found)
    assert found.in_memory is (not direct and bool(cached))


def test_the_nearest_mount_counts(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"a / ext4 rw\nb {tmp_path} xfs rw\nc {tmp_path}/a\\040b nfs4 rw\nd {tmp_path}/a tmpfs rw\n"
    )
    assert filesystem_of(tmp_path / "x", mounts) == "xfs"
    assert filesystem_of(tmp_path / "a b" / "x", mounts) == "nfs4"
    assert filesystem_of(tmp_path / "ab", mounts) == "xfs"
    assert filesystem_of(Path("/"), mounts) == "ext4"
    assert filesystem_of(tmp_path, tmp_path / "none") is None


def test_what_cannot_be_measured_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(SizeError, match="has 0 B, too little"):
        measure(tmp_path / "empty")
    with pytest.raises(SizeError, match="no such file or folder"):
        measure(tmp_path / "none")
    with pytest.raises(SizeError, match="not on this machine"):
        measure("s3://bucket/train")
    with pytest.raises(SizeError, match="neither a file nor a folder"):
        measure("/dev/null")
    with pytest.raises(SizeError, match="would fill it"):
        measure(tmp_path, most_bytes=1 << 60)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SizeError, match="No space left on device"):
        measure(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["empty"]
