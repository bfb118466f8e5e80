"""Expressions as Spark Columns: native, no Python in the executors, and the same over Spark Connect.

`prepare` compiles for a DataFrame's schema; the program, called with a DataFrame, selects the expressions from it.
Guards (`numbers`) use their arguments several times, so a tree of guards in guards would grow exponentially on its
way to Spark: a piece that has become heavy is selected first, as a column of its own, and named afterwards. The
kernels lie by family: `numbers`, `casts` (and hashes), `texts` (and times), `lists`, `vectors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame

from penstock.backends.base import Kernel, Program, Step, Unsupported, compile
from penstock.backends.spark import (
    batches,
    lists,
    lookups,
    numbers,
    python_lists,
    python_numbers,
    python_texts,
    texts,
    vectors,
)
from penstock.backends.spark.casts import cast, hash_kernel
from penstock.backends.spark.columns import constant, named
from penstock.backends.spark.columns import spelled as spelled
from penstock.backends.spark.functions import F
from penstock.backends.spark.handing import Handed, NotWritten, handing
from penstock.dtypes import fate
from penstock.errors import ExpressionError, UnsupportedType
from penstock.expr.check import Schema
from penstock.expr.nodes import Call, Column, Expression, Literal
from penstock.expr.types import BOOL, DATE, SCALARS, STRING, TIMESTAMP, TIMESTAMP_NTZ, VECTOR, Type, list_of

NAME = "spark"
TABLE: Mapping[str, Kernel | Unsupported] = {
    **numbers.KERNELS,
    **texts.KERNELS,
    **lists.KERNELS,
    **vectors.KERNELS,
    **lookups.KERNELS,
    **batches.KERNELS,
    **python_numbers.KERNELS,
    **python_lists.KERNELS,
    **python_texts.KERNELS,
    "cast": cast,
    "hash": hash_kernel,
}

HEAVY = 150
"""Nodes of a Spark expression from which on a piece becomes a column of its own."""
PREFIX = "__penstock_"


def type_of(column: str, spark_type: Any) -> Type:
    """What a column of a Spark type is to an expression, or `UnsupportedType` with the remedy.

    >>> from pyspark.sql.types import ArrayType, ShortType
    >>> type_of("a", ArrayType(ShortType()))
    list<int16>
    """
    if type(spark_type).__name__ == "ArrayType":
        element = spark_type.elementType
        if type(element).__name__ == "ArrayType":
            raise UnsupportedType(column, spark_type.simpleString(), "Flatten it into one list first.")
        return list_of(type_of(column, element))
    found = fate(column, spark_type, texts=True)
    if found.vector:
        return VECTOR
    if found.leaf == "DecimalType":
        raise UnsupportedType(
            column, spark_type.simpleString(), "Cast it to double first; expressions compute in float64."
        )
    if found.kind == "string":
        return STRING
    special = {"DateType": DATE, "TimestampType": TIMESTAMP, "TimestampNTZType": TIMESTAMP_NTZ}
    if found.leaf in special:
        return special[found.leaf]
    if found.kind != "fixed" or found.leaf in ("TimeType", "DayTimeIntervalType"):
        raise UnsupportedType(column, spark_type.simpleString(), "Turn it into a number or a text first.")
    return BOOL if found.dtype == "bool" else SCALARS[found.dtype]


def schema_of(schema: Any, columns: list[str] | None = None) -> dict[str, Type]:
    """The types of a DataFrame's schema, of all columns or of those named.

    Columns of types that no expression knows are left out where none are named.

    >>> from pyspark.sql.types import StructType
    >>> schema_of(StructType().add("a", "integer").add("b", "binary"))
    {'a': int32}
    """
    found = {}
    for field in schema.fields:
        if columns is None or field.name in columns:
            try:
                found[field.name] = type_of(field.name, field.dataType)
            except UnsupportedType:
                if columns is not None:
                    raise
    return found


class SparkProgram:
    """Expressions compiled for DataFrames of one schema. Made by `prepare`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.types = program.types
        self.columns = program.columns

    def __call__(self, df: DataFrame, keep: Sequence[str] | None = ()) -> DataFrame:
        """The expressions as columns of a DataFrame, behind those of its own that are kept; None for all of them."""
        kept = df.columns if keep is None else keep
        taken = [name for name in df.columns if name.startswith(PREFIX)]
        taken += [name for name in kept if name in self.types]
        if taken:
            raise ExpressionError(f"the DataFrame has a column {taken[0]!r} already. Rename one of them.")
        steps = self._program.steps
        if all(not isinstance(step.node, Call) or step.node.op not in batches.KERNELS for step in steps):
            with suppress(NotWritten):
                return self._selected(df, kept, writable=True)
        return self._selected(df, kept, writable=False)

    def _selected(self, df: DataFrame, kept: Sequence[str], writable: bool) -> DataFrame:
        looked = {
            f"{PREFIX}{place}": step.site
            for place, step in enumerate(self._program.steps)
            if step.site is not None and lookups.by_table(step)
        }
        with handing(df, writable) as handed, lookups.tables(df, looked) as tables:
            return self._handed(df, kept, tables, handed)

    def _handed(
        self, df: DataFrame, kept: Sequence[str], tables: Mapping[str, SparkColumn], handed: Handed
    ) -> DataFrame:
        steps = self._program.steps
        levels = heavy_steps(steps)
        columns: list[SparkColumn] = []
        waiting: dict[int, list[SparkColumn]] = {}
        joins: dict[int, list[int]] = {}
        for place, step in enumerate(steps):
            name = f"{PREFIX}{place}"
            if lookups.by_join(step):
                assert step.site is not None
                joins.setdefault(levels[place], []).append(place)
                column = lookups.finished(step.site, columns[step.args[0]], named(name))
            else:
                column = column_of(step, columns, tables.get(name))
                if place in levels:
                    waiting.setdefault(levels[place], []).append(handed(column).alias(name))
                    column = named(name)
            columns.append(column)
        for level in sorted({*waiting, *joins}):
            for place in joins.get(level, []):
                of = columns[steps[place].args[0]]
                df = lookups.join(df, steps[place], of, f"{PREFIX}{place}", handed)
            df = df.select("*", *waiting.get(level, []))
        found = {name: columns[place] for name, place in self._program.outputs.items()}
        if sum(map(_code, steps)) > MOST_FUSED and self.columns:
            lightest = min(found, key=lambda name: _spread(steps, self._program.outputs[name]))
            found[lightest] = _apart(found[lightest], named(self.columns[0]))
        return df.select(
            *(handed(named(name)) for name in kept),
            *(handed(column).alias(name) for name, column in found.items()),
        )


def column_of(step: Step, columns: Any, table: SparkColumn | None) -> SparkColumn:
    """The Column of a step, from those of the steps before it."""
    if isinstance(step.node, Column):
        return named(step.node.name)
    if isinstance(step.node, Literal):
        return constant(step.node.value, step.type)
    assert step.kernel is not None
    assert step.site is not None
    if table is not None:
        return lookups.in_table(step.site, columns[step.args[0]], table)
    found: SparkColumn = step.kernel(step.site, *(columns[arg] for arg in step.args))
    return found


MOST_FUSED = 80
"""Code from which on a program is kept out of Spark's fused stages. There all of it would be one method, and Java
interprets methods of more than 8000 bytes for ever; outside, Spark cuts it into methods that are compiled."""


def _code(step: Step) -> int:
    """About how much code a step becomes, in units of some hundred bytes."""
    return 0 if not isinstance(step.node, Call) else 7 if step.node.op in lookups.LOOKUPS else 1


def _apart(value: SparkColumn, some: SparkColumn) -> SparkColumn:
    """The value, beside a condition that is always true and that Spark cannot fuse: array_sort runs as it is."""
    return F.when(F.get(F.array_sort(F.array(some.isNull())), F.lit(0)).isNotNull(), value)


def kept_apart(steps: tuple[Step, ...], columns: Sequence[str], value: Any) -> Any:
    """The result of a long program, kept out of Spark's fused stages; that of a short one as it is."""
    return _apart(value, named(columns[0])) if sum(map(_code, steps)) > MOST_FUSED and columns else value


def _spread(steps: tuple[Step, ...], place: int) -> int:
    """How many steps a step needs, each counted once: lifted functions share pieces without number."""
    needed, waiting = {place}, [place]
    while waiting:
        more = set(steps[waiting.pop()].args) - needed
        needed |= more
        waiting += more
    return len(needed)


LIGHT = frozenset(
    {"add", "subtract", "multiply", "negate", "abs", "and", "or", "not", "is_null", "fill", "stack", "hash"}
)
"""Operations whose form uses each argument once."""


LAMBDAS = frozenset({"list_total", "int_power", "list_sum", "list_mean", "normalize"})
"""Operations that go through a list by a lambda, and may get numbers that were looked up."""


def heavy_steps(steps: tuple[Step, ...]) -> dict[int, int]:
    """The steps that become columns of their own, and in which round of selecting."""
    weights: list[int] = []
    rounds: list[int] = []
    found: dict[int, int] = {}
    # A lookup in a table is a subquery, of which Spark takes none near a lambda: it is a column before.
    lambdas = any(isinstance(step.node, Call) and step.node.op in LAMBDAS for step in steps)
    for place, step in enumerate(steps):
        times = 1
        if isinstance(step.node, Call) and step.node.op not in LIGHT:
            times = 1 + len(dict(step.node.params).get("edges", "12"))
        weight = 1 + times * sum(weights[arg] for arg in step.args)
        level = max((rounds[arg] + (arg in found) for arg in step.args), default=0)
        if weight > HEAVY or lookups.by_join(step) or (lambdas and lookups.by_table(step)):
            found[place] = level
            weight = 1
        weights.append(weight)
        rounds.append(level)
    return found


def prepare(expressions: Mapping[str, Expression], schema: Schema) -> SparkProgram:
    """Compile expressions for DataFrames of a schema.

    >>> from penstock.expr.build import col
    >>> from penstock.expr.types import INT64
    >>> prepare({"x": col("a") / 0}, {"a": INT64}).types
    {'x': float64}
    """
    return SparkProgram(compile(NAME, TABLE, expressions, schema))
