"""The Columns of a `penstock.udf`, tier by tier, and what SQL knows it by: how `penstock.jobs.udf` runs a plan."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.backends.verify import declared_as
from penstock.errors import ExpressionError
from penstock.expr.lift.forms import Form
from penstock.expr.nodes import Column as NamedColumn
from penstock.expr.nodes import Expression
from penstock.jobs.crossing import ship_by_value
from penstock.jobs.session import active_session
from penstock.jobs.udf_arguments import AGGREGATES, OURS, not_surely_pure
from penstock.jobs.udf_plan import COMPILED, UdfPlan
from penstock.lifted import substituted
from penstock.wire.rows import AsCalled, Rows, narrowed

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

PLAIN = "_penstock_plain"
"""Where a Column of ours keeps itself without its name, in which brackets look like calls, and its type."""
ROW_BY_ROW: set[str] = set()
"""Names of functions that went to Spark as functions of whole columns, and call Python's for every row."""


def native(
    function: Callable[..., Any],
    plan: UdfPlan,
    wanted: Mapping[str, Form],
    sources: Mapping[str, Column],
    session: SparkSession | None,
) -> Column:
    """A plain Column where it is short, else a call of a SQL function, which binds its arguments once."""
    from pyspark.sql import functions as F

    from penstock.backends.spark.arguments import converted
    from penstock.backends.spark.sql_functions import define, sql_functions
    from penstock.backends.spark.sql_inline import inlined

    # SQL does not tell a from A, so the parameters are numbered.
    places = {name: f"p{place}" for place, name in enumerate(wanted)}
    expression = _of_columns(function, plan, {name: NamedColumn(place) for name, place in places.items()})
    types = {place: wanted[name].type for name, place in places.items()}
    values = {place: converted(sources[name], wanted[name].type) for name, place in places.items()}
    if not any(not_surely_pure(each, AGGREGATES | OURS) for each in sources.values()):
        letters = {place: len(str(sources[name])) for name, place in places.items()}
        if (found := inlined(expression, types, values, letters)) is not None:
            return found
    session = session or active_session()
    if session is None:
        raise ExpressionError(f"{plan.function}() needs a Spark session: call penstock.session() first.")
    return F.call_function(define(session, sql_functions(expression, types)), *values.values())


def _of_columns(function: Callable[..., Any], plan: UdfPlan, given: Mapping[str, NamedColumn]) -> Expression:
    """The plan's expression of these columns, and of the defaults of those left out."""
    assert plan.expression is not None
    assert plan.arguments is not None
    parameters = inspect.signature(function).parameters
    defaults = {each: parameters[each].default for each in plan.arguments if each not in given}
    return substituted(plan.expression, defaults | dict(given), plan.function)


def over_arrow(
    function: Callable[..., Any],
    plan: UdfPlan,
    wanted: Mapping[str, Form],
    values: list[Column],
    returns: DataType | str,
) -> Column:
    """By an Arrow UDF of our own: columns are cast by Spark, and come as what is declared."""
    from pyspark.sql import functions as F

    run: Callable[..., Any]
    if plan.tier == COMPILED and len(wanted) == len(plan.arguments or {}):
        assert plan.compiled is not None
        run = plan.compiled
    else:
        run = _rows(function, plan, wanted)
    found: Column = _arrow_udf(function, run, returns)(*values or [F.lit(True)])
    return found


def for_sql(function: Callable[..., Any], plan: UdfPlan, returns: DataType | str) -> Any:
    """The same as an object for `spark.udf.register`: SQL passes columns of any type, so it converts them itself."""
    from penstock.backends.whole_columns import arrow_type

    assert plan.arguments is not None
    types = tuple(arrow_type(form.type) for form in plan.arguments.values())
    return _arrow_udf(
        function, AsCalled(_rows(function, plan, plan.arguments), types, plan.compiled), returns
    )


def _rows(function: Callable[..., Any], plan: UdfPlan, wanted: Mapping[str, Form]) -> Rows:
    from penstock.backends.whole_columns import arrow_type

    assert plan.returns is not None
    if plan.compiled is None:
        ROW_BY_ROW.add(plan.function)
    parameters = inspect.signature(function).parameters.values()
    return Rows(
        function,
        tuple((name, declared_as(form)) for name, form in wanted.items()),
        declared_as(plan.returns),
        arrow_type(plan.returns.type),
        tuple(each.name for each in parameters if each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD)),
    )


def _arrow_udf(function: Callable[..., Any], run: Callable[..., Any], returns: DataType | str) -> Any:
    from pyspark.sql.pandas.functions import arrow_udf

    from penstock.backends.whole_columns import arrow_type
    from penstock.jobs.udf_types import type_of_return

    ship_by_value()
    of = type_of_return(returns)
    assert of is not None
    held = arrow_type(of)

    @functools.wraps(function)
    def whole(*arrays: pa.Array, **named: pa.Array) -> pa.Array:
        return narrowed(run(*arrays, **named), held)

    # Spark reads the hints, to know what the function takes.
    whole.__annotations__ = {"arrays": pa.Array, "named": pa.Array, "return": pa.Array}
    del whole.__wrapped__
    return arrow_udf(whole, returns)  # type: ignore[call-overload]


def sql_definition(function: Callable[..., Any], plan: UdfPlan, name: str, session: SparkSession) -> None:
    """Define a lifted function for SQL, with the defaults that it has in Python."""
    from dataclasses import replace

    from penstock.backends.spark.columns import constant
    from penstock.backends.spark.functions import written
    from penstock.backends.spark.sql_functions import define, sql_functions
    from penstock.backends.spark.sql_text import sql_of

    assert plan.expression is not None
    assert plan.arguments is not None
    if len({each.lower() for each in plan.arguments}) < len(plan.arguments):
        raise ExpressionError(
            f"{plan.function}() has arguments that differ in case alone ({', '.join(plan.arguments)}), which SQL "
            f"does not tell apart. Rename one of them."
        )
    types = {each: form.type for each, form in plan.arguments.items()}
    *inner, last = sql_functions(plan.expression, types, name)
    parameters = inspect.signature(function).parameters
    defaults: dict[str, str] = {}
    with written():
        for each in reversed([*plan.arguments]):  # SQL wants them to be the last
            if parameters[each].default is inspect.Parameter.empty:
                break
            defaults[each] = sql_of(constant(parameters[each].default, types[each]))
    define(session, (*inner, replace(last, defaults=defaults)), again=True)
