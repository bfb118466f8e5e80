"""Functions defined inside the function: lambdas and defs, which see its variables as they are when they are called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import Keeper, Value

if TYPE_CHECKING:
    from penstock.expr.lift.expressions import Reader, Variables


@dataclass(frozen=True, eq=False)
class Local(Keeper):
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
    defaults = tuple(reader.value(default) for default in given.defaults)
    free = _named(tree) - {one.arg for one in given.args}
    if free & reader.hidden:
        reader.machine.place.node = tree
        reader.machine.refuse(
            f"{name}() is defined inside a comprehension and reads its variable as it is when it is called",
            "Keep what it is now: lambda x, i=i: ...",
        )
    return Local(name, tree, reader, defaults)


def _named(tree: ast.Lambda | ast.FunctionDef) -> set[str]:
    """The names in a function's body."""
    body = [tree.body] if isinstance(tree, ast.Lambda) else tree.body
    return {one.id for part in body for one in ast.walk(part) if isinstance(one, ast.Name)}


def _assigned(node: ast.AST) -> Iterator[str]:
    """The names that a function's own code assigns: those of a comprehension are its own, and an inner def's too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        elif isinstance(child, ast.FunctionDef):
            yield child.name
        elif isinstance(child, ast.comprehension):
            for part in (child.iter, *child.ifs):
                yield from _assigned(part)
        elif not isinstance(child, ast.Lambda):
            yield from _assigned(child)


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
    own = set(_assigned(function.tree))
    used = {one.id for one in ast.walk(function.tree) if isinstance(one, ast.Name)}
    if used & function.reader.hidden:
        machine.refuse(
            f"{function.name}() and a comprehension that calls it have a name in common",
            "Give the comprehension's variable another name.",
        )
    around = {name: value for name, value in function.reader.variables.items() if name not in own}
    return {**around, **given, **words}
