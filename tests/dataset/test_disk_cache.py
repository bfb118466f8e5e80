"""Bytes kept on disk come back as they were or not at all, below the limit, whoever shares the folder."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.dataset.store import CachedStore, Content, DiskCache, knowing, open_store, uncached, with_cache
from penstock.dataset.stores.cached import PAGE
from penstock.dataset.stores.disk_cache import FOLDER, HEADER
from penstock.errors import DatasetError, StorageError

MIB = 1 << 20


def key(number: int) -> str:
    return f"{number:032x}"


def content(number: int, size: int) -> bytes:
    return np.random.default_rng(number).bytes(size)


def never() -> bytes:
    raise AssertionError("it was read again")


def entries(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (folder / FOLDER).iterdir() if path.name != "total"}


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(str(tmp_path), 10 * MIB)


def test_what_is_kept_comes_back(cache: DiskCache, tmp_path: Path) -> None:
    for number, size in enumerate((1, 4096, MIB)):
        data = content(number, size)
        assert bytes(cache.through(key(number), size, lambda data=data: data)) == data
        for again in (cache, DiskCache(str(tmp_path), 10 * MIB)):
            assert bytes(again.through(key(number), size, never)) == data
    assert cache.get(key(9), 1) is None
    assert sorted(entries(tmp_path)) == [key(0), key(1), key(2)], "something was left beside the entries"


@pytest.mark.parametrize("place", [0, 9, 20, 28, 40, HEADER.size, HEADER.size + 5000, -1])
def test_a_flipped_byte_anywhere_is_read_anew(cache: DiskCache, tmp_path: Path, place: int) -> None:
    data = content(0, 10_000)
    cache.put(key(0), data)
    file = tmp_path / FOLDER / key(0)
    damaged = bytearray(file.read_bytes())
    damaged[place] ^= 1
    file.write_bytes(damaged)
    assert cache.get(key(0), 10_000) is None
    assert not file.exists(), "a damaged entry stays"
    assert bytes(cache.through(key(0), 10_000, lambda: data)) == data
    assert bytes(cache.through(key(0), 10_000, never)) == data


@pytest.mark.parametrize("size", [0, 10, HEADER.size, HEADER.size + 9_999, HEADER.size + 10_001])
def test_a_file_of_another_length_is_read_anew(cache: DiskCache, tmp_path: Path, size: int) -> None:
    data = content(0, 10_000)
    cache.put(key(0), data)
    os.truncate(tmp_path / FOLDER / key(0), size)
    assert bytes(cache.through(key(0), 10_000, lambda: data)) == data
    assert bytes(cache.through(key(0), 10_000, never)) == data


def test_an_entry_under_anothers_name_is_not_believed(cache: DiskCache, tmp_path: Path) -> None:
    cache.put(key(0), content(0, 100))
    os.rename(tmp_path / FOLDER / key(0), tmp_path / FOLDER / key(1))
    assert cache.get(key(1), 100) is None


def test_files_and_folder_deleted_under_it(cache: DiskCache, tmp_path: Path) -> None:
    data = content(0, 1000)
    cache.put(key(0), data)
    (tmp_path / FOLDER / key(0)).unlink()
    assert bytes(cache.through(key(0), 1000, lambda: data)) == data
    for path in (tmp_path / FOLDER).iterdir():
        path.unlink()
    (tmp_path / FOLDER).rmdir()
    assert bytes(cache.through(key(0), 1000, lambda: data)) == data
    assert bytes(cache.through(key(0), 1000, never)) == data


def test_the_limit_holds_and_what_was_used_longest_ago_goes_first(cache: DiskCache, tmp_path: Path) -> None:
    for number in range(9):
        cache.put(key(number), content(number, MIB))
    for number in (0, 2):  # used again, so not the oldest any more
        assert cache.get(key(number), MIB) is not None
        time.sleep(0.01)
    for number in range(9, 14):
        cache.put(key(number), content(number, MIB))
        assert sum(entries(tmp_path).values()) <= 10 * MIB
    kept = {number for number in range(14) if key(number) in entries(tmp_path)}
    assert {0, 2, 13} <= kept
    assert not kept & {1, 3, 4}
    assert len(kept) >= 8, "more was deleted than needed"


def test_a_smaller_limit_holds_from_the_beginning(cache: DiskCache, tmp_path: Path) -> None:
    for number in range(8):
        cache.put(key(number), content(number, MIB))
    DiskCache(str(tmp_path), 3 * MIB)
    assert sum(entries(tmp_path).values()) <= 3 * MIB


def test_only_its_own_files_are_counted_and_deleted(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes(5 * MIB))
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "notes.txt").write_bytes(bytes(5 * MIB))
    cache = DiskCache(str(tmp_path), 2 * MIB)
    for number in range(6):
        cache.put(key(number), content(number, MIB // 2))
    assert (tmp_path / "model.bin").exists()
    assert (tmp_path / FOLDER / "notes.txt").exists()
    assert len(entries(tmp_path)) >= 3


def test_what_a_killed_process_left_makes_room_in_its_turn(cache: DiskCache, tmp_path: Path) -> None:
    left = tmp_path / FOLDER / f"{key(99)}.{uuid.uuid4().hex[:12]}"
    left.write_bytes(bytes(6 * MIB))
    os.utime(left, (1e9, 1e9))
    cache = DiskCache(str(tmp_path), 10 * MIB)
    for number in range(5):
        cache.put(key(number), content(number, MIB))
        assert sum(entries(tmp_path).values()) <= 10 * MIB
    assert not left.exists()
    assert len(entries(tmp_path)) == 5


def test_an_entry_larger_than_the_limit_is_told_of_once(tmp_path: Path, capfd) -> None:
    cache = DiskCache(str(tmp_path), MIB)
    for number in range(3):
        data = content(number, 2 * MIB)
        assert bytes(cache.through(key(number), len(data), lambda data=data: data)) == data
    assert entries(tmp_path) == {}
    told = capfd.readouterr().err
    assert told.count("penstock: ") == 1
    assert "2.1 MB were read at once, and the limit is 1.0 MB. Pass a larger cache_bytes" in told


def test_a_thread_that_looked_too_early_does_not_read_again(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looks = cache.get, []

    def slow_to_tell(name: str, length: int) -> object:
        found = look(name, length)
        looks.append(name)
        if len(looks) == 1:  # it found nothing, and another thread has the entry before it goes on
            assert bytes(cache.through(key(0), 3, lambda: b"abc")) == b"abc"
        return found

    monkeypatch.setattr(cache, "get", slow_to_tell)
    assert bytes(cache.through(key(0), 3, never)) == b"abc"


def test_threads_that_want_one_entry_read_it_once(cache: DiskCache) -> None:
    calls, begun = [], threading.Event()

    def slowly() -> bytes:
        calls.append(1)
        begun.wait(5)
        return b"abc"

    with ThreadPoolExecutor(8) as threads:
        jobs = [threads.submit(cache.through, key(0), 3, slowly) for _ in range(8)]
        time.sleep(0.1)
        begun.set()
        assert [bytes(job.result()) for job in jobs] == [b"abc"] * 8
    assert len(calls) == 1


def test_an_error_reaches_all_who_wait_and_is_forgotten(cache: DiskCache) -> None:
    begun = threading.Event()

    def fails() -> bytes:
        begun.wait(5)
        raise StorageError("read", "s3://bucket/a", "no", "Try again.")

    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(cache.through, key(0), 3, fails) for _ in range(4)]
        time.sleep(0.1)
        begun.set()
        for job in jobs:
            with pytest.raises(StorageError, match="cannot read s3://bucket/a"):
                job.result()
    assert bytes(cache.through(key(0), 3, lambda: b"abc")) == b"abc"


SHARING = textwrap.dedent("""
    import sys, threading
    import numpy as np
    from penstock.dataset.store import DiskCache
    from penstock.dataset.stores.disk_cache import FOLDER

    folder, seed, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    cache = DiskCache(folder, limit)
    reads = 0

    def work(seed):
        global reads
        for number in np.random.default_rng(seed).integers(0, 40, 150).tolist():
            data = np.random.default_rng(number).bytes(100_000 + number)
            def read():
                global reads
                reads += 1
                return data
            if bytes(cache.through(f"{number:032x}", len(data), read)) != data:
                sys.exit("other bytes came back")

    threads = [threading.Thread(target=work, args=(seed * 10 + n,)) for n in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(reads)
""")


def bytes_now(folder: Path) -> int:
    """All entries together while none is begun: the lock is held, and one that is renamed is not counted twice."""
    if not (folder / FOLDER / "total").exists():
        return 0
    sizes = {}
    with (folder / FOLDER / "total").open("rb") as total:
        fcntl.flock(total, fcntl.LOCK_EX)
        for path in (folder / FOLDER).glob("[0-9a-f]*"):
            with suppress(FileNotFoundError):
                status = path.stat()
                sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def test_processes_share_a_folder_and_its_limit(tmp_path: Path) -> None:
    limit = 2_000_000
    command = [sys.executable, "-c", SHARING, str(tmp_path)]
    running = [
        subprocess.Popen([*command, str(seed), str(limit)], stdout=subprocess.PIPE, text=True)
        for seed in range(3)
    ]
    most = 0
    while any(process.poll() is None for process in running):
        most = max(most, bytes_now(tmp_path))
    assert [process.wait() for process in running] == [0, 0, 0]
    assert limit * 0.5 < most <= limit
    assert sum(entries(tmp_path).values()) <= limit
    assert all(len(name) == 32 for name in entries(tmp_path)), "a temporary file is left"
    reads = sum(int(process.stdout.read()) for process in running if process.stdout)
    assert reads < 3 * 3 * 150 * 0.9, "hardly anything was found again"


def test_a_full_disk_is_read_past_and_told_of_once(tmp_path: Path) -> None:
    code = """
        import resource, sys
        import numpy as np
        from penstock.dataset.store import DiskCache

        cache = DiskCache(sys.argv[1], 1 << 30)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        for number in range(5):
            data = np.random.default_rng(number).bytes(2 << 20)
            for _ in range(2):
                assert bytes(cache.through(f"{number:032x}", len(data), lambda: data)) == data
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("penstock: ") == 1
    assert f"not all is kept in {tmp_path / FOLDER}" in done.stderr
    assert "File too large. Free space there, or pass another cache_dir." in done.stderr
    assert entries(tmp_path) == {}


FULL = """
    import sys
    import numpy as np
    from penstock.dataset.store import DiskCache

    cache = DiskCache(sys.argv[1], 1 << 30)
    for number in [*range(8), *range(8)]:
        data = np.random.default_rng(number).bytes(1 << 20)
        assert bytes(cache.through(f"{number:032x}", len(data), lambda: data)) == data
    print(sum(cache.get(f"{number:032x}", 1 << 20) is not None for number in range(8)))
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    # A disk of 4 MiB, in a mount namespace that ends with the process.
    steps = 'mount -t tmpfs -o size=4m none "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "-r", "-m", "sh", "-c", steps, "-", tmp_path, sys.executable, textwrap.dedent(FULL)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("no disk may be mounted here; the test before this one has a disk that refuses")
    assert done.returncode == 0, done.stderr
    assert 1 <= int(done.stdout) <= 3
    assert done.stderr.count("penstock: ") == done.stderr.count("No space left on device") == 1


def test_without_a_limit_half_of_the_free_disk(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    free = disk.f_bavail * disk.f_frsize
    assert 0.4 * free < DiskCache(str(tmp_path), None).limit < 0.6 * free


@pytest.mark.parametrize("value", [0, -1, 200, 1.5e9, "200GB", True])
def test_a_limit_that_is_none(tmp_path: Path, value: object) -> None:
    with pytest.raises(DatasetError, match=r"cache_bytes=.*: a whole number of bytes is wanted"):
        pk.open("memory://far", cache_dir=tmp_path, cache_bytes=value)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for folder, message in {
        "s3://bucket/cache": "cannot cache in s3://bucket/cache: it is no folder of this machine. Pass a local path",
        "": r"cache_dir='': the path of a folder is wanted",
        3: r"cache_dir=3: the path of a folder is wanted",
        tmp_path
        / "file": r"cannot cache in .*/file: Not a directory. A file stands where a folder is needed",
    }.items():
        with pytest.raises(DatasetError, match=message):
            pk.open("memory://far", cache_dir=folder)
    with pytest.raises(
        DatasetError, match="cache_bytes=2097152 limits a cache, and there is none: pass cache_dir"
    ):
        pk.open("memory://far", cache_bytes=2 * MIB)


def test_a_path_of_this_machine_needs_none(tmp_path: Path) -> None:
    pk.write(pa.table({"a": [1, 2, 3]}), tmp_path / "data", shuffle=False)
    ds = pk.open(tmp_path / "data", cache_dir=tmp_path / "cache")
    assert ds.read()["a"].tolist() == [1, 2, 3]
    assert entries(tmp_path / "cache") == {}
    store = open_store(tmp_path)
    assert with_cache(store, DiskCache(str(tmp_path), MIB)) is store
    assert uncached(store) is store


@pytest.fixture
def far(tmp_path: Path) -> CachedStore:
    """A store behind a cache, with a shard and a Parquet file whose contents are known."""
    store = open_store(f"memory://{uuid.uuid4().hex}/root")
    sink = pa.BufferOutputStream()
    table = pa.table({f"c{n}": np.random.default_rng(n).random(300_000) for n in range(5)})
    pq.write_table(table, sink, row_group_size=50_000, compression="none")
    files = {"shards/a.arrow": content(0, 9 * MIB + 5), "a.parquet": sink.getvalue().to_pybytes()}
    for name, data in files.items():
        store.put(name, data)
    store.put("_penstock/v000001.json", b"{}")
    known = {name: Content(len(data), "tag") for name, data in files.items()}
    found = knowing(with_cache(store, DiskCache(str(tmp_path), 100 * MIB)), known)
    assert isinstance(found, CachedStore)
    assert len(files["a.parquet"]) > 2 * PAGE
    return found


@pytest.mark.parametrize("name", ["shards/a.arrow", "a.parquet"])
def test_ranges_are_those_of_the_store(far: CachedStore, name: str) -> None:
    random = np.random.default_rng(1)
    whole = uncached(far).read(name)
    for _ in range(30):
        ends = np.sort(random.integers(0, len(whole), (random.integers(1, 5), 2)), axis=1).tolist()
        ranges = [(start, stop - start) for start, stop in ends]
        for _ in range(2):
            found = far.read_ranges(name, ranges)
            assert [bytes(each) for each in found] == [whole[at : at + n] for at, n in ranges]
    assert bytes(far.read_range(name, 5, 7)) == whole[5:12]
    assert far.read_ranges(name, []) == []
    assert bytes(far.read_range(name, 10, 0)) == b""
    with pytest.raises(EOFError, match="ends at byte"):
        far.read_range(name, len(whole) - 3, 4)


def test_parquet_opens_from_pages(far: CachedStore, tmp_path: Path) -> None:
    expected = pq.read_table(pa.BufferReader(uncached(far).read("a.parquet")))
    for _ in range(2):
        with far.open_input("a.parquet") as file:
            assert pq.ParquetFile(file).read().equals(expected)
        uncached(far).delete(["a.parquet"])
    assert all(size <= HEADER.size + PAGE for size in entries(tmp_path).values())


def test_what_is_not_known_comes_from_the_store(far: CachedStore, tmp_path: Path) -> None:
    store = uncached(far)
    for text in (b"{}", b"{1}"):
        store.put("_penstock/v000001.json", text)
        assert far.read("_penstock/v000001.json") == text
        assert bytes(far.read_range("_penstock/v000001.json", 0, len(text))) == text
        assert far.size("_penstock/v000001.json") == len(text)
        assert [entry.bytes for entry in far.entries("_penstock")] == [len(text)]
    assert entries(tmp_path) == {}


def test_contents_of_one_name_do_not_mix(far: CachedStore) -> None:
    store, name = uncached(far), "shards/a.arrow"
    first = bytes(far.read_range(name, 0, 100))
    store.put(name, content(7, MIB))
    assert bytes(far.read_range(name, 0, 100)) == first, "what was opened is what is read"
    other = knowing(far, {name: Content(MIB, "another tag")})
    assert bytes(other.read_range(name, 0, 100)) == content(7, MIB)[:100]
