"""Whether the variables a function reads are sure to be, when Spark ships it, what they are now.

Classic Spark pickles a UDF when it is first called, so the driver's values count, and a change is seen by pickling
again (`shipped`). Over Connect it is pickled when a query runs; and a function of another module than the script is
not shipped at all: workers import that module anew. In these cases a variable counts only if its module's source
binds it once, to a constant (`unsettled`).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

MUTATING = {
    "append",
    "extend",
    "insert",
    "remove",
    "pop",
    "clear",
    "sort",
    "reverse",
    "add",
    "discard",
    "update",
}
MUTATING |= {
    "setdefault",
    "popitem",
    "intersection_update",
    "difference_update",
    "symmetric_difference_update",
}


def shipped(function: Any) -> str | None:
    """A fingerprint of what Spark would ship; None where it cannot be shipped.

    >>> limit = [3]
    >>> before = shipped(lambda x: x > limit[0])
    >>> limit[0] = 4
    >>> before == shipped(lambda x: x > limit[0])
    False
    """
    from pyspark import cloudpickle

    try:
        return hashlib.sha256(cloudpickle.dumps(function)).hexdigest()  # type: ignore[no-untyped-call]
    except Exception:  # whatever a user's object raises when it is pickled: Spark will say so itself
        return None


def unsettled(function: Any, lazily: bool) -> str | None:
    """A variable whose value is not sure; None if there is none. `lazily`: functions are shipped when queries run."""
    if not isinstance(function, types.FunctionType) and (lazily or function.__module__ != "__main__"):
        return getattr(
            function, "__qualname__", type(function).__qualname__
        )  # an object, with a state of its own
    waiting, seen = [getattr(function, "__func__", function)], set[int]()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, types.FunctionType) or id(one) in seen:
            continue
        seen.add(id(one))
        for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                return name
            if isinstance(value, types.FunctionType) and not lazily:
                waiting.append(value)
            elif lazily:
                return name
        outer = lazily or one.__module__ != "__main__"
        attributes = {name for code in _codes(one.__code__) for name in code.co_names}
        for name in attributes & one.__globals__.keys():
            value = one.__globals__[name]
            if isinstance(value, types.ModuleType):
                if found := _unsettled_attribute(value, attributes):
                    return f"{name}.{found}"
            elif isinstance(value, types.FunctionType):
                if outer and not _bound_once(sys.modules.get(one.__module__), name):
                    return name
                waiting.append(value)
            elif isinstance(value, type | types.BuiltinFunctionType) or not outer:
                continue
            elif not _constant(sys.modules.get(one.__module__), name, value):
                return name
    return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _unsettled_attribute(module: types.ModuleType, names: set[str]) -> str | None:
    """A variable of a module that workers may not find as it is here. Libraries are taken for unchanged."""
    if module.__name__.partition(".")[0] in {*sys.stdlib_module_names, "numpy"}:
        return None
    for name in sorted(names & vars(module).keys()):
        value = vars(module)[name]
        if callable(value) or isinstance(value, types.ModuleType):
            if isinstance(value, types.FunctionType) and unsettled(value, lazily=False):
                return name
        elif not _constant(module, name, value):
            return name
    return None


def _constant(module: types.ModuleType | None, name: str, value: object) -> bool:
    """Whether a module's source binds the name once, to a constant that it still is."""
    tree = _tree(module)
    if tree is None or not _once(tree, name):
        return False
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target: ast.expr = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
        else:
            continue
        if isinstance(target, ast.Name) and target.id == name and statement.value is not None:
            try:
                written = ast.literal_eval(statement.value)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return False
            return type(written) is type(value) and repr(written) == repr(value)
    return False


def _bound_once(module: types.ModuleType | None, name: str) -> bool:
    tree = _tree(module)
    return tree is not None and _once(tree, name)


def _tree(module: types.ModuleType | None) -> ast.Module | None:
    try:
        return None if module is None else ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None


def _once(tree: ast.Module, name: str) -> bool:
    """Whether a name is bound once in all of a source, and what it is bound to never changed in place."""
    bound = 0
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=found, ctx=ast.Store() | ast.Del()):
                bound += found == name
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
                bound += found == name
            case ast.alias():
                bound += (node.asname or node.name).partition(".")[0] in (name, "*")
            case ast.Global(names=names):
                bound += 2 * (name in names)
            case ast.Subscript(value=ast.Name(id=found), ctx=ast.Store() | ast.Del()):
                bound += 2 * (found == name)
            case ast.Attribute(value=ast.Name(id=found), attr=method):
                bound += 2 * (found == name and method in MUTATING)
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While | ast.AsyncFor)]
    for loop in loops:  # bound once in the source, and many times as it runs
        bound += any(
            isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
            for node in ast.walk(loop)
        )
    return bound == 1
