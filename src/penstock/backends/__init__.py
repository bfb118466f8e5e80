"""How an expression is computed: three engines, of which `arrow` is the meaning and the others must match it.

`engine("torch")` finds one by name and loads what it needs; each has `prepare(expressions, schema)`, which returns a
program to call. `base` is what they share.
"""

from __future__ import annotations

import importlib
from typing import Any

from penstock.errors import ExpressionError, MissingDependency

ENGINES = {
    "arrow": "penstock.backends.arrow",
    "spark": "penstock.backends.spark",
    "torch": "penstock.backends.torch",
}


def engine(name: str) -> Any:
    """An engine by name: the module with its `prepare`.

    >>> engine("arrow").NAME
    'arrow'
    """
    if name not in ENGINES:
        raise ExpressionError(f"there is no engine {name!r}. There are {', '.join(ENGINES)}.")
    try:
        return importlib.import_module(ENGINES[name])
    except ModuleNotFoundError as error:
        library = {"spark": "pyspark", "torch": "torch"}.get(name)
        if library is not None and error.name == library:
            raise MissingDependency(library, extra=name) from error
        raise
