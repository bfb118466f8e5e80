"""Statements of the function, in order, with the kind of every variable known at every place.

Where ways meet, behind an `if` and at a loop's head, a variable has the kind that holds what each way brings, and each
way ends with what makes it so. A loop is read until the kinds at its head do not change any more.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence

from penstock.compiled.expressions import condition, value_of
from penstock.compiled.operators import binary
from penstock.compiled.scope import NUMBERS, Jump, Line, Loop, Nested, Result, Scope
from penstock.compiled.sequences import columns_of
from penstock.compiled.values import Known, Number, Several, Value, converted, joined, joined_kind, moves

FAULT = "raise ValueError"
"""Every error means the same here: the row is Python's, which raises its own."""
WORDS = {
    "With": "a with block",
    "FunctionDef": "a function inside it",
    "ClassDef": "a class inside it",
    "Delete": "del",
    "Global": "a global variable",
    "Nonlocal": "a nonlocal variable",
    "Match": "match",
    "AsyncFor": "async",
}


def run(scope: Scope, statements: Sequence[ast.stmt]) -> None:
    """Translate statements one after the other; none after a place that is not reached."""
    for node in statements:
        if not scope.alive:
            return
        scope.place.node = node
        _statement(scope, node)


def _statement(scope: Scope, node: ast.stmt) -> None:
    match node:
        case ast.Assign():
            found = value_of(scope, node.value)
            for target in node.targets:
                _assign(scope, target, found)
        case ast.AnnAssign():
            if node.value is not None:
                _assign(scope, node.target, value_of(scope, node.value))
        case ast.AugAssign(target=ast.Name() as target):
            before = value_of(scope, ast.copy_location(ast.Name(target.id, ast.Load()), target))
            found = value_of(scope, node.value)
            scope.place.node = node
            scope.assign(target.id, binary(scope, type(node.op).__name__, before, found))
        case ast.Return(value=ast.IfExp() as choice):  # one of them may be None, which is no number
            ways = [ast.copy_location(ast.Return(one), node) for one in (choice.body, choice.orelse)]
            _fork(scope, condition(scope, choice.test), ways[:1], ways[1:])
        case ast.Return():
            scope.lines.append(Result(Known(None) if node.value is None else value_of(scope, node.value)))
            scope.alive = False
        case ast.Raise():
            scope.lines.append(FAULT)
            scope.alive = False
        case ast.Assert():
            if __debug__:
                _fork(scope, condition(scope, node.test), (), (ast.copy_location(ast.Raise(), node),))
        case ast.If():
            _fork(scope, condition(scope, node.test), node.body, node.orelse)
        case ast.While():
            _while(scope, node)
        case ast.For():
            _for(scope, node)
        case ast.Break() | ast.Continue():
            _jump(scope, "break" if isinstance(node, ast.Break) else "continue")
        case ast.Try():
            # An error leaves the whole row to Python, handlers and all: what is compiled is the way without one.
            if node.finalbody:
                scope.refuse("a finally block is not compiled", "Use except.")
            run(scope, node.body)
            run(scope, node.orelse)
        case ast.Expr():
            scope.held(value_of(scope, node.value))
        case ast.Import() | ast.ImportFrom():
            _import(scope, node)
        case ast.Pass():
            pass
        case _:
            name = type(node).__name__
            scope.refuse(f"{WORDS.get(name, name)} is not compiled", NUMBERS)


def _assign(scope: Scope, target: ast.expr, value: Value) -> None:
    scope.place.node = target
    if isinstance(target, ast.Name):
        scope.assign(target.id, value)
        return
    if not isinstance(target, ast.Tuple | ast.List):
        scope.refuse("what is assigned to is no variable", "Use plain variables.")
    if isinstance(value, Known) and isinstance(value.value, tuple | list):
        value = Several(tuple(Known(one) for one in value.value))
    if not isinstance(value, Several) or len(value.items) != len(target.elts):
        scope.refuse("values are assigned that do not fit their variables", "Assign as many as there are.")
    kept = scope.held(value)  # all of them are computed before the first is assigned
    assert isinstance(kept, Several)
    for one, item in zip(target.elts, kept.items, strict=True):
        _assign(scope, one, item)


def _import(scope: Scope, node: ast.Import | ast.ImportFrom) -> None:
    module = node.module if isinstance(node, ast.ImportFrom) else None
    for alias in node.names:
        if (module or alias.name) != "math" or (module is not None and alias.name == "*"):
            scope.refuse(
                f"the import of {module or alias.name}", "Only math is imported in compiled functions."
            )
        math = importlib.import_module("math")
        scope.assign(alias.asname or alias.name, Known(math if module is None else getattr(math, alias.name)))


def _aside(scope: Scope, statements: Sequence[ast.stmt]) -> tuple[list[Line], dict[str, Value] | None]:
    """Statements of one way: their lines, and what the variables are at its end, None where it is not reached."""
    lines, variables = scope.lines, dict(scope.variables)
    scope.lines = []
    run(scope, statements)
    found, after = scope.lines, scope.variables if scope.alive else None
    scope.lines, scope.variables, scope.alive = lines, variables, True
    return found, after


def _fork(scope: Scope, test: Value, yes: Sequence[ast.stmt], no: Sequence[ast.stmt]) -> None:
    if isinstance(test, Known):
        run(scope, yes if test.value else no)
        return
    assert isinstance(test, Number)
    ways = [_aside(scope, yes), _aside(scope, no)]
    ends = [after for _, after in ways if after is not None]
    meeting = joined(ends) if ends else {}
    for lines, after in ways:
        if after is not None:
            lines += moves(after, meeting)
    scope.lines.append(Nested(f"if {test.code}:", ways[0][0]))
    if ways[1][0]:
        scope.lines.append(Nested("else:", ways[1][0]))
    scope.variables, scope.alive = meeting, bool(ends)


def _jump(scope: Scope, word: str) -> None:
    loop = scope.loops[-1]
    (loop.broken if word == "break" else loop.again).append(scope.variables)
    scope.lines.append(Jump(loop, word, dict(scope.variables)))
    scope.alive = False


def _while(scope: Scope, node: ast.While) -> None:
    entered = condition(scope, node.test)
    if isinstance(entered, Known) and not entered.value:
        run(scope, node.orelse)
        return

    def head() -> tuple[str, bool]:
        test = condition(scope, node.test)
        if isinstance(test, Known):
            return "while True:", not test.value
        assert isinstance(test, Number)
        return f"while {test.code}:", True

    _loop(scope, node, head, lambda: None)


def _for(scope: Scope, node: ast.For) -> None:
    if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name):
        called = scope.lookup(node.iter.func.id)
        if isinstance(called, Known) and called.value is range and not node.iter.keywords:
            _for_range(scope, node, [value_of(scope, one) for one in node.iter.args])
            return
    sequence = value_of(scope, node.iter)
    scope.place.node = node.iter
    if isinstance(sequence, Several):
        numbers = [scope.number(one) for one in sequence.items]
        kind = numbers[0].kind
        for number in numbers[1:]:
            kind = joined_kind(kind, number.kind)
        name = scope.unit.fresh("k")
        kept = scope.held(Several(tuple(Number(kind, converted(one, kind)) for one in numbers)))
        assert isinstance(kept, Several)
        text = ", ".join(one.code for one in kept.items if isinstance(one, Number))
        _loop(
            scope,
            node,
            lambda: (f"for {name} in ({text},):", True),
            lambda: _assign(scope, node.target, Number(kind, name)),
        )
        return
    if not isinstance(sequence, Known) or not isinstance(sequence.value, tuple | list | range):
        scope.refuse("a loop through what is no range and no constant tuple or list", "Use range().")
    if isinstance(sequence.value, range):
        _for_range(scope, node, [Known(getattr(sequence.value, name)) for name in ("start", "stop", "step")])
        return
    if not sequence.value:
        run(scope, node.orelse)
        return
    columns = columns_of(scope, sequence.value)
    place, count = scope.unit.fresh("k"), len(sequence.value)

    def first() -> None:
        if isinstance(columns, list):
            items = tuple(Number(kind, f"{array}[{place}]") for kind, array in columns)
            _assign(scope, node.target, Several(items))
        else:
            _assign(scope, node.target, Number(columns[0], f"{columns[1]}[{place}]"))

    _loop(scope, node, lambda: (f"for {place} in range({count}):", True), first)


def _for_range(scope: Scope, node: ast.For, given: list[Value]) -> None:
    bounds = {1: [Known(0), *given, Known(1)], 2: [*given, Known(1)], 3: given}.get(len(given))
    if bounds is None:
        scope.refuse(f"range() with {len(given)} arguments", "Give 1, 2 or 3.")
    numbers = [scope.number(one) for one in bounds]
    if not {one.kind for one in numbers} <= {"bool", "int"}:
        scope.refuse("range() of what may be a float", "Turn it into an int first: int(x).")
    # They are computed once, before the loop, whose body may assign to what they were made of.
    kept = [scope.held(Number("int", converted(one, "int"))) for one in numbers]
    text = ", ".join(one.code for one in kept if isinstance(one, Number))
    scope.lines.append(f"range_of({text})")
    name = scope.unit.fresh("k")
    _loop(
        scope,
        node,
        lambda: (f"for {name} in range({text}):", True),
        lambda: _assign(scope, node.target, Number("int", name)),
    )


def _loop(
    scope: Scope, node: ast.While | ast.For, head: Callable[[], tuple[str, bool]], first: Callable[[], None]
) -> None:
    """A loop: `head` writes its first line and says whether it may end there; `first` is what a round begins with."""
    before = scope.variables
    loop = Loop(dict(before))
    while True:
        scope.variables = dict(loop.head)
        text, ends = head()
        scope.loops.append(loop)
        body, after = _aside_with(scope, first, node.body)
        scope.loops.pop()
        if after is not None:
            loop.again.append(after)
        meeting = joined([loop.head, *loop.again])
        if meeting == loop.head:
            break
        loop = Loop(meeting)
    if after is not None:
        body += moves(after, loop.head)
    scope.variables = dict(loop.head)
    scope.lines += moves(before, loop.head)
    otherwise, end = _aside(scope, node.orelse) if ends else ([], None)
    ways = [*([] if end is None else [end]), *loop.broken]
    loop.exit = joined(ways) if ways else {}
    if end is not None:
        otherwise += moves(end, loop.exit)
    scope.lines.append(Nested(text, body))
    if otherwise:
        scope.lines.append(Nested("else:", otherwise))
    scope.variables, scope.alive = dict(loop.exit), bool(ways)


def _aside_with(
    scope: Scope, first: Callable[[], None], statements: Sequence[ast.stmt]
) -> tuple[list[Line], dict[str, Value] | None]:
    lines, variables = scope.lines, dict(scope.variables)
    scope.lines = []
    first()
    run(scope, statements)
    found, after = scope.lines, scope.variables if scope.alive else None
    scope.lines, scope.variables, scope.alive = lines, variables, True
    return found, after
