"""`F`: Spark's functions, as every kernel calls them.

Usually `pyspark.sql.functions`. While `written` is on, those of Spark Connect: their Columns are plain Python objects
that need neither a session nor Java, and `penstock.backends.spark.sql_text` writes them as SQL.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pyspark.errors import utils

__all__ = ["F", "written"]

_writing: ContextVar[bool] = ContextVar("writing", default=False)


class _Functions:
    def __getattr__(self, name: str) -> Any:
        """The function, whichever of the two it is when it is called: tables of kernels hold on to it."""

        def called(*args: Any, **options: Any) -> Any:
            if _writing.get():
                from pyspark.sql.connect import functions
            else:
                from pyspark.sql import functions  # type: ignore[no-redef]
            return getattr(functions, name)(*args, **options)

        return called


@contextmanager
def written() -> Iterator[None]:
    """While the block runs, kernels make Columns that can be written down."""
    before = _writing.set(True)
    _origins.pause()
    try:
        yield
    finally:
        _origins.resume()
        _writing.reset(before)


class _Origins:
    """What PySpark keeps for its error messages: the caller's line, of every operator of a Column.

    Where a classic session is active each of them costs some ten calls of Java, also for Columns that need no Java.
    Lines of ours would help nobody, so it is switched off while they are made.
    """

    def __init__(self) -> None:
        self._lock, self._paused, self._before = threading.Lock(), 0, None

    def pause(self) -> None:
        with self._lock:
            if not self._paused:
                self._before = getattr(utils, FLAG, None)
                setattr(utils, FLAG, False)
            self._paused += 1

    def resume(self) -> None:
        with self._lock:
            self._paused -= 1
            if not self._paused:
                setattr(utils, FLAG, self._before)


FLAG = "_enable_debugging_cache"
"""PySpark's answer to spark.python.sql.dataFrameDebugging.enabled; None before it was asked for."""
_origins = _Origins()


if TYPE_CHECKING:
    from pyspark.sql import functions as F
else:
    F = _Functions()
