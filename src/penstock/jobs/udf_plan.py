"""How a Python function will run on Spark, and why: the plan of a `penstock.udf`.

Three tiers. Native: lifted to a Spark expression (`penstock.lifted`). Compiled: by numba, over Arrow columns
(`penstock.compiled`). Arrow: the function itself, over Arrow columns. `penstock.jobs.udf` runs what is planned here.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import ExpressionError, NotLifted
from penstock.expr.build import lit, when
from penstock.expr.lift.forms import Form, signature_of
from penstock.expr.nodes import Expression, call
from penstock.expr.types import Type
from penstock.lifted import Lifted, lift

if TYPE_CHECKING:
    from penstock.compiled import Compiled

NATIVE, COMPILED, ARROW = "native", "compiled", "arrow"


@dataclass(frozen=True, slots=True)
class UdfPlan:
    """How a function runs."""

    function: str
    tier: str
    """"native", "compiled" or "arrow"."""
    reasons: tuple[str, ...]
    """Why not a tier higher up; empty for "native"."""
    advice: tuple[str, ...]
    """What would move it up."""
    arguments: Mapping[str, Form] | None
    """The arguments with their declared types; None where they are not declared."""
    returns: Form | None
    expression: Expression | None = None
    """For "native": the expression, over columns named like the arguments."""
    compiled: Compiled | None = None
    limits: tuple[str, ...] = ()
    """What rows may have for which it raises `OutOfReach`, because no column holds it."""
    near: tuple[str, ...] = ()
    """Functions it uses that Spark computes with Java's library, and Python with C's: the last digit may differ."""

    def __str__(self) -> str:
        lines = [f"{self.function}(): {_TOLD[self.tier]}"]
        if self.expression is not None:
            lines.append(f"  expression: {self.expression!r}")
        lines += [f"  not higher: {reason}" for reason in self.reasons]
        lines += [f"  to move it up: {advice}" for advice in self.advice]
        lines += [f"  declines (OutOfReach): {limit}" for limit in self.limits]
        if self.near:
            lines.append(f"  last digit may differ: {', '.join(self.near)} (Java's library, and not C's)")
        return "\n".join(lines)


_TOLD = {
    NATIVE: "native, a Spark expression; no row leaves the JVM",
    COMPILED: "compiled by numba, over Arrow columns",
    ARROW: "arrow, the Python function itself, called for each row of Arrow columns",
}


def plan_of(
    function: Callable[..., Any], given: Mapping[str, Type] | None = None, returns: Type | None = None
) -> UdfPlan:
    """The best tier that is exact. Types come from annotations, or are given."""
    name = getattr(function, "__name__", type(function).__name__)
    lifted = lift(function, given, returns)
    if lifted.body is not None:
        return _native(name, lifted, returns)
    refusal = lifted.plan.refusal
    assert refusal is not None
    reasons, advice = [_reason(refusal)], [refusal.advice]
    arguments, form = _declared(function, given, returns) or (None, None)
    if arguments is not None and form is not None:
        from penstock.compiled import compile_function

        try:
            compiled = compile_function(function, arguments, form)
        except NotLifted as second:
            reasons.append(f"not compiled: {_reason(second)}")
            advice.append(second.advice)
        else:
            return UdfPlan(name, COMPILED, tuple(reasons), tuple(advice), arguments, form, compiled=compiled)
    told = tuple(dict.fromkeys(each for each in advice if each))
    return UdfPlan(name, ARROW, tuple(reasons), told, arguments, form)


def by_spark(name: str, reason: str, advice: str) -> UdfPlan:
    """The plan of a function that Spark's own Arrow UDF runs, whatever its types."""
    return UdfPlan(name, ARROW, (reason,), (advice,), None, None)


def _reason(refusal: NotLifted) -> str:
    return f"line {refusal.line}, column {refusal.column}: {refusal.reason}"


def _native(name: str, lifted: Lifted, returns: Type | None) -> UdfPlan:
    expression = lifted.expression
    if returns is not None and returns != lifted.returns.type:
        expression = narrowed(expression, lifted.returns.type, returns)
    return UdfPlan(
        name,
        NATIVE,
        (),
        (),
        lifted.arguments,
        lifted.returns,
        expression=expression,
        limits=lifted.limits,
        near=lifted.near,
    )


def narrowed(expression: Expression, source: Type, returns: Type) -> Expression:
    """The result as a narrower type: an error where it does not fit; floats are rounded, as was asked for."""
    found = expression.cast(str(returns))
    if source.kind != "int":
        return found
    lost = when(found.is_null() & ~expression.is_null(), lit(0)).otherwise(lit(None, "int64"))
    error = f"OverflowError: the function returned a whole number that {returns} does not hold"
    return call("raise_faults", found, lost, params={"faults": (error,)})


def _declared(
    function: Callable[..., Any], given: Mapping[str, Type] | None, returns: Type | None
) -> tuple[Mapping[str, Form], Form | None] | None:
    """The function's types, where all arguments have one that crosses as a plain column."""
    if not isinstance(function, types.FunctionType):
        return None
    try:
        signature = signature_of(function, given, returns)
    except (ExpressionError, TypeError, ValueError):
        return None
    taken = [*inspect.signature(function).parameters][: len(signature.arguments)]
    if not taken or taken != [*signature.arguments]:
        return None  # what is no column comes last, and has a default
    return signature.arguments, signature.returns
