"""Writes that go wrong: bad rows late in a job, full disks, killed workers, killed drivers, races, Ctrl-C.

After each: no version that should not be there, the old one intact, nothing left that no manifest names, no process
left behind.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import functions as F

import penstock as pk
from penstock.dataset import commit
from penstock.dataset.part import spark_part
from penstock.dataset.store import open_store
from penstock.dataset.stores.target import LocalTarget
from penstock.errors import (
    CastError,
    DatasetMissing,
    JobError,
    NullError,
    RaggedError,
    StorageError,
)

HERE = Path(__file__).parent
KILLS, AT_ONCE = 50 if os.environ.get("PENSTOCK_LONG") else 3, 3

LATE = 7
"""The partition, of 8, that holds the bad row."""


def slow_batches(seconds: float):
    """A function for mapInArrow that takes its time; made inside a function, so that it travels by value.

    Spark makes larger batches of what it yields, so a shard is begun when a partition is through.
    """

    def slowly(batches):
        import time

        for batch in batches:
            for start in range(0, batch.num_rows, 1000):
                time.sleep(seconds)
                yield batch.slice(start, 1000)

    return slowly


def named_files(path) -> set[str]:
    """Everything that the manifests at a path name, and they themselves."""
    store = open_store(path)
    found = set()
    for version in commit.versions(store):
        manifest = commit.load(store, version)
        found |= {
            commit.manifest_name(version),
            manifest.index.file,
            *(shard.file for shard in manifest.shards),
        }
    return found


def all_files(path) -> set[str]:
    return {entry.name for entry in open_store(path).entries()}


def eventually(condition, seconds: float = 60) -> bool:
    """Whether something becomes so: tasks that were cancelled may need a moment to notice."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def assert_nothing_was_committed(path) -> None:
    assert all_files(path) == set()
    with pytest.raises(DatasetMissing):
        pk.open(path)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "ds")


@pytest.fixture
def settings_and_threads(spark):
    """Whatever happens, the session's settings and this process's threads are as before."""
    keys = [f"spark.sql.execution.arrow.{name}" for name in ("maxRecordsPerBatch", "maxBytesPerBatch")]
    before = {key: spark.conf.get(key) for key in keys}
    threads = set(threading.enumerate())
    yield
    assert {key: spark.conf.get(key) for key in keys} == before
    assert eventually(lambda: not [t for t in set(threading.enumerate()) - threads if not t.daemon])


def python_workers() -> list[psutil.Process]:
    """The processes in which this session's Python functions run, and the one they are forked from."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "pyspark.daemon" in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


def limited_to(size: int) -> int:
    """Have Python workers write no larger files; how many there are. One may end meanwhile."""
    found = 0
    for process in python_workers():
        with suppress(ProcessLookupError):
            _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard if size < 0 else size, hard))
            found += 1
    return found


def writes_a_shard(process: psutil.Process, path: str) -> bool:
    try:
        return any(file.path.startswith(f"{path}/shards/") for file in process.open_files())
    except psutil.Error:
        return False


@pytest.mark.usefixtures("settings_and_threads")
class TestBadRows:
    @pytest.mark.parametrize(
        ("expression", "dtype", "error", "words"),
        [
            ("if(id = 7500, null, id)", None, NullError, "'c' has (at least )?1\\."),
            (
                "if(id = 7500, double('nan'), id)",
                "int64",
                CastError,
                "column 'c' holds nan, which does not fit int64",
            ),
            (
                "if(id = 7500, 40000, 1)",
                "int16",
                CastError,
                "column 'c' holds 40000, which does not fit int16",
            ),
            (
                "array_repeat(1, if(id = 7500, 3, 2))",
                None,
                RaggedError,
                "column 'c' holds a list of length",
            ),
        ],
        ids=["null", "nan", "overflow", "ragged"],
    )
    @pytest.mark.parametrize("shuffle", [True, False])
    def test_one_bad_row_late(self, spark, path, expression, dtype, error, words, shuffle):
        df = spark.range(0, 8000, 1, LATE + 1).selectExpr(f"{expression} as c")
        with pytest.raises(error, match=words) as caught:
            pk.write(df, path, "c", dtype=dtype, shuffle=shuffle)
        assert "\n" not in str(caught.value), "a trace instead of a sentence"
        assert_nothing_was_committed(path)

    def test_the_other_partitions_are_not_waited_for(self, spark, path):
        slow = spark.range(0, 120_000, 1, 120).mapInArrow(slow_batches(1.5), "id long")
        df = slow.selectExpr("if(id = 500, 300, 1) as c")
        began = time.monotonic()
        with pytest.raises(CastError, match="column 'c' holds 300, which does not fit uint8"):
            pk.write(df, path, "c", dtype="uint8", shuffle=False)
        assert time.monotonic() - began < 60, "60 waves of 1.5 seconds each were all awaited"
        time.sleep(2)  # in which a task that goes on would write
        assert eventually(lambda: not all_files(path))
        assert_nothing_was_committed(path)

    def test_an_error_of_the_users_own_function(self, spark, path):
        def divide(number):
            return 10 // (number - 3)

        df = spark.range(0, 8, 1, 4).select(F.udf(divide, "long")("id").alias("x"))
        with pytest.raises(JobError) as caught:
            pk.write(df, path)
        assert str(caught.value) == (
            f"the Spark job that writes {path} failed: ZeroDivisionError: integer division or modulo by zero"
        )
        assert "Traceback" in str(caught.value.__cause__)
        assert_nothing_was_committed(path)


@pytest.mark.usefixtures("settings_and_threads")
class TestStorage:
    def test_a_full_disk(self, spark, path):
        before = pk.write(spark.range(1000), path)
        limit = 200_000
        assert limited_to(limit), "no Python worker to limit"
        try:
            with pytest.raises(StorageError, match=rf"cannot write {path}/shards/.*File too large") as caught:
                pk.write(spark.range(0, 200_000, 1, 2), path, shuffle=False, mode="overwrite")
        finally:
            limited_to(resource.RLIM_INFINITY)
        assert "\n" not in str(caught.value)
        assert all_files(path) == named_files(path)
        after = pk.open(path)
        after.verify()
        assert (after.version, after.fingerprint) == (1, before.fingerprint)

    def test_disks_that_are_not_shared(self, spark, path, tmp_path, monkeypatch):
        from penstock.dataset.stores.local import LocalStore

        monkeypatch.setattr(LocalStore, "target", lambda _: LocalTarget(str(tmp_path / "of an executor")))
        with pytest.raises(
            StorageError, match=r"is not there\. The path must be storage that the driver and all"
        ):
            pk.write(spark.range(100), path)
        assert_nothing_was_committed(path)

    def test_storage_that_cannot_be_listed_for_a_while(self, spark, path, monkeypatch):
        from penstock.dataset.stores.local import LocalStore

        looks: list[str] = []
        entries = LocalStore.entries

        def flaky(store, folder=""):
            if "faults-" in folder and len(looks) < 2:
                looks.append(folder)
                raise StorageError("list", folder, "the network is away")
            return entries(store, folder)

        monkeypatch.setattr(LocalStore, "entries", flaky)
        df = spark.range(0, 4000, 1, 2).mapInArrow(slow_batches(1.5), "id long")
        ds = pk.write(df, path, shuffle=False)
        assert len(looks) == 2, "nobody looked while the job ran, so this shows nothing"
        assert sorted(ds.read()["id"].tolist()) == list(range(4000))


@pytest.mark.usefixtures("settings_and_threads")
def test_a_worker_killed_without_retries(spark, path, monkeypatch):
    before = pk.write(spark.range(1000), path)
    stop = threading.Event()
    killed: list[int] = []

    def kill():
        while not stop.wait(0.02) and not killed:
            for process in python_workers():
                if writes_a_shard(process, path):
                    process.kill()
                    killed.append(process.pid)
                    return

    def slow(*given):
        def write(batches):
            def few():
                for batch in batches:
                    # Half a minute; it is killed as soon as its shard is seen.
                    for start in range(0, batch.num_rows, 100):
                        time.sleep(0.1)
                        yield batch.slice(start, 100)

            return spark_part(*given)(few())

        return write

    killer = threading.Thread(target=kill)
    killer.start()
    monkeypatch.setattr("penstock.jobs.write.spark_part", slow)
    try:
        with pytest.raises(
            JobError, match="a Python worker was killed, most often because the machine ran out of"
        ):
            pk.write(spark.range(0, 60_000, 1, 2), path, shuffle=False, mode="overwrite")
    finally:
        stop.set()
        killer.join()
    assert killed
    assert eventually(lambda: all_files(path) == named_files(path))
    after = pk.open(path)
    after.verify()
    assert (after.version, after.fingerprint) == (1, before.fingerprint)


# --- in processes of their own ----------------------------------------------------------------------------


class Script:
    """A script in a process group of its own; at the end nothing of it is left."""

    def __init__(self, tmp_path: Path, *arguments: str) -> None:
        # Output to files: a JVM that outlives its driver would hold a pipe open.
        self.out, self.err = tmp_path / f"{random.random()}.out", tmp_path / f"{random.random()}.err"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "write_faults.py"), *arguments],
                env={**os.environ, "TMPDIR": str(tmp_path)},
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.seen: dict[int, psutil.Process] = {}

    def look(self) -> None:
        """Remember the processes it has started so far."""
        try:
            for process in psutil.Process(self.process.pid).children(recursive=True):
                self.seen.setdefault(process.pid, process)
        except psutil.Error:
            pass

    def until(self, line: str, seconds: float = 150) -> None:
        deadline = time.monotonic() + seconds
        while line not in self.out.read_text().splitlines():
            assert time.monotonic() < deadline, self.told()
            assert self.process.poll() is None, self.told()
            time.sleep(0.02)

    def told(self) -> str:
        return self.out.read_text()[-2000:] + self.err.read_text()[-5000:]

    def wait(self, seconds: float = 300) -> str:
        """Its end, which must be a good one; what it printed."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.told()
            self.look()
            time.sleep(0.1)
        assert self.process.returncode == 0, self.told()
        return self.out.read_text()

    def left(self, seconds: float = 60) -> list[str]:
        """The processes it started that still run after a while."""
        _, alive = psutil.wait_procs(list(self.seen.values()), timeout=seconds)
        found = []
        for process in alive:
            with suppress(psutil.NoSuchProcess):  # it ended just now
                found.append(" ".join(process.cmdline()[:3]))
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for process in self.seen.values():
            try:
                process.kill()
            except psutil.Error:
                continue


@pytest.fixture
def script(tmp_path):
    started: list[Script] = []

    def start(*arguments: str) -> Script:
        started.append(Script(tmp_path, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.mark.timeout(500)
def test_lost_attempts_and_speculation_on_a_cluster(script, path):
    running = script("cluster", path)
    assert "all well" in running.wait()
    assert running.left() == []


@pytest.mark.timeout(600 if KILLS <= 5 else 3000)
def test_drivers_killed_at_any_moment(script, path, spark):
    """A few at once, each while it appends, over and over; a version is whole or not there."""
    first = pk.write(spark.range(0, 1000, 1, 2), path, "id", shuffle=False)
    for done in range(0, KILLS, AT_ONCE):
        drivers = [script("append", path) for _ in range(min(AT_ONCE, KILLS - done))]
        for driver in drivers:
            driver.until("begun")
            time.sleep(random.uniform(0, 2))
            if done == 0 and driver is drivers[-1]:
                # Else, on a slow machine, all may be killed before any has come to a version.
                assert eventually(lambda: pk.open(path).version > 1, 120)
            driver.look()
            driver.process.kill()
            driver.process.wait()
            now = pk.open(path)
            now.verify()
            assert now.rows == 1000 + 3000 * (now.version - 1)
        for driver in drivers:
            assert driver.left() == [], "Spark outlives its driver"
    versions = pk.open(path).version
    assert versions > 1, "nothing was ever appended: the drivers were killed too soon to show anything"
    new = pk.write(spark.range(0, 3000, 1, 3), path, "id", shuffle=False, mode="append")
    assert new.version == versions + 1
    assert new.at(1).fingerprint == first.fingerprint
    new.vacuum(keep=len(new.versions()), older_than=0)
    assert all_files(path) == named_files(path)
    new.verify()


@pytest.mark.timeout(500)
def test_two_drivers_race(script, tmp_path):
    go = tmp_path / "go"
    pair = [script("race", str(tmp_path), str(go)) for _ in range(2)]
    for each in pair:
        each.until("ready")
    go.touch()
    outcomes = sorted(each.wait().split("ready\n")[1].strip() for each in pair)
    assert outcomes == ["DatasetExists appended", "won appended"]
    once, more = pk.open(tmp_path / "once"), pk.open(tmp_path / "more")
    once.verify()
    more.verify()
    assert (once.version, once.rows) == (1, 3000)
    assert (more.version, more.rows) == (3, 10 + 2 * 3000)
    for path in (once.path, more.path):
        assert all_files(path) == named_files(path)


@pytest.mark.timeout(500)
@pytest.mark.parametrize("kind", ["classic", pytest.param("connect", marks=pytest.mark.long)])
def test_ctrl_c(script, path, kind):
    running = script("interrupted", path, kind)
    running.until("writing")
    shards = Path(path, "shards")
    deadline = time.monotonic() + 150
    while not (shards.is_dir() and any(shards.iterdir())):
        assert time.monotonic() < deadline, "no shard was begun"
        time.sleep(0.05)
    running.look()
    began = time.monotonic()
    running.process.send_signal(signal.SIGINT)
    running.until("interrupted", 90)
    assert time.monotonic() - began < 60, "the job, of 100 seconds, was not cancelled"
    assert "all well" in running.wait()
    assert_nothing_was_committed(path)
    assert running.left() == []
