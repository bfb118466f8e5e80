"""Spark's errors as sentences. The texts are those of real failures, shortened; other tests fail for real."""

from __future__ import annotations

import pytest

from penstock.errors import JobError, PenstockError, StorageError
from penstock.jobs.failures import user_error

CLASSIC_PYTHON = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "script.py", line 15, in zero
    def zero(x): return 1//0
                        ~^^~
ZeroDivisionError: integer division or modulo by zero
"""

CONNECT_PYTHON = """
  An exception was thrown from the Python worker. Please see the stack trace below.
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "script.py", line 9, in bad
    raise ValueError("line one\\nline two: penstock")
ValueError: line one
line two: penstock
 SQLSTATE: 38000
"""

CHAINED = """\
Traceback (most recent call last):
  File "a.py", line 1, in read
KeyError: 'city'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "a.py", line 3, in read
acme.rows.NoSuchCity: no city 'Ulm'
"""

JAVA = """\
An error occurred while calling o147.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file a.parquet.
You can explicitly invalidate the cache
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.fileNotExistError(QueryExecutionErrors.scala:882)
"""

STAGE = """\
An error occurred while calling o66.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 7.0 (TID 10) (192.0.2.2 executor 1): java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""

LOST = """\
Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: Lost task 1.3 in stage 0.0 \
(TID 5) (192.0.2.2 executor 3): ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: \
Command exited with code 137
"""

KILLED = """\
Job aborted due to stage failure: Task 1 in stage 7.0 failed 1 times, most recent failure: Lost task 1.0 in stage 7.0 \
(TID 11) (192.0.2.2 executor driver): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
"""


@pytest.mark.parametrize(
    ("text", "gist"),
    [
        (CLASSIC_PYTHON, "ZeroDivisionError: integer division or modulo by zero"),
        (CONNECT_PYTHON, "ValueError: line one"),
        (CHAINED, "acme.rows.NoSuchCity: no city 'Ulm'"),
        (JAVA, "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file a.parquet."),
        (STAGE, "No space left on device"),
        (
            LOST,
            "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: Command exited with "
            "code 137",
        ),
        (
            "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\n1/0",
            "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
        ),
        ("  \n", "no reason given"),
    ],
    ids=["classic", "connect", "chained", "java", "stage", "executor", "sql", "empty"],
)
def test_the_reason_without_the_trace(text, gist):
    error = user_error(RuntimeError(text), "writes a")
    assert type(error) is JobError
    assert str(error) == f"the Spark job that writes a failed: {gist}"


def test_a_killed_worker_is_said_to_be_one():
    error = user_error(RuntimeError(KILLED), "writes a")
    assert "a Python worker was killed" in str(error)
    assert "memoryOverhead" in str(error)


@pytest.mark.parametrize("prefix", ["", "org.apache.spark.api.python.PythonException: "])
def test_our_own_errors_come_back_as_they_were_raised(prefix):
    trace = "Traceback (most recent call last):\n  File x\n"
    text = f"{trace}{prefix}penstock.errors.StorageError: cannot write a: full.\n\tat"
    error = user_error(RuntimeError(text), "writes a")
    assert type(error) is StorageError
    assert str(error) == "cannot write a: full."


def test_an_error_of_ours_that_is_not_known_here():
    error = user_error(RuntimeError("penstock.errors.FromTheFuture: odd."), "writes a")
    assert type(error) is PenstockError
    assert str(error) == "odd."
