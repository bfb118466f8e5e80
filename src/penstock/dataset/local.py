"""Rows to a dataset without Spark: Arrow tables and streams, Parquet and Arrow files, on this machine's threads.

The shards, the checks and the commit are those of every write (`part`, `writing`). In order, each shard takes a run
of rows; shuffled, rows are dealt into buckets first (`spill`), which are permuted one by one.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dataset import commit
from penstock.dataset.follow_write import PartLog, announced, beat_seconds, ended
from penstock.dataset.hashing import hashed, mix
from penstock.dataset.heartbeat import Heartbeat
from penstock.dataset.manifest import Manifest
from penstock.dataset.part import Landed, Packing, PartWriter, Report
from penstock.dataset.sources import BATCH_ROWS, Rows
from penstock.dataset.spill import Buckets
from penstock.dataset.store import Store
from penstock.dataset.writing import (
    Results,
    Source,
    WriteOptions,
    check_path,
    clean_up,
    difference,
    finish,
    new_name,
)
from penstock.machine import usable_cores
from penstock.progress import Meter, notice, progress
from penstock.wire.arrow_source import ArrowSelection, select_arrow
from penstock.wire.nulls import Nulls
from penstock.wire.ragged import Packed
from penstock.wire.selection import Tensors

Shapes = Mapping[str, Sequence[int]]
SHARD_BYTES = 256 << 20
"""What a shard holds where nobody says how many there should be."""
FOLLOWED_BYTES = 64 << 20
"""What a shard holds that others wait for; it is permuted in memory."""
BUCKET_BYTES = 32 << 20
BUCKETS_OF_UNKNOWN = 16
SHARDS_OF_UNKNOWN = 64
"""What a stream is dealt into; its end tells how many of them make a shard."""


def write_arrow(
    source: Rows, store: Store, tensors: Tensors, dtype: Any, nulls: Nulls, options: WriteOptions
) -> int:
    """Write a source's rows as the next version; its number."""
    selection = select_arrow(source.schema, tensors, dtype, nulls)
    newest = check_path(store, options.mode)
    known = source.identity()
    if known is not None:
        known["tensors"] = repr(selection.plan)
    if options.mode == "reuse" and newest is not None:
        different: str | None = "its rows come from memory"
        if known is not None:
            different = difference(commit.load(store, newest), known, options)
        if different is None:
            notice(f"{store.root}, version {newest}, was reused: source and options are the same.")
            return newest
        notice(f"{store.root} is written anew: {different}.")
    source = source.narrowed(selection.columns)
    store.prepare()
    writer = PartWriter(selection.plan, store.target(), new_name(), options.for_shards)
    manifest: Manifest | None = None
    try:
        with Heartbeat(store, writer.name, beat_seconds(options)), announced(store, writer, options) as log:
            with tempfile.TemporaryDirectory(prefix="penstock-") as folder, progress("Writing") as meter:
                results = _Writing(source, selection, writer, options, folder, meter, log).results()
            schema = [{"name": field.name, "type": str(field.type)} for field in source.schema]
            told = Source(schema, known, {"pyarrow": pa.__version__})
            manifest = finish(store, writer, options, results, told)
            ended(log, manifest)
        return manifest.version
    finally:
        clean_up(store, writer.name, manifest)


class _Stopped(Exception):
    """Another thread failed, or the user pressed Ctrl-C."""


class _Writing:
    """One write on local threads."""

    def __init__(
        self,
        source: Rows,
        selection: ArrowSelection,
        writer: PartWriter,
        options: WriteOptions,
        folder: str,
        meter: Meter,
        log: PartLog | None,
    ) -> None:
        self._source, self._selection, self._writer = source, selection, writer
        self._options, self._folder, self._meter, self._log = options, folder, meter, log
        self._stop = threading.Event()
        self._lock, self._rows, self._bytes = threading.Lock(), 0, 0

    def results(self) -> Results:
        if self._log is not None:
            return self._followed(self._log)
        if self._options.shuffle:
            return self._shuffled()
        if self._source.rows is None and self._options.counted:
            # Even runs need the number of rows, which a stream tells only at its end.
            self._source = self._source.spooled(os.path.join(self._folder, "rows.arrow"))
        if self._source.rows is None:
            return self._as_it_comes()
        return self._runs(self._source.rows)

    def _prepared(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self._stop.is_set():
                raise _Stopped
            yield self._selection.prepare(batch)
            with self._lock:
                self._rows, self._bytes = self._rows + batch.num_rows, self._bytes + batch.nbytes
                self._meter.update(self._bytes, self._rows)

    def _parallel(self, jobs: Sequence[Callable[[], tuple[Report, pa.Table]]]) -> Results:
        with ThreadPoolExecutor(usable_cores()) as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _runs(self, rows: int) -> Results:
        count = self._options.shard_count(lambda: -(-self._source.bytes // SHARD_BYTES) or 1)

        def run(number: int, attempt: int = 0, shapes: Shapes | None = None) -> tuple[Report, pa.Table]:
            start, stop = number * rows // count, (number + 1) * rows // count
            batches = self._prepared(self._source.batches(start, stop))
            return self._writer.write(number, attempt, batches, shapes)

        results = list(self._parallel([partial(run, number) for number in range(count)]))
        # A run of nothing but null or empty lists has failed for lengths that another may have told.
        told = next((report.shapes for report, _ in results if report.shapes and not report.failed), None)
        if told is not None:
            for number, (report, _) in enumerate(results):
                if report.fault is not None and report.fault.kind == "unknown-length":
                    results[number] = run(number, 1, told)
        return results

    def _as_it_comes(self) -> Results:
        """A stream in order: a shard ends when it has its bytes."""
        batches = iter(self._source.stream())
        results: list[tuple[Report, pa.Table]] = []
        ended = False

        def until_full() -> Iterator[pa.RecordBatch]:
            nonlocal ended
            size = 0
            while size < SHARD_BYTES:
                batch = next(batches, None)
                if batch is None:
                    ended = True
                    return
                size += batch.nbytes
                yield batch

        while not ended:
            told = results[-1][0].shapes if results else None
            results.append(self._writer.write(len(results), 0, self._prepared(until_full()), told))
            if results[-1][0].failed:
                break
        return results

    def _followed(self, log: PartLog) -> Results:
        """For those who read along: a shard ends when it has its bytes, is permuted in itself, and told of at once."""
        told: Shapes | None = None
        for number, rows in enumerate(tables(self._source.stream(), FOLLOWED_BYTES)):
            if self._options.shuffle:
                turn = mix(np.arange(len(rows)), hashed(self._options.seed, 5, number))
                rows = rows.unify_dictionaries().take(np.argsort(turn, kind="stable"))
            report, blocks = self._writer.write(number, 0, self._prepared(rows.to_batches(BATCH_ROWS)), told)
            if report.failed:
                return [(report, blocks)]
            log.add(Landed(number, 0, report, blocks))
            told = told or report.shapes or None
        return log.settled([])

    def _shuffled(self) -> Results:
        dealt, each = self._deal()
        packing = Packing(self._writer.plan)
        with Buckets(dealt, each, self._options.seed, self._folder) as buckets:
            like: list[Packed] = []
            for rows, tensors in packing.packed(self._prepared(self._source.stream())):
                like = like or tensors
                buckets.add(rows, tensors)
            if packing.failed:
                return [(Report(None, packing.shapes, dict(packing.nulls), packing.fault), pa.table({}))]
            count = dealt
            if self._source.rows is None and not self._options.counted:
                count = min(1 << (-(-buckets.bytes // SHARD_BYTES) - 1).bit_length(), dealt)

            def permuted(number: int) -> Iterator[tuple[int, list[Packed]]]:
                for part in range(number * dealt // count, (number + 1) * dealt // count):
                    for found in buckets.permuted(part, like):
                        if self._stop.is_set():
                            raise _Stopped
                        yield found

            def shard(number: int) -> tuple[Report, pa.Table]:
                return self._writer.write_packed(number, 0, permuted(number), packing)

            return self._parallel([partial(shard, number) for number in range(count)])

    def _deal(self) -> tuple[int, int]:
        """Among how many shards rows are dealt, and into how many buckets of each."""
        if self._source.rows is None:
            if not self._options.counted:
                return SHARDS_OF_UNKNOWN, 1
            return self._options.shard_count(lambda: 1), BUCKETS_OF_UNKNOWN
        size = self._source.bytes
        count = self._options.shard_count(lambda: max(-(-size // SHARD_BYTES), 1))
        return count, max(-(-size // (count * BUCKET_BYTES)), 1)


def tables(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Batches collected until they have so many bytes, as tables.

    >>> one = pa.record_batch({"a": pa.array([1, 2], "int64")})
    >>> [table.num_rows for table in tables([one, one, one], size=32)]
    [4, 2]
    """
    held: list[pa.RecordBatch] = []
    there = 0
    for batch in batches:
        held.append(batch)
        there += batch.nbytes
        if there >= size:
            yield pa.Table.from_batches(held)
            held, there = [], 0
    if held:
        yield pa.Table.from_batches(held)
