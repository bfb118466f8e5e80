"""A failed Spark job as an error for people: Penstock's own error where a worker raised one, else the gist.

Spark wraps what a Python worker raises in a Python traceback, and that in a JVM one. The whole stays as the error's
cause.
"""

from __future__ import annotations

import re

from penstock import errors
from penstock.errors import JobError, PenstockError

OURS = r"^(?:.*[:\]] )?penstock\.errors\.(\w+): (.+?)(?: SQLSTATE: \w+)?$"
"""Raised in a Python worker, or by an expression: Spark adds a state to that."""
PYTHON_ERROR = r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)$"
"""The line after a traceback's indented ones; an error's class may have any name."""
JAVA_NOISE = (
    r"^An error occurred while calling \S+\s*:?\s*"
    r"|^Job aborted due to stage failure: .*?most recent failure: .*? executor [^)]*\): "
    r"|^(?:[a-z][\w$]*\.)+[\w$]+: "
)
"""What stands before the reason: the call that failed, the task that failed last, Java classes."""
KILLED = "Python worker exited unexpectedly"


def user_error(error: Exception, doing: str) -> PenstockError:
    """The error to raise from a Spark error; `doing` completes "the Spark job that ... failed".

    >>> user_error(Exception("  File x\\npenstock.errors.StorageError: cannot write a: full."), "writes a")
    StorageError('cannot write a: full.')
    """
    text = str(error)
    ours = re.search(OURS, text, re.MULTILINE)
    if ours is not None:
        kind = getattr(errors, ours[1], PenstockError)
        found: PenstockError = kind.__new__(kind)
        Exception.__init__(found, ours[2].strip())
        return found
    return JobError(f"the Spark job that {doing} failed: {_gist(text)}")


def _gist(text: str) -> str:
    if KILLED in text:
        return (
            "a Python worker was killed, most often because the machine ran out of memory. Give the executors more "
            "(spark.executor.memoryOverhead), or fewer cores at once."
        )
    python = re.findall(PYTHON_ERROR, text, re.MULTILINE)
    if python:
        return str(python[-1]).strip()
    said = text.strip()
    while (shorter := re.sub(JAVA_NOISE, "", said).strip()) != said:
        said = shorter
    return said.partition("\n")[0].strip() or "no reason given"
