"""Functions written as data scientists write them, none of them to suit the lifter; `FUNCTIONS` holds them all."""

from __future__ import annotations

import importlib
import types

MODULES = ("cleaning", "bucketing", "parsing", "scoring", "geo", "dates", "strings", "missing", "loops")


def _functions() -> dict[str, types.FunctionType]:
    found = {}
    for module in (importlib.import_module(f"{__name__}.{name}") for name in MODULES):
        for name, value in vars(module).items():
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                assert name not in found, name
                found[name] = value
    return found


FUNCTIONS = _functions()
