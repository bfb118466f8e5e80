"""The state of a lifting: nodes, what is known on this path, and what went wrong in which rows.

Errors are values here. `fault` notes that rows for which a condition holds raise; `branch` computes something for some
rows only, so that its faults count in these alone. In the end all faults are one number per row, null where there is
none, which `raise_faults` turns into the error (`penstock.expr.ops.python`).
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from penstock.errors import ExpressionError, NotLifted, OutOfReach
from penstock.expr.lift.trees import Trees
from penstock.expr.lift.values import TYPES, Known, Seq, Symbol, Typed, Uncertain, Value, kind_of
from penstock.expr.nodes import Call, Expression, Literal
from penstock.expr.types import FLOAT64, INT64, STRING

Result = TypeVar("Result")
REACH = OutOfReach.__name__
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


class Dead(Exception):
    """What was to be computed raises in every row that reaches it; the fault is noted already."""


@dataclass(slots=True)
class Place:
    """Where in the source the lifter is: for refusals."""

    function: str
    node: ast.AST | None = None

    def refuse(self, reason: str, advice: str) -> NoReturn:
        """Give up, with the reason."""
        line, column = getattr(self.node, "lineno", 1), getattr(self.node, "col_offset", 0)
        raise NotLifted(self.function, line, column + 1, reason, advice)


@dataclass(slots=True)
class Machine:
    """All that one lifting shares."""

    place: Place
    trees: Trees = field(default_factory=Trees)
    faults: list[str] = field(default_factory=list)
    """The texts of errors, by their number."""
    messages: list[Expression] = field(default_factory=list)
    """Messages that differ from row to row; a fault's text names one as {0}."""
    pending: list[Expression] = field(default_factory=list)
    """Faults on the path so far, the earliest first."""
    facts: dict[int, bool] = field(default_factory=dict)
    """Conditions that are decided on this path, by the node's identity."""
    classes: dict[str, type] = field(default_factory=dict)
    """The user's own classes of errors, by name."""
    raised: set[str] = field(default_factory=set)
    """Faults that the user's own `raise` makes."""
    iterations: int = 0
    depth: int = 0
    """Conditions in each other under which something is computed now."""
    lists: int = 0
    """How many lists the function made."""

    def refuse(self, reason: str, advice: str) -> NoReturn:
        """Give up, with the reason and the place."""
        self.place.refuse(reason, advice)

    # What went wrong.

    def fault(self, condition: Expression, kind: str, message: str | Expression) -> None:
        """Rows for which the condition holds raise; if that is every row that comes here, nothing follows."""
        decided = self.decide(condition)
        if decided is False:
            return
        text = self.fault_text(kind, message)
        if text not in self.faults:
            self.faults.append(text)
        number = self.trees.literal(self.faults.index(text), INT64)
        if decided:
            self.pending.append(number)
            raise Dead
        self.pending.append(self.trees.choose(condition, number, self.trees.no_fault))
        self.assume(condition, False)

    def fault_text(self, kind: str, message: str | Expression) -> str:
        """How a fault is written: the class and the message, or the number of one that differs from row to row."""
        if isinstance(message, str):
            return f"{kind}: {message}"
        if not any(one is message for one in self.messages):
            self.messages.append(message)
        return f"{kind}: {{{next(place for place, one in enumerate(self.messages) if one is message)}}}"

    def class_of(self, fault: str) -> type:
        """The class of a fault; `OutOfReach` is the lifter's own, which no handler of the user's takes."""
        kind = fault.partition(":")[0]
        if kind == REACH:
            return object
        found = self.classes.get(kind) or getattr(builtins, kind, object)
        return found if isinstance(found, type) else object

    def fail(self, kind: str, message: str | Expression) -> NoReturn:
        """Every row that comes here raises."""
        self.fault(self.trees.true, kind, message)
        raise AssertionError("unreachable: fault raises")

    def branch(self, condition: Expression, run: Callable[[], Result]) -> Result | None:
        """Compute something for the rows in which the condition holds; None where every one of them raises."""
        found, faults = self.aside(condition, run)
        if faults is not self.trees.no_fault:
            self.pending.append(self.trees.choose(condition, faults, self.trees.no_fault))
        return found

    def branches(
        self, condition: Expression, yes: Callable[[], Result], no: Callable[[], Result]
    ) -> tuple[Result | None, Result | None]:
        """Both sides of a condition, each for its rows."""
        first, faults = self.aside(condition, yes)
        second, others = self.aside(self.trees.negated(condition), no)
        both = self.trees.choose(condition, faults, others)
        if both is not self.trees.no_fault:
            self.pending.append(both)
        if first is None and second is None:
            raise Dead
        return first, second

    def aside(self, condition: Expression, run: Callable[[], Result]) -> tuple[Result | None, Expression]:
        """Compute something under a condition; its faults are given back, and not noted."""
        outer, facts = self.pending, self.facts
        self.pending, self.facts = [], dict(facts)
        self.depth += 1
        try:
            self.assume(condition, True)
            found = run()
        except Dead:
            found = None
        finally:
            inner, self.pending, self.facts = self.pending, outer, facts
            self.depth -= 1
        return found, self.trees.first(inner)

    # What is known.

    def assume(self, condition: Expression, truth: bool) -> None:
        """Take a condition for decided on this path."""
        self.facts[id(condition)] = truth
        if isinstance(condition, Call):
            if condition.op == "not":
                self.assume(condition.of[0], not truth)
            elif condition.op == ("and" if truth else "or"):
                for part in condition.of:
                    self.assume(part, truth)
            elif condition.op in COMPARISONS:
                self._assume_nonzero(condition, truth)

    def _assume_nonzero(self, condition: Call, truth: bool) -> None:
        """A comparison with zero that comes out otherwise than for zero itself: divisions need not ask again."""
        zeros = [isinstance(side, Literal) and side.value == 0 for side in condition.of]
        if zeros[0] != zeros[1] and COMPARISONS[condition.op](0, 0) != truth:
            side, zero = (
                (condition.of[0], condition.of[1]) if zeros[1] else (condition.of[1], condition.of[0])
            )
            assert isinstance(zero, Literal)
            if zero.type in (INT64, FLOAT64):
                plain = self.trees.literal(0 if zero.type == INT64 else 0.0, zero.type)
                self.facts[id(self.trees.make("eq", side, plain))] = False

    def decide(self, condition: Expression) -> bool | None:
        """Whether a condition holds on this path; None where that differs from row to row."""
        if condition is self.trees.true:
            return True
        if condition is self.trees.false:
            return False
        if id(condition) in self.facts:
            return self.facts[id(condition)]
        if isinstance(condition, Call) and condition.op in ("not", "and", "or"):
            parts = [self.decide(part) for part in condition.of]
            if condition.op == "not":
                return None if parts[0] is None else not parts[0]
            strong = condition.op == "or"
            return strong if strong in parts else None if None in parts else not strong
        return None

    # Values.

    def typed(self, value: Any) -> Typed:
        """A constant as a value of one type."""
        kind = kind_of(value)
        if kind is None:
            self.refuse(
                f"a value of type {type(value).__name__} is used as a column's value",
                "Use numbers, texts and None.",
            )
        if kind == "none":
            return Typed("none")
        if kind == "int" and not -(1 << 63) <= value < 1 << 63:
            self.refuse(f"the constant {value} does not fit 64 bits", "Write it as a float.")
        plain = {"numpy": float, "numpy_bool": bool}.get(kind, lambda same: same)(value)
        try:
            expr = self.trees.literal(plain, TYPES[kind])
        except ExpressionError as error:
            self.refuse(str(error), "")
        low, high = (value, value) if kind == "int" else (-(1 << 63), (1 << 63) - 1)
        return Typed(kind, expr, low, high)

    def made(self, items: Iterable[Value]) -> Seq:
        """A list that the function makes here."""
        self.lists += 1
        return Seq(tuple(items), list, frozenset({self.lists}))

    def one(self, kind: str, expr: Expression) -> Symbol:
        """A symbol of one type."""
        return Symbol(((self.trees.true, Typed(kind, expr)),))

    def symbol(self, value: Value) -> Symbol:
        """A value as a symbol, with only the cases that are possible on this path."""
        if isinstance(value, Known):
            return Symbol(((self.trees.true, self.typed(value.value)),))
        if isinstance(value, Seq):
            self.refuse("a tuple or list is used as a single value", "Return one value, or use its elements.")
        cases = [(guard, typed) for guard, typed in value.cases if self.decide(guard) is not False]
        if len(cases) == len(value.cases):
            return value
        return Symbol(((self.trees.true, cases[0][1]),) if len(cases) == 1 else tuple(cases))

    def merge(self, condition: Expression, yes: Value | None, no: Value | None) -> Value:
        """One value out of two, by a condition. One that does not exist is never asked for."""
        if yes is None or no is None or yes is no:
            found = yes if no is None else no
            assert found is not None
            return found
        for one in (yes, no):
            if isinstance(one, Known) and isinstance(one.value, Uncertain):
                return one
        if isinstance(yes, Known) and isinstance(no, Known):
            same = yes.value is no.value or (
                type(yes.value) is type(no.value)
                and kind_of(yes.value) is not None
                and repr(yes.value) == repr(no.value)
                and yes.value == yes.value  # two nan may be two objects
            )
            if same:
                return yes
        if (
            isinstance(yes, Seq)
            and isinstance(no, Seq)
            and len(yes.items) == len(no.items)
            and yes.kind is no.kind
        ):
            items = (self.merge(condition, a, b) for a, b in zip(yes.items, no.items, strict=True))
            return Seq(tuple(items), yes.kind, yes.born | no.born)
        return self._joined(condition, self.symbol(yes), self.symbol(no))

    def _joined(self, condition: Expression, yes: Symbol, no: Symbol) -> Symbol:
        first = {typed.kind: (guard, typed) for guard, typed in yes.cases}
        second = {typed.kind: (guard, typed) for guard, typed in no.cases}
        kinds = list(dict.fromkeys((*first, *second)))
        cases = []
        for kind in kinds:
            guard_yes, a = first.get(kind, (self.trees.false, None))
            guard_no, b = second.get(kind, (self.trees.false, None))
            guard = self.trees.true if len(kinds) == 1 else self.trees.choose(condition, guard_yes, guard_no)
            cases.append((guard, self._either(condition, a, b)))
        return Symbol(tuple(cases))

    def _either(self, condition: Expression, a: Typed | None, b: Typed | None) -> Typed:
        if a is None or b is None:
            found = a or b
            assert found is not None
            return found
        if a.expr is None or b.expr is None or a is b:
            return a
        if a.kind == "list" and a.type != b.type:
            self.refuse("a list of one type here and of another there", "Use lists of one type.")
        expr = self.trees.choose(condition, a.expr, b.expr)
        return Typed(a.kind, expr, min(a.low, b.low), max(a.high, b.high), a.type)

    def over(self, values: Sequence[Value], handle: Callable[..., Value]) -> Value:
        """Do something for every combination of the values' cases, and join what comes out."""
        found: list[tuple[Expression, Value]] = []
        for guard, types in self._combined([self.symbol(value).cases for value in values]):
            if self.decide(guard) is False:
                continue
            result = self.branch(guard, lambda types=types: handle(*types))  # type: ignore[misc]
            if result is not None:
                found.append((guard, result))
        if not found:
            raise Dead
        joined = found[-1][1]
        for guard, result in reversed(found[:-1]):
            joined = self.merge(guard, result, joined)
        return joined

    def _combined(
        self, cases: list[tuple[tuple[Expression, Typed], ...]]
    ) -> list[tuple[Expression, tuple[Typed, ...]]]:
        found: list[tuple[Expression, tuple[Typed, ...]]] = [(self.trees.true, ())]
        for some in cases:
            found = [
                (self.trees.both(guard, other), (*types, typed))
                for guard, types in found
                for other, typed in some
            ]
        return found

    def text(self, value: str) -> Expression:
        """A constant text."""
        return self.trees.literal(value, STRING)

    def whole(self, value: int) -> Expression:
        """A constant whole number."""
        return self.trees.literal(value, INT64)
