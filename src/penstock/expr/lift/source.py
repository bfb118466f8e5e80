"""A function's syntax tree, from its source, and only if that is the source the running code was compiled from.

The file is compiled again and has to contain the very code object that runs: a file that was edited since, or a lambda
beside another on its line, must not be mistaken.
"""

from __future__ import annotations

import ast
import inspect
import types
import warnings
from collections.abc import Iterator

from penstock.errors import NotLifted

Function = ast.FunctionDef | ast.Lambda
OWN_FLAGS = 0xFFFF
"""Flags of a code object that say what it does; those above are the __future__ imports around it."""


def function_tree(function: types.FunctionType) -> Function:
    """The syntax tree of a function, or a refusal."""
    code = function.__code__

    def refuse(reason: str, advice: str) -> NotLifted:
        return NotLifted(function.__name__, code.co_firstlineno, 0, reason, advice)

    try:
        lines, _ = inspect.findsource(code)
        text = "".join(lines)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were shown when the file was first compiled
            tree = ast.parse(text)
            module = compile(text, code.co_filename, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, IndexError):
        raise refuse("its source cannot be read", "Define it in a file or a notebook cell.") from None
    nodes = [node for node in ast.walk(tree) if isinstance(node, Function) and _may_be(node, code)]
    same = [one for one in _codes(module) if _equal(one, code)]
    exact = [one for one in same if one.co_firstlineno == code.co_firstlineno] or same
    found = [node for one in exact for node in nodes if _begins(node, one)]
    if not found:
        raise refuse(
            "its source is not what is running: the file was changed since, or the code was made in another way",
            "Import the module again.",
        )
    # A lambda around another holds all of its places too.
    return max(found, key=lambda node: (node.lineno, node.col_offset))


def _may_be(node: Function, code: types.CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>"
    return node.name == code.co_name


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _equal(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two code objects do the same; where they stand does not count."""
    names = ("co_name", "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount")
    if any(getattr(one, name) != getattr(other, name) for name in (*names, "co_kwonlyargcount")):
        return False
    if (one.co_flags ^ other.co_flags) & OWN_FLAGS:
        return False
    if len(one.co_consts) != len(other.co_consts):
        return False
    return all(_same(a, b) for a, b in zip(one.co_consts, other.co_consts, strict=True))


def _same(one: object, other: object) -> bool:
    if isinstance(one, types.CodeType) and isinstance(other, types.CodeType):
        return _equal(one, other)
    return type(one) is type(other) and repr(one) == repr(other)  # repr tells 0.0 from -0.0


def _begins(node: Function, code: types.CodeType) -> bool:
    """Whether a function's tree is the one a code object was made from."""
    if isinstance(node, ast.Lambda):
        body = node.body
        start, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
        places = [place for place in code.co_positions() if None not in place and place[2:] != (0, 0)]
        if places:
            return all(start <= (a, c) and (b, d) <= end for a, b, c, d in places)
        return node.lineno == code.co_firstlineno and isinstance(body, ast.Constant | ast.Name)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return first == code.co_firstlineno
