"""Calls: of builtins, of `math`, of methods, and of the user's other functions, which are lifted in their place."""

from __future__ import annotations

import ast
import inspect
import math
import sys
import types
from typing import TYPE_CHECKING, Any

from penstock.expr.lift.arithmetic import as_int
from penstock.expr.lift.builtin import PURE, SYMBOLIC, is_plain, native, plain, wrapped
from penstock.expr.lift.comparison import compare
from penstock.expr.lift.formatting import filled
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.mathematics import function_for
from penstock.expr.lift.texts import METHODS, joined
from penstock.expr.lift.values import Known, Seq, Symbol, Typed, Value

if TYPE_CHECKING:
    from penstock.expr.lift.expressions import Reader

MOST_KEYS = 400
DATE_FIELDS = {"year": (1, 9999), "month": (1, 12), "day": (1, 31)}
CLOCK_FIELDS = {"hour": (0, 23), "minute": (0, 59), "second": (0, 59)}
PURE_TYPES = (str, int, float, bool, tuple, list, dict, set, frozenset, range, bytes)


def call(reader: Reader, node: ast.Call) -> Value:
    """A call in the source."""
    machine = reader.machine
    if any(isinstance(arg, ast.Starred) for arg in node.args) or any(
        word.arg is None for word in node.keywords
    ):
        machine.refuse("a call with * or **", "Write the arguments one by one.")
    if isinstance(node.func, ast.Attribute):
        receiver = reader.value(node.func.value)
        if not isinstance(receiver, Known) or not isinstance(receiver.value, types.ModuleType):
            args = [reader.value(arg) for arg in node.args]
            words = {str(word.arg): reader.value(word.value) for word in node.keywords}
            machine.place.node = node
            if node.func.attr == "format" and isinstance(receiver, Known) and isinstance(receiver.value, str):
                return filled(machine, receiver.value, args, words)
            return method(machine, receiver, node.func.attr, args, words)
    function = reader.value(node.func)
    if not isinstance(function, Known):
        machine.refuse("a function that differs from row to row is called", "Call a function by its name.")
    args = [reader.value(arg) for arg in node.args]
    words = {str(word.arg): reader.value(word.value) for word in node.keywords}
    machine.place.node = node
    return _function(reader, function.value, args, words)


def _function(reader: Reader, function: Any, args: list[Value], words: dict[str, Value]) -> Value:
    machine = reader.machine
    name = getattr(function, "__name__", repr(function))
    if _is_pure(function) and all(map(is_plain, (*args, *words.values()))):
        return native(machine, function, args, words)
    if isinstance(function, types.FunctionType) and _is_users(function):
        return reader.inline(function, args, words)
    if words:
        machine.refuse(f"{name}() is called with {next(iter(words))}=...", "Give plain arguments.")
    found = function_for(function)
    if found is not None:
        least, most, handle = found
        if not least <= len(args) <= most:
            machine.refuse(f"{name}() with {len(args)} arguments", "Give the usual number.")
        return machine.over(args, lambda *cases: handle(machine, cases))
    try:
        builtin = SYMBOLIC.get(function)
    except TypeError:
        builtin = None
    if builtin is not None:
        if not args and function not in (tuple, list):
            return native(machine, function, args, words)
        return builtin(machine, args)
    module = (getattr(function, "__module__", None) or type(function).__module__).lstrip("_")
    machine.refuse(
        f"{name}() has no exact expression"
        if module == "builtins"
        else f"{module}.{name}() has no exact expression",
        "Use arithmetic, the builtins, math, or str methods; or leave the function as it is.",
    )


def _is_users(function: types.FunctionType) -> bool:
    """Whether it is worth reading: the standard library and NumPy are not written in what expressions have."""
    module = (function.__module__ or "").partition(".")[0]
    return module not in sys.stdlib_module_names and module != "numpy"


def _is_pure(function: Any) -> bool:
    try:
        if function in PURE:
            return True
    except TypeError:
        return False
    name = getattr(function, "__name__", "")
    return getattr(math, name, None) is function


def method(machine: Machine, receiver: Value, name: str, args: list[Value], words: dict[str, Value]) -> Value:
    """A method call."""
    if isinstance(receiver, Known) and type(receiver.value) is dict and name == "get":
        return _get(machine, receiver.value, args)
    everything = (receiver, *args, *words.values())
    if all(map(is_plain, everything)) and type(plain(receiver)) in PURE_TYPES:
        if isinstance(receiver, Seq) and name not in ("index", "count"):
            machine.refuse(f"{receiver.kind.__name__}.{name}() changes a list", "Build a new one.")
        found = getattr(plain(receiver), name, None)
        if found is None:
            machine.fail("AttributeError", f"object has no attribute '{name}'")
        return native(machine, found, args, words)
    if isinstance(receiver, Seq):
        machine.refuse(f"{receiver.kind.__name__}.{name}()", "Build a new tuple, and use its elements.")
    if isinstance(receiver, Known) and isinstance(receiver.value, str) and name == "join" and len(args) == 1:
        return joined(machine, receiver.value, args[0])
    if isinstance(receiver, Known) and not isinstance(receiver.value, str):
        machine.refuse(
            f"{type(receiver.value).__name__}.{name}() of values that differ", "Use plain constants."
        )
    if words:
        machine.refuse(f"str.{name}({next(iter(words))}=...)", "Give plain arguments.")
    return machine.over([receiver], lambda x: _method(machine, x, name, args))


def _method(machine: Machine, x: Typed, name: str, args: list[Value]) -> Value:
    if x.kind == "str":
        if name not in METHODS:
            if not hasattr(str, name):
                machine.fail("AttributeError", f"'str' object has no attribute '{name}'")
            machine.refuse(
                f"str.{name}() has no exact expression", f"There are {', '.join(sorted(METHODS))}."
            )
        return METHODS[name](machine, x.held, args)
    if x.kind in ("date", "datetime") and not args and name in ("weekday", "isoweekday"):
        day = Typed("int", machine.trees.make("weekday", x.held), 0, 6)
        if name == "weekday":
            return Symbol(((machine.trees.true, day),))
        moved = machine.trees.make("int_add", day.held, machine.whole(1))
        return Symbol(((machine.trees.true, Typed("int", moved, 1, 7)),))
    if x.kind == "none":
        machine.fail("AttributeError", f"'NoneType' object has no attribute '{name}'")
    if x.kind == "float" and name == "is_integer" and not args:
        whole = machine.trees.make("eq", x.held, machine.trees.make("floor", x.held))
        finite = machine.trees.make("lt", machine.trees.make("abs", x.held), machine.typed(math.inf).held)
        return machine.one("bool", machine.trees.both(finite, whole))
    machine.refuse(
        f"{x.python}.{name}() has no exact expression", "Use arithmetic, and the attributes of dates."
    )


def attribute(machine: Machine, value: Value, name: str) -> Value:
    """value.name."""
    if isinstance(value, Known):
        if isinstance(value.value, types.ModuleType | type):
            try:
                return wrapped(getattr(value.value, name))
            except AttributeError as error:
                machine.fail("AttributeError", str(error))
        machine.refuse(f"the attribute .{name} of a {type(value.value).__name__}", "Use a plain constant.")
    if isinstance(value, Seq):
        machine.refuse(f"the attribute .{name} of a {value.kind.__name__}", "Use its elements.")

    def of_case(x: Typed) -> Value:
        fields = DATE_FIELDS | (CLOCK_FIELDS if x.kind == "datetime" else {})
        if x.kind in ("date", "datetime") and name in fields:
            found = machine.trees.make(name, x.held)
            return Symbol(((machine.trees.true, Typed("int", found, *fields[name])),))
        if x.kind == "days" and name == "days":
            return Symbol(((machine.trees.true, Typed("int", x.held, x.low, x.high)),))
        if x.kind == "none":
            machine.fail("AttributeError", f"'NoneType' object has no attribute '{name}'")
        machine.refuse(f"the attribute .{name} of a {x.python}", "Dates have year, month and day.")

    return machine.over([value], of_case)


def looked_up(machine: Machine, table: dict[Any, Any], key: Value) -> Value:
    """table[key] of a constant dict."""
    found, there = _entries(machine, table, key)
    machine.fault(machine.trees.negated(there), "KeyError", "the key is not in the dict")
    assert found is not None, "a key that is never there raises above"
    return found


def _get(machine: Machine, table: dict[Any, Any], args: list[Value]) -> Value:
    if not 1 <= len(args) <= 2:
        machine.refuse(f"dict.get() with {len(args)} arguments", "Give one or two.")
    default = args[1] if len(args) == 2 else Known(None)
    found, there = _entries(machine, table, args[0])
    return default if found is None else machine.merge(there, found, default)


def _entries(machine: Machine, table: dict[Any, Any], key: Value) -> tuple[Value | None, Any]:
    """The value of a key, and whether it is there."""
    if len(table) > MOST_KEYS:
        machine.refuse(
            f"a dict of {len(table)} keys is looked up", f"Up to {MOST_KEYS}; join with a table instead."
        )
    if isinstance(key, Known):
        try:
            there = key.value in table
        except TypeError as error:
            machine.fail("TypeError", str(error))
        return (wrapped(table[key.value]), machine.trees.true) if there else (None, machine.trees.false)
    if isinstance(key, Symbol) and any(typed.kind == "list" for _, typed in key.cases):
        machine.fail("TypeError", "unhashable type: 'list'")
    found: Value | None = None
    anywhere = machine.trees.false
    for one, value in reversed(table.items()):
        if not isinstance(one, str | int | float | bool | tuple | type(None)):
            machine.refuse(f"a dict with the key {one!r} is looked up", "Use texts or numbers as keys.")
        if isinstance(key, Seq) != isinstance(one, tuple):
            continue
        same = compare(machine, "eq", key, wrapped(one))
        if machine.decide(same) is False:
            continue
        found = wrapped(value) if found is None else machine.merge(same, wrapped(value), found)
        anywhere = machine.trees.either(same, anywhere)
    return found, anywhere


def bound(
    machine: Machine, function: types.FunctionType, args: list[Value], words: dict[str, Value]
) -> dict[str, Value]:
    """A function's parameters with what a call gives them."""
    try:
        found = inspect.signature(function, follow_wrapped=False).bind(*args, **words)
    except TypeError as error:
        machine.fail("TypeError", f"{function.__name__}() {error}")
    given: dict[str, Value] = {}
    for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            machine.refuse(f"{function.__name__}() takes any number of arguments", "Name them.")
        given[name] = found.arguments[name] if name in found.arguments else wrapped(parameter.default)
    return given


def index_of(machine: Machine, x: Typed) -> int | None:
    """A constant index; None where it differs from row to row."""
    from penstock.expr.nodes import Literal

    held = as_int(machine, x).held if x.kind in ("int", "bool") else None
    return int(held.value) if isinstance(held, Literal) and isinstance(held.value, int) else None
