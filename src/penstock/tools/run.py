"""`penstock run script.py`: an existing script, unchanged, with its UDFs as native expressions where that is exact.

The script runs in this process as `python script.py` would run it. Meanwhile PySpark's own objects remember which
column came from which UDF (`penstock.tools.run_patches`), and where such a column is used, a native one takes its place
if the result is the same (`penstock.tools.run_places`, `penstock.tools.run_lift`).
What became of each UDF is the report.
"""

from __future__ import annotations

import builtins
import os
import shutil
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.errors import JavaMissing, MissingDependency, OutOfReach, PenstockError
from penstock.jobs.java import java_home
from penstock.tools.run_ledger import Ledger
from penstock.tools.run_patches import lifting
from penstock.tools.run_report import RunReport

INTERRUPTED = 130


def run_script(path: str | Path, arguments: Sequence[str] = (), *, exact: bool = False) -> RunReport:
    """Run a script as `python script.py` would, its UDFs lifted where that is exact, and tell what became of them.

    Args:
        path: the script.
        arguments: what it finds in `sys.argv` behind its own name.
        exact: keep also functions that are the same except for rows whose values no column holds, such as whole
            numbers beyond 64 bits; lifted, they stop the job there with `OutOfReach`. Also those with logarithms,
            powers, sines and their like, whose last digit may differ between Java's library and C's.

    What a script raises is shown as Python shows it, and the report has the exit code that Python would give. Threads
    that outlive the script's last line are not waited for: from then on their UDFs are Spark's own.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     script = Path(folder, "greet.py")
    ...     _ = script.write_text("import sys; print('hello', *sys.argv[1:])")
    ...     run_script(script, ["world"]).exit_code
    hello world
    0
    """
    path = Path(path)
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingDependency("pyspark", extra="spark") from error
    if not path.is_file():
        raise PenstockError(f"there is no script at {path}. Pass the path of a Python file.")
    ledger = Ledger()
    module = types.ModuleType("__main__")
    module.__file__ = str(path.absolute())
    module.__dict__["__builtins__"] = builtins
    with _as_main(module, path, arguments), lifting(ledger, exact):
        code, failure = _ended(path, module)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return RunReport(str(path), code, ledger.report(), out_of_reach=_out_of_reach(failure))


def run_and_tell(
    path: str | Path,
    arguments: Sequence[str] = (),
    *,
    exact: bool = False,
    json_path: str | Path | None = None,
) -> int:
    """Run a script, and print the report to standard error; returns the script's exit code.

    `json_path`: a file that gets the report as JSON.
    """
    report = run_script(path, arguments, exact=exact)
    print(report, file=sys.stderr)
    if json_path is not None:
        Path(json_path).write_text(report.to_json() + "\n", "utf-8")
    return report.exit_code


def _ended(path: Path, module: types.ModuleType) -> tuple[int, BaseException | None]:
    """Run the script to its end: its exit code, and what it raised."""
    code = 0
    failure: BaseException | None = None
    try:
        exec(compile(path.read_bytes(), str(path.absolute()), "exec", dont_inherit=True), module.__dict__)
    except SystemExit as ended:
        code, failure = _exit_code(ended.code), ended
    except BaseException as error:
        code, failure = (INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1), error
        _show(error, path)
    return code, failure


def _exit_code(given: object) -> int:
    if given is None:
        return 0
    if isinstance(given, int):
        return given
    print(given, file=sys.stderr)
    return 1


def _show(error: BaseException, path: Path) -> None:
    """The traceback, from the script on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(path.absolute()):
        trace = trace.tb_next
    if trace is None and not isinstance(error, SyntaxError):
        trace = error.__traceback__
    sys.stdout.flush()
    # A hook may look at the error's own traceback instead of the one it is given.
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _out_of_reach(failure: BaseException | None) -> bool:
    while failure is not None:
        if f"{OutOfReach.__name__}: " in str(failure):
            return True
        failure = failure.__cause__ or failure.__context__
    return False


@contextmanager
def _as_main(module: types.ModuleType, path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """The module stands for `__main__`, its folder for the first on the path, as for `python script.py`."""
    main, argv, search = sys.modules["__main__"], sys.argv, list(sys.path)
    sys.modules["__main__"] = module
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    if shutil.which("java") is None:
        with suppress(JavaMissing):
            os.environ.setdefault("JAVA_HOME", str(java_home()))
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, search
