"""`lift`: a plain Python function as an expression, checked against the original before it is handed out.

`penstock.expr.lift` reads the function, `penstock.backends.verify` compares the two. A function that cannot be lifted,
or that disagrees somewhere, has a `plan` that says where and why.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.backends.verify import Verdict, verify
from penstock.errors import ExpressionError, NotLifted, OutOfReach
from penstock.expr.lift import Body, lift_function
from penstock.expr.lift.forms import Form
from penstock.expr.lift.nearly import nearly
from penstock.expr.nodes import Call, Column, Expression, Literal
from penstock.expr.nodes import lift as as_expression
from penstock.expr.types import Type, parse_type

NATIVE, PYTHON = "native", "python"


@dataclass(frozen=True, slots=True)
class Plan:
    """How a function runs, and why."""

    tier: str
    """"native": as an expression. "python": as the function itself, because of the refusal."""
    refusal: NotLifted | None = None
    verdict: Verdict | None = None

    def __str__(self) -> str:
        if self.refusal is not None:
            return str(self.refusal)
        assert self.verdict is not None
        text = f"native: an expression that agrees with the function on {self.verdict.rows} rows"
        declined = self.verdict.declined
        return text if not declined else f"{text}, {declined} of which it declines (OutOfReach)"


@dataclass(frozen=True, slots=True)
class Lifted:
    """A function, its plan, and where it has one its expression. Call it with expressions to use it in a recipe."""

    function: Callable[..., Any]
    plan: Plan
    body: Body | None

    @property
    def arguments(self) -> dict[str, Form]:
        """The arguments that come from columns, with their types."""
        return dict(self._lifted().arguments)

    @property
    def returns(self) -> Form:
        """What it returns."""
        return self._lifted().returns

    @property
    def limits(self) -> tuple[str, ...]:
        """What rows may have that only Python can hold, and for which the expression raises `OutOfReach`."""
        found = (fault.partition(": ") for fault in self._lifted().faults)
        return tuple(what for kind, _, what in found if kind == OutOfReach.__name__)

    @property
    def near(self) -> tuple[str, ...]:
        """Functions it uses that engines compute to within a unit or so in the last place, not to the last bit."""
        return nearly(self._lifted().expression)

    @property
    def expression(self) -> Expression:
        """The expression, over columns named like the arguments."""
        return self._lifted().expression

    def __call__(self, *columns: object) -> Expression:
        """The expression with these in the place of the arguments; those left out take their defaults."""
        body = self._lifted()
        if len(columns) > len(body.arguments):
            raise ExpressionError(
                f"{_name(self.function)}() takes {', '.join(body.arguments) or 'no columns'}, and got {len(columns)}."
            )
        given = dict(zip(body.arguments, columns, strict=False))
        return substituted(body.expression, _defaults(self.function, body) | given, _name(self.function))

    def _lifted(self) -> Body:
        if self.body is None:
            assert self.plan.refusal is not None
            raise self.plan.refusal
        return self.body

    def __repr__(self) -> str:
        return f"<lifted {_name(self.function)}: {self.plan.tier}>"


def lift(
    function: Callable[..., Any],
    types: Mapping[str, Type | str] | None = None,
    returns: Type | str | None = None,
) -> Lifted:
    """A function as an expression. Its annotations say what its arguments are, or `types` does, for functions without.

    >>> def speed(km: float, minutes: float | None) -> float:
    ...     if minutes is None or minutes <= 0.0:
    ...         return 0.0
    ...     return min(km / minutes * 60.0, 200.0)
    >>> print(lift(speed).plan)  # a doctest's source is at hand, as a file's is
    native: an expression that agrees with the function on ... rows
    """
    given = None if types is None else {name: _type(of) for name, of in types.items()}
    try:
        body = lift_function(function, given, None if returns is None else _type(returns))
        verdict = verify(body, body.function)
    except NotLifted as refusal:
        return Lifted(function, Plan(PYTHON, refusal), None)
    except Exception as error:  # a mistake of the lifter's own must not cost the user the function
        failed = NotLifted(
            _name(function),
            1,
            0,
            f"the lifter failed on it with {type(error).__name__}: {error}",
            "This is a bug of Penstock's lifter: please report it.",
        )
        return Lifted(function, Plan(PYTHON, failed), None)
    if verdict.differences:
        shown = "; ".join(map(str, verdict.differences[:3]))
        differs = NotLifted(
            _name(function),
            body.function.__code__.co_firstlineno,
            0,
            f"its expression differs from it: {shown}",
            "This is a bug of Penstock's lifter, which the check before use has found: please report it.",
        )
        return Lifted(function, Plan(PYTHON, differs, verdict), None)
    return Lifted(function, Plan(NATIVE, None, verdict), body)


def _type(of: Type | str) -> Type:
    return parse_type(of) if isinstance(of, str) else of


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _defaults(function: Any, body: Body) -> dict[str, object]:
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name in body.arguments and parameter.default is not parameter.empty
    }


def substituted(expression: Expression, columns: Mapping[str, object], name: str) -> Expression:
    """The expression with others in the place of its columns."""
    made: dict[int, Expression] = {}

    def visit(node: Expression) -> Expression:
        if id(node) not in made:
            if isinstance(node, Column):
                if node.name not in columns:
                    raise ExpressionError(f"{name}() needs its argument {node.name!r}.")
                value = columns[node.name]
                made[id(node)] = as_expression(value) if value is not None else _null(node, expression)
            elif isinstance(node, Call):
                args = tuple(visit(arg) for arg in node.of)
                same = all(new is old for new, old in zip(args, node.of, strict=True))
                made[id(node)] = node if same else Call(node.op, args, node.params)
            else:
                made[id(node)] = node
        return made[id(node)]

    return visit(expression)


def _null(column: Column, expression: Expression) -> Expression:
    """None for an argument: a null of the type it is declared as."""
    waiting, seen = [expression], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Call) and node.op == "convert_argument" and node.of[0] is column:
            return Literal(None, parse_type(dict(node.params)["to"]))
        waiting.extend(node.args)
    return Literal(None, parse_type("int64"))
