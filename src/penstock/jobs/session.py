"""A Spark session: the active one, a Spark Connect server's, or a local one that suits AI work.

`session` (exposed as `penstock.session`) promises that
- a session which is there already is used, and never changed behind anybody's back;
- a local one starts without Java on the machine (`penstock.jobs.java` brings one), prints nothing, can be
  reached from this machine alone, and runs its Python workers with this interpreter;
- the process's environment is afterwards what it was before.

Go next to `penstock.jobs.settings`, the table of what a local session does differently from Spark's defaults,
or to `penstock.jobs.tensors`, which takes the session's DataFrames to tensors.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from penstock.errors import MissingDependency, SessionError
from penstock.jobs.java import java_home
from penstock.jobs.jvm_start import no_orphan
from penstock.jobs.running import is_connect
from penstock.jobs.settings import (
    DRIVER_OPTIONS,
    EXECUTOR_OPTIONS,
    JVM_SETTINGS,
    LOGGING,
    compose,
    cores_of,
    in_bytes,
)
from penstock.machine import usable_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Value = str | int | float | bool


_lock = threading.Lock()  # two threads that both find no session would start two
# What the JVM was started with, if it was started here. It outlives spark.stop(), and these with it.
_launched: dict[str, str] = {}


def session(
    *,
    cores: int | None = None,
    memory: str | None = None,
    remote: str | None = None,
    config: Mapping[str, Value] | None = None,
) -> SparkSession:
    """The active Spark session, or a new one.

    Args:
        cores: cores of a new local session; all that this process may use unless given.
        memory: heap of its JVM, such as "8g"; unless given, 60 % of what the machine (or the container) has
            available, at least 1g.
        remote: address of a Spark Connect server, such as "sc://host:15002"; or "local[2]", which starts one
            on this machine. The environment variable SPARK_REMOTE does the same.
        config: any of Spark's settings. They win over Penstock's own (`penstock.jobs.settings.SETTINGS`),
            except that Java options are added to ours. With "spark.master" the session starts there instead
            of locally.

    With a session active, settings that can change while it runs are applied to it, and an argument that
    would need another session raises `SessionError`. Under spark-submit, what was submitted decides, and
    only `config` is applied.

    >>> spark = session()
    >>> spark.range(3).count()
    3
    >>> session() is spark
    True
    """
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingDependency("pyspark", extra="spark") from error
    asked = {key: _text(value) for key, value in (config or {}).items()}
    _check(cores, memory, remote, asked)
    with _lock:
        active = active_session()
        if active is not None:
            _adapt(active, cores, memory, remote or asked.pop("spark.remote", None), asked)
            return active
        remote = remote or asked.pop("spark.remote", None) or os.environ.get("SPARK_REMOTE")
        local = remote is None or not remote.startswith("sc://")
        if remote is not None and (cores is not None or (memory is not None and not local)):
            raise SessionError(
                f"cores and memory belong to a local session, and {remote} is a Spark Connect server, which "
                "has its own. Leave them out, or leave out remote (and the variable SPARK_REMOTE)"
            )
        if remote is None or local:
            return _start(cores, memory, remote, asked)
        return _connect(remote, asked)


def _text(value: Value) -> str:
    """A value as Spark writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(cores: int | None, memory: str | None, remote: str | None, config: Mapping[str, str]) -> None:
    """Refuse arguments that make no sense whatever the machine, or that contradict each other."""
    if cores is not None and cores < 1:
        raise SessionError(f"cores must be at least 1, not {cores}")
    if memory is not None and in_bytes(memory) is None:
        raise SessionError(f'memory must be a number and a unit, such as "8g" or "900m", not {memory!r}')
    for name, value, key in (
        ("memory", memory, "spark.driver.memory"),
        ("cores", cores, "spark.master"),
        ("remote", remote, "spark.master"),
        ("remote", remote, "spark.remote"),
    ):
        if value is not None and key in config:
            raise SessionError(f"{name}={value!r} and config[{key!r}]={config[key]!r} say the same; give one")
    if cores is not None and remote is not None:
        raise SessionError(
            f"cores={cores} and remote={remote!r} cannot be combined: a Spark Connect server has its own "
            f'cores. For a server on this machine, say remote="local[{cores}]"'
        )


# --- the active session -----------------------------------------------------------------------------------


def active_session() -> SparkSession | None:
    """The session of this thread, else of this process; None if there is none or it was stopped."""
    from pyspark.sql import is_remote

    connect = _active_connect()
    if is_remote():
        return connect
    return _active_classic() or connect


def _active_connect() -> SparkSession | None:
    # A Connect session exists only where its module is loaded. Importing it here would fail where Connect's
    # dependencies are missing, and cost a second where they are not.
    module = sys.modules.get("pyspark.sql.connect.session")
    if module is None:
        return None
    from pyspark.errors import PySparkRuntimeError

    try:
        return cast("SparkSession", module.SparkSession.active())
    except PySparkRuntimeError:  # how PySpark says that there is none
        return None


def _active_classic() -> SparkSession | None:
    from pyspark.sql import SparkSession
    from pyspark.util import is_remote_only

    if is_remote_only():
        return None
    from pyspark import SparkContext

    # The one place that knows whether the session that PySpark remembers has been stopped.
    if SparkContext._active_spark_context is None:
        return None
    # A thread other than the one that made the session has no active one, but getOrCreate finds it.
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _adapt(
    active: SparkSession,
    cores: int | None,
    memory: str | None,
    remote: str | None,
    config: Mapping[str, str],
) -> None:
    """Give the active session the settings asked for; raise, and change nothing, if it cannot have them."""
    master = _get(active, "spark.master") or "an unknown master"
    heap = _get(active, "spark.driver.memory")
    endpoint = _endpoint(active)
    wrong = []
    if cores is not None and cores_of(master) != cores:
        wrong.append(f"cores={cores} (it runs on {master})")
    if memory is not None and (heap is None or in_bytes(heap) != in_bytes(memory)):
        wrong.append(f"memory={memory!r} (it has {heap or 'its own default'})")
    if remote is not None and not _same_remote(remote, endpoint, master):
        wrong.append(f"remote={remote!r} (it is at {endpoint or master})")
    changes = {}
    for key, value in config.items():
        current = _get(active, key)
        if _same_value(key, current, value):
            continue
        if active.conf.isModifiable(key):
            changes[key] = value
        else:
            wrong.append(f"{key}={value!r} (it has {'no value' if current is None else repr(current)})")
    if wrong:
        raise SessionError(
            f"a Spark session is already active (on {endpoint or master}), and it cannot change while it "
            f"runs: {'; '.join(wrong)}. Leave these out to use it, or call spark.stop() first"
        )
    _set_all(active, changes)


def _set_all(active: SparkSession, changes: Mapping[str, str]) -> None:
    """Set all of `changes`, or none of them."""
    before = {key: active.conf.get(key, None) for key in changes}
    for key, value in changes.items():
        try:
            active.conf.set(key, value)
        except Exception as error:
            for name, old in before.items():
                if old is None:
                    active.conf.unset(name)
                else:
                    active.conf.set(name, old)
            raise SessionError(f"Spark does not take {key}={value!r}: {_gist(error)}") from error


def _get(active: SparkSession, key: str) -> str | None:
    """A setting's value or Spark's default for it; None where there is neither."""
    from pyspark.errors import PySparkException

    try:
        return active.conf.get(key)
    except PySparkException:
        return None


def _same_value(key: str, current: str | None, asked: str) -> bool:
    if current is None:
        return False
    if key in (DRIVER_OPTIONS, EXECUTOR_OPTIONS):  # what was asked for stands among ours and Spark's own
        return set(asked.split()) <= set(current.split())
    size = in_bytes(asked)  # 8g and 8192m are the same
    return current.lower() == asked.lower() or (size is not None and size == in_bytes(current))


def _endpoint(active: SparkSession) -> str | None:
    """host:port of a Connect session's server; None for a classic session."""
    if not is_connect(active):
        return None
    client = active.client
    # The client tells its host alone; two servers on one host differ by the port.
    return str(getattr(getattr(client, "_builder", None), "endpoint", client.host))


def _same_remote(remote: str, endpoint: str | None, master: str) -> bool:
    if endpoint is None:
        return False
    if not remote.startswith("sc://"):  # a server of our own: it is on this machine and tells its master
        return remote == master and "SPARK_LOCAL_REMOTE" in os.environ
    from pyspark.sql.connect.client import DefaultChannelBuilder

    return DefaultChannelBuilder(remote).endpoint == endpoint


# --- a new session ----------------------------------------------------------------------------------------


def _connect(remote: str, config: Mapping[str, str]) -> SparkSession:
    """A session of the Spark Connect server at `remote`."""
    _require_connect()
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.remote(remote).getOrCreate()
    except Exception as error:
        raise SessionError(f"no Spark Connect session at {remote}: {_gist(error)}") from error
    try:
        # Not through the builder, which passes over what the server refuses.
        _adapt(spark, None, None, None, config)
    except BaseException:
        spark.stop()
        raise
    return spark


def _start(
    cores: int | None, memory: str | None, remote: str | None, config: Mapping[str, str]
) -> SparkSession:
    """Start Spark in a JVM of our own: a classic session, or with `remote="local..."` a Connect one."""
    from pyspark.sql import SparkSession
    from pyspark.util import is_remote_only

    if is_remote_only():
        raise MissingDependency("pyspark in full (here is pyspark-client, for Connect alone)", extra="spark")
    if remote is not None:
        _require_connect()
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        if cores is not None or memory is not None:
            raise SessionError(
                "cores and memory cannot be set here: this program runs under spark-submit, which has "
                "started the JVM already. Give spark-submit --master and --driver-memory instead"
            )
        return SparkSession.builder.config(map={**config}).getOrCreate()

    if memory is not None:
        config = {**config, "spark.driver.memory": memory}
    master = remote or config.get("spark.master") or f"local[{cores or usable_cores()}]"
    options = compose(master, config)
    environment = _worker_python(master, config)
    running = _jvm_runs()
    if running:
        _check_jvm(config)
        options = {key: value for key, value in options.items() if key not in JVM_SETTINGS} | _launched
    else:
        options[DRIVER_OPTIONS] = f'"-Dlog4j2.configurationFile={_logging_file()}" {options[DRIVER_OPTIONS]}'
        environment["JAVA_HOME"] = str(java_home())
    if remote is None:
        # A Connect session leaves this behind when it is stopped, and PySpark would go on asking Connect.
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    builder = SparkSession.builder.config(map={**options})
    builder = builder.master(master) if remote is None else builder.remote(remote)
    try:
        with _environment(environment), warnings.catch_warnings(), no_orphan(_jvm_runs):
            # PySpark gives a Connect session the server's settings once more and warns that it has them.
            warnings.filterwarnings("ignore", message="Failed to set spark")
            spark = builder.getOrCreate()
    except Exception as error:
        heap = options.get("spark.driver.memory", "an unknown amount")
        raise SessionError(
            f"Spark did not start on {master} with {heap} of memory: {_gist(error)}. "
            "What Java printed above, if anything, says more"
        ) from error
    finally:
        if not running and _jvm_runs():
            _launched.update({key: options[key] for key in JVM_SETTINGS})
    return spark


def _require_connect() -> None:
    from pyspark.errors import PySparkImportError

    try:
        from pyspark.sql.connect.utils import check_dependencies

        check_dependencies()
    except (ImportError, PySparkImportError) as error:
        raise MissingDependency(f"what Spark Connect needs ({_gist(error)})", extra="spark") from error


def _jvm_runs() -> bool:
    """Whether this process has a JVM. It has one at most, and keeps it when a session is stopped."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def _check_jvm(config: Mapping[str, str]) -> None:
    """Refuse what only another JVM could give."""
    for key in JVM_SETTINGS:
        has = _launched.get(key)
        if key in config and not _same_value(key, has, config[key]):
            raise SessionError(
                f"{key}={config[key]!r} cannot be had in this process: its JVM was started with "
                f"{has or 'a value of its own'} and keeps that even after spark.stop(). Start a new Python "
                "process, or leave it out"
            )


def _worker_python(master: str, config: Mapping[str, str]) -> dict[str, str]:
    """Variables that make Python workers run this interpreter, its environment activated or not.

    PySpark reads PYSPARK_PYTHON once, when the session starts (SparkContext.pythonExec); a Connect server of
    our own reads it from its JVM's environment. So it need not stay set. What this interpreter pickles, only
    the same version can read; workers on other machines have their own paths, and are left alone.
    """
    chosen = config.get("spark.pyspark.python")
    if chosen is None and not master.startswith("local"):
        return {}
    # The driver's is what Spark's shell scripts run to find Spark: python3 on the PATH may know of none.
    return {"PYSPARK_PYTHON": chosen or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while. The JVM inherits them; what runs afterwards does not."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _logging_file() -> Path:
    """Log4j's settings in a folder that is removed when Python ends; the JVM may read them until then."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "log4j2.properties"
    path.write_text(LOGGING)
    return path


def _gist(error: BaseException) -> str:
    """What an error says, without the JVM's stack."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "JVM stacktrace"))]
    return " ".join(said[:2]) or type(error).__name__
