"""One contract for every kind of storage, then what is particular to each, then what executors write through."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.dataset.store import Store, open_store
from penstock.dataset.stores import local as local_store
from penstock.dataset.stores.target import LocalTarget
from penstock.errors import MissingDependency, StorageError
from penstock.jobs.crossing import ship_by_value


@pytest.fixture(params=["local", "file", "s3", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "s3":
        return open_store(f"s3://{request.getfixturevalue('s3_bucket')}/some/root")
    if request.param == "memory":
        return open_store(f"memory://{uuid.uuid4().hex}/root")
    root = tmp_path / "some root"
    return open_store(root if request.param == "local" else root.as_uri())


def names(store: Store, folder: str = "") -> list[str]:
    return [entry.name for entry in store.entries(folder)]


def test_what_is_written_is_read(store: Store) -> None:
    store.prepare()
    data = bytes(range(256)) * 40
    store.put("shards/a.bin", data)
    assert store.read("shards/a.bin") == data
    assert store.size("shards/a.bin") == len(data)
    assert bytes(store.read_range("shards/a.bin", 3, 500)) == data[3:503]
    assert bytes(store.read_range("shards/a.bin", len(data), 0)) == b""
    ranges = [(9000, 100), (0, 1), (5, 0), (20, 4000), (10, 30)]
    found = store.read_ranges("shards/a.bin", ranges)
    assert [bytes(part) for part in found] == [data[offset : offset + length] for offset, length in ranges]
    assert store.read_ranges("shards/a.bin", []) == []


def test_ranges_far_apart_come_back_in_their_order(store: Store) -> None:
    data = np.random.default_rng(0).bytes(5 << 20)
    store.put("big", data)
    ranges = [(4 << 20, 1000), (0, 1000), (2 << 20, 1000), ((4 << 20) + 2000, 10)]
    found = store.read_ranges("big", ranges)
    assert [bytes(part) for part in found] == [data[offset : offset + length] for offset, length in ranges]


def test_a_range_past_the_end_is_told_from_a_refusal(store: Store) -> None:
    store.put("short", b"0123456789")
    for ranges in ([(8, 5)], [(20, 3)], [(0, 2), (12, 2)]):
        with pytest.raises(EOFError, match="ends at byte 10"):
            store.read_ranges("short", ranges)
    with pytest.raises(EOFError, match=r"short ends at byte 10, and bytes 8 to 13"):
        store.read_range("short", 8, 5)


def test_many_threads_read_at_once(store: Store) -> None:
    data = np.arange(50_000, dtype=np.int32).tobytes()
    store.put("a", data)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: bytes(store.read_range("a", n * 700, 700)), range(200)))
    assert b"".join(found) == data[: 200 * 700]


def test_listing_is_recursive_and_relative(store: Store) -> None:
    before = time.time()
    store.put("a", b"1")
    store.put("shards/b", b"22")
    store.put("shards/deep/c", b"")
    store.put("shards2/d", b"4")
    assert [(entry.name, entry.bytes) for entry in store.entries()] == [
        ("a", 1),
        ("shards/b", 2),
        ("shards/deep/c", 0),
        ("shards2/d", 1),
    ]
    assert names(store, "shards") == ["shards/b", "shards/deep/c"]
    assert all(before - 5 < entry.modified < time.time() + 5 for entry in store.entries())


def test_what_is_not_there(store: Store) -> None:
    assert store.entries("nowhere") == []
    store.prepare()
    assert store.entries() == []
    calls = [
        lambda: store.read("no"),
        lambda: store.size("no"),
        lambda: store.read_range("no", 0, 4),
        lambda: store.read_ranges("no", [(0, 4)]),
        lambda: store.open_input("no"),
    ]
    for call in calls:
        with pytest.raises(FileNotFoundError, match="no"):
            call()
    store.put("here", b"x")
    store.delete(["no", "here", "neither/here"])
    store.delete([])
    assert names(store) == []


def test_create_happens_once(store: Store) -> None:
    assert store.create("_penstock/v000001.json", b"first")
    assert not store.create("_penstock/v000001.json", b"second")
    assert store.read("_penstock/v000001.json") == b"first"
    assert names(store) == ["_penstock/v000001.json"], "something was left beside it"


def test_put_replaces(store: Store) -> None:
    store.put("a", b"first, and longer")
    store.put("a", b"second")
    assert store.read("a") == b"second"
    assert names(store) == ["a"]


def test_racing_creates_have_one_winner(store: Store) -> None:
    if not store.exclusive:
        assert store.root.startswith("memory://")
        return
    for turn in range(5):
        start = threading.Barrier(4)

        def attempt(writer: int, turn: int = turn, start: threading.Barrier = start) -> bool:
            start.wait()
            return store.create(f"v{turn}", b"%d" % writer * 1000)

        with ThreadPoolExecutor(4) as threads:
            won = list(threads.map(attempt, range(4)))
        assert sum(won) == 1
        assert store.read(f"v{turn}") == b"%d" % won.index(True) * 1000
    assert len(names(store)) == 5


def test_arrow_and_parquet_open_from_it(store: Store) -> None:
    table = pa.table({"x": np.arange(1000)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    store.put("a.parquet", sink.getvalue().to_pybytes())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    store.put("a.arrow", memoryview(sink.getvalue()))
    assert pq.ParquetFile(store.open_input("a.parquet")).read().equals(table)
    assert pa.ipc.open_file(store.open_input("a.arrow")).read_all().equals(table)


def test_targets_write(store: Store) -> None:
    output = pickle.loads(pickle.dumps(store.target())).open("shards/a-0-1.arrow")
    pieces = [np.full(n % 7, n % 251, np.uint8) for n in range(3000)]
    output.write(pieces)
    output.write([b"", np.arange(6, dtype=np.int32).reshape(2, 3)])
    output.close()
    expected = b"".join(piece.tobytes() for piece in pieces) + np.arange(6, dtype=np.int32).tobytes()
    assert store.read("shards/a-0-1.arrow") == expected
    assert names(store) == ["shards/a-0-1.arrow"]


def test_an_aborted_file_is_not_there(store: Store) -> None:
    output = store.target().open("shards/a")
    output.write([b"x" * 100])
    output.abort()
    assert names(store) == []
    output.abort()


SHIPPED = textwrap.dedent("""
    import pickle, sys
    try:
        import penstock
        sys.exit("penstock can be imported, so this shows nothing")
    except ImportError:
        pass
    target = pickle.load(sys.stdin.buffer)
    output = target.open("shards/shipped")
    output.write([b"ab"] * 1500 + [b"c"])
    output.close()
    gone = target.open("shards/gone")
    gone.write([b"x"])
    gone.abort()
    assert "obstore" not in sys.modules
""")


def shipped(store: Store, code: str, tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    """Run code in a process that has neither penstock nor the address of the S3 server."""
    from pyspark import cloudpickle

    ship_by_value()
    (tmp_path / "poison").mkdir(exist_ok=True)
    (tmp_path / "poison" / "penstock.py").write_text("raise ImportError('executors have no penstock')")
    environment = {name: value for name, value in os.environ.items() if name != "AWS_ENDPOINT_URL"}
    environment["PYTHONPATH"] = str(tmp_path / "poison")
    return subprocess.run(
        [sys.executable, "-c", code],
        input=cloudpickle.dumps(store.target()),
        env=environment,
        capture_output=True,
        timeout=120,
    )


def test_targets_travel_by_value(store: Store, tmp_path: Path) -> None:
    done = shipped(store, SHIPPED, tmp_path)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    if store.root.startswith("memory://"):
        return  # another process has another memory: that it ran is what there is to see
    assert names(store) == ["shards/shipped"]
    assert store.read("shards/shipped") == b"ab" * 1500 + b"c"


def test_a_target_carries_no_secrets(s3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    assert b"very-secret" not in pickle.dumps(open_store(f"s3://{s3_bucket}").target())


def test_a_bucket_itself_can_be_the_root(s3_bucket: str) -> None:
    store = open_store(f"s3://{s3_bucket}/")
    store.put("a/b", b"x")
    output = store.target().open("c")
    output.close()
    assert names(store) == ["a/b", "c"]
    assert store.locate("c") == f"s3://{s3_bucket}/c"


def test_no_such_bucket(s3_bucket: str) -> None:
    store = open_store("s3://nobody-made-this/x")
    with pytest.raises(StorageError, match=r"cannot write s3://nobody-made-this/x: there is no such bucket"):
        store.prepare()
    with pytest.raises(StorageError, match="cannot create s3://nobody-made-this/x/a"):
        store.create("a", b"x")


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.dataset.stores import objects as object_store

    monkeypatch.setattr(object_store, "RETRIES", 1)
    for name, value in {
        "ENDPOINT_URL": "http://127.0.0.1:9",
        "ACCESS_KEY_ID": "a",
        "SECRET_ACCESS_KEY": "b",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(StorageError, match=r"cannot read s3://bucket/x/a: .*127.0.0.1:9") as caught:
        open_store("s3://bucket/x").read("a")
    assert "Debug" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(MissingDependency, match=r"penstock\[cloud\]"):
        open_store("s3://bucket/x")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("foo://x/y", "neither pyarrow nor fsspec"),
        ("s3:///x", "names no bucket"),
        ("hdfs://nowhere:1/x", "cannot open hdfs://nowhere:1/x"),
    ],
)
def test_an_address_that_leads_nowhere(path: str, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        open_store(path)


def test_the_path_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(StorageError, match=r"it is a file\. Remove it or choose another path"):
        open_store(tmp_path / "file").prepare()
    below = open_store(tmp_path / "file" / "below")
    for call in (below.prepare, lambda: below.create("a", b""), lambda: below.target().open("a")):
        with pytest.raises(StorageError, match="Not a directory"):
            call()
    memory = f"memory://{uuid.uuid4().hex}"
    open_store(memory).put("file", b"x")
    with pytest.raises(StorageError, match="it is a file"):
        open_store(f"{memory}/file").prepare()


def test_local_files_are_created_exclusively(tmp_path: Path) -> None:
    target = LocalTarget(str(tmp_path))
    target.open("a").close()
    with pytest.raises(StorageError, match="File exists"):
        target.open("a")


def test_where_hard_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No filesystem without hard links can be mounted here, so the system call's answer is what is replaced.
    monkeypatch.setattr(
        local_store.os, "link", lambda *_: (_ for _ in ()).throw(OSError(95, "Operation not supported"))
    )
    store = open_store(tmp_path)
    assert store.create("a", b"first")
    assert not store.create("a", b"second")
    assert store.read("a") == b"first"
    assert names(store) == ["a"]


def alone(code: str, *arguments: object) -> str:
    """Run code that changes its process for good; what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_full_disk(tmp_path: Path) -> None:
    out = alone(
        """
        import resource, sys
        from penstock.dataset.store import open_store
        from penstock.errors import StorageError

        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        store = open_store(sys.argv[1])
        output = store.target().open("shards/a")
        for call in (
            lambda: [output.write([bytes(100_000)]) for _ in range(20)],
            lambda: store.create("b", bytes(2 << 20)),
            lambda: store.put("c", bytes(2 << 20)),
        ):
            try:
                call()
            except StorageError as error:
                print(error)
        print(store.entries())
        """,
        tmp_path,
    )
    *told, left = out.splitlines()
    assert len(told) == 3
    assert all("File too large. A limit on the size" in line for line in told)
    assert told[0].startswith(f"cannot write {tmp_path}/shards/a:")
    assert left == "[]"


def test_no_permission(tmp_path: Path) -> None:
    store = open_store(tmp_path / "root")
    store.put("a", b"x")
    (tmp_path / "root" / "a").chmod(0)
    (tmp_path / "root").chmod(0o555)
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(folder.stat().st_mode | 0o555)
    out = alone(
        """
        import os, sys
        from penstock.dataset.store import open_store
        from penstock.errors import StorageError

        store = open_store(sys.argv[1])
        import pyarrow, penstock.dataset.stores.local
        if os.geteuid() == 0:  # root may do anything, so be somebody else
            os.setegid(65534)
            os.seteuid(65534)
        new = open_store(sys.argv[1] + "/below/new")
        for call in (
            store.prepare,
            new.prepare,
            lambda: store.create("b", b"x"),
            lambda: store.put("b", b"x"),
            lambda: store.delete(["a"]),
            lambda: store.read("a"),
            lambda: store.target().open("b"),
        ):
            try:
                call()
                print("allowed")
            except StorageError as error:
                print(error)
        """,
        tmp_path / "root",
    )
    assert len(out.splitlines()) == 7
    assert all("Permission denied. Check the permissions" in line for line in out.splitlines()), out
