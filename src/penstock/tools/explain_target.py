"""`penstock explain TARGET`: find the DataFrames a script leaves behind, a table, or files, and print what is found.

A script is run as `python script.py` would run it, in this process; what it prints goes to standard error, so that the
report stands alone, and `spark.stop()` is put off, since a stopped session can explain nothing. What the script takes
out of Spark meanwhile is noted (`penstock.tools.explain_sinks`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import JavaMissing, MissingDependency, PenstockError, listed
from penstock.jobs.failures import user_error
from penstock.jobs.java import java_home
from penstock.jobs.quiet import without_logs
from penstock.jobs.session import session
from penstock.tools.explain import Explanation, explain
from penstock.tools.explain_sinks import Taken, nameless, watching, with_sinks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, eq=False)
class Target:
    """DataFrames by name, what names mean in the script they come from, and what it did with them in the end."""

    frames: Mapping[str, DataFrame]
    functions: Mapping[str, Any]
    taken: Sequence[Taken] = ()
    """What the script took out of Spark."""


def frames(
    target: str,
    name: str | None = None,
    arguments: Sequence[str] = (),
    source_format: str = "parquet",
    remote: str | None = None,
) -> Target:
    """The DataFrames to explain, by name: of a script, a table, or files.

    Of a script that is `name`, or all at its top level, and those without a name whose rows it takes out of Spark.
    """
    if target.endswith(".py"):
        if remote is not None:
            raise PenstockError(
                f"--remote is for tables and files: {target} gets its session itself. Set SPARK_REMOTE={remote} in the "
                "environment, and PySpark takes it from there."
            )
        return _of_script(Path(target), name, arguments)
    if name is not None or arguments:
        raise PenstockError(
            f"--name and arguments belong to a Python script, and {target!r} is none (no .py)."
        )
    return Target({target: _of_source(target, source_format, remote)}, {})


def explained(found: Target, analyze: bool) -> dict[str, Explanation]:
    """Each DataFrame's explanation, by its name, with where the script takes its rows out of Spark."""
    return {
        name: with_sinks(explain(df, analyze=analyze, functions=found.functions), found.taken, df)
        for name, df in found.frames.items()
    }


def as_json(found: Mapping[str, Explanation]) -> str:
    """The explanations as one JSON object, by name."""
    return json.dumps({name: explanation.to_dict() for name, explanation in found.items()}, indent=1)


def show(found: Mapping[str, Explanation]) -> None:
    """Print the explanations, each under its name if there are several."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for place, (name, explanation) in enumerate(found.items()):
        if len(found) > 1:
            console.print(Text(f"{'' if place == 0 else chr(10)}== {name} ==", style="bold"))
        if console.is_terminal:
            console.print(explanation)
        else:  # text of its own width, whatever reads it
            console.print(Text(str(explanation)), soft_wrap=True)


def _of_source(target: str, source_format: str, remote: str | None) -> DataFrame:
    from pyspark.errors import PySparkException

    spark = session(remote=remote)
    try:
        with without_logs():
            if source_format == "table" or not ("/" in target or Path(target).exists()):
                df = spark.table(target)
            else:
                df = spark.read.format(source_format).load(target)
            _ = df.schema  # over Connect a mistake is noticed only now
            return df
    except PySparkException as error:
        raise user_error(error, f"reads {target}") from error


def _of_script(path: Path, name: str | None, arguments: Sequence[str]) -> Target:
    if not path.is_file():
        raise PenstockError(
            f"there is no script at {path}. Pass the path of a Python file, a table, or files."
        )
    left, taken = _run(path, arguments)
    found = {key: value for key, value in left.items() if _is_frame(value) and not key.startswith("_")}
    if name is None:
        found |= nameless(taken, [*found.values()], path.name)
        if found:
            return Target(found, left, taken)
        raise PenstockError(
            f"{path} leaves no DataFrame at its top level. Assign the one to explain to a variable there, outside of "
            "functions."
        )
    if name in found:
        return Target({name: found[name]}, left, taken)
    if name in left:
        raise PenstockError(f"{name!r} in {path} is a {type(left[name]).__name__}, not a Spark DataFrame.")
    others = f"It leaves {listed(list(found))}." if found else "It leaves none at its top level."
    raise PenstockError(f"{path} leaves no DataFrame called {name!r}. {others}")


def _is_frame(value: Any) -> bool:
    return callable(getattr(type(value), "mapInArrow", None))


def _run(path: Path, arguments: Sequence[str]) -> tuple[dict[str, Any], Sequence[Taken]]:
    """The names a script leaves at its top level, and what it took out of Spark."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingDependency("pyspark", extra="spark") from error
    code = _compiled(path)
    module = types.ModuleType("__main__")
    module.__file__ = str(path.absolute())
    with (
        _as_main(module, path, arguments),
        _sessions_stay(),
        watching() as taken,
        without_logs(),
        contextlib.redirect_stdout(sys.stderr),
    ):
        try:
            exec(code, module.__dict__)
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise PenstockError(f"{path} ended itself with exit code {ended.code}.") from ended
        except PenstockError:
            raise
        except Exception as error:
            raise PenstockError(f"{path} failed{_line_of(error, path)}: {_said(error)}") from error
    return module.__dict__, taken


def _compiled(path: Path) -> types.CodeType:
    try:
        return compile(path.read_bytes(), str(path.absolute()), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise PenstockError(f"{path} is not Python that can run: {error}.") from error


def _line_of(error: BaseException, path: Path) -> str:
    own = str(path.absolute())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    return f" in line {lines[0]}" if lines else ""


def _said(error: Exception) -> str:
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException):  # without the JVM's stack
        return str(user_error(error, "it starts")).removeprefix("the Spark job that it starts failed: ")
    return f"{type(error).__name__}: {error}"


@contextmanager
def _as_main(module: types.ModuleType, path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """The module stands for `__main__`, its folder for the current one on the path, as for `python script.py`."""
    main, argv, search = sys.modules["__main__"], sys.argv, list(sys.path)
    sys.modules["__main__"] = module
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    # So that a script which makes its session itself finds Java, and workers of the same Python.
    with suppress(JavaMissing):
        os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, search


@contextmanager
def _sessions_stay() -> Iterator[None]:
    """`spark.stop()` does nothing while the block runs."""
    from pyspark.sql import SparkSession

    classes: list[Any] = [SparkSession]
    with suppress(ImportError):  # where pyspark is the client of a server alone
        from pyspark import SparkContext

        classes.append(SparkContext)
    with suppress(ImportError):
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        classes.append(ConnectSession)
    before = [(kind, kind.stop) for kind in classes]
    try:
        for kind in classes:
            kind.stop = lambda self: None
        yield
    finally:
        for kind, stop in before:
            kind.stop = stop
