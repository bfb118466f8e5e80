"""What `returns` says: the columns that a model fills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.dtypes import NATIVE_ONLY, fate
from penstock.errors import SelectionError, UnsupportedType, listed
from penstock.scoring.job import TEXT, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def read_returns(spark: SparkSession, returns: str | StructType) -> tuple[Result, ...]:
    """The results that a DDL string or a StructType declares."""
    fields = _fields(spark, returns)
    names = [field.name.lower() for field in fields]
    twice = [field.name for field in fields if names.count(field.name.lower()) > 1]
    if twice:
        raise SelectionError(f"returns={_shown(returns)} names {listed(twice)} more than once.")
    return tuple(_result(field.name, field.dataType) for field in fields)


def _fields(spark: SparkSession, returns: Any) -> list[Any]:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if isinstance(returns, str):
        try:
            # The one parser that classic Spark and Connect share. It takes a type without a name, too.
            found = spark.createDataFrame([], returns).schema.fields
        except PySparkException as error:
            raise SelectionError(_advice(returns, str(error).strip().partition("\n")[0])) from None
        if len(found) == 1 and found[0].name == "value" and "value" not in returns.lower():
            raise SelectionError(_advice(returns, "it has no column's name"))
        return list(found)
    if isinstance(returns, StructType) and returns.fields:
        return list(returns.fields)
    raise SelectionError(_advice(returns, "it declares no columns"))


def _advice(returns: Any, what: str) -> str:
    return f'returns={_shown(returns)} is not understood: {what}. Write "score float, embedding array<float>", say.'


def _shown(returns: Any) -> str:
    return repr(returns) if isinstance(returns, str) else f"{returns!r:.200}"


def _result(name: str, spark_type: Any) -> Result:
    try:
        found = fate(name, spark_type, texts=True)
    except UnsupportedType:
        found = None
    if found is not None and found.kind == "string":
        return Result(name, TEXT)
    plain = found is not None and found.kind == "fixed" and not found.vector
    if found is None or not plain or found.leaf in NATIVE_ONLY or found.leaf == "DecimalType":
        raise SelectionError(
            f"returns gives {name!r} the type {spark_type.simpleString()}, which no tensor becomes. A result is a "
            "number, a boolean, a string, or an array of numbers; cast it afterwards."
        )
    return Result(name, found.dtype, found.depth)
