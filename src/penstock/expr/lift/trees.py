"""Nodes for the lifter: equal ones are one object, and what can be said more simply is.

Every piece of a lifted function is total, so `and`, `or` and `when` may be rearranged freely: nothing depends on which
side is computed first, or at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.expr.nodes import Call, Column, Expression, Literal, call
from penstock.expr.types import BOOL, INT64, Type

Params = Mapping[str, Any]


class Trees:
    """A workshop of nodes for one lifting."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Expression] = {}
        self.true = self.literal(True, BOOL)
        self.false = self.literal(False, BOOL)
        self.no_fault = self.literal(None, INT64)

    def literal(self, value: Any, of: Type) -> Expression:
        """A constant of a type."""
        return self._kept(("literal", type(value).__name__, repr(value), str(of)), Literal(value, of))

    def column(self, name: str) -> Expression:
        """A column."""
        return self._kept(("column", name), Column(name))

    def _kept(self, key: tuple[Any, ...], node: Expression) -> Expression:
        return self._made.setdefault(key, node)

    def make(self, op: str, *args: Expression, params: Params | None = None) -> Expression:
        """An operation of the table."""
        key = (op, *map(id, args), repr(sorted((params or {}).items())))
        if key not in self._made:
            self._made[key] = call(op, *args, params=params)
        return self._made[key]

    def choose(self, condition: Expression, yes: Expression, no: Expression) -> Expression:
        """`yes` where the condition holds, else `no`."""
        if condition is self.true or yes is no:
            return yes
        if condition is self.false:
            return no
        if condition is no:
            no = self.false
        if condition is yes:
            yes = self.true
        if yes is self.true:
            return self.either(condition, no)
        if yes is self.false:
            return self.both(self.negated(condition), no)
        if no is self.false:
            return self.both(condition, yes)
        if no is self.true:
            return self.either(self.negated(condition), yes)
        if isinstance(condition, Call) and condition.op == "not":
            return self.choose(condition.of[0], no, yes)
        if isinstance(no, Call) and no.op == "when":
            return self.make("when", condition, yes, *no.of)
        return self.make("when", condition, yes, no)

    def both(self, left: Expression, right: Expression) -> Expression:
        """Whether both hold."""
        if left is self.true or left is right:
            return right
        if right is self.true:
            return left
        if left is self.false or right is self.false or self.negated(left) is right:
            return self.false
        return self.make("and", left, right)

    def either(self, left: Expression, right: Expression) -> Expression:
        """Whether one of them holds."""
        if left is self.false or left is right:
            return right
        if right is self.false:
            return left
        if left is self.true or right is self.true or self.negated(left) is right:
            return self.true
        return self.make("or", left, right)

    def negated(self, condition: Expression) -> Expression:
        """Whether it does not hold."""
        if condition is self.true:
            return self.false
        if condition is self.false:
            return self.true
        if isinstance(condition, Call) and condition.op == "not":
            return condition.of[0]
        return self.make("not", condition)

    def first(self, faults: list[Expression]) -> Expression:
        """The first that is not null; choices with nothing else are strung together."""
        kept: list[Expression] = []
        for fault in faults:
            if fault is self.no_fault:
                continue
            if kept and self._ends(kept[-1]) and self._ends(fault):
                earlier, later = kept.pop(), fault
                assert isinstance(earlier, Call)
                assert isinstance(later, Call)
                kept.append(self.make("when", *earlier.of[:-1], *later.of))
            else:
                kept.append(fault)
            if isinstance(fault, Literal):
                break
        if not kept:
            return self.no_fault
        return kept[0] if len(kept) == 1 else self.make("coalesce", *kept)

    def _ends(self, fault: Expression) -> bool:
        """Whether it is null exactly where no condition holds."""
        if not isinstance(fault, Call) or fault.op != "when":
            return False
        faults = fault.of[1::2]
        return fault.of[-1] is self.no_fault and all(
            isinstance(one, Literal) and one is not self.no_fault for one in faults
        )
