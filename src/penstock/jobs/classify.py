"""`classify`: how a transformation would run on Spark, told before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.batch import batch_functions
from penstock.expr.nodes import Expression
from penstock.jobs.boundaries_kinds import ARROW_BATCHES, ARROW_ROWS, BY_EVAL_TYPE, EVERY_ROW, PANDAS
from penstock.jobs.udf import Udf
from penstock.jobs.udf_plan import COMPILED, NATIVE, UdfPlan
from penstock.lifted import Lifted

BATCH, ROW = "arrow batch", "row"


@dataclass(frozen=True, slots=True)
class Classification:
    """How a transformation runs: `kind` is "native", "arrow batch" or "row"; why, and what would be better."""

    kind: str
    reason: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}." + (f" {self.advice}" if self.advice else "")


def classify(what: Callable[..., Any] | Expression) -> Classification:
    """How a function or an expression would run on Spark: inside the JVM, over Arrow batches, or row by row.

    `what`: a plain Python function, a `penstock.udf`, one of Spark's UDFs (plain, pandas or Arrow), or an expression.

    >>> import penstock as pk
    >>> def grade(score: float) -> str:
    ...     return "good" if score >= 0.5 else "poor"
    >>> print(classify(grade))
    native: grade() is lifted to a Spark expression, and no row leaves the JVM.
    >>> classify(pk.col("a").log1p()).kind
    'native'
    """
    if isinstance(what, Expression):
        return _of_expression(what)
    if isinstance(what, Lifted):
        return _of_lifted(what)
    if not isinstance(what, Udf) and isinstance(kind := getattr(what, "evalType", None), int):
        return _of_spark(what, kind)
    if not callable(what):
        raise ExpressionError(f"classify takes a function or an expression, and got {what!r}.")
    return _of_plan((what if isinstance(what, Udf) else Udf(what)).plan)


def _of_plan(plan: UdfPlan) -> Classification:
    if plan.tier == NATIVE:
        return _native(plan.function)
    advice = " ".join(plan.advice)
    if plan.tier == COMPILED:
        return Classification(BATCH, f"{plan.function}() runs as machine code over Arrow columns", advice)
    return _row(plan.function, "; ".join(plan.reasons), advice)


def _of_lifted(lifted: Lifted) -> Classification:
    """By its own plan, since the types it was lifted with may be no annotations of the function's."""
    name = getattr(lifted.function, "__name__", type(lifted.function).__name__)
    refusal = lifted.plan.refusal
    if refusal is None:
        return _native(name)
    plan = Udf(lifted.function).plan
    if plan.tier == COMPILED:
        return _of_plan(plan)
    return _row(name, f"line {refusal.line}, column {refusal.column}: {refusal.reason}", refusal.advice)


def _native(name: str) -> Classification:
    return Classification(NATIVE, f"{name}() is lifted to a Spark expression, and no row leaves the JVM")


def _row(name: str, reasons: str, advice: str) -> Classification:
    return Classification(ROW, f"{name}() is called for every row ({reasons})", advice)


def _of_expression(expression: Expression) -> Classification:
    called = batch_functions(expression)
    if called:
        return Classification(BATCH, f"it calls {called[0].name}(), a function of whole columns")
    return Classification(NATIVE, "every operation in it is one of Spark's own")


def _of_spark(what: Any, kind: int) -> Classification:
    known = BY_EVAL_TYPE.get(kind)
    name = getattr(what, "__name__", None) or getattr(getattr(what, "func", None), "__name__", "it")
    if known is None:
        raise ExpressionError(f"{what!r} is a function of a kind ({kind}) that is not known here.")
    reason = f"{name}() is a {known.asked_by}: it is called {known.calls}, and gets {known.crossing}"
    if known.calls != EVERY_ROW and known.crossing in (ARROW_BATCHES, PANDAS):
        return Classification(BATCH, reason)
    inner = getattr(what, "func", None)
    better = None if inner is None or known.crossing not in ("pickled rows", ARROW_ROWS) else Udf(inner).plan
    advice = "penstock.udf makes a native expression of it." if better and better.tier == NATIVE else ""
    return Classification(ROW, reason, advice)
