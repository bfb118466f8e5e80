"""`with_columns`: columns computed by plain Python functions, whose arguments' types the DataFrame knows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import ExpressionError, UnsupportedType
from penstock.expr.nodes import Expression
from penstock.expr.types import TIMESTAMP, TIMESTAMP_NTZ, Type
from penstock.jobs.udf import Udf
from penstock.jobs.udf_types import returned_by_annotation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def with_columns(df: DataFrame, **columns: Any) -> DataFrame:
    """The DataFrame with more columns, each a function and the columns it takes: `speed=(fn, "km", "minutes")`.

    The functions need no annotations: their arguments are what the DataFrame's columns are, nulls included. A
    `penstock.udf` may stand for the function, to say what it returns; and an expression of Penstock's for all of it.

    >>> import penstock as pk
    >>> df = pk.session().createDataFrame([(30.0, 20), (5.0, 0)], "km double, minutes int")
    >>> def speed(km, minutes):
    ...     return km / minutes * 60 if minutes else 0.0
    >>> pk.with_columns(df, speed=(speed, "km", "minutes"), twice=pk.col("km") * 2).collect()
    [Row(km=30.0, minutes=20, speed=90.0, twice=60.0), Row(km=5.0, minutes=0, speed=0.0, twice=10.0)]
    """
    same = _resolver(df)
    if len({same(name) for name in columns}) < len(columns):
        raise ExpressionError(
            f"Spark does not tell all of the new columns {', '.join(columns)} apart. Rename one of them."
        )
    # Everything is computed from the DataFrame as it is given, beside its columns, and takes their places at the end.
    places = {name: f"{NEW}{place}" for place, name in enumerate(columns)}
    found, expressions = {}, {}
    for name, value in columns.items():
        if isinstance(value, Expression):
            expressions[places[name]] = value
        else:
            function, *given = value if isinstance(value, tuple) else (value,)
            found[places[name]] = _column(df, name, function, given)
    old = _distinct(df.columns)
    made = df.withColumns(found) if found else df
    if old != df.columns:
        made = made.toDF(*old, *found)
    if expressions:
        from penstock.backends.spark import prepare, schema_of

        made = prepare(expressions, schema_of(df.schema))(made, keep=None)
    new = {same(name): name for name in columns}
    titles = [new.get(same(name), name) for name in df.columns]
    sources = [places.get(title, own) for title, own in zip(titles, old, strict=True)]
    added = [name for name in columns if name not in titles]
    sources += [places[name] for name in added]
    titles += added
    return made.select(*(f"`{name.replace('`', '``')}`" for name in sources)).toDF(*titles)


NEW = "__with_columns_"


def _resolver(df: DataFrame) -> Callable[[str], str]:
    """What names Spark takes for the same."""
    sensitive = str(df.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
    return str if sensitive else str.lower


def _distinct(names: list[str]) -> list[str]:
    """The names, those that stand there more than once with their place."""
    twice = {name for name in names if names.count(name) > 1}
    return [f"{NEW}old_{place}" if name in twice else name for place, name in enumerate(names)]


def typed(df: DataFrame, function: Udf, given: list[Any]) -> Udf:
    """The function with the types of the columns it is called with, where it does not declare its own."""
    if function.types is not None or _annotated(function.func, len(given)):
        _check_declared(df, function, given)
        return function
    parameters = [*inspect.signature(function.func).parameters]
    if len(given) > len(parameters):
        raise ExpressionError(f"{function.name}() takes {len(parameters)} columns, and got {len(given)}.")
    fields = df.select(*given).schema.fields
    try:
        types = {name: _type(name, field.dataType) for name, field in zip(parameters, fields, strict=False)}
    except UnsupportedType:  # decimals, structs, maps and bytes: Spark's own Arrow UDF passes them
        return function
    return Udf(function.func, function.declared, function.strict, function.deterministic, types)


def _check_declared(df: DataFrame, function: Udf, given: list[Any]) -> None:
    """Columns that cannot become what is declared: Spark would name a cast that nobody wrote."""
    from penstock.backends.spark.arguments import accepted

    arguments = function.plan.arguments
    if not arguments or not given:
        return
    for (name, form), field in zip(arguments.items(), df.select(*given).schema.fields, strict=False):
        if field.dataType.simpleString() not in accepted(form.type):
            raise ExpressionError(
                f"{function.name}(): argument {name!r} is declared {form}, and gets the column {field.name!r} of type "
                f"{field.dataType.simpleString()}. Cast the column, or declare what it is."
            )


def _column(df: DataFrame, name: str, function: Any, given: list[Any]) -> Column:
    if not isinstance(function, Udf) and not callable(function):
        raise ExpressionError(
            f"{name}={function!r}: a function and the columns it takes are wanted, as in {name}=(function, 'a', 'b')."
        )
    made = typed(df, function if isinstance(function, Udf) else Udf(function), given)
    if made.declared is None and made.plan.returns is None and returned_by_annotation(made.func) is None:
        raise ExpressionError(
            f"{name}: {made.name}() has no expression ({'; '.join(made.plan.reasons)}), and what it returns is not "
            f"known. Say it: {name}=(penstock.udf({made.name}, 'double'), ...)."
        )
    return made._column(given, {}, df.sparkSession)


def _annotated(function: Any, count: int) -> bool:
    """Whether the arguments that get columns say what they are."""
    hints = getattr(function, "__annotations__", {})
    try:
        names = [*inspect.signature(function).parameters][:count]
    except (TypeError, ValueError):
        return True
    return all(name in hints for name in names)


def _type(name: str, spark_type: Any) -> Type:
    from penstock.backends.spark import type_of

    found = type_of(name, spark_type)
    return TIMESTAMP_NTZ if found == TIMESTAMP else found
