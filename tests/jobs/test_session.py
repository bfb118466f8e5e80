"""Sessions. A process has one JVM, so each start runs in a process of its own, and does all it can there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.errors import MissingDependency, SessionError
from penstock.jobs import session as module
from penstock.jobs import settings

SOURCE = Path(module.__file__).parents[2]
# What Spark's shell scripts and Hadoop call. No java, no python.
TOOLS = ("bash", "sh", "env", "dirname", "basename", "cat", "ps", "uname", "head", "id", "chmod", "ls", "rm")

BEGIN = """
import os, sys
from penstock.errors import SessionError
from penstock.jobs.session import session

def refused(*words, **arguments):
    try:
        session(**arguments)
    except SessionError as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, (missing, str(error))
    else:
        raise AssertionError(f"{arguments} were taken")
"""


def environment(tmp_path: Path) -> dict[str, str]:
    """A bare one: no Java, no activated Python environment, nothing of Spark's, and a home of its own."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    for name in ("home", "temporary", "work"):
        (tmp_path / name).mkdir()
    return {
        "PATH": str(tools),
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "temporary"),
        "PYTHONPATH": str(SOURCE),
    }


def start(tmp_path: Path, env: dict[str, str], code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + code],
        env=env,
        cwd=tmp_path / "work",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for it; it must have succeeded and said nothing but DONE, neither at the start nor later."""
    try:
        out, err = process.communicate("", timeout=200)
    finally:
        process.kill()
    assert (process.returncode, out, LATE_RELEASE.sub("", err)) == (0, "DONE\n", "")


LATE_RELEASE = re.compile(
    r"\S+ \S+ ERROR ErrorUtils: Spark Connect RPC error during: releaseExecute.*\n.*SESSION_CLOSED.*\n(\tat .*\n)*"
)
"""What Spark's server logs where its own client gives results back, which it does in the background, after the end."""

LOCAL = """
before = dict(os.environ)
spark = session(cores=2, memory="1g")
changed = {name for name in os.environ.keys() | before.keys() if os.environ.get(name) != before.get(name)}
assert changed <= {"SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"}, changed  # PySpark's own

assert spark.range(10).count() == 10
import pyarrow as pa
from pyspark.sql.functions import udf

def where(batches):
    for batch in batches:
        yield pa.record_batch({"python": pa.array([sys.executable] * batch.num_rows)})

assert {row[0] for row in spark.range(4).mapInArrow(where, "python string").collect()} == {sys.executable}
assert spark.range(1).select(udf(lambda _: sys.executable)("id")).first()[0] == sys.executable

# The table.
assert spark.conf.get("spark.master") == "local[2]"
assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
assert spark.conf.get("spark.driver.host") == spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
assert "-Darrow.enable_unsafe_memory_access=true" in spark.conf.get("spark.driver.extraJavaOptions")

# A failure is told once, by Python, without a JVM's stack on stderr (the test looks at that).
try:
    spark.range(1).select(udf(lambda _: 1 // 0)("id")).collect()
except Exception as error:
    assert "ZeroDivisionError" in str(error)
else:
    raise AssertionError("no error")

# The active session, here and in a thread.
from concurrent.futures import ThreadPoolExecutor
assert session() is session(cores=2, memory="1024m", config={"spark.ui.enabled": False}) is spark
with ThreadPoolExecutor(1) as pool:
    assert pool.submit(session).result() is spark

# What can change is changed; what cannot is refused, and then nothing changes.
assert session(config={"spark.sql.shuffle.partitions": 7}) is spark
assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
refused("local[2]", "cores=3", "spark.stop()", cores=3)
refused("memory='5g'", "1g", memory="5g")
refused("remote='sc://elsewhere'", "local[2]", remote="sc://elsewhere")
refused("spark.driver.maxResultSize='1g'", "'0'",
        config={"spark.sql.shuffle.partitions": 9, "spark.driver.maxResultSize": "1g"})
refused("spark.sql.shuffle.partitions='many'",
        config={"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.shuffle.partitions": "many"})
assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
assert spark.conf.get("spark.sql.session.timeZone") == "UTC"

# A stopped session does not count. Its JVM stays, and so do that one's memory and options.
spark.stop()
refused("'2g'", "1g", "new Python process", memory="2g")
refused("-Dx=y", "new Python process", config={"spark.driver.extraJavaOptions": "-Dx=y"})
again = session(cores=1, memory="1g", config={"spark.driver.maxResultSize": "1g"})
assert again is not spark and session() is again
assert again.conf.get("spark.driver.maxResultSize") == "1g"
assert again.range(3).count() == 3
again.stop()

# A Connect server of our own, and classic again after it.
remote = session(remote="local[2]")
assert type(remote).__module__.startswith("pyspark.sql.connect")
assert session() is session(remote="local[2]") is remote
assert {row[0] for row in remote.range(4).mapInArrow(where, "python string").collect()} == {sys.executable}
refused("cores=3", cores=3)
remote.stop()
assert session(cores=1).range(3).count() == 3
print("DONE")
"""


def test_a_local_session_without_java_on_the_machine(tmp_path):
    env = environment(tmp_path)
    # A free port for the Connect server: Spark's own switch for tests.
    finish(start(tmp_path, {**env, "SPARK_TESTING": "1"}, LOCAL))
    assert os.listdir(tmp_path / "work") == []
    assert not [name for name in os.listdir(tmp_path / "temporary") if name.startswith("penstock")]


SERVER = """
spark = session(cores=1, memory="1g", config={
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.port": PORT,
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Dx=y",
    "spark.sql.shuffle.partitions": 3,
})
assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
options = spark.conf.get("spark.driver.extraJavaOptions")
assert "-Darrow.enable_unsafe_memory_access=true" in options and "-Dx=y" in options, options
assert "UseParallelGC" not in options, options  # theirs instead: Java takes one collector
assert session(config={"spark.driver.extraJavaOptions": "-Dx=y"}) is spark
# The server's own table of sockets: a local address ends in 127.0.0.1, written backwards, and the port.
rows = [row.split() for name in ("tcp", "tcp6") for row in open(f"/proc/self/net/{name}")]
bound = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{PORT:04X}")]
assert bound and all(address.split(":")[0].endswith("0100007F") for address in bound), bound
print("DONE", flush=True)
sys.stdin.read()
"""

CLIENT = """
remote = "sc://localhost:PORT"
refused("cores", "Spark Connect server", memory="1g", remote=remote)
refused("spark.driver.memory", remote=remote, config={"spark.driver.memory": "9g"})
spark = session(remote=remote, config={"spark.sql.shuffle.partitions": 5})
assert type(spark).__module__.startswith("pyspark.sql.connect")
assert spark.range(10).count() == 10
assert spark.conf.get("spark.sql.shuffle.partitions") == "5"
assert session() is session(remote=remote) is spark
refused("remote='sc://localhost:1'", "localhost:PORT", remote="sc://localhost:1")
refused("cores=4", cores=4)
spark.stop()
os.environ["SPARK_REMOTE"] = remote
again = session()
assert again is not spark and again.range(3).count() == 3
print("DONE")
"""


def test_an_old_java_is_passed_over_config_wins_and_a_connect_server_is_reached(tmp_path):
    env = environment(tmp_path)
    old = tmp_path / "tools" / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)
    with socket.socket() as free:  # a port nobody has
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = start(tmp_path, env, SERVER.replace("PORT", port))
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "DONE\n", server.communicate("", timeout=60)
        # No Java at all for the client, and none of Spark's shell scripts.
        finish(start(tmp_path, {**env, "PATH": ""}, CLIENT.replace("PORT", port)))
        _, err = server.communicate("", timeout=60)
        assert err == ""
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"cores": 0}, "at least 1"),
        ({"memory": "lots"}, "'lots'"),
        ({"memory": "8"}, "unit"),
        ({"cores": 2, "remote": "local"}, 'remote="local[2]"'),
        ({"memory": "1g", "config": {"spark.driver.memory": "2g"}}, "spark.driver.memory"),
        ({"cores": 2, "config": {"spark.master": "local[3]"}}, "spark.master"),
        ({"remote": "sc://a", "config": {"spark.remote": "sc://b"}}, "spark.remote"),
    ],
)
def test_arguments_that_make_no_sense(arguments, word):
    with pytest.raises(SessionError) as caught:
        module.session(**arguments)
    assert word in str(caught.value)


def test_without_pyspark_the_cure_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingDependency, match=r"penstock\[spark\]"):
        module.session()


def test_every_setting_has_a_reason_and_a_key_of_spark():
    assert all(setting.reason and setting.key.startswith("spark.") for setting in settings.SETTINGS)


def test_a_users_own_arrow_batches_keep_sparks_bounds():
    # Without a bound in bytes, a batch of long arrays could have gigabytes. The transfer lifts it for itself.
    assert not any("PerBatch" in key for key in settings.compose("local[2]", {}))


@pytest.mark.parametrize(("free", "heap"), [(10 << 30, "6144m"), (1 << 20, "1024m")])
def test_the_heap_is_a_share_of_what_is_free_and_at_least_sparks_own(monkeypatch, free, heap):
    monkeypatch.setattr(settings, "free_memory", lambda: free)
    assert settings.compose("local[2]", {})["spark.driver.memory"] == heap
    assert settings.compose("local[2]", {"spark.driver.memory": "3g"})["spark.driver.memory"] == "3g"


def test_a_session_on_a_cluster_is_not_bound_to_this_machine():
    options = settings.compose("spark://host:7077", {})
    assert not any(key in options for key in ("spark.driver.host", "spark.driver.bindAddress"))
    assert "spark.sql.shuffle.partitions" not in options  # nobody knows its cores
    assert module._worker_python("spark://host:7077", {}) == {}


def test_executors_of_their_own_get_the_java_options_too():
    options = settings.compose("local-cluster[2,1,1024]", {settings.EXECUTOR_OPTIONS: "-Dx=y"})
    assert options[settings.EXECUTOR_OPTIONS] == options[settings.DRIVER_OPTIONS] + " -Dx=y"
    assert options["spark.driver.host"] == "127.0.0.1"
    assert options["spark.sql.shuffle.partitions"] == "4"
    assert settings.EXECUTOR_OPTIONS not in settings.compose("local[2]", {})


def test_workers_run_this_interpreter_unless_told_otherwise():
    assert module._worker_python("local[2]", {})["PYSPARK_PYTHON"] == sys.executable
    assert module._worker_python("local", {"spark.pyspark.python": "mine"})["PYSPARK_PYTHON"] == "mine"


def jvms(process: subprocess.Popen[str]) -> list[psutil.Process]:
    found = []
    for each in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.Error):
            found += [each] if "org.apache.spark.deploy.SparkSubmit" in each.cmdline() else []
    return found


def test_interrupted_while_it_starts_no_jvm_is_left(tmp_path: Path) -> None:
    """PySpark forgets a JVM that has not yet said where it listens, and that one then waits for ever."""
    env = environment(tmp_path) | {"PATH": os.environ["PATH"]}
    # Where tests run in the background, a shell has had Ctrl-C ignored.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    process = start(tmp_path, env, f"{heard}\nsession(cores=1, memory='1g')")
    deadline = time.monotonic() + 60
    while not (started := jvms(process)):
        assert time.monotonic() < deadline, "no JVM was started"
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert psutil.wait_procs(started, timeout=10)[1] == []
    assert list((tmp_path / "temporary").iterdir()) == []
