"""A recipe's statistics by Spark: one aggregate for all numbers, and one job for all vocabularies (`counts`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from penstock.backends.spark.counts import count, selected
from penstock.backends.spark.functions import F
from penstock.backends.spark.handing import handing
from penstock.expr.check import Schema, type_of
from penstock.expr.statistics import (
    QUANTILE_ACCURACY,
    Answers,
    Counts,
    Mode,
    Presence,
    Quantiles,
    Request,
    Summarized,
    Summary,
)
from penstock.expr.types import Type

INF = float("inf")
Numbers = Summary | Presence | Quantiles | Mode
"""Requests that one aggregate answers."""


def gather(df: DataFrame, requests: Sequence[Request], schema: Schema) -> Answers:
    """The answers to all requests, by their keys."""
    numbers = [one for one in requests if not isinstance(one, Counts)]
    counts = [one for one in requests if isinstance(one, Counts)]
    return (_numbers(df, numbers, schema) if numbers else {}) | (count(df, counts, schema) if counts else {})


def _numbers(df: DataFrame, requests: Sequence[Numbers], schema: Schema) -> Answers:
    chosen, names = selected(df, [request.of for request in requests], schema)
    asked: list[Column] = []
    spans: list[tuple[Numbers, int, int]] = []
    with handing(df) as handed:
        for request in requests:
            columns = _aggregates(request, F.col(names[request.of.key()]), type_of(request.of, schema))
            spans.append((request, len(asked), len(asked) + len(columns)))
            asked += map(handed, columns)
    row = chosen.agg(*(column.alias(f"a{place}") for place, column in enumerate(asked))).collect()[0]
    return {request.key: _answer(request, list(row[start:stop])) for request, start, stop in spans}


def _aggregates(request: Numbers, x: Column, of: Type) -> list[Column]:
    finite = F.when(F.abs(x) < INF, x) if of.kind == "float" else x
    if isinstance(request, Mode):
        return [F.mode(finite, deterministic=True)]
    real = finite.cast("double")
    if isinstance(request, Quantiles):
        return [F.percentile_approx(real, F.array(*map(F.lit, request.at)), QUANTILE_ACCURACY)]
    counts = [F.count(F.lit(1)), F.count(x), F.count(finite)]
    if isinstance(request, Presence):
        return counts
    return [*counts, F.avg(real), F.var_pop(real), F.min(real), F.max(real)]


def _answer(request: Numbers, found: list[Any]) -> Any:
    if isinstance(request, Mode):
        return found[0]
    if isinstance(request, Quantiles):
        return tuple(found[0] or ())
    rows, there, finite, *moments = found
    return Summarized(rows, rows - there, there - finite, *moments)
