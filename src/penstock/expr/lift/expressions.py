"""Python's expressions, read from the syntax tree: each becomes a value (`penstock.expr.lift.values`).

`Reader` reads one function with its variables. What runs only in some rows, such as the second half of `a and b`, is
read in a branch, so that its errors count there alone.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable
from typing import Any

from penstock.expr.lift import operators
from penstock.expr.lift.arithmetic import UNARY, operate
from penstock.expr.lift.assignment import assign, is_named, refuse_once
from penstock.expr.lift.calls import attribute, bound, call, index_of
from penstock.expr.lift.comparison import OPS, compare, compared, identical, truth
from penstock.expr.lift.comprehensions import elements, elements_and_conditions, first_that_decides, generator
from penstock.expr.lift.formatting import concatenated, percent, shown
from penstock.expr.lift.known import is_plain, native, plain, require_readable, wrapped
from penstock.expr.lift.local import Local, local, local_variables
from penstock.expr.lift.lookups import contained, looked_up
from penstock.expr.lift.machine import Dead, Machine
from penstock.expr.lift.splitting import element_of_split, split_once
from penstock.expr.lift.texts import element, sliced
from penstock.expr.lift.values import Known, Seq, Symbol, Typed, Uncertain, Value
from penstock.expr.nodes import Expression

MOST_CALLS = 16
"""Functions called in each other."""

Variables = dict[str, Value]
Inline = Callable[["Reader", types.FunctionType | Local, Variables], Value]


class Reader:
    """Reads the expressions of one function."""

    def __init__(
        self,
        machine: Machine,
        function: types.FunctionType,
        variables: Variables,
        inline: Inline,
        depth: int = 0,
    ) -> None:
        self.machine, self.function, self.variables = machine, function, variables
        self.depth = depth
        self.given = tuple(variables.values())
        """What the function was called with: the caller may still hold it."""
        self.going: tuple[Value, ...] = ()
        """What loops go through at the moment."""
        self.surely = machine.depth
        """How many conditions there are around the statement: what is read under more happens in some rows only."""
        self.hidden: frozenset[str] = frozenset()
        """Names of comprehensions that are being read, which functions defined around them do not see."""
        self._inline = inline
        names = function.__code__.co_freevars
        self._cells = dict(zip(names, function.__closure__ or (), strict=True))

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        read = getattr(self, f"_{type(node).__name__}", None)
        self.machine.place.node = node
        if read is None:
            self.machine.refuse(
                f"{_named(node)} is not offered", "Write it with what expressions have, or leave it."
            )
        found: Value = read(node)
        self.machine.place.node = node
        return found

    def condition(self, node: ast.expr) -> Expression:
        """Whether an expression is true, for `if` and the like."""
        if isinstance(node, ast.BoolOp):
            found = self.condition(node.values[0])
            for part in node.values[1:]:
                found = self.and_then(found, part, isinstance(node.op, ast.And))
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.machine.trees.negated(self.condition(node.operand))
        return truth(self.machine, self.value(node))

    def and_then(self, before: Expression, node: ast.expr, conjunction: bool) -> Expression:
        """`before and node`, or with `or` between them, as conditions."""
        trees = self.machine.trees
        wanted = before if conjunction else trees.negated(before)
        if self.machine.decide(wanted) is False:
            return before
        after = self.machine.branch(wanted, lambda: self.condition(node))
        if after is None:  # it raises wherever it is asked
            return trees.false if conjunction else trees.true
        return (trees.both if conjunction else trees.either)(before, after)

    def inline(
        self, function: types.FunctionType | Local, args: list[Value], words: dict[str, Value]
    ) -> Value:
        """A call of another of the user's functions."""
        for given in (*args, *words.values()):
            refuse_once(self.machine, given)
        if self.depth >= MOST_CALLS:
            name = function.name if isinstance(function, Local) else function.__name__
            self.machine.refuse(f"{name}() calls itself, or calls go too deep", "Unroll it.")
        if isinstance(function, Local):
            return self._inline(self, function, local_variables(self.machine, function, args, words))
        return self._inline(self, function, bound(self.machine, function, args, words))

    def inside(self, function: Local, variables: Variables) -> Reader:
        """A reader of a function that is defined in this one."""
        return Reader(self.machine, function.reader.function, variables, self._inline, self.depth + 1)

    # Names and constants.

    def _Constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, complex | bytes) or node.value is ...:
            self.machine.refuse(f"the constant {node.value!r}", "Use numbers and texts.")
        return Known(node.value)

    def _Name(self, node: ast.Name) -> Value:
        if node.id in self.variables:
            return self._present(node.id, self.variables[node.id])
        code = self.function.__code__
        if node.id in code.co_varnames or node.id in code.co_cellvars:
            self.machine.fail(
                "UnboundLocalError",
                f"cannot access local variable '{node.id}' where it is not associated with a value",
            )
        return self._outside(node.id)

    def _outside(self, name: str) -> Value:
        if name in self._cells:
            try:
                return wrapped(self._cells[name].cell_contents)
            except ValueError:
                self.machine.refuse(f"{name!r} has no value yet", "Define it before the function is lifted.")
        if name in self.function.__globals__:
            return wrapped(self.function.__globals__[name])
        if hasattr(builtins, name):
            return Known(getattr(builtins, name))
        self.machine.fail("NameError", f"name '{name}' is not defined")

    def _present(self, name: str, value: Value) -> Value:
        """A variable, with a fault in rows where it was never assigned."""
        if isinstance(value, Known) and isinstance(value.value, Uncertain):
            self.machine.refuse(
                f"{name!r} is read after a try that may have assigned it", "Assign it before the try."
            )
        if not isinstance(value, Symbol):
            return value
        for guard, typed in value.cases:
            if typed.kind == "missing":
                self.machine.fault(
                    guard,
                    "UnboundLocalError",
                    f"cannot access local variable '{name}' where it is not associated with a value",
                )
        there = tuple(case for case in value.cases if case[1].kind != "missing")
        if len(there) < len(value.cases) and len(there) == 1:
            return Symbol(((self.machine.trees.true, there[0][1]),))
        return Symbol(there)

    def _Tuple(self, node: ast.Tuple) -> Value:
        return Seq(tuple(self.value(item) for item in node.elts), tuple)

    def _List(self, node: ast.List) -> Value:
        return self.machine.made([self.value(item) for item in node.elts])

    def _Set(self, node: ast.Set) -> Value:
        items = [self.value(item) for item in node.elts]
        if not all(map(is_plain, items)):
            self.machine.refuse("a set of values that differ from row to row", "Use a tuple.")
        return native(self.machine, lambda *members: set(members), items, {})

    def _Dict(self, node: ast.Dict) -> Value:
        """A dict with constant keys; its values may differ from row to row, and are then only looked up."""
        keys = [self.value(key) if key is not None else None for key in node.keys]
        values = [self.value(value) for value in node.values]
        given = [key for key in keys if key is not None and is_plain(key)]
        if len(given) < len(keys):
            self.machine.refuse("a dict of keys that differ from row to row", "Use if and elif.")
        for value in values:
            refuse_once(self.machine, value)
        held = [plain(value) if is_plain(value) and not is_named(self, value) else value for value in values]
        return native(self.machine, lambda *names: dict(zip(names, held, strict=True)), given, {})

    def _Attribute(self, node: ast.Attribute) -> Value:
        return attribute(self.machine, self.value(node.value), node.attr)

    def _Call(self, node: ast.Call) -> Value:
        return call(self, node)

    def _Lambda(self, node: ast.Lambda) -> Value:
        return Known(local(self, node))

    # Operators.

    def _BinOp(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        self.machine.place.node = node
        name = type(node.op).__name__
        if name == "Mod" and isinstance(left, Known) and type(left.value) is str and not is_plain(right):
            return percent(self.machine, left.value, right)
        if is_plain(left) and is_plain(right):
            return native(self.machine, NATIVE[name], [left, right], {})
        if isinstance(left, Seq) and isinstance(right, Seq) and name == "Add" and left.kind is right.kind:
            items = (*left.items, *right.items)
            return self.machine.made(items) if left.kind is list else Seq(items, left.kind)
        if name not in NATIVE:
            self.machine.refuse(f"the operator {name}", "Use arithmetic.")
        return self.machine.over([left, right], lambda a, b: operate(self.machine, name, a, b))

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self._truth(self.machine.trees.negated(self.condition(node.operand)))
        operand, name = self.value(node.operand), type(node.op).__name__
        if isinstance(operand, Known):
            return native(self.machine, NATIVE[name], [operand], {})
        return self.machine.over([operand], lambda x: UNARY[name](self.machine, x))

    def _truth(self, condition: Expression) -> Value:
        decided = self.machine.decide(condition)
        return self.machine.one("bool", condition) if decided is None else Known(decided)

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        """`and` and `or` give one of their operands, not a truth."""
        found = self.value(node.values[0])
        for part in node.values[1:]:
            asked = truth(self.machine, found)
            goes_on = asked if isinstance(node.op, ast.And) else self.machine.trees.negated(asked)
            decided = self.machine.decide(goes_on)
            if decided is False:
                return found
            after = self.machine.branch(goes_on, lambda part=part: self.value(part))  # type: ignore[misc]
            before = found
            stays = self.machine.aside(
                self.machine.trees.negated(goes_on),
                lambda before=before: self._narrowed(before),  # type: ignore[misc]
            )[0]
            if after is None and decided:
                raise Dead
            found = self.machine.merge(goes_on, after, None if decided else stays)
        return found

    def _narrowed(self, value: Value) -> Value:
        return self.machine.symbol(value) if isinstance(value, Symbol) else value

    def _Compare(self, node: ast.Compare) -> Value:
        left = self.value(node.left)
        found = self._compared(left, list(node.ops), list(node.comparators))
        if isinstance(found, Known) or {typed.kind for _, typed in self.machine.symbol(found).cases} != {
            "bool"
        }:
            return found
        return self._truth(truth(self.machine, found))

    def _compared(self, left: Value, ops: list[ast.cmpop], rest: list[ast.expr]) -> Value:
        """The first comparison that does not hold, or the last: what NumPy compares is a truth value of NumPy's."""
        right = self.value(rest[0])
        first = self._comparison(ops[0], left, right)
        holds = truth(self.machine, first)
        decided = self.machine.decide(holds)
        if len(ops) == 1 or decided is False:
            return first
        others = self.machine.branch(holds, lambda: self._compared(right, ops[1:], rest[1:]))
        if others is None:  # it raises wherever it is asked
            return Known(False) if decided else first
        return others if decided else self.machine.merge(holds, others, first)

    def _comparison(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        name = type(op).__name__
        if name in OPS:
            return compared(self.machine, OPS[name], left, right)
        asked = contained if name in ("In", "NotIn") else identical
        found = asked(self.machine, left, right)
        return self._truth(found if name in ("In", "Is") else self.machine.trees.negated(found))

    def _IfExp(self, node: ast.IfExp) -> Value:
        condition = self.condition(node.test)
        decided = self.machine.decide(condition)
        if decided is not None:
            return self.value(node.body if decided else node.orelse)
        yes, no = self.machine.branches(
            condition,
            lambda: self._narrowed(self.value(node.body)),
            lambda: self._narrowed(self.value(node.orelse)),
        )
        return self.machine.merge(condition, yes, no)

    def _NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        if self.machine.depth > self.surely:
            self.machine.refuse(
                "an assignment inside an expression that some rows do not come to",
                "Assign it in a line before.",
            )
        assign(self, node.target, value)
        return value

    # Subscripts, texts, comprehensions.

    def _Subscript(self, node: ast.Subscript) -> Value:
        index = _whole(node.slice)
        if index is not None and (split := split_once(self, node.value)) is not None:
            return element_of_split(self.machine, split, index)
        container = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._slice(container, node.slice)
        key = self.value(node.slice)
        self.machine.place.node = node
        if isinstance(container, Known):
            require_readable(self.machine, container.value, "it takes an element of")
            if type(container.value) is dict:
                return looked_up(self.machine, container.value, key)
        if isinstance(container, Seq):
            if container.once:
                self.machine.fail("TypeError", f"'{container.kind.__name__}' object is not subscriptable")
            return self._item(container, key)
        if is_plain(container) and is_plain(key):
            return native(self.machine, lambda c, k: c[k], [container, key], {})
        return self.machine.over([container, key], lambda x, index: element(self.machine, x, index))

    def _item(self, container: Seq, key: Value) -> Value:
        def of_case(index: Typed) -> Value:
            if index.kind not in ("int", "bool"):
                self.machine.fail("TypeError", "indices must be integers or slices")
            place = index_of(self.machine, index)
            if place is not None:
                if not -len(container.items) <= place < len(container.items):
                    self.machine.fail("IndexError", f"{container.kind.__name__} index out of range")
                return container.items[place]
            table = dict(zip(range(len(container.items)), container.items, strict=True))
            symbol = Symbol(((self.machine.trees.true, index),))
            found: Value | None = None
            anywhere = self.machine.trees.false
            for number, item in table.items():
                for same in (number, number - len(table)):
                    here = compare(self.machine, "eq", symbol, Known(same))
                    found = item if found is None else self.machine.merge(here, item, found)
                    anywhere = self.machine.trees.either(anywhere, here)
            self.machine.fault(
                self.machine.trees.negated(anywhere),
                "IndexError",
                f"{container.kind.__name__} index out of range",
            )
            assert found is not None
            return found

        return self.machine.over([key], of_case)

    def _slice(self, container: Value, node: ast.Slice) -> Value:
        bounds = [
            Known(None) if part is None else self.value(part) for part in (node.lower, node.upper, node.step)
        ]
        if isinstance(container, Seq) and container.once:
            self.machine.fail("TypeError", f"'{container.kind.__name__}' object is not subscriptable")
        if isinstance(container, Seq) and all(map(is_plain, bounds)):
            try:
                items = container.items[slice(*map(plain, bounds))]
            except (TypeError, ValueError) as error:  # no whole number, or steps of 0
                self.machine.fail(type(error).__name__, str(error))
            return self.machine.made(items) if container.kind is list else Seq(items, container.kind)
        if is_plain(container) and all(map(is_plain, bounds)):
            return native(self.machine, lambda c, *b: c[slice(*b)], [container, *bounds], {})
        if not isinstance(bounds[2], Known):
            self.machine.refuse("a slice in steps that differ from row to row", "Use a constant step.")
        step = bounds[2].value
        return self.machine.over(
            [container, *bounds[:2]], lambda x, start, stop: sliced(self.machine, x, start, stop, step)
        )

    def _JoinedStr(self, node: ast.JoinedStr) -> Value:
        return concatenated(self.machine, [self._formatted(part) for part in node.values])

    def _formatted(self, node: ast.expr) -> Value:
        if not isinstance(node, ast.FormattedValue):
            return self.value(node)
        value = self.value(node.value)
        if node.conversion not in (-1, ord("s")):
            self.machine.refuse("a conversion in an f-string", "Write {x}.")
        if node.conversion == ord("s"):
            value = shown(self.machine, value, "")
        if node.format_spec is None:
            return shown(self.machine, value, "")
        spec = self.value(node.format_spec)
        if not isinstance(spec, Known):
            self.machine.refuse("a format that differs from row to row", "Use a constant format.")
        return shown(self.machine, value, spec.value)

    def argument(self, node: ast.expr, drained: bool) -> Value:
        """An argument of a call; a generator whose elements are all asked for is made at once."""
        if drained and isinstance(node, ast.GeneratorExp):
            return Seq(tuple(elements(self, node)), types.GeneratorType)
        return self.value(node)

    def chosen(self, node: ast.GeneratorExp | ast.ListComp) -> list[tuple[Expression, Value | None]]:
        """The elements of a comprehension with conditions that differ from row to row, each with its own."""
        return elements_and_conditions(self, node)

    def quantified(self, node: ast.GeneratorExp, wanted: bool) -> Value:
        """any() and all() of a generator."""
        decided = first_that_decides(self, node, wanted)
        return self._truth(decided if wanted else self.machine.trees.negated(decided))

    def _ListComp(self, node: ast.ListComp) -> Value:
        return self.machine.made(elements(self, node))

    def _GeneratorExp(self, node: ast.GeneratorExp) -> Value:
        return generator(self, node)


def _whole(node: ast.expr) -> int | None:
    """A whole number that is written there."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    return None


def _named(node: ast.AST) -> str:
    names = {
        "Await": "await",
        "Yield": "yield",
        "YieldFrom": "yield",
    }
    names |= {
        "DictComp": "a dict comprehension",
        "SetComp": "a set comprehension",
        "Starred": "a starred value",
    }
    return names.get(type(node).__name__, f"a {type(node).__name__} expression")


NATIVE: dict[str, Callable[..., Any]] = {**operators.BINARY, **operators.UNARY}
