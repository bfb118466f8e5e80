"""Loaders over S3 (moto's server, over HTTP): the batches of the local dataset, with and without a cache on disk.

What is asked of the server is what its own recorder wrote down.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from left_behind import open_below, strangers

import penstock as pk
from penstock.dataset.snapshot import Snapshot, open_version
from penstock.dataset.store import Store, open_store
from penstock.dataset.stores.disk_cache import FOLDER
from penstock.errors import CorruptError, DatasetMissing, StorageError
from penstock.feed.loaders import FAR_THREADS
from penstock.feed.plan.route import Fetch
from penstock.feed.reading.source import RowSource

ROWS, WIDTH = 4096, 64
"""1 MiB of numbers in blocks of 32 KiB."""
FORMATS: dict[str, dict[str, Any]] = {
    "arrow": {},
    "zstd": {"compression": "zstd"},
    "parquet": {"format": "parquet"},
}


def rows(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    numbers = random.random(ROWS * WIDTH, dtype=np.float32)
    lists = [list(range(n % 5)) for n in range(ROWS)]
    return pa.table(
        {"x": pa.FixedSizeListArray.from_arrays(numbers, WIDTH), "id": np.arange(ROWS) + seed, "words": lists}
    )


TENSORS = {"x": "x", "id": "id", "words": pk.ragged("words")}


def write(path: str | Path, kind: str, seed: int = 0, **more: Any) -> pk.Dataset:
    options = FORMATS[kind] | more
    return pk.write(rows(seed), path, TENSORS, shuffle=False, shards=4, block_bytes=32 << 10, **options)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("written")
    for kind in FORMATS:
        write(root / kind, kind)
    (root / "plain").mkdir()
    for number in range(3):
        table = rows(0).slice(number * 1000, 1000).select(["x", "id"])
        pq.write_table(table, root / "plain" / f"part-{number}.parquet", row_group_size=120)
    return {kind: root / kind for kind in (*FORMATS, "plain")}


def upload(folder: Path, root: str) -> Store:
    store = open_store(root)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.put(path.relative_to(folder).as_posix(), path.read_bytes())
    return store


@dataclass(frozen=True)
class Asked:
    """A request to the server."""

    method: str
    name: str
    bytes: int | None
    """Of the range asked for."""


def _asked(line: str) -> Asked:
    entry = json.loads(line)
    headers = {name.lower(): value for name, value in entry["headers"].items()}
    span = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
    size = int(span[2]) - int(span[1]) + 1 if span else None
    return Asked(entry["method"], entry["url"].partition("?")[0], size)


@pytest.fixture
def recorder(s3_server: str) -> Callable[[], Any]:
    def call(action: str) -> str:
        method = "GET" if action.startswith("download") else "POST"
        request = urllib.request.Request(f"{s3_server}/moto-api/recorder/{action}", method=method)
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())

    @contextmanager
    def recorded() -> Iterator[list[Asked]]:
        found: list[Asked] = []
        call("reset-recording")
        call("start-recording")
        try:
            yield found
        finally:
            call("stop-recording")
            found += [_asked(line) for line in call("download-recording").splitlines()]

    return recorded


def data_gets(asked: list[Asked]) -> list[Asked]:
    """Of the files that hold rows."""
    return [each for each in asked if each.method == "GET" and re.search(r"/shards/|\.parquet", each.name)]


def epoch(loader: Any) -> list[dict[str, Any]]:
    """Copies of all batches, as arrays and lists."""
    found = []
    for batch in loader:
        found.append({name: plain(each) for name, each in batch.items()})
    return found


def plain(tensor: Any) -> Any:
    if hasattr(tensor, "offsets"):
        return np.asarray(tensor.values).tolist(), np.asarray(tensor.offsets).tolist()
    return np.array(tensor if isinstance(tensor, np.ndarray) else tensor.numpy())


def assert_same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_equal(one[name], other[name])


def in_cache(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / FOLDER).iterdir() if path.name != "total")


@pytest.mark.parametrize("kind", [*FORMATS, "plain"])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_epochs_are_those_of_the_local_dataset(
    written, s3_bucket: str, tmp_path: Path, recorder, kind: str, framework: str
) -> None:
    root = f"s3://{s3_bucket}/train"
    upload(written[kind], root)
    local = getattr(pk.open(written[kind]), framework)(100, seed=3, lanes=8)
    expected = [epoch(local) for _ in range(2)]
    direct = getattr(pk.open(root), framework)(100, seed=3, lanes=8)
    assert_same(epoch(direct), expected[0])
    with recorder() as asked:
        cached = getattr(pk.open(root, cache_dir=tmp_path), framework)(100, seed=3, lanes=8)
        assert_same(epoch(cached), expected[0])
    assert data_gets(asked)
    with recorder() as asked:
        assert_same(epoch(cached), expected[1])
    assert asked == [], "the second epoch asked the server"
    with recorder() as asked:
        later = getattr(pk.open(root, cache_dir=tmp_path), framework)(100, seed=3, lanes=8)
        assert_same(epoch(later), expected[0])
    # A plain folder's footers are read when it is opened, always from the store.
    assert kind == "plain" or data_gets(asked) == []
    assert asked, "the manifest has to come from the server"
    assert all(len(path.name) == 32 for path in in_cache(tmp_path))
    for loader in (local, direct, cached, later):
        loader.close()
    assert strangers() == []
    assert open_below(tmp_path) == []


def test_a_cold_epoch_with_a_cache_fetches_every_byte_once(
    written, s3_bucket: str, tmp_path: Path, recorder
) -> None:
    root = f"s3://{s3_bucket}/train"
    for kind in ("arrow", "parquet"):
        upload(written[kind], f"{root}-{kind}")
        ds = pk.open(f"{root}-{kind}", cache_dir=tmp_path / kind)
        with recorder() as asked:
            epoch(ds.numpy(100, lanes=8))
        fetched = sum(each.bytes or 0 for each in data_gets(asked))
        assert 0.9 * ds.bytes < fetched <= ds.bytes, kind


def test_readers_do_not_depend_on_cores(written, s3_bucket: str) -> None:
    upload(written["arrow"], f"s3://{s3_bucket}/train")
    loader = pk.open(f"s3://{s3_bucket}/train").numpy(100)
    assert loader.settings.threads == FAR_THREADS
    assert pk.open(written["arrow"]).numpy(100).settings.threads < FAR_THREADS
    next(iter(loader))
    assert loader.stats.threads == FAR_THREADS
    assert pk.open(f"s3://{s3_bucket}/train").numpy(100, threads=3).settings.threads == 3


def snapshot_of(root: str) -> Snapshot:
    return open_version(open_store(root), 1)


def read_run(source: RowSource, run: Fetch, most: int) -> bytes:
    """A run of x in parts, as a GPU's pinned stages take it."""
    check, found = source.check(run), b""
    for part in run.parts(most):
        room = bytearray(part.rows * WIDTH * 4)
        source.read(part, {"x": memoryview(room)}, check)
        found += bytes(room)
    return found


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_in_parts_is_fetched_once(written, s3_bucket: str, recorder, kind: str) -> None:
    upload(written[kind], f"s3://{s3_bucket}/train")
    snapshot = snapshot_of(f"s3://{s3_bucket}/train")
    block = int(snapshot.index.rows[0])
    source = RowSource(snapshot, [snapshot.spec("x")], np.zeros(len(snapshot.index), bool))
    expected = rows(0)["x"].combine_chunks().values.to_numpy()[: block * WIDTH].tobytes()
    assert read_run(source, Fetch(0, 0, block, 0), block) == expected
    with recorder() as once:
        assert read_run(source, Fetch(0, 0, block, 0), block) == expected
    with recorder() as parts:
        assert read_run(source, Fetch(0, 0, block, 0), 7) == expected
    assert data_gets(parts) == data_gets(once)
    if kind == "arrow":
        with recorder() as some:
            assert read_run(source, Fetch(0, 5, 20, 0), 7) == expected[5 * WIDTH * 4 : 25 * WIDTH * 4]
        assert [each.bytes for each in data_gets(some)] == [20 * WIDTH * 4]
    source.close()


def test_long_ranges_come_in_parts(s3_bucket: str, recorder) -> None:
    store = open_store(f"s3://{s3_bucket}/x")
    data = np.random.default_rng(0).bytes(20 << 20)
    store.put("shards/a", data)
    with recorder() as asked:
        first, second = store.read_ranges("shards/a", [(5, (17 << 20) - 1), (19 << 20, 100)])
    assert bytes(first) == data[5 : (17 << 20) + 4]
    assert bytes(second) == data[19 << 20 : (19 << 20) + 100]
    assert len(data_gets(asked)) == 3
    with pytest.raises(EOFError, match="ends at byte"):
        store.read_ranges("shards/a", [(0, (20 << 20) + 1)])
    with pytest.raises(FileNotFoundError, match="shards/b"):
        store.read_ranges("shards/b", [(0, 20 << 20)])


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_and_deleted_cache_files_are_read_anew(
    written, s3_bucket: str, tmp_path: Path, recorder, kind: str
) -> None:
    root = f"s3://{s3_bucket}/train"
    upload(written[kind], root)
    expected = epoch(pk.open(written[kind]).numpy(100, shuffle=False))
    loader = pk.open(root, cache_dir=tmp_path).numpy(100, shuffle=False)
    assert_same(epoch(loader), expected)
    for number, path in enumerate(in_cache(tmp_path)):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 16
        [path.unlink, lambda: os.truncate(path, 1000), lambda: path.write_bytes(data)][number % 3]()  # noqa: B023
    with recorder() as asked:
        assert_same(epoch(loader), expected)
    assert data_gets(asked)
    with recorder() as asked:
        assert_same(epoch(loader), expected)
    assert asked == []


def bytes_now(folder: Path) -> int:
    """What the cache takes, while no reader begins a file or renames one."""
    with (folder / FOLDER / "total").open("rb") as total:
        fcntl.flock(total, fcntl.LOCK_EX)
        return sum(path.stat().st_size for path in in_cache(folder))


def test_the_limit_holds_while_an_epoch_runs(written, s3_bucket: str, tmp_path: Path) -> None:
    upload(written["arrow"], f"s3://{s3_bucket}/train")
    ds = pk.open(f"s3://{s3_bucket}/train", cache_dir=tmp_path, cache_bytes=1 << 20)
    assert ds.bytes > 1.1 * (1 << 20)
    loader = ds.numpy(100)
    for _ in range(2):
        assert_same(epoch(pk.open(written["arrow"]).numpy(100)), epoch(ds.numpy(100)))
        for _ in loader:
            assert bytes_now(tmp_path) <= 1 << 20
    assert len(in_cache(tmp_path)) > 20


def test_versions_are_never_stale_and_do_not_mix(s3_bucket: str, tmp_path: Path) -> None:
    root = f"s3://{s3_bucket}/train"
    write(root, "arrow", seed=0)
    old = pk.open(root, cache_dir=tmp_path)
    first = old.read()["id"]
    write(root, "arrow", seed=5000, mode="overwrite")
    new = pk.open(root, cache_dir=tmp_path)
    assert (old.version, new.version, old.versions()) == (1, 2, [1, 2])
    np.testing.assert_array_equal(new.read()["id"], first + 5000)
    np.testing.assert_array_equal(new.at(1).read()["id"], first)
    np.testing.assert_array_equal(old.at(2).read()["id"], first + 5000)


def test_the_same_names_elsewhere_do_not_mix(written, s3_bucket: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        upload(written["plain"], f"s3://{s3_bucket}/{name}")
    pk.open(f"s3://{s3_bucket}/one", cache_dir=tmp_path).read()
    kept = len(in_cache(tmp_path))
    pk.open(f"s3://{s3_bucket}/two", cache_dir=tmp_path).read()
    assert len(in_cache(tmp_path)) == 2 * kept


def test_a_plain_file_that_was_replaced_is_read_anew(written, s3_bucket: str, tmp_path: Path) -> None:
    root = f"s3://{s3_bucket}/plain"
    store = upload(written["plain"], root)
    before = pk.open(root, cache_dir=tmp_path).read()["id"]
    name = "part-1.parquet"
    table = pq.read_table(written["plain"] / name)
    other = table.set_column(1, "id", pa.array(np.arange(9000, 10_000)))
    size = store.size(name)
    pq.write_table(other, tmp_path / name, row_group_size=120)
    store.put(name, (tmp_path / name).read_bytes())
    after = pk.open(root, cache_dir=tmp_path).read()["id"]
    np.testing.assert_array_equal(after[1000:2000], np.arange(9000, 10_000))
    np.testing.assert_array_equal(after[:1000], before[:1000])
    assert abs(store.size(name) - size) < 4096, "the size alone should not tell"


def test_verify_looks_at_the_storage(written, s3_bucket: str, tmp_path: Path) -> None:
    root = f"s3://{s3_bucket}/train"
    store = upload(written["arrow"], root)
    ds = pk.open(root, cache_dir=tmp_path)
    epoch(ds.numpy(100))
    ds.verify()
    name = ds.shards[1].file
    data = bytearray(store.read(name))
    data[len(data) // 2] ^= 1
    store.put(name, bytes(data))
    with pytest.raises(CorruptError, match=re.escape(name)):
        ds.verify()


def test_damage_on_the_storage_is_found_on_the_way_into_the_cache(
    written, s3_bucket: str, tmp_path: Path
) -> None:
    for kind in FORMATS:
        root = f"s3://{s3_bucket}/{kind}"
        store = upload(written[kind], root)
        ds = pk.open(root, cache_dir=tmp_path)
        name = ds.shards[2].file
        data = bytearray(store.read(name))
        data[len(data) // 2] ^= 1
        store.put(name, bytes(data))
        for _ in range(2):  # from the store, then from the cache
            with pytest.raises(CorruptError, match=re.escape(name)):
                epoch(ds.numpy(100))


def take_away(store: Store) -> None:
    """The bucket, with all that is in it."""
    store.delete([entry.name for entry in store.entries()])
    bucket = store.root.split("/")[2]
    address = f"{os.environ['AWS_ENDPOINT_URL']}/{bucket}"
    urllib.request.urlopen(urllib.request.Request(address, method="DELETE")).close()


@pytest.mark.parametrize(
    ("kind", "cached"),
    [*((kind, False) for kind in (*FORMATS, "plain")), ("arrow", True), ("zstd", True)],
)
def test_a_bucket_deleted_midway_is_an_error_that_names_a_file(
    written, s3_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, cached: bool
) -> None:
    # The test's files are small, and one page would hold a whole one.
    monkeypatch.setattr("penstock.dataset.stores.cached.PAGE", 16 << 10)
    store = upload(written[kind], f"s3://{s3_bucket}/train")
    ds = pk.open(store.root, cache_dir=tmp_path if cached else None)
    loader = ds.numpy(16, lanes=2, memory=1 << 20)
    batches = iter(loader)
    for _ in range(2):
        next(batches)
    take_away(store)
    with pytest.raises((CorruptError, StorageError, DatasetMissing)) as caught:
        epoch(batches)
    assert any(shard.file in str(caught.value) for shard in ds.shards), caught.value
    loader.close()
    assert strangers() == []


def test_a_warm_cache_does_without_the_server(written, s3_bucket: str, tmp_path: Path) -> None:
    store = upload(written["zstd"], f"s3://{s3_bucket}/train")
    loader = pk.open(store.root, cache_dir=tmp_path).numpy(100)
    local = pk.open(written["zstd"]).numpy(100)
    assert_same(epoch(loader), epoch(local))
    take_away(store)
    assert_same(epoch(loader), epoch(local))


RANK = textwrap.dedent("""
    import sys
    import numpy as np
    import penstock as pk

    root, cache, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
    loader = pk.open(root, cache_dir=cache).numpy(64, rank=rank, world=2, lanes=8, last="short")
    for turn in range(2):
        found = np.concatenate([batch["id"] for batch in loader])
        np.save(f"{sys.argv[4]}/{turn}-{rank}.npy", found)
""")


def test_ranks_share_a_cache(written, s3_bucket: str, tmp_path: Path, recorder) -> None:
    root = f"s3://{s3_bucket}/train"
    upload(written["arrow"], root)
    for turn in range(2):
        with recorder() as asked:
            arguments = [root, str(tmp_path / "cache")]
            ranks = [
                subprocess.Popen([sys.executable, "-c", RANK, *arguments, str(rank), str(tmp_path)])
                for rank in range(2)
            ]
            assert [rank.wait(120) for rank in ranks] == [0, 0]
        for number in range(2):
            found = np.concatenate([np.load(tmp_path / f"{number}-{rank}.npy") for rank in range(2)])
            np.testing.assert_array_equal(np.sort(found), np.arange(ROWS))
        assert bool(data_gets(asked)) == (turn == 0)
    assert all(len(path.name) == 32 for path in in_cache(tmp_path / "cache"))
