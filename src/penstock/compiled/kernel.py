"""A program as machine code, made once per process, and columns through it. Executors run this.

Code that was shipped by value has fresh globals in every job, so that what is compiled is kept where the worker itself
lives: among its modules.
"""

from __future__ import annotations

import ctypes
import math
import re
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.compiled.program import Program

KEPT = "_penstock_compiled_kernels"
DTYPES: dict[str, Any] = {"bool": np.bool_, "int": np.int64, "float": np.float64}
C_NAME = re.compile(r"\bc_(\w+)\(")
LIBRARIES = (None, "libm.so.6", "libm.dylib")


def kernel_of(program: Program) -> Any:
    """The compiled loop of a program."""
    kept = sys.modules.get(KEPT)
    if kept is None:
        kept = types.ModuleType(KEPT)
        kept.kernels, kept.lock = {}, threading.RLock()  # type: ignore[attr-defined]
        kept = sys.modules.setdefault(KEPT, kept)
    with kept.lock:
        if program.digest not in kept.kernels:
            kept.kernels[program.digest] = _compiled(program)
        return kept.kernels[program.digest]


def run(
    program: Program, columns: Sequence[np.ndarray[Any, Any]], skip: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The results of rows that are not skipped, which of them are None, and which ones Python has to run."""
    kernel = kernel_of(program)
    count = len(skip)
    found = np.zeros(count, DTYPES[program.returns])
    empty, faulty = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    kernel(count, skip, *columns, found, empty, faulty)
    return found, empty, faulty


def _compiled(program: Program) -> Any:
    try:
        import numba
    except ImportError as error:
        raise ImportError(
            f"{program.name}() was compiled by numba, which this Python does not have ({error}). "
            'Install it there: pip install "penstock[numba]".'
        ) from error

    # Divisions are asked for zero by the helpers; numba need not ask again.
    jit = numba.njit(nogil=True, error_model="numpy")
    names: dict[str, Any] = {"jit": jit, "math": math, "np": np, "nan": math.nan, "inf": math.inf}
    for name in dict.fromkeys(C_NAME.findall(program.text)):
        names[f"c_{name}"] = _of_c(name, 2 if name in ("pow", "atan2", "fmod") else 1)
    exec(compile(program.text, f"<{program.name}, compiled>", "exec"), names)
    kinds = {"bool": numba.boolean, "int": numba.int64, "float": numba.float64}

    def column(kind: str, readonly: bool) -> Any:
        return numba.types.Array(kinds[kind], 1, "C", readonly=readonly)

    given = [column(kind, True) for kind in program.arguments]
    filled = [column(kind, False) for kind in (program.returns, "bool", "bool")]
    return numba.njit((numba.int64, column("bool", True), *given, *filled), nogil=True)(names["rows"])


def _of_c(name: str, arguments: int) -> Any:
    """The function of the C library that Python's `math` calls; by its address, so that no compiler replaces it."""
    for library in LIBRARIES:
        try:
            found = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        found.restype, found.argtypes = ctypes.c_double, [ctypes.c_double] * arguments
        return found
    raise ImportError(f"the C library has no {name}(), which a compiled function calls")
