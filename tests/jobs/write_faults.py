"""Run by test_write_faults.py in processes of their own: clusters that lose tasks, and drivers to be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import penstock as pk
from penstock.errors import DatasetExists
from penstock.jobs import write as module
from penstock.jobs.java import java_home


@contextmanager
def part_writers(wrap):
    """What tasks run, wrapped, for as long as the block lasts."""
    part = module.spark_part
    module.spark_part = lambda *given: wrap(part(*given))
    try:
        yield
    finally:
        module.spark_part = part


def slow(part):
    """Writers that get a few rows at a time, and have their shard open all the while."""

    def write(batches):
        def few():
            for batch in batches:
                for start in range(0, batch.num_rows, 200):
                    time.sleep(0.1)
                    yield batch.slice(start, 200)

        return part(few())

    return write


def waiting(part, file: str):
    """Writers that have their shard open until a file is there."""

    def write(batches):
        def late():
            for batch in batches:
                yield batch.slice(0, 200)
                deadline = time.monotonic() + 60
                while not os.path.exists(file) and time.monotonic() < deadline:
                    time.sleep(0.05)
                yield batch.slice(200)

        return part(late())

    return write


def files(path: str) -> list[str]:
    return sorted(f"shards/{name}" for name in os.listdir(f"{path}/shards"))


def check(ds, rows: int) -> None:
    ds.verify()
    assert sorted(ds.read()["id"].tolist()) == list(range(rows))


def dies_after_writing(path: str) -> None:
    """The first attempt at one partition writes its whole shard, and its worker dies before it can say so."""
    marker = f"{path}.died"

    def dying(part):
        def write(batches):
            for told in part(batches):
                if told.column("partition")[0].as_py() == 1:
                    try:
                        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                    except FileExistsError:
                        pass
                    else:
                        os._exit(1)
                yield told

        return write

    with part_writers(dying):
        ds = pk.write(spark.range(0, 4000, 1, 4), path, shuffle=False)
    assert os.path.exists(marker), "no worker died"
    check(ds, 4000)
    assert files(path) == sorted(shard.file for shard in ds.shards), "the lost attempt's shard is still there"


def is_killed(path: str) -> None:
    """A worker is killed from outside while it writes; the task runs again."""
    import psutil

    killed, killed_by = [], f"{path}.killed"

    def kill() -> None:
        deadline = time.monotonic() + 60
        while not killed and time.monotonic() < deadline:
            for process in psutil.Process().children(recursive=True):
                try:
                    if any(file.path.startswith(f"{path}/shards/") for file in process.open_files()):
                        process.kill()
                        killed.append(process.pid)
                        open(killed_by, "w").close()
                        break
                except psutil.Error:
                    continue
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    with part_writers(lambda part: waiting(part, killed_by)):
        ds = pk.write(spark.range(0, 4000, 1, 2), path, shuffle=False)
    killer.join()
    assert killed, "nothing was killed"
    check(ds, 4000)
    assert files(path) == sorted(shard.file for shard in ds.shards)


def is_overtaken(path: str) -> None:
    """One task's first attempt hangs; another overtakes it, and both have written."""

    def hanging(part):
        def write(batches):
            from pyspark import TaskContext

            context = TaskContext.get()
            for told in part(batches):
                if context.partitionId() == 3 and context.attemptNumber() == 0:
                    time.sleep(150)
                yield told

        return write

    began = time.monotonic()
    with part_writers(hanging):
        ds = pk.write(spark.range(0, 4000, 1, 4), path, shuffle=False)
    assert time.monotonic() - began < 120, "the attempt that hung was waited for"
    check(ds, 4000)
    assert files(path) == sorted(shard.file for shard in ds.shards)


def machine(*arguments: str) -> subprocess.Popen:
    """One of the processes of a Spark cluster."""
    import pyspark

    launcher = os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-class")
    return subprocess.Popen(
        [launcher, *arguments],
        env={**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def cluster(path: str) -> None:
    """Two machines, because Spark does not run two attempts at one task on the same: two addresses of loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    master, quiet = f"spark://127.0.0.1:{port}", ("--webui-port", "0")
    deploy = "org.apache.spark.deploy"
    machines = [machine(f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", port, *quiet)]
    machines += [
        machine(f"{deploy}.worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", *quiet,
                "--work-dir", f"{path}.work", master)
        for host in ("127.0.0.1", "127.0.0.2")
    ]  # fmt: skip
    try:
        start(
            {
                "spark.master": master,
                "spark.driver.host": "127.0.0.1",
                "spark.pyspark.python": sys.executable,
                "spark.executor.memory": "1g",
                "spark.speculation": "true",
                "spark.speculation.interval": "100ms",
                "spark.speculation.quantile": "0.5",
                "spark.speculation.minTaskRuntime": "2s",
            }
        )
        dies_after_writing(f"{path}/dies")
        is_killed(f"{path}/killed")
        is_overtaken(f"{path}/overtaken")
        spark.stop()
    finally:
        for each in machines:
            each.terminate()
        for each in machines:
            each.wait()
    print("all well")


def append(path: str) -> None:
    start({"spark.master": "local[2]"})
    df = spark.range(0, 3000, 1, 3)
    pk.write(df, f"{path}.warm-up", "id", shuffle=False, mode="append")
    print("begun", flush=True)
    while True:
        pk.write(df, path, "id", shuffle=False, mode="append")


def race(root: str, go: str) -> None:
    start({"spark.master": "local[1]"})
    df = spark.range(0, 3000, 1, 2)
    pk.to_numpy(df)
    print("ready", flush=True)
    while not os.path.exists(go):
        time.sleep(0.005)
    try:
        pk.write(df, f"{root}/once", "id")
        print("won", end=" ")
    except DatasetExists:
        print("DatasetExists", end=" ")
    try:
        pk.write(spark.range(10), f"{root}/more", "id")
    except DatasetExists:
        time.sleep(0.5)
    pk.write(df, f"{root}/more", "id", mode="append")
    print("appended", flush=True)
    spark.stop()


def interrupted(path: str, kind: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    if kind == "connect":
        global spark
        spark = pk.session(remote="local[2]")
    else:
        start({"spark.master": "local[2]"})
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    print("writing", flush=True)
    try:
        with part_writers(slow):
            pk.write(spark.range(0, 400_000, 1, 4), path, shuffle=False)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    assert spark.conf.get(key) == before
    left = [thread for thread in threading.enumerate() if thread.name.startswith("penstock")]
    assert not left, left
    assert spark.range(5).count() == 5
    time.sleep(1)  # in which a task that goes on would write
    deadline = time.monotonic() + 60
    while files(path) and time.monotonic() < deadline:
        time.sleep(0.1)  # tasks that were cancelled may need a moment to notice
    assert files(path) == [], files(path)
    spark.stop()
    print("all well")


def start(config: dict[str, str]) -> None:
    global spark
    spark = pk.session(memory="1g", config=config)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
