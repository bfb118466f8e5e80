"""Numeric Python functions that have no expression, compiled by numba over columns: exactly Python, or not at all.

`compile_function` reads the function's source, as `penstock.expr.lift` does, and translates it (`functions`,
`statements`, `expressions`, `calls`) into a program (`program`) in which every variable has one kind (`values`) and
every operation is one that either gives what Python gives or raises (`exact`). A row that raises is run by Python
itself, so that errors and whole numbers beyond 64 bits come out as they do there (`function`). Before use the program
runs beside the original, in a process that is ended if they do not end (`check`). Executors compile it when they first
call it (`kernel`), and need numba for that.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from penstock.backends.verify import declared_as
from penstock.compiled.carried import carried
from penstock.compiled.check import agreement_of
from penstock.compiled.function import Compiled
from penstock.compiled.program import program_of
from penstock.errors import NotLifted
from penstock.expr.lift.forms import Form

__all__ = ["Compiled", "compile_function"]


def compile_function(function: Callable[..., Any], arguments: Mapping[str, Form], returns: Form) -> Compiled:
    """Compile a function for arguments of these types, or raise `NotLifted`.

    >>> import pyarrow as pa
    >>> from penstock.expr.lift.forms import form_of
    >>> def digits(n: int) -> int:
    ...     count = 0
    ...     while n:
    ...         n, count = n // 10, count + 1
    ...     return count
    >>> compile_function(digits, {"n": form_of(int)}, form_of(int))(pa.array([7, 2024])).to_pylist()
    [1, 4]
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not isinstance(function, types.FunctionType):
        reason = f"it is a {type(function).__name__}, and no plain Python function"
        raise NotLifted(name, 1, 0, reason, "Give the function itself.")
    line = function.__code__.co_firstlineno
    program = program_of(function, arguments, returns)
    if not _has_numba():
        raise NotLifted(
            name, line, 0, "numba, which compiles it, is not installed", 'pip install "penstock[numba]"'
        )
    copy = carried(function)
    agreement = agreement_of(copy, program, arguments, returns, line)
    declared = tuple((argument, declared_as(form)) for argument, form in arguments.items())
    return Compiled(copy, program, declared, declared_as(returns), agreement)


def _has_numba() -> bool:
    try:
        return find_spec("numba") is not None
    except (ImportError, ValueError):
        return False
