"""A Python function as the text of a function that numba compiles: its arguments' kinds in, its result's kind out."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Mapping

from penstock.compiled.calls import summed
from penstock.compiled.scope import Jump, Line, Nested, Result, Scope, Unit
from penstock.compiled.statements import run
from penstock.compiled.values import Known, Number, Several, Value, converted, joined_kind, moves, stored
from penstock.errors import NotLifted
from penstock.expr.lift.forms import Form
from penstock.expr.lift.machine import Place
from penstock.expr.lift.source import function_tree

MAIN = "row"
TOTAL = ".total"
DEEPEST = 20
INDENT = "    "


def new_unit() -> Unit:
    """An empty program."""
    return Unit(inline, gather)


def main_function(
    unit: Unit, function: types.FunctionType, arguments: Mapping[str, Form], returns: Form
) -> None:
    """Translate the function itself: `row(...)` gives a value and whether it is None."""
    scope = Scope(unit, function, Place(function.__name__))
    for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
        if name in arguments:
            kind = arguments[name].kind
            scope.variables[name] = Number(kind, stored(name, kind))
        else:
            scope.variables[name] = Known(parameter.default)
    unit.reading.append(function)
    _body(scope, function_tree(function))
    results = _results(scope.lines)
    if all(isinstance(one, Known) and one.value is None for one in results):
        scope.refuse("it returns no number in any row", "Return one.")
    text = _rendered(scope.lines, lambda value: _returned(scope, value, returns))
    if not any(line.lstrip().startswith("return ") for line in text):
        scope.refuse(f"no row returns {returns}, as it is declared", "Correct the declaration.")
    parameters = ", ".join(stored(name, form.kind) for name, form in arguments.items())
    unit.functions.append("\n".join([f"def {MAIN}({parameters}):", *text]))


def _returned(scope: Scope, value: Value, returns: Form) -> str:
    """A return of the declared type, without loss; another way than that is Python's to tell."""
    empty = {"bool": "False", "int": "0"}.get(returns.kind, "0.0")
    if isinstance(value, Known) and value.value is None:
        return f"return ({empty}, True)"
    if isinstance(value, Several) or (isinstance(value, Known) and not value.is_number):
        return "raise ValueError"
    number = scope.number(value)
    if returns.kind == "bool":
        return f"return ({number.code}, False)" if number.kind == "bool" else "raise ValueError"
    if returns.kind == "float":
        return f"return ({converted(number, 'mixed')}, False)"
    if number.kind in ("bool", "int"):
        return f"return ({converted(number, 'int')}, False)"
    return f"return (whole_f({number.code}), False)"


def inline(scope: Scope, function: types.FunctionType, args: list[Value], words: dict[str, Value]) -> Number:
    """A call of another function of the user's, translated for these kinds of arguments."""
    unit = scope.unit
    if function in unit.reading:
        scope.refuse(f"{function.__name__}() calls itself", "Write a loop.")
    if len(unit.reading) > DEEPEST:
        scope.refuse("functions call each other too deep", "Write a loop.")
    try:
        bound = inspect.signature(function, follow_wrapped=False).bind(*args, **words)
    except TypeError as error:
        scope.refuse(f"{function.__name__}() is called wrongly: {error}", "Correct the call.")
    given = {
        name: bound.arguments.get(name, Known(parameter.default))
        for name, parameter in bound.signature.parameters.items()
    }
    if any(not isinstance(one, Known | Number) for one in given.values()):
        scope.refuse(f"{function.__name__}() takes a tuple or list", "Give it numbers.")
    own = {
        name: Number(one.kind, stored(name, one.kind))
        for name, one in given.items()
        if isinstance(one, Number)
    }
    fixed = {name: one for name, one in given.items() if isinstance(one, Known)}
    key = (function, *((name, one.kind) for name, one in own.items()))
    key = (*key, *((name, type(one.value), repr(one.value)) for name, one in fixed.items()))
    if key not in unit.read:
        inner = Scope(unit, function, Place(function.__name__), {**own, **fixed})
        unit.reading.append(function)
        _check(function)
        _body(inner, function_tree(function))
        unit.reading.pop()
        unit.read[key] = _finished(inner, list(own.values()))
    found = unit.read[key]
    passed = ", ".join(one.code for one in given.values() if isinstance(one, Number))
    return Number(found.kind, f"{found.code}({passed})")


def gather(scope: Scope, name: str, node: ast.GeneratorExp | ast.ListComp) -> Number:
    """sum, any or all of a generator, as a function with a loop in it."""
    if len(node.generators) != 1 or node.generators[0].is_async:
        scope.refuse("a comprehension with several loops", "Write a loop.")
    (rounds,) = node.generators
    total = ast.Name(TOTAL, ast.Load())
    if name == "sum":
        step: ast.stmt = ast.Assign([ast.Name(TOTAL, ast.Store())], ast.BinOp(total, ast.Add(), node.elt))
        begin: list[ast.stmt] = [ast.Assign([ast.Name(TOTAL, ast.Store())], ast.Constant(0))]
        last: ast.expr = total
    else:
        test = node.elt if name == "any" else ast.UnaryOp(ast.Not(), node.elt)
        step = ast.If(test, [ast.Return(ast.Constant(name == "any"))], [])
        begin, last = [], ast.Constant(name == "all")
    for one in reversed(rounds.ifs):
        step = ast.If(one, [step], [])
    loop = ast.For(rounds.target, rounds.iter, [step], [])
    statements = [*begin, loop, ast.Return(last)]
    for statement in statements:
        for part in ast.walk(statement):
            if isinstance(part, ast.expr | ast.stmt) and not hasattr(part, "lineno"):
                ast.copy_location(part, node)
    named = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    targets = {one.id for one in ast.walk(rounds.target) if isinstance(one, ast.Name)}
    kept = {key: one for key, one in scope.variables.items() if key in named - targets}
    if any(isinstance(one, Several) for one in kept.values()):
        scope.refuse("a comprehension through values that differ from row to row", "Write a loop.")
    inner = Scope(scope.unit, scope.function, scope.place, dict(kept), own=frozenset(targets | {TOTAL}))
    run(inner, statements)
    own = {key: one for key, one in kept.items() if isinstance(one, Number)}
    found = _finished(inner, list(own.values()))
    scope.place.node = node
    passed = ", ".join(one.code for one in own.values())
    return summed(scope, Number(found.kind, f"{found.code}({passed})"))


def _check(function: types.FunctionType) -> None:
    flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    line = function.__code__.co_firstlineno
    if function.__code__.co_flags & flags:
        raise NotLifted(function.__name__, line, 0, "it is a generator or async", "Return a value.")
    if function.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        raise NotLifted(function.__name__, line, 0, "it takes any number of arguments", "Name them.")


def _body(scope: Scope, tree: ast.FunctionDef | ast.Lambda) -> None:
    _check(scope.function)
    run(
        scope,
        [ast.copy_location(ast.Return(tree.body), tree.body)] if isinstance(tree, ast.Lambda) else tree.body,
    )
    if scope.alive:
        scope.lines.append(Result(Known(None)))


def _results(lines: list[Line]) -> list[Value]:
    found: list[Value] = []
    for line in lines:
        if isinstance(line, Result):
            found.append(line.value)
        elif isinstance(line, Nested):
            found += _results(line.lines)
    return found


def _finished(scope: Scope, parameters: list[Number]) -> Number:
    """Write a function that others call; the kind of its result, and its name."""
    kind: str | None = None
    for value in _results(scope.lines):
        number = scope.number(value)
        kind = number.kind if kind is None else joined_kind(kind, number.kind)
    if kind is None:
        scope.refuse("a function is called that never returns", "Return a number.")
    result = kind
    name = scope.unit.fresh("f")
    text = _rendered(scope.lines, lambda value: f"return {converted(scope.number(value), result)}")
    head = f"def {name}({', '.join(one.code for one in parameters)}):"
    scope.unit.functions.append("\n".join([head, *text]))
    return Number(result, name)


def _rendered(lines: list[Line], result: Callable[[Value], str]) -> list[str]:
    """Lines as text, indented, now that it is known where jumps lead and what comes back."""
    found: list[str] = []
    for line in lines:
        if isinstance(line, Nested):
            found += [line.head, *(_rendered(line.lines, result) or [f"{INDENT}pass"])]
        elif isinstance(line, Jump):
            found += moves(line.variables, line.loop.head if line.word == "continue" else line.loop.exit)
            found.append(line.word)
        elif isinstance(line, Result):
            found.append(result(line.value))
        else:
            found.append(line)
    return [f"{INDENT}{one}" for one in found]
