"""Calls: of builtins, of `math`, of methods, and of the user's other functions, which are lifted in their place."""

from __future__ import annotations

import ast
import enum
import inspect
import math
import sys
import types
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.expr.lift.arithmetic import as_int
from penstock.expr.lift.builtin import DRAINING, PURE, SYMBOLIC, best_or, count_of_chosen, sum_of_chosen
from penstock.expr.lift.constants import CALENDAR, CHANGING, PURE_METHODS, TEXT_LIKE, is_named_tuple, may_run
from penstock.expr.lift.formatting import filled
from penstock.expr.lift.known import is_plain, native, plain, require_constant, wrapped
from penstock.expr.lift.lists import list_method
from penstock.expr.lift.local import Local
from penstock.expr.lift.lookups import got
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.mathematics import function_for, is_close
from penstock.expr.lift.texts import METHODS, joined
from penstock.expr.lift.times import time_attribute, time_method
from penstock.expr.lift.values import Known, Seq, Symbol, Typed, Value

if TYPE_CHECKING:
    from penstock.expr.lift.expressions import Reader

NAMED: dict[Any, str] = {sum: "start", round: "ndigits", enumerate: "start"}
"""Builtins whose second argument may be named."""
FIELDS = (
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "microsecond",
    "days",
    "seconds",
    "microseconds",
)


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
            args = [reader.argument(arg, node.func.attr == "join") for arg in node.args]
            words = {str(word.arg): reader.value(word.value) for word in node.keywords}
            machine.place.node = node
            if node.func.attr == "format" and isinstance(receiver, Known) and isinstance(receiver.value, str):
                return filled(machine, receiver.value, args, words)
            own = _own_method(receiver, node.func.attr)
            if own is not None:
                return reader.inline(own[0], [*own[1], *args], words)
            return method(machine, receiver, node.func.attr, args, words)
    function = reader.value(node.func)
    if not isinstance(function, Known):
        machine.refuse("a function that differs from row to row is called", "Call a function by its name.")
    if function.value is any or function.value is all:
        match node.args:
            case [ast.GeneratorExp() as generator] if not node.keywords:
                return reader.quantified(generator, function.value is any)
    match node.args:
        case [ast.GeneratorExp() | ast.ListComp() as inner] if inner.generators[0].ifs and not node.keywords:
            if function.value is sum:
                return sum_of_chosen(machine, reader.chosen(inner))
            if function.value is len and isinstance(inner, ast.ListComp):
                return count_of_chosen(machine, reader.chosen(inner))
    drains = _is_one_of(function.value, DRAINING)
    args = [reader.argument(arg, drains) for arg in node.args]
    words = {str(word.arg): reader.value(word.value) for word in node.keywords}
    machine.place.node = node
    return _function(reader, function.value, args, words)


def _own_method(receiver: Value, name: str) -> tuple[types.FunctionType, list[Value]] | None:
    """A method that a class of the user's defines, of an object or of the class: the function, and what goes first."""
    if not isinstance(receiver, Known):
        return None
    if not isinstance(receiver.value, type) and name in getattr(receiver.value, "__dict__", {}):
        return None  # the object's own, and no method
    found = inspect.getattr_static(_class_of(receiver.value), name, None)
    if isinstance(found, staticmethod) and isinstance(found.__func__, types.FunctionType):
        function, first = found.__func__, list[Value]()
    elif isinstance(found, types.FunctionType) and not isinstance(receiver.value, type):
        function, first = found, [receiver]
    else:
        return None
    return (function, first) if _is_users(function) else None


def _function(reader: Reader, function: Any, args: list[Value], words: dict[str, Value]) -> Value:
    machine = reader.machine
    name = getattr(function, "__name__", type(function).__name__)
    if _is_one_of(function, DRAINING):
        args = [machine.made(arg.items) if isinstance(arg, Seq) and arg.once else arg for arg in args]
    if _is_pure(function) and all(map(is_plain, (*args, *words.values()))):
        result = native(machine, function, args, words)
        return machine.made(result.items) if function is sorted and isinstance(result, Seq) else result
    if isinstance(function, Local) or (isinstance(function, types.FunctionType) and _is_users(function)):
        return reader.inline(function, args, words)
    if function is zip:
        words = _loosely(machine, args, words)
    if _is_one_of(function, frozenset(NAMED)) and len(args) == 1 and [*words] == [NAMED[function]]:
        args, words = [*args, *words.values()], {}
    if function is math.isclose:
        return _is_close(machine, args, words)
    if (function is max or function is min) and len(args) == 1 and [*words] == ["default"]:
        return best_or(machine, function, args[0], words["default"])
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
    if function is range:
        machine.refuse(
            "the number of rounds differs from row to row, and a loop is written out while lifting",
            "Go through a constant range, and break where it is enough: for i in range(20): if i >= n: break.",
        )
    if function is math.gcd or function is math.lcm:
        # Euclid's algorithm by a lambda of Spark's: over 9 s for 400,000 rows on 2 cores, a Python UDF 0.24 s.
        machine.refuse(
            f"math.{name}() takes steps until nothing is left, which Spark does slower than Python",
            "Leave the function as it is.",
        )
    module = (getattr(function, "__module__", None) or type(function).__module__).lstrip("_")
    machine.refuse(
        f"{name}() has no exact expression"
        if module == "builtins"
        else f"{module}.{name}() has no exact expression",
        "Use arithmetic, the builtins, math, or str methods; or leave the function as it is.",
    )


def _is_close(machine: Machine, args: list[Value], words: dict[str, Value]) -> Value:
    known = {word: value.value for word, value in words.items() if isinstance(value, Known)}
    if len(args) != 2 or set(known) - {"rel_tol", "abs_tol"} or len(known) < len(words):
        machine.refuse(
            "math.isclose() with tolerances that differ from row to row, or other arguments",
            "Give two numbers, and constants as rel_tol and abs_tol.",
        )
    relative, absolute = known.get("rel_tol", 1e-9), known.get("abs_tol", 0.0)
    return machine.over(args, lambda a, b: is_close(machine, (a, b), float(relative), float(absolute)))


def _loosely(machine: Machine, args: list[Value], words: dict[str, Value]) -> dict[str, Value]:
    """zip()'s strict= where it makes no difference."""
    strict = words.get("strict", Known(False))
    counts = {len(arg.items) if isinstance(arg, Seq) else None for arg in args}
    if not isinstance(strict, Known) or (strict.value and (len(counts) > 1 or None in counts)):
        machine.refuse("zip(strict=True) of what may differ in length", "Leave strict out.")
    return {word: value for word, value in words.items() if word != "strict"}


def _is_users(function: types.FunctionType) -> bool:
    """Whether it is worth reading: the standard library and NumPy are not written in what expressions have."""
    module = (function.__module__ or "").partition(".")[0]
    return module not in sys.stdlib_module_names and module != "numpy"


def _is_one_of(function: Any, those: frozenset[Any]) -> bool:
    try:
        return function in those
    except TypeError:  # it cannot be hashed
        return False


def _is_pure(function: Any) -> bool:
    if _is_one_of(function, PURE):
        return True
    name = getattr(function, "__name__", "")
    return getattr(math, name, None) is function


def method(machine: Machine, receiver: Value, name: str, args: list[Value], words: dict[str, Value]) -> Value:
    """A method call."""
    if isinstance(receiver, Known) and type(receiver.value) is dict and name == "get":
        return got(machine, receiver.value, args)
    if is_plain(receiver) and all(map(is_plain, (*args, *words.values()))):
        return _of_constant(machine, receiver, name, args, words)
    if isinstance(receiver, Known) and isinstance(receiver.value, str) and name == "join" and len(args) == 1:
        return joined(machine, receiver.value, args[0])
    if isinstance(receiver, Seq) or (isinstance(receiver, Known) and not isinstance(receiver.value, str)):
        kind = receiver.kind if isinstance(receiver, Seq) else _class_of(receiver.value)
        if name not in PURE_METHODS.get(kind, ()):
            _refuse_method(machine, kind, name)
        machine.refuse(f"{kind.__name__}.{name}() of values that differ", "Use plain constants.")
    return machine.over([receiver], lambda x: _method(machine, x, name, args, words))


def _of_constant(
    machine: Machine, receiver: Value, name: str, args: list[Value], words: dict[str, Value]
) -> Value:
    """A method of a constant, with constants; it is run here and now if it changes nothing."""
    constant = plain(receiver)
    if type(constant) in (*PURE_METHODS, *TEXT_LIKE) and not hasattr(constant, name):
        machine.fail("AttributeError", f"'{type(constant).__name__}' object has no attribute '{name}'")
    if not may_run(constant, name):
        _refuse_method(machine, _class_of(constant), name)
    require_constant(machine, constant, f".{name}() is called of")
    found = native(machine, getattr(constant, name), args, words)
    return machine.made(found.items) if isinstance(found, Seq) and found.kind is list else found


def _class_of(value: Any) -> type:
    return value if isinstance(value, type) else type(value)


def _refuse_method(machine: Machine, kind: type, name: str) -> NoReturn:
    if kind in CHANGING and hasattr(kind, name):
        machine.refuse(
            f"{kind.__name__}.{name}() changes a {kind.__name__} in its place", "Build a new one instead."
        )
    machine.refuse(
        f"{kind.__name__}.{name}() has no exact expression",
        "Use arithmetic, the builtins, math, or str methods; or leave the function as it is.",
    )


def _method(machine: Machine, x: Typed, name: str, args: list[Value], words: dict[str, Value]) -> Value:
    if x.kind == "str":
        if name in ("split", "rsplit") and [*words] == ["maxsplit"] and len(args) == 1:
            args, words = [*args, *words.values()], {}
        if words and name in METHODS:
            machine.refuse(f"str.{name}({next(iter(words))}=...)", "Give plain arguments.")
        if name not in METHODS:
            if not hasattr(str, name):
                machine.fail("AttributeError", f"'str' object has no attribute '{name}'")
            machine.refuse(
                f"str.{name}() has no exact expression", f"There are {', '.join(sorted(METHODS))}."
            )
        return METHODS[name](machine, x.held, args)
    if x.kind in ("date", "datetime") and not words:
        of_time = time_method(machine, x, name, args)
        if of_time is not None:
            return of_time
    if x.kind == "none":
        machine.fail("AttributeError", f"'NoneType' object has no attribute '{name}'")
    if x.kind == "list" and not words and (found := list_method(machine, x, name, args)) is not None:
        return found
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
        if isinstance(value.value, enum.Enum) and name in ("value", "name") and _is_usual(value.value, name):
            return wrapped(getattr(value.value, name))
        if (is_named_tuple(value.value) and name in type(value.value)._fields) or (
            type(value.value) in CALENDAR and name in FIELDS
        ):
            return wrapped(getattr(value.value, name))
        held = getattr(value.value, "__dict__", {})
        if name in held and getattr(type(value.value), name, None) is None and _is_constant(held[name]):
            return wrapped(held[name])  # of the object whose method is lifted, or that a name stands for
        machine.refuse(f"the attribute .{name} of a {type(value.value).__name__}", "Use a plain constant.")
    if isinstance(value, Seq):
        machine.refuse(f"the attribute .{name} of a {value.kind.__name__}", "Use its elements.")

    def of_case(x: Typed) -> Value:
        if x.kind in ("date", "datetime") and (found := time_attribute(machine, x, name)) is not None:
            return found
        if x.kind == "days" and name == "days":
            return Symbol(((machine.trees.true, Typed("int", x.held, x.low, x.high)),))
        if x.kind == "none":
            machine.fail("AttributeError", f"'NoneType' object has no attribute '{name}'")
        machine.refuse(f"the attribute .{name} of a {x.python}", "Dates have year, month and day.")

    return machine.over([value], of_case)


def _is_usual(member: enum.Enum, name: str) -> bool:
    """Whether an enum's member is asked for what Enum itself keeps."""
    return inspect.getattr_static(type(member), name, None) is inspect.getattr_static(enum.Enum, name)


def _is_constant(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)


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
