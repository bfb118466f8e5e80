"""What a lifted UDF raises, as a script under `penstock run` sees it: PySpark's `PythonException`, as from a worker.

An expression raises by `raise_error`, which PySpark makes a `SparkRuntimeException`, and a script's
`except PythonException` would not take that. Only texts that a lifted UDF can raise are turned into the other
(`Raising`); `OutOfReach`, which Python would never raise, stays what it is. A script's own `raise_error` is told from
a UDF's by its text alone: the same text, or the same class where the UDF's message differs from row to row, is taken
for the UDF's. This is for classic Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from penstock.errors import OutOfReach

CONDITION, STATE = "PYTHON_EXCEPTION", "38000"
SAID = "An exception was thrown from the Python worker"


class Raising:
    """The errors that lifted UDFs can raise, as `raise_faults` writes them: "class: message"."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def may(self, function: Any, faults: Iterable[str]) -> None:
        """A UDF was lifted, and can raise these; a message in braces differs from row to row."""
        code = getattr(function, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        told = f"{getattr(function, '__name__', 'a UDF')}{place}"
        for fault in faults:
            places = self._texts.setdefault(_known_part(fault), [])
            if told not in places and not fault.startswith(f"{OutOfReach.__name__}: "):
                places.append(told)

    def places(self, text: str) -> list[str]:
        """The UDFs that may have raised an error of this text; none if it is somebody else's."""
        kind = text.partition(": ")[0]
        return [*dict.fromkeys((*self._texts.get(text, ()), *self._texts.get(f"{kind}: {{}}", ())))]


def _known_part(fault: str) -> str:
    kind, _, message = fault.partition(": ")
    return f"{kind}: {{}}" if message.startswith("{") and message.endswith("}") else fault


def converting(original: Callable[[Any], Any], raising: Raising) -> Callable[[Any], Any]:
    """PySpark's conversion of the JVM's errors, with a lifted UDF's as a worker's."""

    def convert_exception(error: Any) -> Any:
        found = original(error)
        with suppress(Exception):  # an error of ours must not stand in the place of the script's
            return _of_worker(found, raising) or found
        return found

    return convert_exception


def _of_worker(found: Any, raising: Raising) -> Any:
    """A `PythonException` for what a lifted UDF raised; None for any other error."""
    from pyspark.errors.exceptions.captured import PythonException, SparkRuntimeException

    if not isinstance(found, SparkRuntimeException) or found.getCondition() != "USER_RAISED_EXCEPTION":
        return None
    text = (found.getMessageParameters() or {}).get("errorMessage", "")
    places = raising.places(text)
    if not places:
        return None
    # Spark computed it, so no line of the function is known: it may be any of those that can raise this.
    trace = (
        "Traceback (most recent call last):\n"
        f"  as a native expression, by penstock run, of {' or '.join(places)}\n"
        f"{text.removesuffix(': ')}\n"
    )
    made: Any = PythonException.__new__(PythonException)  # its __init__ would log the error a second time
    made.__dict__.update(found.__dict__)
    made._desc = f"[{CONDITION}] {SAID}: {trace} SQLSTATE: {STATE}"
    told = {"msg": SAID, "traceback": trace}
    # Asked for these, the JVM would tell of `raise_error`.
    made.getCondition = lambda: CONDITION
    made.getErrorClass = lambda: CONDITION
    made.getSqlState = lambda: STATE
    made.getMessageParameters = lambda: dict(told)
    made.getMessage = lambda: made._desc
    return made
