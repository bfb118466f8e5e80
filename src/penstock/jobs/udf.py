"""`udf`: a drop-in for `pyspark.sql.functions.udf` that takes the per-row tax off where it can.

Called with columns it gives a Column: a native expression where the function can be lifted exactly, else numba's
machine code over Arrow columns, else the function itself over Arrow columns. `penstock.jobs.udf_plan` decides, and
`penstock.jobs.with_columns` is for functions without annotations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from penstock.errors import ExpressionError, NotLifted
from penstock.expr.nodes import Expression
from penstock.expr.types import STRING, Type
from penstock.jobs.session import active_session
from penstock.jobs.udf_columns import PLAIN, for_sql, native, over_arrow, sql_definition
from penstock.jobs.udf_plan import ARROW, NATIVE, UdfPlan, by_spark, plan_of
from penstock.jobs.udf_types import returned_by_annotation, type_of_return
from penstock.lifted import lift

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

ARROW_BATCHED = 101
"""Spark's number for "a Python function, row by row, crossing as Arrow"."""


@dataclass(frozen=True, eq=False)
class Udf:
    """A Python function for Spark. Call it with columns; `plan` says how it runs and why."""

    func: Callable[..., Any]
    declared: DataType | str | None = None
    strict: bool = False
    deterministic: bool = True
    types: Mapping[str, Type] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.func):
            raise ExpressionError(f"udf() makes a function run on Spark, and {self.func!r} is none.")
        # As functions have them, and Spark's own; a frozen object takes them no other way.
        for each in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(self.func, each):
                self.__dict__[each] = getattr(self.func, each)
        self.__dict__["__wrapped__"] = self.func
        if self.types is not None or _typed(self.func):  # else the DataFrame's columns say more
            self._refuse_python()

    def _refuse_python(self) -> None:
        if self.strict and self.plan.tier == ARROW:
            raise NotLifted(
                self.name, _line(self.func), 0, "; ".join(self.plan.reasons), " ".join(self.plan.advice)
            )

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.func, "__name__", type(self.func).__name__)

    @cached_property
    def plan(self) -> UdfPlan:
        """How it runs: `tier`, `reasons`, `advice`, `expression`. Found when it is first asked for."""
        if not self.deterministic:
            return by_spark(
                self.name, "it is declared nondeterministic, and an expression may be computed twice", ""
            )
        returns = None if self.declared is None else type_of_return(self.declared)
        if self.declared is not None and returns is None:
            return by_spark(
                self.name,
                f"it returns {self.declared}, which has no exact expression",
                "Return a number, a text, a date or a list of these.",
            )
        if self.declared is None and self.types is None and not _annotated(self.func):
            inferred = lift(self.func, self.types)
            if inferred.body is not None and inferred.returns.kind != "str":
                return by_spark(
                    self.name,
                    "what it returns is not declared, so Spark makes a text of it",
                    f"Write -> {inferred.returns.kind}, or udf(returnType=...).",
                )
            returns = STRING
        found = plan_of(self.func, self.types, returns)
        if found.tier == NATIVE and (instead := _unplannable(found)) is not None:
            return instead
        return found

    @property
    def returnType(self) -> DataType:  # as Spark's functions have it
        """What it returns, as Spark's type; needs a session, as Spark's own does."""
        from pyspark.sql.types import DataType

        found = self._returned
        return DataType.fromDDL(found) if isinstance(found, str) else found

    @property
    def _returned(self) -> DataType | str:
        """What it returns, as Spark takes it: what is declared, what is planned, what is annotated, or a text."""
        if self.declared is not None:
            return self.declared
        from penstock.backends.spark.columns import spelled

        form = self.plan.returns or returned_by_annotation(self.func)
        return "string" if form is None else spelled(form.type)

    @property
    def evalType(self) -> int:
        """How Spark runs it where only Spark can: `spark.udf.register` asks."""
        return ARROW_BATCHED

    def asNondeterministic(self) -> Udf:
        """The same function, called exactly once for every row; it stays in Python."""
        return Udf(self.func, self.declared, deterministic=False, types=self.types)

    def __call__(self, *columns: Column | str, **named: Column | str) -> Column:
        """The function of columns, as a Column."""
        return self._column(columns, named)

    def _column(
        self, columns: Sequence[Any], named: Mapping[str, Any], session: SparkSession | None = None
    ) -> Column:
        given = self._bound(columns, named)
        self._refuse_python()
        plan = self.plan
        if plan.arguments is None or plan.returns is None:
            unchanged: Column = self._on_spark()(*columns, **named)  # Spark knows names too
            return unchanged
        from penstock.backends.spark.arguments import checked, converted

        wanted = {name: plan.arguments[name] for name in given}
        plain = {name: _plain(of) for name, of in given.items()}
        sources = {name: column for name, (column, _) in plain.items()}
        if plan.tier == NATIVE:
            result = native(self.func, plan, wanted, sources, session)
        else:
            values = [converted(column, wanted[name].type) for name, column in sources.items()]
            result = over_arrow(self.func, plan, wanted, values, self._returned)
        # A function of ours in another one needs no check, which would have it there many times over.
        told = {
            name: (column, wanted[name].type, str(wanted[name]))
            for name, (column, of) in plain.items()
            if of != wanted[name].type
        }
        found = checked(self.name, result, self._returned, told)
        named_so = found.alias(f"{self.name}({', '.join(map(_shown, given.values()))})")
        named_so.__dict__[PLAIN] = found, type_of_return(self._returned)
        return named_so

    def register(self, name: str | None = None, spark: SparkSession | None = None) -> Udf:
        """Make it known to SQL: a lifted function as a SQL function, which Spark inlines; others as Arrow UDFs.

        SQL converts what a SQL function is given to its parameters' types first: 2.7 becomes an int, and '5' too.
        """
        session = spark or active_session()
        if session is None:
            raise ExpressionError(
                "there is no Spark session to register it with: call penstock.session() first."
            )
        from penstock.backends.spark.sql_text import quoted

        plan, known = self.plan, name or self.name
        session.sql(
            f"DROP TEMPORARY FUNCTION IF EXISTS {quoted(known)}"
        )  # of another kind, nothing replaces it
        if plan.tier == NATIVE and plan.arguments:
            sql_definition(self.func, plan, known, session)
        elif plan.arguments and plan.returns is not None:
            session.udf.register(known, for_sql(self.func, plan, self._returned))
        else:
            session.udf.register(known, self._on_spark())
        return self

    def _bound(self, columns: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The columns by the arguments they are for."""
        for value in (*columns, *named.values()):
            _check_column(self.name, value)
        try:
            signature = inspect.signature(self.func)
        except (
            ValueError
        ):  # some of Python's own in C, str and max among them: what they take is for them to say
            return {}
        try:
            given = signature.bind(*columns, **named).arguments
        except TypeError as error:
            raise ExpressionError(f"{self.name}(): {error}.") from None
        known = self.plan.arguments
        if known is not None and set(given) - set(known):
            extra = next(iter(set(given) - set(known)))
            raise ExpressionError(
                f"{self.name}(): its argument {extra!r} has no annotation, so it takes its default and no column. "
                f"Annotate it, or leave it out."
            )
        return dict(given)

    def _on_spark(self) -> Any:
        from pyspark.sql import functions as F

        found = F.udf(self.func, self._returned, useArrow=True)
        return found if self.deterministic else found.asNondeterministic()

    def __repr__(self) -> str:
        return f"<udf {self.name}>"


def _unplannable(plan: UdfPlan) -> UdfPlan | None:
    """A plan without the expression, where Spark would not take that, or rather plan than run it."""
    from penstock.backends.spark.sql_functions import obstacle

    assert plan.expression is not None
    assert plan.arguments is not None
    reason = obstacle(plan.expression, {name: form.type for name, form in plan.arguments.items()})
    if reason is None:
        return None
    return UdfPlan(
        plan.function,
        ARROW,
        (reason,),
        ("Make it smaller: fewer rounds of a loop, or two functions, the second of the first one's column.",),
        plan.arguments,
        plan.returns,
    )


def _annotated(function: Callable[..., Any]) -> bool:
    return getattr(function, "__annotations__", {}).get("return") is not None


def _line(function: Callable[..., Any]) -> int:
    return getattr(getattr(function, "__code__", None), "co_firstlineno", 1)


def _typed(function: Callable[..., Any]) -> bool:
    """Whether every argument that needs a column says what it is."""
    hints = getattr(function, "__annotations__", {})
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return all(each.name in hints or each.default is not each.empty for each in parameters)


def _check_column(function: str, value: Any) -> None:
    from pyspark.sql import Column

    if isinstance(value, str | Column):
        return
    if isinstance(value, Expression):
        advice = "That is an expression of Penstock's: pass the column's name, or pyspark.sql.functions.col."
    else:
        advice = "Pass a column's name, a Column, or pyspark.sql.functions.lit(...) for a constant."
    raise ExpressionError(f"{function}() takes columns of Spark's, and got {value!r}. {advice}")


def _plain(given: Column | str) -> tuple[Column, Type | None]:
    """What a function is called with as a Column, and its type where it is known."""
    from pyspark.sql import functions as F

    if isinstance(given, str):
        return F.col(given), None
    found: tuple[Column, Type | None] = given.__dict__.get(PLAIN, (given, None))
    return found


def _shown(column: Any) -> str:
    if isinstance(column, str):
        return column
    return str(column).removeprefix("Column<'").removesuffix("'>")


@overload
def udf(f: Callable[..., Any], returnType: DataType | str | None = None, *, strict: bool = False) -> Udf: ...
@overload
def udf(
    f: DataType | str | None = None, returnType: DataType | str | None = None, *, strict: bool = False
) -> Callable[[Callable[..., Any]], Udf]: ...
def udf(
    f: Callable[..., Any] | DataType | str | None = None,
    returnType: DataType | str | None = None,  # as Spark's own has it
    *,
    strict: bool = False,
    useArrow: bool | None = None,
) -> Udf | Callable[[Callable[..., Any]], Udf]:
    """A Python function for Spark: a drop-in for `pyspark.sql.functions.udf`, as a decorator or called.

    Args:
        f: the function; its annotations say what its arguments are (`float`, `int`, `str`, `bool`, `date`, `datetime`,
            `list[...]`, and each of them `| None`). Columns become these without loss, or an error names it.
        returnType: what it returns, as Spark spells it or as its type; the return annotation says it too. A function
            with neither returns a text, as with Spark's own.
        strict: refuse what can only run as plain Python, with the reason.
        useArrow: taken so that existing calls work; rows that have to cross always do so as Arrow.

    >>> import penstock as pk
    >>> @pk.udf
    ... def speed(km: float, minutes: float | None) -> float:
    ...     if minutes is None or minutes <= 0:
    ...         return 0.0
    ...     return min(km / minutes * 60, 200.0)
    >>> speed.plan.tier
    'native'
    >>> spark = pk.session()
    >>> df = spark.createDataFrame([(30.0, 20), (5.0, None)], "km double, minutes int")
    >>> [row.speed for row in df.select(speed("km", "minutes").alias("speed")).collect()]
    [90.0, 0.0]
    """
    if f is None or isinstance(f, str) or _is_spark_type(f):
        declared = returnType if f is None else f
        return lambda function: Udf(function, declared, strict)  # type: ignore[arg-type]
    return Udf(f, returnType, strict)  # type: ignore[arg-type]


def _is_spark_type(value: object) -> bool:
    from pyspark.sql.types import DataType

    return isinstance(value, DataType)
