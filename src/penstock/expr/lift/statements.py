"""Python's statements: a block leaves by its end, by `return`, or by a loop's `break` or `continue`.

Some rows leave by one, some by another. Each way out is an `Exit`: the condition under which rows take it, and the
variables they take along. Blocks one after the other, and the two sides of an `if`, are joined way by way, so nothing
is read twice.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from penstock.expr.lift.assignment import appended, assign, augmented
from penstock.expr.lift.expressions import Reader, Variables
from penstock.expr.lift.known import items_of
from penstock.expr.lift.local import Local, local
from penstock.expr.lift.machine import Dead, Machine, Place
from penstock.expr.lift.raising import raise_error
from penstock.expr.lift.source import function_tree
from penstock.expr.lift.splitting import split_once, unpacked_split
from penstock.expr.lift.values import Known, Seq, Symbol, Typed, Uncertain, Value
from penstock.expr.nodes import Expression

MOST_ITERATIONS = 1000
RESULT = "return value"
END, RETURN, BREAK, CONTINUE = "end", "return", "break", "continue"


@dataclass(frozen=True, slots=True)
class Exit:
    """A way out of a block: which rows take it, and their variables."""

    condition: Expression
    variables: Variables


Exits = dict[str, Exit]


def result_of(machine: Machine, function: types.FunctionType, variables: Variables, depth: int = 0) -> Value:
    """What a function returns, given its parameters; raises Dead where it raises in every row."""
    tree = function_tree(function)
    outer = machine.place
    machine.place = Place(function.__name__, tree)
    reader = Reader(machine, function, variables, _inlined, depth)
    try:
        return _run(reader, tree)
    finally:
        if depth:
            machine.place = outer


def _run(reader: Reader, tree: ast.Lambda | ast.FunctionDef) -> Value:
    if isinstance(tree, ast.Lambda):
        return reader.value(tree.body)
    exits = Statements(reader).block(tree.body)
    if RETURN not in exits:
        return Known(None)
    value = exits[RETURN].variables[RESULT]
    return reader.machine.merge(exits[END].condition, Known(None), value) if END in exits else value


def _inlined(reader: Reader, function: types.FunctionType | Local, given: Variables) -> Value:
    if not isinstance(function, Local):
        return result_of(reader.machine, function, given, reader.depth + 1)
    outer = reader.machine.place
    reader.machine.place = Place(outer.function, function.tree)
    try:
        return _run(reader.inside(function, given), function.tree)
    finally:
        reader.machine.place = outer


class Statements:
    """Reads the statements of one function."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.machine = reader, reader.machine
        self._caught_as: set[str | None] = set()

    def block(self, statements: list[ast.stmt]) -> Exits:
        """A block, with the reader's variables as they are; all its ways out."""
        trees = self.machine.trees
        for place, statement in enumerate(statements):
            self.machine.place.node = statement
            exits = self._statement(statement)
            if END not in exits:
                return exits
            self.reader.variables = exits[END].variables
            if len(exits) == 1:
                continue
            passed = exits.pop(END)
            rest = self.machine.branch(passed.condition, partial(self.block, statements[place + 1 :]))
            for way, later in (rest or {}).items():
                if way in exits:
                    condition = trees.choose(passed.condition, later.condition, exits[way].condition)
                    variables = self._merged(passed.condition, later.variables, exits[way].variables)
                    exits[way] = Exit(condition, variables)
                else:
                    exits[way] = Exit(trees.both(passed.condition, later.condition), later.variables)
            return exits
        return self._end()

    def _end(self) -> Exits:
        return {END: Exit(self.machine.trees.true, self.reader.variables)}

    def _statement(self, node: ast.stmt) -> Exits:
        read: Callable[[ast.stmt], Exits] | None = getattr(self, f"_{type(node).__name__}", None)
        if read is None:
            reason, advice = REFUSED.get(type(node).__name__, (f"{type(node).__name__} is not offered", ""))
            self.machine.refuse(reason, advice)
        self.reader.surely = self.machine.depth
        return read(node)

    def _merged(self, condition: Expression, yes: Variables, no: Variables) -> Variables:
        return {
            name: _Missing.merged(self.machine, condition, yes.get(name), no.get(name))
            for name in dict.fromkeys((*yes, *no))
        }

    def _Pass(self, node: ast.Pass) -> Exits:
        return self._end()

    def _Expr(self, node: ast.Expr) -> Exits:
        if isinstance(node.value, ast.Constant) or appended(self.reader, node.value):
            return self._end()
        self.reader.value(node.value)
        return self._end()

    def _Assign(self, node: ast.Assign) -> Exits:
        value = self._assigned(node)
        for target in node.targets:
            assign(self.reader, target, value)
        return self._end()

    def _assigned(self, node: ast.Assign) -> Value:
        match node.targets:
            case [ast.Tuple(elts=[ast.Name(), ast.Name()])]:
                split = split_once(self.reader, node.value)
                if split is not None:
                    return Seq(unpacked_split(self.machine, split))
        return self.reader.value(node.value)

    def _AnnAssign(self, node: ast.AnnAssign) -> Exits:
        if node.value is not None:
            assign(self.reader, node.target, self.reader.value(node.value))
        return self._end()

    def _FunctionDef(self, node: ast.FunctionDef) -> Exits:
        made = Known(local(self.reader, node))
        self.reader.variables = {**self.reader.variables, node.name: made}
        return self._end()

    def _AugAssign(self, node: ast.AugAssign) -> Exits:
        augmented(self.reader, node)
        return self._end()

    def _Return(self, node: ast.Return) -> Exits:
        value = Known(None) if node.value is None else self.reader.value(node.value)
        return {RETURN: Exit(self.machine.trees.true, {RESULT: value})}

    def _Break(self, node: ast.Break) -> Exits:
        return {BREAK: Exit(self.machine.trees.true, self.reader.variables)}

    def _Continue(self, node: ast.Continue) -> Exits:
        return {CONTINUE: Exit(self.machine.trees.true, self.reader.variables)}

    def _If(self, node: ast.If) -> Exits:
        condition = self.reader.condition(node.test)
        decided = self.machine.decide(condition)
        if decided is not None:
            return self.block(node.body if decided else node.orelse)
        before = self.reader.variables

        def side(statements: list[ast.stmt]) -> Exits:
            self.reader.variables = before
            return self.block(statements)

        yes, no = self.machine.branches(condition, lambda: side(node.body), lambda: side(node.orelse))
        self.reader.variables = before
        return self._sides(condition, yes, no)

    def _sides(self, condition: Expression, yes: Exits | None, no: Exits | None) -> Exits:
        trees, found = self.machine.trees, Exits()
        if yes is None or no is None:  # the other rows raised
            return yes or no or {}
        for way in dict.fromkeys((*yes, *no)):
            a, b = yes.get(way), no.get(way)
            taken = trees.choose(
                condition, a.condition if a else trees.false, b.condition if b else trees.false
            )
            if a is not None and b is not None:
                found[way] = Exit(taken, self._merged(condition, a.variables, b.variables))
            else:
                one = a or b
                assert one is not None
                found[way] = Exit(taken, one.variables)
        return found

    def _For(self, node: ast.For) -> Exits:
        through = self.reader.value(node.iter)
        items = items_of(self.machine, through, "a for loop")
        outer = self.reader.going
        try:
            alive, left = self._rounds(node, items, (*outer, *self._read_on(node.iter, through)))
        finally:
            self.reader.going = outer
        return self._after(self._at_its_end(alive, node.orelse), left)

    def _read_on(self, node: ast.expr, through: Value) -> list[Value]:
        """What a loop goes on to read while it runs: a list, or those behind a generator, zip() and its kin."""
        if not isinstance(through, Seq):
            return []
        if not through.once:
            return [Seq((), through.kind, through.born)]
        names = {name for name in _read_later(node) if name in self.reader.variables}
        return [self.reader.variables[name] for name in names]

    def _rounds(
        self, node: ast.For, items: list[Value], going: tuple[Value, ...]
    ) -> tuple[Expression, list[tuple[str, Exit]]]:
        """The loop's rounds: which rows come to its end, and how the others left it."""
        trees = self.machine.trees
        alive: Expression = trees.true
        left: list[tuple[str, Exit]] = []
        for place, item in enumerate(items, 1):
            self.reader.going = (*going, *items[place:])
            self.machine.iterations += 1
            if self.machine.iterations > MOST_ITERATIONS:
                self.machine.place.node = node
                self.machine.refuse(
                    f"loops of more than {MOST_ITERATIONS} rounds", "Use a formula, or fewer rounds."
                )
            exits = self.machine.branch(alive, lambda item=item: self._round(node, item))  # type: ignore[misc]
            if exits is None:
                alive = trees.false
                break
            for way in (RETURN, BREAK):
                if way in exits:
                    one = exits[way]
                    left.append((way, Exit(trees.both(alive, one.condition), one.variables)))
            on = [exits[way] for way in (END, CONTINUE) if way in exits]
            if not on:
                alive = trees.false
                break
            goes = on[0].condition if len(on) == 1 else trees.either(on[0].condition, on[1].condition)
            self.reader.variables = on[0].variables
            if len(on) == 2:
                self.reader.variables = self._merged(on[0].condition, on[0].variables, on[1].variables)
            alive = trees.both(alive, goes)
        return alive, left

    def _at_its_end(self, alive: Expression, orelse: list[ast.stmt]) -> Exits:
        """The ways on of rows that came to a loop's end: through its `else`, where it has one."""
        if alive is self.machine.trees.false:
            return {}
        if not orelse:
            return {END: Exit(alive, self.reader.variables)}
        exits = self.machine.branch(alive, partial(self.block, orelse)) or {}
        return {
            way: Exit(self.machine.trees.both(alive, one.condition), one.variables)
            for way, one in exits.items()
        }

    def _round(self, node: ast.For, item: Value) -> Exits:
        assign(self.reader, node.target, item)
        return self.block(node.body)

    def _after(self, found: Exits, left: list[tuple[str, Exit]]) -> Exits:
        """The ways out of a loop: rows that broke out of it go on where those do that came to its end."""
        for way, one in reversed(left):
            goes = END if way == BREAK else way
            if goes in found:
                condition = self.machine.trees.either(one.condition, found[goes].condition)
                found[goes] = Exit(
                    condition, self._merged(one.condition, one.variables, found[goes].variables)
                )
            else:
                found[goes] = one
        if not found:
            raise Dead
        return found

    def _Raise(self, node: ast.Raise) -> Exits:
        self._check_cause(node.cause)
        raise_error(self.reader, node)

    def _check_cause(self, cause: ast.expr | None) -> None:
        """`from None` and `from error` change what is shown above the error, not the error."""
        if cause is None or (isinstance(cause, ast.Constant) and cause.value is None):
            return
        if not isinstance(cause, ast.Name) or cause.id not in self._caught_as:
            self.machine.refuse(
                "raise ... from something computed", "Raise it from the caught error, or None."
            )

    def _Try(self, node: ast.Try) -> Exits:
        """The block, and where it raised something a handler takes, that handler's block."""
        machine, trees, before = self.machine, self.machine.trees, self.reader.variables
        handlers = [(self._caught(handler), handler) for handler in node.handlers]
        if node.finalbody or node.orelse:
            machine.refuse("try with else or finally", "Move what is there behind the try.")
        exits, fault = machine.aside(trees.true, lambda: self.block(node.body))
        number = trees.make("coalesce", fault, machine.whole(-1))  # a condition must not be null
        taken: Expression = trees.false
        sides: list[tuple[Expression, Exits | None]] = []
        for classes, handler in handlers:
            here: Expression = trees.false
            for place, text in enumerate(machine.faults):
                if fault is not trees.no_fault and issubclass(machine.class_of(text), classes):
                    here = trees.either(here, trees.make("eq", number, machine.whole(place)))
            here = trees.both(trees.negated(taken), here)
            if here is trees.false:
                continue
            self.reader.variables = _after_trying(node.body, before)
            self._caught_as = {*self._caught_as, handler.name}
            sides.append((here, machine.branch(here, partial(self.block, handler.body))))
            self._caught_as = self._caught_as - {handler.name}
            taken = trees.either(taken, here)
        if fault is not trees.no_fault:
            machine.pending.append(trees.choose(taken, trees.no_fault, fault))
        for here, handled in reversed(sides):
            exits = self._sides(here, handled, exits)
        if not exits:
            raise Dead
        self.reader.variables = before
        return exits

    def _caught(self, handler: ast.ExceptHandler) -> tuple[type, ...]:
        self.machine.place.node = handler
        if handler.type is None:
            return (Exception,)
        causes = {
            id(one.cause) for part in handler.body for one in ast.walk(part) if isinstance(one, ast.Raise)
        }
        if handler.name and any(
            isinstance(one, ast.Name) and one.id == handler.name and id(one) not in causes
            for part in handler.body
            for one in ast.walk(part)
        ):
            self.machine.refuse("a caught error is looked at", "Do without its text.")
        named = self.reader.value(handler.type)
        found = named.items if isinstance(named, Seq) else (named,)
        classes = tuple(one.value for one in found if isinstance(one, Known) and isinstance(one.value, type))
        if len(classes) != len(found):
            self.machine.refuse("something else than classes of errors is caught", "Name the classes.")
        return classes

    def _Assert(self, node: ast.Assert) -> Exits:
        condition = self.reader.condition(node.test)
        message = ""
        if isinstance(node.msg, ast.Constant):
            message = str(node.msg.value)
        elif node.msg is not None:
            self.machine.refuse("an assert with a message that is computed", "Use a constant message.")
        self.machine.raised.add(self.machine.fault_text("AssertionError", message))
        self.machine.fault(self.machine.trees.negated(condition), "AssertionError", message)
        return self._end()


class _Missing:
    """A variable that some rows never assigned."""

    @staticmethod
    def merged(machine: Machine, condition: Expression, yes: Value | None, no: Value | None) -> Value:
        """A variable of two paths; it may exist on one of them only."""
        if yes is not None and no is not None:
            return machine.merge(condition, yes, no)
        there = yes if yes is not None else no
        assert there is not None
        if isinstance(there, Seq) or (isinstance(there, Known) and not _holds(there)):
            return there  # read only where it exists, or refused by what it is used for
        nowhere = Symbol(((machine.trees.true, Typed("missing")),))
        return machine.merge(
            condition, there if yes is not None else nowhere, there if no is not None else nowhere
        )


def _holds(value: Known) -> bool:
    from penstock.expr.lift.values import kind_of

    return kind_of(value.value) is not None


def _read_later(node: ast.AST) -> Iterator[str]:
    """The names in what a loop goes through, but for those of which it makes a copy first."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Call(func=ast.Name(id="list" | "tuple" | "sorted")):
            return
    for child in ast.iter_child_nodes(node):
        yield from _read_later(child)


def _assigns_midway(last: ast.stmt) -> bool:
    """Whether a statement may assign something before it raises."""
    if isinstance(last, ast.Assign) and any(
        isinstance(one, ast.Tuple | ast.List) and one is not last.targets[0]
        for target in last.targets
        for one in ast.walk(target)
    ):  # a, (b, c) = ... has a already when b and c are found missing
        return True
    return isinstance(last, ast.If | ast.For | ast.Try) or any(
        isinstance(one, ast.NamedExpr) for one in ast.walk(last)
    )


def _after_trying(body: list[ast.stmt], before: Variables) -> Variables:
    """The variables where a block raised: of what it assigns before its last statement nobody knows how far it came."""
    grown = {
        id(one.value)
        for statement in body
        for one in ast.walk(statement)
        if isinstance(one, ast.Attribute) and one.attr == "append"
    }
    names = {
        one.id
        for statement in (body if _assigns_midway(body[-1]) else body[:-1])
        for one in ast.walk(statement)
        if isinstance(one, ast.Name) and (isinstance(one.ctx, ast.Store) or id(one) in grown)
    }
    return {**before, **{name: Known(Uncertain(name)) for name in names}}


REFUSED = {
    "While": ("while loops have no expression", "Write for i in range(n) with a constant n, and break."),
    "With": ("with has no expression", "Compute without it."),
    "ClassDef": ("a class is defined inside", "Define it outside."),
    "Import": ("an import inside the function", "Import at the top of the file."),
    "ImportFrom": ("an import inside the function", "Import at the top of the file."),
    "Global": ("a global variable is assigned", "Return the value instead."),
    "Nonlocal": ("a variable of an outer function is assigned", "Return the value instead."),
    "Delete": ("del has no expression", "Leave it out."),
    "Match": ("match has no expression", "Use if and elif."),
    "AsyncFor": ("async has no expression", "Compute without it."),
}
