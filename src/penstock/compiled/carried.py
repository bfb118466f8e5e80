"""A function cut loose from its module, so that it can be sent anywhere: with the globals it names, and no others.

Picklers send a module's functions by name, and the other side would have to import the module. The copy says that it
belongs to `__main__`, which they send whole. Its globals are as they were when the program was made of them.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any


def carried(function: types.FunctionType) -> types.FunctionType:
    """The copy of a function, and of the user's functions that it names.

    >>> factor = 3
    >>> def triple(x):
    ...     return factor * x
    >>> copy = carried(triple)
    >>> copy(2), copy.__module__, "factor" in copy.__globals__, "triple" in copy.__globals__
    (6, '__main__', True, False)
    """
    return _copy(function, {})


def _copy(function: types.FunctionType, made: dict[int, types.FunctionType]) -> types.FunctionType:
    if id(function) in made:
        return made[id(function)]
    code = function.__code__
    own: dict[str, Any] = {"__builtins__": __builtins__, "__name__": "__main__"}
    cells = None
    if function.__closure__ is not None:
        cells = tuple(types.CellType() for _ in function.__closure__)
    found = types.FunctionType(code, own, function.__name__, function.__defaults__, cells)
    found.__kwdefaults__ = function.__kwdefaults__
    found.__module__, found.__qualname__ = "__main__", function.__name__
    made[id(function)] = found
    for name in dict.fromkeys(_names(code)):
        if name in function.__globals__:
            own[name] = _value(function.__globals__[name], made)
    for new, old in zip(cells or (), function.__closure__ or (), strict=True):
        try:
            new.cell_contents = _value(old.cell_contents, made)
        except ValueError:
            continue  # it has no value yet
    return found


def _value(value: Any, made: dict[int, types.FunctionType]) -> Any:
    if not isinstance(value, types.FunctionType):
        return value
    module = (value.__module__ or "").partition(".")[0]
    installed = module in sys.stdlib_module_names or module in ("numpy", "pyarrow", "pyspark")
    return value if installed else _copy(value, made)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _names(one)
