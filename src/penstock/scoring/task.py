"""One task of `pk.predict`: a partition's Arrow batches in, the same rows with the model's results out.

Batches are submitted and their results taken some batches later, so that a GPU computes while rows are read and
packed. A batch that the model refuses is run again in halves, until the rows that are to blame stand alone. Results
go back by Arrow batch as they came, beside the columns kept, which are not touched.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dtypes import Array
from penstock.errors import ReturnsError, RowRefused
from penstock.scoring.batches import Batches
from penstock.scoring.calls import Runner
from penstock.scoring.device import Task, this_task
from penstock.scoring.job import ERROR, RETURNED, Job
from penstock.scoring.loading import runner
from penstock.scoring.once import once
from penstock.scoring.results import arrow_results, arrow_type
from penstock.scoring.rows import Incoming, Packing

AHEAD = 2
"""Batches that may be under way when the results of one are asked for."""


def score(job: Job) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`."""

    def scored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = this_task()
        scoring: Scoring | None = None
        for batch in batches:
            if scoring is None:  # a partition without rows needs no model
                key = f"{job.key} {','.join(task.gpus)}"
                scoring = Scoring(job, task, once(key, lambda: runner(job, task)))
            if batch.num_rows:
                yield from scoring.take(batch)
        if scoring is not None:
            yield from scoring.rest()

    return scored


@dataclass(frozen=True)
class Chunk:
    """Results of some rows, in order; and for each why it has none, where some have none."""

    columns: Sequence[pa.Array]
    faults: Sequence[str | None] | None = None

    def __len__(self) -> int:
        return len(self.columns[0])


class Scoring:
    """The state of one partition."""

    def __init__(self, job: Job, task: Task, model: Runner) -> None:
        self._job, self._task, self._model = job, task, model
        self._packing = Packing(job)
        self._batches = Batches(job.plan, job.batch_size, model)
        self._waiting: deque[Incoming] = deque()
        self._under_way: deque[tuple[int, Any]] = deque()
        self._chunks: deque[Chunk] = deque()
        self._rows_in = 0
        self._scored = 0
        """Good rows whose results are there."""
        self._handed = 0
        """Good rows whose results went back."""

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows in; those that are ready out."""
        incoming = Incoming(batch.columns, batch.num_rows, self._rows_in)
        self._rows_in += batch.num_rows
        arrays = self._packing.pack(incoming)
        if incoming.faults and not self._job.errors_as_column:
            row, fault = min(incoming.faults.items())
            raise RowRefused(self._named(incoming, row), fault)
        self._waiting.append(incoming)
        for full in self._batches.add(arrays) if arrays else ():
            self._submit(full)
        yield from self._ready()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The partition's last rows."""
        for last in self._batches.rest():
            self._submit(last)
        while self._under_way:
            self._finish()
        yield from self._ready()

    def _submit(self, arrays: Sequence[Array]) -> None:
        try:
            submitted = self._model.submit(arrays)
        except Exception as error:
            while self._under_way:
                self._finish()
            self._add(self._refused(len(arrays[0]), error))
            return
        self._under_way.append((len(arrays[0]), submitted))
        if len(self._under_way) > AHEAD:
            self._finish()

    def _finish(self) -> None:
        rows, submitted = self._under_way.popleft()
        self._add(self._chunk(submitted, rows))

    def _chunk(self, submitted: Any, rows: int, first: int = 0) -> Chunk:
        """Results of the next rows without any, or of those from the n-th on."""
        columns, faults = arrow_results(self._model.outputs(submitted), self._job.results, rows)
        if faults and not self._job.errors_as_column:
            row, fault = min(faults.items())
            raise RowRefused(self._named(*self._locate(first + row)), fault)
        return Chunk(columns, [faults.get(row) for row in range(rows)] if faults else None)

    def _add(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self._scored += len(chunk)

    def _refused(self, rows: int, error: Exception) -> Chunk:
        """A batch that the model did not take: the rows that it does take, and what it says to the others."""
        if self._model.fatal(error):
            raise error
        # Packed anew: the model may have changed the rows before it stopped.
        return _joined(list(self._by_halves(self._next_rows(rows), 0, rows, error)), self._job)

    def _by_halves(self, arrays: Sequence[Array], start: int, stop: int, error: Exception) -> Iterator[Chunk]:
        if stop - start == 1:
            if not self._job.errors_as_column:
                raise RowRefused(self._named(*self._locate(start)), _said(error) + _raised(error)) from error
            yield Chunk([pa.nulls(1, arrow_type(result)) for result in self._job.results], [_said(error)])
            return
        half = (start + stop) // 2
        for first, last in ((start, half), (half, stop)):
            part = [array[first:last].copy() for array in arrays]
            try:
                yield self._chunk(self._model.submit(part), last - first, first)
            except (ReturnsError, RowRefused):
                raise
            except Exception as inner:
                if self._model.fatal(inner):
                    raise
                yield from self._by_halves(arrays, first, last, inner)

    def _next_rows(self, rows: int) -> list[Array]:
        """The next rows without results, as they came."""
        skip, parts = self._scored - self._handed, list[list[Array]]()
        for incoming in self._waiting:
            count = min(max(incoming.good - skip, 0), rows)
            if count:
                parts.append(self._packing.again(incoming, skip, count))
            skip, rows = max(skip - incoming.good, 0), rows - count
        return [np.concatenate(same) for same in zip(*parts, strict=True)]

    def _locate(self, number: int) -> tuple[Incoming, int]:
        """The Arrow batch of the n-th row without a result, and the row in it."""
        number += self._scored - self._handed
        for incoming in self._waiting:
            if number < incoming.good:
                return incoming, int(incoming.good_rows()[number])
            number -= incoming.good
        raise AssertionError("unreachable: rows wait until their results are there")

    def _named(self, incoming: Incoming, row: int) -> str:
        return incoming.named(row, self._job.kept, self._task.partition)

    def _ready(self) -> Iterator[pa.RecordBatch]:
        while self._waiting and self._waiting[0].good <= self._scored - self._handed:
            incoming = self._waiting.popleft()
            self._handed += incoming.good
            yield self._beside(incoming, self._gather(incoming.good))

    def _gather(self, rows: int) -> Chunk:
        """The next so many results."""
        parts: list[Chunk] = []
        while rows:
            chunk = self._chunks.popleft()
            if len(chunk) > rows:
                self._chunks.appendleft(_slice(chunk, rows, len(chunk)))
                chunk = _slice(chunk, 0, rows)
            parts.append(chunk)
            rows -= len(chunk)
        return _joined(parts, self._job)

    def _beside(self, incoming: Incoming, found: Chunk) -> pa.RecordBatch:
        columns, faults = list(found.columns), found.faults
        if incoming.faults:
            good = incoming.good_mask()
            places = pa.array(np.cumsum(good) - 1, mask=~good)
            columns = [column.take(places) for column in columns]
            every = [incoming.faults.get(row) for row in range(incoming.rows)]
            for row, fault in zip(np.flatnonzero(good), faults or (), strict=False):
                every[row] = fault
            faults = every
        if self._job.errors_as_column:
            columns.append(
                pa.nulls(incoming.rows, pa.string()) if faults is None else pa.array(faults, pa.string())
            )
        kept = [incoming.columns[place] for place in self._job.returned]
        names = [f"{RETURNED}{place}" for place in self._job.returned]
        names += [result.name for result in self._job.results]
        names += [ERROR] * self._job.errors_as_column
        return pa.RecordBatch.from_arrays([*kept, *columns], names=names)


def _slice(chunk: Chunk, start: int, stop: int) -> Chunk:
    faults = None if chunk.faults is None else chunk.faults[start:stop]
    return Chunk([column.slice(start, stop - start) for column in chunk.columns], faults)


def _joined(parts: Sequence[Chunk], job: Job) -> Chunk:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Chunk([pa.nulls(0, arrow_type(result)) for result in job.results])
    faults: list[str | None] | None = None
    if any(chunk.faults is not None for chunk in parts):
        faults = [fault for chunk in parts for fault in chunk.faults or [None] * len(chunk)]
    columns = [pa.concat_arrays(same) for same in zip(*(chunk.columns for chunk in parts), strict=True)]
    return Chunk(columns, faults)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _raised(error: Exception) -> str:
    """Where in the model: Spark shows an error's own traceback, and not that of its cause."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        f" (raised in {frames[-1].name}, {frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    )
