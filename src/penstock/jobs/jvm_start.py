"""A JVM that is being started belongs to who starts it: interrupted, it is ended.

PySpark waits for the JVM to say where it listens, in a file of a temporary folder. Interrupted there, by Ctrl-C say,
it removes the folder and forgets the process. The JVM then fails to write the file, and waits for ever: its server
runs, and nobody will close it. Used by `penstock.jobs.session`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

GRACE_SECONDS = 5.0
"""For the JVM to take its temporary files away."""


@contextmanager
def no_orphan(arrived: Callable[[], bool]) -> Iterator[None]:
    """While the block runs a JVM may be started; if the block fails before it has `arrived`, it is ended."""
    from pyspark import java_gateway

    # The one place where PySpark's own handle of the process can be had.
    gateway: Any = java_gateway
    begin, started = gateway.Popen, list[subprocess.Popen[bytes]]()

    def noted(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = begin(*args, **options)
        started.append(process)
        return process

    gateway.Popen = noted
    try:
        yield
    except BaseException:
        for process in () if arrived() else started:
            _end(process)
        raise
    finally:
        gateway.Popen = begin


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
