"""`raise`: the error's class, and the very text that `str(error)` gives, or a refusal."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.expr.lift.conversion import to_text
from penstock.expr.lift.known import is_plain, native
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import Known, Symbol, Typed, Value
from penstock.expr.nodes import Expression

if TYPE_CHECKING:
    from penstock.expr.lift.expressions import Reader

WRITERS = ("__init__", "__new__", "__str__")
"""Methods that have a say in an error's text."""
SHOWN_ALIKE = ("none", "bool", "int", "float", "list")
"""Kinds for which repr() writes what str() does."""


def raise_error(reader: Reader, node: ast.Raise) -> NoReturn:
    """`raise Class(...)`: every row that comes here raises it."""
    machine = reader.machine
    if node.exc is None:
        machine.refuse("raise without an error", "Name the error.")
    given = node.exc if isinstance(node.exc, ast.Call) else None
    named = reader.value(node.exc if given is None else given.func)
    machine.place.node = node
    if (
        not isinstance(named, Known)
        or not isinstance(named.value, type)
        or not issubclass(named.value, Exception)
    ):
        machine.refuse(
            "something else than an error's class is raised", "Raise ValueError, or a class of yours."
        )
    kind = named.value
    _require_plain(machine, kind)
    if given is not None and (given.keywords or any(isinstance(arg, ast.Starred) for arg in given.args)):
        machine.refuse(
            f"{kind.__name__}() is raised with named or starred arguments", "Give a message alone."
        )
    values = [] if given is None else [reader.value(arg) for arg in given.args]
    machine.place.node = node
    message = _message(machine, kind, values)
    machine.raised.add(machine.fault_text(kind.__name__, message))
    machine.fail(kind.__name__, message)


def _require_plain(machine: Machine, kind: type) -> None:
    """Refuse classes that write their text themselves, and those that another of the same name would be taken for."""
    for one in kind.__mro__:
        own = next((name for name in WRITERS if name in vars(one)), None)
        if own is not None and getattr(builtins, one.__name__, None) is not one:
            machine.refuse(
                f"{kind.__name__} has {own} of its own in {one.__name__}, which may write another text",
                "Raise an error whose class leaves that to Exception, or leave the function as it is.",
            )
    known = machine.classes.setdefault(kind.__name__, getattr(builtins, kind.__name__, kind))
    if known is not kind:
        machine.refuse(
            f"two classes of errors are named {kind.__name__}", "Give the class a name of its own."
        )


def _message(machine: Machine, kind: type, values: list[Value]) -> str | Expression:
    if issubclass(kind, OSError) and len(values) > 1:
        machine.refuse(f"{kind.__name__}() of a number and a text chooses another class", "Name that class.")
    if all(map(is_plain, values)):
        text = native(machine, lambda *args: str(kind(*args)), values, {})
        assert isinstance(text, Known)
        # In braces stands the number of a message that differs from row to row.
        return machine.text(text.value) if text.value.startswith("{") else str(text.value)
    if len(values) > 1:
        machine.refuse(
            f"{kind.__name__}() is raised with {len(values)} values, some of which differ from row to row",
            "Give one message: an f-string.",
        )
    found = machine.over(values, lambda x: _of_one(machine, kind, x))
    assert isinstance(found, Symbol)
    return found.cases[0][1].held


def _of_one(machine: Machine, kind: Any, x: Typed) -> Value:
    # KeyError shows its value as repr() does.
    if x.kind not in SHOWN_ALIKE and getattr(kind, "__str__", None) is not BaseException.__str__:
        machine.refuse(
            f"{kind.__name__} shows a {x.python} that differs from row to row as repr() does",
            "Raise a ValueError.",
        )
    return to_text(machine, x)
