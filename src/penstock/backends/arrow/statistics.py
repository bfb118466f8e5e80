"""A recipe's statistics without Spark, batch by batch: the second implementation, which tests the first.

Every request has an accumulator that takes columns in and answers in the end. Memory is bounded, but for the
vocabularies themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.arrow import prepare
from penstock.backends.arrow.quantiles import QuantileSketch
from penstock.backends.whole_columns import whole
from penstock.dtypes import Array
from penstock.expr.check import Schema, type_of
from penstock.expr.statistics import (
    Answers,
    Counted,
    Counts,
    Mode,
    Presence,
    Quantiles,
    Request,
    Summarized,
    Summary,
)
from penstock.expr.types import Type

PARTIALS = 32
"""Partial counts are merged when there are so many."""


def gather(batches: Iterable[Any], requests: Sequence[Request], schema: Schema) -> Answers:
    """The answers to all requests, by their keys; one pass over the batches."""
    wanted = {request.of.key(): request.of for request in requests}
    wanted |= {
        request.label.key(): request.label
        for request in requests
        if isinstance(request, Counts) and request.label is not None
    }
    names = {key: f"s{place}" for place, key in enumerate(wanted)}
    program = prepare({names[key]: each for key, each in wanted.items()}, schema)
    running = [(request, _accumulator(request, type_of(request.of, schema))) for request in requests]
    # What overflows becomes infinite, and learning says so with the column's name.
    with np.errstate(over="ignore", invalid="ignore"):
        for batch in batches:
            table = program(batch)
            for request, accumulator in running:
                label = request.label if isinstance(request, Counts) else None
                accumulator.add(
                    table[names[request.of.key()]].combine_chunks(),
                    None if label is None else table[names[label.key()]].combine_chunks(),
                )
    return {request.key: accumulator.answer() for request, accumulator in running}


class Accumulator(Protocol):
    """Takes columns in, and answers."""

    def add(self, column: Any, label: Any) -> None:
        """The next rows."""

    def answer(self) -> Any:
        """What was asked."""


def _accumulator(request: Request, of: Type) -> Accumulator:
    if isinstance(request, Summary | Presence):
        return _Summary(moments=isinstance(request, Summary))
    if isinstance(request, Quantiles):
        return _Quantiles(request.at)
    if isinstance(request, Mode):
        return _Mode()
    return _Counts(request, of)


def _finite(column: Any) -> Array:
    """The values that are there, as float64, without nan and infinities."""
    values: Array = np.asarray(_real(column.drop_null()))
    return np.asarray(values[np.isfinite(values)])


def _real(column: Any) -> Any:
    """Numbers as float64. Whole numbers beyond 2**53 are rounded, as Spark's cast does; Arrow's own would raise."""
    return column.cast(pa.float64(), safe=False)


class _Summary:
    def __init__(self, moments: bool) -> None:
        self._moments = moments
        self._rows = self._nulls = self._count = 0
        self._mean = self._squares = 0.0
        self._low, self._high = np.inf, -np.inf

    def add(self, column: Any, label: Any) -> None:
        values = _finite(column)
        self._rows += len(column)
        self._nulls += column.null_count
        if not len(values):
            return
        # Two batches' means and squares joined (Chan, Golub and LeVeque), which loses no digits.
        mean, count = float(values.mean()), len(values)
        apart, both = mean - self._mean, self._count + count
        self._squares += float(np.square(values - mean).sum()) + apart * apart * self._count * count / both
        self._mean += apart * count / both
        self._count = both
        self._low, self._high = min(self._low, values.min()), max(self._high, values.max())

    def answer(self) -> Summarized:
        lost = self._rows - self._nulls - self._count
        if not self._count or not self._moments:
            return Summarized(self._rows, self._nulls, lost)
        variance = self._squares / self._count
        return Summarized(
            self._rows, self._nulls, lost, self._mean, variance, float(self._low), float(self._high)
        )


class _Quantiles:
    def __init__(self, at: tuple[float, ...]) -> None:
        self._at, self._sketch = at, QuantileSketch()

    def add(self, column: Any, label: Any) -> None:
        self._sketch.add(_finite(column))

    def answer(self) -> tuple[float, ...]:
        return self._sketch.at(self._at)


class _Partials:
    """Counts by key, gathered in parts and merged from time to time."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def add(self, keys: Any, label: Any) -> None:
        found = pa.table(
            {
                "key": keys,
                "count": np.ones(len(keys), np.int64),
                "sum": np.zeros(len(keys)) if label is None else _real(label).fill_null(0.0),
                "labelled": np.zeros(len(keys), np.int64)
                if label is None
                else label.is_valid().cast(pa.int64()),
            }
        )
        self._parts.append(self._merged(found))
        if len(self._parts) == PARTIALS:
            self._parts = [self._merged(pa.concat_tables(self._parts))]

    @staticmethod
    def _merged(table: Any) -> Any:
        found = table.group_by("key").aggregate([("count", "sum"), ("sum", "sum"), ("labelled", "sum")])
        return found.rename_columns(
            {"key": "key", "count_sum": "count", "sum_sum": "sum", "labelled_sum": "labelled"}
        )

    def all(self) -> Any:
        """Every key once, the null included; the most frequent first, equally frequent ones by value."""
        if not self._parts:
            return None
        merged = self._merged(pa.concat_tables(self._parts))
        return merged.sort_by([("count", "descending"), ("key", "ascending")]).combine_chunks()


class _Mode:
    def __init__(self) -> None:
        self._partials = _Partials()

    def add(self, column: Any, label: Any) -> None:
        there = column.drop_null()
        if pa.types.is_floating(there.type):
            there = there.filter(pc.is_finite(there))
        self._partials.add(there, None)

    def answer(self) -> Any:
        found = self._partials.all()
        return None if found is None or not len(found) else found["key"][0].as_py()


class _Counts:
    def __init__(self, request: Counts, of: Type) -> None:
        self._request, self._list = request, of.kind == "list"
        self._kind = pa.string() if (of.item if self._list else of).kind == "string" else pa.int64()
        self._partials = _Partials()

    def add(self, column: Any, label: Any) -> None:
        keys = column.flatten() if self._list else column
        self._partials.add(keys.cast(self._kind), label)

    def answer(self) -> Counted:
        found = self._partials.all()
        if found is None:
            found = pa.table(
                {
                    "key": pa.array([], self._kind),
                    "count": pa.array([], pa.int64()),
                    "sum": pa.array([], pa.float64()),
                    "labelled": pa.array([], pa.int64()),
                }
            )
        there = pc.is_valid(found["key"])
        keys, null = found.filter(there), found.filter(pc.invert(there))
        kept = keys.filter(pc.greater_equal(keys["count"], self._request.min_count))
        kept = kept.slice(0, self._request.max_size).combine_chunks()

        def total(table: Any, name: str) -> Any:
            return pc.sum(table[name]).as_py() or 0

        return Counted(
            whole(kept["key"]),
            whole(kept["count"]),
            whole(kept["sum"]),
            whole(kept["labelled"]),
            total(found, "count"),
            total(null, "count"),
            float(total(null, "sum")),
            total(null, "labelled"),
            len(keys),
            float(total(found, "sum")),
            total(found, "labelled"),
        )
