"""Functions defined inside the function: lambdas and defs, which see its variables as they are when they are called."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import Value

if TYPE_CHECKING:
    from penstock.expr.lift.expressions import Reader, Variables


@dataclass(frozen=True, eq=False)
class Local:
    """A lambda or a def, and the function around it."""

    name: str
    tree: ast.Lambda | ast.FunctionDef
    reader: Reader
    defaults: tuple[Value, ...]
    """Of its last parameters."""


def local(reader: Reader, tree: ast.Lambda | ast.FunctionDef) -> Local:
    """What a lambda or a def makes; its defaults are computed now."""
    given, name = tree.args, getattr(tree, "name", "<lambda>")
    if isinstance(tree, ast.FunctionDef) and tree.decorator_list:
        reader.machine.refuse(f"{name}() inside the function has a decorator", "Define it outside.")
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs:
        reader.machine.refuse(f"{name}() inside the function takes * or / arguments", "Name plain ones.")
    return Local(name, tree, reader, tuple(reader.value(default) for default in given.defaults))


def local_variables(
    machine: Machine, function: Local, args: list[Value], words: dict[str, Value]
) -> Variables:
    """The variables with which its body begins: those of the function around it, and its parameters."""
    names = [one.arg for one in function.tree.args.args]
    given = dict(zip(names[len(names) - len(function.defaults) :], function.defaults, strict=True))
    given |= dict(zip(names, args, strict=False))
    twice = set(names[: len(args)]) & set(words)
    if len(args) > len(names) or set(words) - set(names) or twice or set(names) - set(given) - set(words):
        machine.fail("TypeError", f"{function.name}() is called with other arguments than it takes")
    own = {
        one.id
        for one in ast.walk(function.tree)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    used = {one.id for one in ast.walk(function.tree) if isinstance(one, ast.Name)}
    if used & function.reader.hidden:
        machine.refuse(
            f"{function.name}() and a comprehension that calls it have a name in common",
            "Give the comprehension's variable another name.",
        )
    around = {name: value for name, value in function.reader.variables.items() if name not in own}
    return {**around, **given, **words}
