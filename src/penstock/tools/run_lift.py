"""A UDF's Column as a native expression for one DataFrame, or the reason why it stays.

The DataFrame's schema says what the arguments are, nulls included; the script's annotations are not trusted, since
Spark passes anything whatever they say. The native Column has Spark's name, type and nullability, or is not used.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import NotLifted
from penstock.expr.nodes import Call as Operation
from penstock.expr.nodes import Expression
from penstock.expr.types import Type
from penstock.jobs.plan_reading import read_plan
from penstock.jobs.quiet import without_logs
from penstock.jobs.running import is_connect
from penstock.jobs.udf import Udf
from penstock.jobs.udf_arguments import not_surely_pure
from penstock.jobs.udf_plan import NATIVE
from penstock.jobs.udf_types import NAMES
from penstock.lifted import lift
from penstock.tools.run_ledger import ARROW, Call, Ledger, Use, call_of
from penstock.tools.run_report import Outcome, shown
from penstock.tools.run_returns import mismatch
from penstock.tools.run_settled import shipped, unsettled
from penstock.tools.run_sql import Registered


class Kept(Exception):
    """A UDF stays Spark's own; what it says is the reason."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.advice = advice


@dataclass(frozen=True, slots=True)
class _Decision:
    udf: Udf
    outcome: Outcome
    raises: bool


@dataclass(frozen=True, eq=False)
class Native:
    """A UDF's Column as an expression, with what is to be told of each call in it."""

    column: Any
    named: Any
    """The same under the name that Spark gives to the UDF's."""
    outcomes: tuple[tuple[Use, Outcome], ...]
    raises: bool
    """Whether there are rows for which it raises."""


@dataclass(frozen=True, eq=False)
class Lifter:
    """Makes native Columns of those that the ledger remembers. `select` is Spark's own, without the patches."""

    ledger: Ledger
    select: Callable[..., Any]
    exact: bool
    decisions: dict[tuple[Any, ...], _Decision | Kept]
    """Found already, by function, what it ships, types: a function used ten times is checked once."""

    def column(self, df: Any, column: Any, selected: bool) -> Any:
        """The Column to use in the place of one; itself where it stays, with the reason noted.

        `selected`: it keeps the name it has, as in select; withColumn gives it another.
        """
        call = call_of(column)
        if call is None:
            return column
        found = self.attempt(df, column, call)
        if isinstance(found, Outcome):
            call.use.outcomes.append(found)
            return column
        for use, outcome in found.outcomes:
            use.outcomes.append(outcome)
        return found.named if selected else found.column

    def attempt(self, df: Any, column: Any, call: Call) -> Native | Outcome:
        """The native Column for one DataFrame; what is to be told instead where it stays. Notes nothing."""
        try:
            with without_logs():
                if _is_local(df):
                    raise Kept(
                        "the rows are a small table of the driver's own, which Spark computes while it plans"
                    )
                return self._native(df, column, call)
        except Kept as kept:
            return Outcome(False, str(kept), kept.advice)
        except Exception as error:  # a script that runs without Penstock has to run with it
            first = (str(error).splitlines() or [""])[0][:100]
            return Outcome(False, f"it could not be lifted: {type(error).__name__}: {first}")

    def _native(self, df: Any, column: Any, call: Call) -> Native:
        udf = call.udf
        if not udf.deterministic:
            raise Kept("it is declared nondeterministic, and an expression may be computed twice")
        if getattr(udf, "transpiled", None):
            raise Kept("Spark's own transpiler has taken it")
        if df.isStreaming:
            raise Kept("it is used on a stream")
        if str(df.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() != "true":
            raise Kept(
                "the session has spark.sql.ansi.enabled=false, and native expressions are checked with it on"
            )
        if isinstance(udf, Registered) and not self._calls_it(df, column, udf):
            raise Kept("its name in SQL may mean another function here")
        given = _bound(udf.func, call)
        for name, value in given.items():
            if call_of(value) is None and (doubtful := not_surely_pure(value)):
                raise Kept(
                    f"its argument {name!r} is computed by {doubtful}(), which may give another value each time",
                    "Make the argument a column of its own first, with withColumn or select.",
                )
        wanted, *fields = self.select(df, column, *given.values()).schema.fields
        if len(fields) != len(given):
            raise Kept("its arguments are not one column each")
        types = {name: _type(name, each.dataType) for name, each in zip(given, fields, strict=True)}
        decision = self._decision(udf, types, is_connect(df))
        outcomes, raises = [(call.use, decision.outcome)], decision.raises
        sources = {}
        for name, value in given.items():
            inner = call_of(value)
            if inner is None:
                sources[name] = value
                raises = raises or not _PLAIN.fullmatch(str(value))  # what computes it may raise as well
                continue
            try:
                nested = self._native(df, value, inner)
            except Kept as kept:
                raise Kept(
                    f"its argument {name!r} is a UDF that stays in Python: {kept}", kept.advice
                ) from None
            sources[name] = nested.column
            outcomes += nested.outcomes
            raises = raises or nested.raises
        found = _guarded(decision.udf(**sources), next(iter(sources.values())), next(iter(types.values())))
        for names, options in call.aliases:
            found = found.alias(*names, **options)
        # Over Connect a name that Spark made up is marked as such in the column's metadata.
        marks = {"metadata": wanted.metadata} if wanted.metadata else {}
        as_selected = found if call.aliases else found.alias(wanted.name, **marks)
        (has,) = self.select(df, as_selected).schema.fields
        if has != wanted:
            raise Kept(f"its column would be {has.json()}, and Spark's is {wanted.json()}")
        return Native(found, as_selected, tuple(outcomes), raises)

    def _calls_it(self, df: Any, column: Any, udf: Registered) -> bool:
        """Whether a name still calls the Python function: SQL can give it to another, and sessions have their own."""
        if df.sparkSession is not udf.session:
            return False
        return any("EvalPython" in node.name for node in read_plan(self.select(df, column)).walk())

    def _decision(self, udf: Any, types: dict[str, Type], connect: bool) -> _Decision:
        declared = udf.returnType.simpleString()
        arrow = udf.evalType == ARROW
        now = shipped(udf.func)
        if now is None or (not connect and now != self.ledger.shipped(udf)):
            raise Kept(
                "a variable that it reads has changed since it was first called, when Spark pickled it"
            )
        key = (id(udf.func), now, *types.items(), declared, arrow, connect)
        if key not in self.decisions:
            try:
                self.decisions[key] = self._decided(udf.func, types, declared, arrow, connect)
            except Kept as kept:
                self.decisions[key] = kept
        found = self.decisions[key]
        if isinstance(found, Kept):
            raise Kept(str(found), found.advice)
        return found

    def _decided(
        self, function: Callable[..., Any], types: dict[str, Type], declared: str, arrow: bool, connect: bool
    ) -> _Decision:
        try:
            wrong = mismatch(function, types, declared, arrow)
            if wrong is not None:
                raise Kept(wrong)
            lifted = lift(function, types, NAMES[declared])
            if lifted.plan.refusal is not None:
                raise lifted.plan.refusal
        except NotLifted as refusal:
            raise Kept(f"line {refusal.line}: {refusal.reason}", refusal.advice) from None
        if variable := unsettled(function, lazily=connect):
            raise Kept(
                f"it reads the variable {variable}, which may be another for Spark's workers",
                "Pass it as a column (lit(...)), or make it a constant that is set once at the top of its file.",
            )
        assert lifted.body is not None
        made = Udf(function, declared, types=types)
        if made.plan.tier != NATIVE:
            raise Kept("; ".join(made.plan.reasons), " ".join(made.plan.advice))
        if self.exact and made.plan.limits:
            raise Kept(f"--exact: only Python can go on where {' or '.join(made.plan.limits)}")
        if self.exact and made.plan.near:
            raise Kept(
                f"--exact: Java's library computes {', '.join(made.plan.near)}, whose last digit may differ from C's"
            )
        outcome = Outcome(
            True, expression=shown(repr(lifted.body.value)), limits=made.plan.limits, near=made.plan.near
        )
        faults = _faults(made.plan.expression)
        self.ledger.raising.may(function, faults)
        return _Decision(made, outcome, bool(faults))


def _faults(expression: Expression | None) -> list[str]:
    """What an expression raises in some rows. Arguments always fit: their types are the columns' own."""
    found, waiting, seen = list[str](), [expression], set[int]()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, Operation) and one.op == "raise_faults":
            found += [fault for fault in dict(one.params)["faults"] if not _UNFIT.fullmatch(fault)]
        seen.add(id(one))
        waiting.extend(one.args)
    return found


def _bound(function: Any, call: Call) -> dict[str, Any]:
    """The arguments of a call by their names."""
    try:
        found = inspect.signature(function, follow_wrapped=False).bind(*call.positional, **call.named)
    except (TypeError, ValueError) as error:
        raise Kept(f"it cannot be called so: {error}") from None
    if not found.arguments:
        raise Kept("it takes no columns", "Use lit(...) of its result.")
    return dict(found.arguments)


def _type(name: str, spark_type: Any) -> Type:
    found = NAMES.get(spark_type.simpleString())
    if found is None:
        raise Kept(
            f"its argument {name!r} is {spark_type.simpleString()}, which has no exact form in an expression",
            "A timestamp can be cast to timestamp_ntz, a decimal to double, where that is meant."
            if spark_type.simpleString().startswith(("timestamp", "decimal"))
            else "",
        )
    return found


def _guarded(result: Any, argument: Any, of: Type) -> Any:
    """The same Column, nullable as a UDF's, and in a form that Spark takes for expensive.

    A filter that does not read a UDF's column goes below the UDF, and one that does stays above: rows that the first
    drops never reach the function. A plain expression is written into the second, and would raise for them. Spark
    leaves projections alone that it thinks expensive, and among the few functions of which it does is array_join. It
    stands behind a condition that no value meets and no rule of Spark's folds.
    """
    from pyspark.sql import functions as F

    column = F.col(argument) if isinstance(argument, str) else argument
    if of.kind == "float":
        never = F.abs(column.cast("double")) < -1.0
    elif of.kind == "int":
        never = column.cast("bigint") % 2 > 5
    elif of.kind == "string":
        never = F.octet_length(column) < 0
    elif of.kind == "bool":
        never = column.cast("int") > 5
    else:
        never = F.size(F.array(column)) > 5
    joined = F.array_join(F.array(column.cast("string")), "") == "."
    return F.when(never & joined, F.lit(None)).otherwise(result)


_PLAIN = re.compile(r"[\w.]+|Column<'[\w.]+'>")
"""A column's name, or a Column that is one."""
_UNFIT = re.compile(r"TypeError: argument '\w+' does not become .* without loss")
_PASSED = ("AdaptiveSparkPlan", "Project", "Filter", "CollectLimit", "LocalLimit", "GlobalLimit")
_LOCAL = ("LocalTableScan", "Scan OneRowRelation")


def _is_local(df: Any) -> bool:
    """Whether the rows lie in the plan itself.

    Spark computes expressions of such rows first of all, also for rows that a filter would drop, and a function that
    raises for these would end a query that works with the UDF. There are few of them, so nothing is lost.
    """
    node = read_plan(df)
    while node.name in _PASSED and len(node.children) == 1:
        node = node.children[0]
    return node.name.startswith(_LOCAL)
