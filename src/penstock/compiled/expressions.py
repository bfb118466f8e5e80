"""Expressions of the function: each becomes a value, whose text the compiled program evaluates in the same order."""

from __future__ import annotations

import ast
import types
from typing import Any

from penstock.compiled.calls import call_of, method
from penstock.compiled.operators import binary, compare, contained, folded, truth, unary
from penstock.compiled.scope import NUMBERS, Scope
from penstock.compiled.sequences import element
from penstock.compiled.values import Gone, Known, Number, Several, Value, converted, joined_kind

WORDS = {
    "JoinedStr": "an f-string",
    "Lambda": "a lambda",
    "ListComp": "a list comprehension",
    "SetComp": "a set comprehension",
    "DictComp": "a dict comprehension",
    "GeneratorExp": "a generator expression",
    "NamedExpr": "an assignment with :=",
    "Starred": "a * expression",
    "Slice": "a slice",
}


def value_of(scope: Scope, node: ast.expr) -> Value:
    """What an expression is."""
    scope.place.node = node
    match node:
        case ast.Constant():
            return Known(node.value)
        case ast.Name():
            found = scope.lookup(node.id)
            if isinstance(found, Gone):
                scope.refuse(found.reason, found.advice)
            return found
        case ast.Attribute():
            return _attribute(scope, node)
        case ast.BinOp():
            one, other = value_of(scope, node.left), value_of(scope, node.right)
            scope.place.node = node
            return binary(scope, type(node.op).__name__, one, other)
        case ast.UnaryOp(op=ast.Not()):
            return _negated(condition(scope, node.operand))
        case ast.UnaryOp():
            one = value_of(scope, node.operand)
            scope.place.node = node
            return unary(scope, type(node.op).__name__, one)
        case ast.BoolOp():
            return _either(scope, node)
        case ast.Compare():
            return _comparison(scope, node)
        case ast.IfExp():
            return _choice(scope, node)
        case ast.Call():
            return _call(scope, node)
        case ast.Tuple() | ast.List() | ast.Set():
            return _display(scope, node)
        case ast.Subscript():
            base, place = value_of(scope, node.value), value_of(scope, node.slice)
            scope.place.node = node
            return element(scope, base, place)
    name = type(node).__name__
    scope.refuse(f"{WORDS.get(name, name)} is not compiled", NUMBERS)


def condition(scope: Scope, node: ast.expr) -> Value:
    """Whether an expression counts as true; of `and`, `or` and `not` only that matters, not which operand it is."""
    if isinstance(node, ast.BoolOp):
        strong = isinstance(node.op, ast.Or)
        parts: list[str] = []
        for one in node.values:
            found = condition(scope, one)
            if isinstance(found, Known):
                if found.value is strong:
                    if not parts:
                        return found
                    parts.append(repr(strong))
                    break
            else:
                assert isinstance(found, Number)
                parts.append(found.code)
        word = " or " if strong else " and "
        return Number("bool", f"({word.join(parts)})") if parts else Known(not strong)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _negated(condition(scope, node.operand))
    found = value_of(scope, node)
    scope.place.node = node
    return truth(scope, found)


def _negated(found: Value) -> Value:
    if isinstance(found, Known):
        return Known(not found.value)
    assert isinstance(found, Number)
    return Number("bool", f"(not {found.code})")


def _either(scope: Scope, node: ast.BoolOp) -> Value:
    """`a or b` and `a and b`, which are one of their operands.

    Operands have no effects, so that one is written twice: as the question and as the answer.
    """
    strong = isinstance(node.op, ast.Or)
    found = value_of(scope, node.values[-1])
    for one in reversed(node.values[:-1]):
        first = value_of(scope, one)
        scope.place.node = node
        asked = truth(scope, first)
        if isinstance(asked, Known):
            found = first if asked.value is strong else found
            continue
        a, b = scope.number(first), scope.number(found)
        kind = joined_kind(a.kind, b.kind)
        yes, no = (a, b) if strong else (b, a)
        test = scope.number(asked).code
        found = Number(kind, f"({converted(yes, kind)} if {test} else {converted(no, kind)})")
    return found


def _comparison(scope: Scope, node: ast.Compare) -> Value:
    """Comparisons, one or a chain, whose inner operands are written twice."""
    left = value_of(scope, node.left)
    parts: list[str] = []
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = value_of(scope, right_node)
        scope.place.node = node
        if isinstance(op, ast.In | ast.NotIn):
            found = contained(scope, left, right)
            found = found if isinstance(op, ast.In) else _negated(found)
        else:
            found = compare(scope, type(op).__name__, left, right)
        left = right
        if isinstance(found, Known):
            if not found.value:
                return Number("bool", f"({' and '.join(parts)} and False)") if parts else Known(False)
        else:
            assert isinstance(found, Number)
            parts.append(found.code)
    return (
        Number("bool", f"({' and '.join(parts)})" if len(parts) > 1 else parts[0]) if parts else Known(True)
    )


def _choice(scope: Scope, node: ast.IfExp) -> Value:
    test = condition(scope, node.test)
    if isinstance(test, Known):
        return value_of(scope, node.body if test.value else node.orelse)
    assert isinstance(test, Number)
    yes, no = value_of(scope, node.body), value_of(scope, node.orelse)
    scope.place.node = node
    a, b = scope.number(yes), scope.number(no)
    kind = joined_kind(a.kind, b.kind)
    return Number(kind, f"({converted(a, kind)} if {test.code} else {converted(b, kind)})")


def _attribute(scope: Scope, node: ast.Attribute) -> Value:
    base = value_of(scope, node.value)
    scope.place.node = node
    if (
        isinstance(base, Known)
        and isinstance(base.value, types.ModuleType)
        and hasattr(base.value, node.attr)
    ):
        return Known(getattr(base.value, node.attr))
    scope.refuse(f"the attribute .{node.attr}", NUMBERS)


def _display(scope: Scope, node: ast.Tuple | ast.List | ast.Set) -> Value:
    items = [value_of(scope, one) for one in node.elts]
    scope.place.node = node
    if all(isinstance(one, Known) for one in items):
        values: list[Any] = [one.value for one in items if isinstance(one, Known)]
        kind = {ast.Tuple: tuple, ast.List: list, ast.Set: frozenset}[type(node)]
        return folded(scope, kind, values)
    if isinstance(node, ast.Set):
        scope.refuse("a set of values that differ from row to row", "Use a tuple.")
    return Several(tuple(items))


def _call(scope: Scope, node: ast.Call) -> Value:
    if any(isinstance(arg, ast.Starred) for arg in node.args) or any(
        word.arg is None for word in node.keywords
    ):
        scope.refuse("a call with * or **", "Write the arguments one by one.")
    if isinstance(node.func, ast.Attribute):
        base = value_of(scope, node.func.value)
        if not isinstance(base, Known) or not isinstance(base.value, types.ModuleType):
            given = [value_of(scope, arg) for arg in node.args]
            scope.place.node = node
            return method(scope, base, node.func.attr, given, bool(node.keywords))
    function = value_of(scope, node.func)
    if not isinstance(function, Known):
        scope.refuse("a function that differs from row to row is called", "Call a function by its name.")
    if any(function.value is one for one in (sum, any, all)) and len(node.args) == 1 and not node.keywords:
        (inner,) = node.args
        early = function.value is not sum  # a list is computed to its end even where any() stops sooner
        if isinstance(inner, ast.GeneratorExp) or (isinstance(inner, ast.ListComp) and not early):
            return scope.unit.gather(scope, function.value.__name__, inner)
    args = [value_of(scope, arg) for arg in node.args]
    words = {str(word.arg): value_of(scope, word.value) for word in node.keywords}
    scope.place.node = node
    return call_of(scope, function.value, args, words)
