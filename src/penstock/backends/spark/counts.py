"""Values counted by Spark, those of all columns in one job.

The columns become rows of (number of the column, value as text), which is one `Expand` in the plan, and are counted by
both. What `min_count` and `max_size` leave comes to the driver as Arrow; the totals of each column are observed on the
way, in the same job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F

from penstock.backends.spark import prepare
from penstock.backends.whole_columns import whole
from penstock.expr.check import Schema, type_of
from penstock.expr.nodes import Expression
from penstock.expr.statistics import Answers, Counted, Counts
from penstock.expr.types import Type

LABEL, SUM, LABELLED = "label_", "sum_", "labelled_"
UNLIMITED = (1 << 31) - 1


def selected(
    df: DataFrame, expressions: Sequence[Expression], schema: Schema
) -> tuple[DataFrame, dict[Any, str]]:
    """Each different expression once, as a column, and the columns' names by the expressions' keys."""
    different = {each.key(): each for each in expressions}
    names = {key: f"s{place}" for place, key in enumerate(different)}
    return prepare({names[key]: each for key, each in different.items()}, schema)(df), names


def count(df: DataFrame, requests: Sequence[Counts], schema: Schema) -> Answers:
    """The answers to all requests, by their keys."""
    labels = {request.label.key(): request.label for request in requests if request.label is not None}
    chosen, names = selected(df, [*(request.of for request in requests), *labels.values()], schema)
    numbers = {key: place for place, key in enumerate(labels)}
    with_labels = chosen.select(
        "*", *(F.col(names[key]).cast("double").alias(f"{LABEL}{place}") for key, place in numbers.items())
    )
    long = _long(with_labels, requests, names, len(labels), schema)
    counted = long.groupBy("name", "value").agg(F.count(F.lit(1)).alias("count"), *_sums(len(labels)))
    # The number is read from the name only now, of rows that are few.
    counted = counted.withColumn("column", F.col("name").cast("int")).drop("name")
    numeric = [
        place for place, request in enumerate(requests) if _leaf(type_of(request.of, schema)).kind != "string"
    ]
    kept, observed = _kept(counted, requests, len(labels), numeric)
    table = kept.toArrow()
    told = None if observed is None else observed.get
    answers: Answers = {}
    for place, request in enumerate(requests):
        label = None if request.label is None else numbers[request.label.key()]
        own = table.filter(pc.equal(table["column"], place))
        totals = _totals(own, label) if told is None else _told(told, place, label)
        answers[request.key] = _counted(own, label, type_of(request.of, schema), totals)
    return answers


def _leaf(of: Type) -> Type:
    """What is counted: the value itself, or a list's elements."""
    return of.item if of.kind == "list" else of


def _sums(labels: int) -> list[Column]:
    found = []
    for place in range(labels):
        found += [
            F.sum(f"{LABEL}{place}").alias(f"{SUM}{place}"),
            F.count(f"{LABEL}{place}").alias(f"{LABELLED}{place}"),
        ]
    return found


def _long(
    df: DataFrame, requests: Sequence[Counts], names: Mapping[Any, str], labels: int, schema: Schema
) -> DataFrame:
    """Rows of (labels, number of the column as text, value as text)."""
    scalars, lists = dict[int, Column](), dict[int, Column]()
    for place, request in enumerate(requests):
        of, column = type_of(request.of, schema), F.col(names[request.of.key()])
        kind = "bigint" if _leaf(of).kind == "bool" else "string"
        if of.kind == "list":
            lists[place] = column.cast(f"array<{kind}>").cast("array<string>")
        else:
            scalars[place] = column.cast(kind).cast("string")
    ids = [f"{LABEL}{place}" for place in range(labels)]
    parts = [_unpivoted(df, scalars, ids)] if scalars else []
    if lists:
        parts.append(_unpivoted(df, lists, ids).select(*ids, "name", F.explode("value").alias("value")))
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _unpivoted(df: DataFrame, columns: Mapping[int, Column], ids: list[str]) -> DataFrame:
    wide = df.select(*ids, *(column.alias(str(place)) for place, column in columns.items()))
    return wide.unpivot(list(map(F.col, ids)), [F.col(f"`{place}`") for place in columns], "name", "value")


def _kept(
    counted: DataFrame, requests: Sequence[Counts], labels: int, numeric: Sequence[int]
) -> tuple[DataFrame, Observation | None]:
    """The keys that are kept, and the nulls; where some are dropped, with the totals of all of them on the way."""
    most = {place: request.max_size for place, request in enumerate(requests) if request.max_size is not None}
    least = {place: request.min_count for place, request in enumerate(requests) if request.min_count > 1}
    if not most and not least:
        return counted, None
    observed = Observation("penstock counts")
    kept = counted.observe(observed, *_observed(len(requests), labels))
    null = F.col("value").isNull()
    if least:
        kept = kept.where(null | (F.col("count") >= _by_column(least, 1)))
    if most:
        # Numbers are ordered as numbers, texts by their bytes, also those that look like numbers.
        number = F.when(F.col("column").isin(*numeric), F.col("value").try_cast("bigint"))
        by_value = (number, F.col("value")) if numeric else (F.col("value"),)
        order = Window.partitionBy("column").orderBy(null, F.col("count").desc(), *by_value)
        ranked = kept.select("*", F.row_number().over(order).alias("rank"))
        kept = ranked.where(null | (F.col("rank") <= _by_column(most, UNLIMITED))).drop("rank")
    return kept, observed


def _observed(columns: int, labels: int) -> list[Column]:
    """Of each column how many values, different ones, and the labels' sums and numbers."""
    found = []
    for place in range(columns):
        own = F.col("column") == place
        found += [
            F.sum(F.when(own, F.col("count"))).alias(f"rows {place}"),
            F.count_if(own & F.col("value").isNotNull()).alias(f"distinct {place}"),
        ]
        for label in range(labels):
            for kind in (SUM, LABELLED):
                found.append(F.sum(F.when(own, F.col(f"{kind}{label}"))).alias(f"{kind}{label} {place}"))
    return found


@dataclass(frozen=True)
class _Totals:
    """Of all values of a column, those that are dropped included."""

    rows: int
    distinct: int
    label: float
    labelled: int


def _told(told: Mapping[str, Any], place: int, label: int | None) -> _Totals:
    rows, distinct = told[f"rows {place}"] or 0, told[f"distinct {place}"]
    if label is None:
        return _Totals(rows, distinct, 0.0, 0)
    return _Totals(
        rows, distinct, told[f"{SUM}{label} {place}"] or 0.0, told[f"{LABELLED}{label} {place}"] or 0
    )


def _totals(table: Any, label: int | None) -> _Totals:
    """The same out of a table that has all of them."""
    rows = pc.sum(table["count"]).as_py() or 0
    distinct = table.num_rows - table["value"].null_count
    if label is None:
        return _Totals(rows, distinct, 0.0, 0)
    total, labelled = (pc.sum(table[f"{kind}{label}"]).as_py() or 0 for kind in (SUM, LABELLED))
    return _Totals(rows, distinct, float(total), labelled)


def _by_column(numbers: Mapping[int, int], usual: int) -> Column:
    found: Any = F
    for place, number in numbers.items():
        found = found.when(F.col("column") == place, F.lit(number))
    result: Column = found.otherwise(F.lit(usual))
    return result


def _counted(table: Any, label: int | None, of: Type, totals: _Totals) -> Counted:
    leaf = _leaf(of)
    is_key = pc.is_valid(table["value"])
    null, kept = table.filter(pc.invert(is_key)), table.filter(is_key)

    def one(row: Any, name: str) -> Any:
        return (row[name][0].as_py() if row.num_rows else None) or 0

    def of_label(row: Any) -> tuple[float, int]:
        return (
            (0.0, 0) if label is None else (float(one(row, f"{SUM}{label}")), one(row, f"{LABELLED}{label}"))
        )

    columns = {
        "key": kept["value"] if leaf.kind == "string" else kept["value"].cast(pa.int64()),
        "count": kept["count"],
    }
    if label is not None:
        columns |= {"sum": kept[f"{SUM}{label}"].fill_null(0.0), "labelled": kept[f"{LABELLED}{label}"]}
    ordered = pa.table(columns).sort_by([("count", "descending"), ("key", "ascending")]).combine_chunks()
    nulls = pa.nulls(len(ordered), pa.float64())
    null_sum, null_labelled = of_label(null)
    return Counted(
        whole(ordered["key"]),
        whole(ordered["count"]),
        nulls if label is None else whole(ordered["sum"]),
        nulls if label is None else whole(ordered["labelled"]),
        totals.rows,
        one(null, "count"),
        null_sum,
        null_labelled,
        totals.distinct,
        totals.label,
        totals.labelled,
    )
