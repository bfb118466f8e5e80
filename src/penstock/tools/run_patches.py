"""PySpark's classes while a script runs under `penstock run`: calls of UDFs are remembered, and their columns replaced.

Columns made of a UDF's are remembered as well (`penstock.tools.run_derived`), and where Columns are used,
`penstock.tools.run_places` decides. `udf` itself is left alone. What is replaced is what the objects it makes do when
they are called with columns, so that it does not matter how a script got hold of `udf`, or when; every object the
script sees is Spark's own.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from penstock.tools.run_derived import NO_COLUMNS, NOT_FOLLOWED, Derived, carries, followed, source_of
from penstock.tools.run_failures import converting
from penstock.tools.run_ledger import KEY, Ledger, call_of
from penstock.tools.run_lift import Lifter
from penstock.tools.run_places import KEYS, Places
from penstock.tools.run_sql import Names
from penstock.tools.run_within import Within


@dataclass(frozen=True, slots=True)
class _Classes:
    """The classes of classic Spark, or those of Spark Connect."""

    udf: Any
    registration: Any
    session: Any
    column: Any
    frame: Any
    grouped: Any
    windows: tuple[Any, ...]


@contextmanager
def lifting(ledger: Ledger, exact: bool = False) -> Iterator[None]:
    """While the block runs, columns made by UDFs become native where that is exact; the ledger tells of all."""
    before: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = owner.__dict__[name]
        before.append((owner, name, original))
        if isinstance(original, staticmethod):
            plain = original.__func__
            setattr(owner, name, staticmethod(functools.wraps(plain)(make(plain))))
        else:
            setattr(owner, name, functools.wraps(original)(make(original)))

    busy = threading.local()  # what Penstock itself does with columns on the way is not the script's
    names = Names(ledger, busy)
    try:
        for classes in _families():
            lifter = Lifter(ledger, classes.frame.__dict__["select"], exact, {})
            patch(classes.udf, "__init__", lambda original: _making(original, ledger, busy))
            patch(classes.udf, "__call__", lambda original: _calling(original, ledger, busy))
            patch(classes.registration, "register", lambda original: _registering(original, ledger, names))
            patch(classes.session, "sql", names.reading)
            for name in ("alias", "name"):
                patch(classes.column, name, _aliasing)
            for name in _methods(classes.column):
                patch(classes.column, name, followed)
            for window in classes.windows:
                for name in ("partitionBy", "orderBy", "rowsBetween", "rangeBetween"):
                    patch(window, name, followed)
            places = Places(Within(lifter))
            for name, place in _by_name(places).items():
                patch(classes.frame, name, functools.partial(_placing, place, busy))
            patch(classes.frame, "filter", names.filtering)
            patch(classes.frame, "selectExpr", names.selecting)
            for name in ("agg", "count", "sum", "avg", "mean", "min", "max"):
                if name in vars(classes.grouped):
                    patch(classes.grouped, name, functools.partial(_placing, places.aggregate, busy))
        with suppress(ImportError):  # where pyspark is the client of a server alone
            from pyspark.errors.exceptions import captured

            patch(captured, "convert_exception", lambda original: converting(original, ledger.raising))
        for module in _function_modules():
            for name in _functions(module):
                patch(module, name, followed)
            patch(module, "expr", names.expressing)
            for name in ("call_udf", "call_function"):
                patch(module, name, names.calling)
        yield
    finally:
        for owner, name, original in reversed(before):
            setattr(owner, name, original)


def _families() -> list[_Classes]:
    found = []
    with suppress(ImportError):  # where pyspark is the client of a server alone
        from pyspark.sql import udf as classic_udf
        from pyspark.sql.classic.column import Column
        from pyspark.sql.classic.dataframe import DataFrame
        from pyspark.sql.classic.window import Window, WindowSpec
        from pyspark.sql.group import GroupedData
        from pyspark.sql.session import SparkSession

        made, known = classic_udf.UserDefinedFunction, classic_udf.UDFRegistration
        found.append(
            _Classes(made, known, SparkSession, Column, DataFrame, GroupedData, (Window, WindowSpec))
        )
    with suppress(ImportError):  # also PySpark's own error, where what Connect needs is missing
        from pyspark.sql.connect import udf as connect_udf
        from pyspark.sql.connect.column import Column as ConnectColumn
        from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
        from pyspark.sql.connect.group import GroupedData as ConnectGrouped
        from pyspark.sql.connect.session import SparkSession as ConnectSession
        from pyspark.sql.connect.window import WindowSpec as ConnectWindow  # Window itself goes through it

        remote, registry = connect_udf.UserDefinedFunction, connect_udf.UDFRegistration
        windows = (ConnectWindow,)
        found.append(
            _Classes(remote, registry, ConnectSession, ConnectColumn, ConnectFrame, ConnectGrouped, windows)
        )
    return found


def _by_name(places: Places) -> dict[str, Callable[..., Any]]:
    """What each method of a DataFrame does with Columns. `where` is `filter`, and `agg` a grouping's."""
    return {
        "select": places.select,
        "withColumn": places.with_column,
        "withColumns": places.with_columns,
        "filter": places.filter,
        "sort": places.sort,
        "orderBy": places.sort,
        "sortWithinPartitions": places.sort,
        "repartition": places.repartition,
        "repartitionByRange": places.repartition,
        "groupBy": places.group,
        "groupby": places.group,
        "join": places.join,
    }


def _methods(column: Any) -> list[str]:
    return [name for name, each in vars(column).items() if callable(each) and name not in NOT_FOLLOWED]


def _function_modules() -> list[Any]:
    """Where scripts find Spark's functions; over Connect these call Connect's."""
    from pyspark.sql import functions
    from pyspark.sql.functions import builtin

    return [functions, builtin]


def _functions(module: Any) -> list[str]:
    from pyspark.sql import functions

    public = [name for name in functions.__all__ if name not in NO_COLUMNS]
    return [name for name in public if isinstance(vars(module).get(name), types.FunctionType)]


def _making(original: Any, ledger: Ledger, busy: Any) -> Any:
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not getattr(busy, "now", False):
            with suppress(Exception):
                ledger.made(self)

    return made


def _calling(original: Any, ledger: Ledger, busy: Any) -> Any:
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        column = original(self, *args, **kwargs)
        if not getattr(busy, "now", False):
            with suppress(Exception):
                ledger.called(self, args, kwargs, column)
        return column

    return called


def _registering(original: Any, ledger: Ledger, names: Names) -> Any:
    def register(self: Any, name: str, f: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, name, f, *args, **kwargs)
        with suppress(Exception):
            ledger.registered(f, name)
            names.registered(name, found, self.sparkSession)
        return found

    return register


def _aliasing(original: Any) -> Any:
    def alias(self: Any, *names: str, **options: Any) -> Any:
        found = original(self, *names, **options)
        if source_of(found) is None:
            if (call := call_of(self)) is not None:
                found.__dict__[KEY] = call.aliased(names, options)
            elif source_of(self) is not None:
                found.__dict__[KEY] = Derived(original, (self, *names), options)
        return found

    return alias


def _placing(place: Callable[..., Any], busy: Any, original: Any) -> Any:
    """A method of DataFrames that takes Columns: as it was, unless a UDF is in one of them."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        remembered = KEYS in getattr(self, "__dict__", {})
        if getattr(busy, "now", False) or not (remembered or carries(args) or carries(kwargs)):
            return original(self, *args, **kwargs)
        busy.now = True
        try:
            found = place(original, self, *args, **kwargs)
        except (
            Exception
        ):  # a script that runs without Penstock has to run with it, and one that fails to fail alike
            found = None
        finally:
            busy.now = False
        return original(self, *args, **kwargs) if found is None else found

    return method
