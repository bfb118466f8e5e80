"""What a local Spark session is told at its start, and why.

`SETTINGS` is the table of what differs from Spark's defaults, one reason per row; a setting without a reason
does not belong there. `compose` joins it with the user's own settings, which win. `cores_of` and `in_bytes`
read what Spark writes, and `LOGGING` is what its loggers are told. Nothing here starts Spark or imports it.

Go next to `penstock.jobs.session`, which starts a session with this, or to `penstock.machine`, which
says how many cores and how much memory there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.machine import free_memory, usable_cores

DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
JVM_SETTINGS = ("spark.driver.memory", DRIVER_OPTIONS)  # fixed when the JVM starts
MEMORY_SHARE = 0.6  # the rest is for Python, its workers and Arrow's memory outside the heap
MEMORY_FLOOR = 1 << 30  # what Spark takes by default


@dataclass(frozen=True)
class Setting:
    """One of Spark's settings, the value a local session gives it, and why.

    `{partitions}` and `{memory}` in a value are filled in at the start. Rows of the same key are joined with
    a space. `one_machine` rows are left out where the executors are on other machines.
    """

    key: str
    value: str
    reason: str
    one_machine: bool = False


SETTINGS = (
    Setting("spark.app.name", "penstock", "PySpark would call it pyspark-shell"),
    Setting("spark.driver.memory", "{memory}", "a local session's executor is the driver; 1g spills early"),
    Setting(
        DRIVER_OPTIONS,
        "-XX:+UseParallelGC",
        "the byte arrays of Arrow batches are humongous objects under G1, which copes badly with them",
    ),
    Setting(
        DRIVER_OPTIONS,
        "-Darrow.enable_unsafe_memory_access=true",
        "the bounds checks of Arrow's writer cost about a fifth of the way from the JVM to Python",
    ),
    Setting("spark.sql.execution.arrow.pyspark.enabled", "true", "columns, not rows, cross to Python"),
    Setting(
        "spark.driver.maxResultSize", "0", "a table for the GPU is often larger than 1g; memory bounds it"
    ),
    Setting("spark.sql.shuffle.partitions", "{partitions}", "two per core; 200 are mostly overhead here"),
    Setting("spark.sql.session.timeZone", "UTC", "hours and dates give the same numbers on every machine"),
    Setting("spark.ui.enabled", "false", "no web server, no port, a faster start"),
    Setting("spark.ui.showConsoleProgress", "false", "Penstock shows progress itself"),
    Setting("spark.driver.host", "127.0.0.1", "nobody else has business with it", one_machine=True),
    Setting(
        "spark.driver.bindAddress", "127.0.0.1", "as above; a laptop may change networks", one_machine=True
    ),
    Setting(
        "spark.connect.grpc.binding.address",
        "127.0.0.1",
        "a Connect server of our own (remote='local') would else listen on every interface",
        one_machine=True,
    ),
)

# What a failed task says at ERROR comes to Python as an exception with the same text; twice is noise. The
# gateway is named because Spark sets, and announces, the level WARN where it is not.
LOGGING = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.task.name = org.apache.spark.TaskContextImpl
logger.task.level = off
"""


def compose(master: str, config: Mapping[str, str]) -> dict[str, str]:
    """All settings of a new session: the table's, then the user's, which win."""
    one_machine = master.startswith("local")
    cores = cores_of(master)
    options: dict[str, str] = {}
    for setting in SETTINGS:
        if setting.one_machine and not one_machine:
            continue
        if "{partitions}" in setting.value and cores is None:
            continue  # a cluster of unknown size
        if setting.key == DRIVER_OPTIONS and _contradicts(config.get(DRIVER_OPTIONS, ""), setting.value):
            continue
        value = setting.value.format(memory=_default_memory(), partitions=2 * (cores or 1))
        options[setting.key] = f"{options[setting.key]} {value}" if setting.key in options else value
    if not re.match(r"local(\[.*)?$", master):  # executors with JVMs of their own
        options[EXECUTOR_OPTIONS] = " ".join(
            setting.value
            for setting in SETTINGS
            if setting.key == DRIVER_OPTIONS
            and not _contradicts(config.get(EXECUTOR_OPTIONS, ""), setting.value)
        )
    for key, value in config.items():
        added = key in (DRIVER_OPTIONS, EXECUTOR_OPTIONS) and options.get(key)
        options[key] = f"{options[key]} {value}" if added else value
    return options


def _contradicts(theirs: str, ours: str) -> bool:
    """Whether `theirs` chooses a garbage collector and `ours` does too: Java refuses to start with two."""
    collector = r"-XX:\+Use\w+GC\b"
    return bool(re.search(collector, theirs) and re.search(collector, ours))


def cores_of(master: str) -> int | None:
    """The cores a master URL stands for; None for a cluster.

    >>> cores_of("local[4]"), cores_of("local[4, 2]"), cores_of("local-cluster[2, 3, 1024]")
    (4, 4, 6)
    """
    if master == "local":
        return 1
    if match := re.match(r"local\[(\d+|\*)\s*(,.*)?\]$", master):
        return usable_cores() if match.group(1) == "*" else int(match.group(1))
    if match := re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]$", master):
        return int(match.group(1)) * int(match.group(2))
    return None


def in_bytes(text: str) -> int | None:
    """A size as Spark writes it, in bytes; None if it is none.

    >>> in_bytes("8g") == in_bytes("8192m") == 8 << 30
    True
    """
    match = re.fullmatch(r"\s*(\d+)([kmgt])b?\s*", text.lower())
    return int(match.group(1)) << 10 * (" kmgt".index(match.group(2))) if match else None


def _default_memory() -> str:
    return f"{max(MEMORY_FLOOR, int(free_memory() * MEMORY_SHARE)) >> 20}m"
