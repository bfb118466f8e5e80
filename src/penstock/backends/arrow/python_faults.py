"""The one operation that raises: what a lifted function would have raised, for the first row that does."""

from __future__ import annotations

import ast
import builtins

import numpy as np

from penstock.backends.arrow.values import Flat, Text, Value, is_valid
from penstock.backends.base import Kernel, Site
from penstock.errors import OutOfReach, RowError


def raise_faults(site: Site, value: Value, fault: Flat, *messages: Text) -> Value:
    """The value, if no row has a fault."""
    rows = np.flatnonzero(is_valid(fault))
    if len(rows):
        row = int(rows[0])
        kind, _, text = site.params["faults"][int(fault.values[row])].partition(": ")
        if text.startswith("{") and text.endswith("}"):
            text = str(messages[int(text[1:-1])].array[row].as_py())
        raise error_of(kind, text, row)
    return value


def error_of(kind: str, text: str, row: int) -> Exception:
    """An error by the name of its class; one that is not Python's own is a `RowError` that says its name."""
    if kind == OutOfReach.__name__:
        return OutOfReach(text, row)
    found = getattr(builtins, kind, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        return RowError(kind, text, row)
    if found is KeyError:
        text = _unquoted(text)
    try:
        error: Exception = found(text)
    except TypeError:  # some take more than a message
        return RowError(kind, text, row)
    error.add_note(f"raised by a lifted function for row {row} of its input")
    return error


def _unquoted(text: str) -> str:
    """What KeyError was raised with: it shows a text in quotes, and would do so once more.

    >>> str(KeyError(_unquoted("'a'"))), str(KeyError(_unquoted("no such key")))
    ("'a'", "'no such key'")
    """
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return found if isinstance(found, str) else text


KERNELS: dict[str, Kernel] = {"raise_faults": raise_faults}
