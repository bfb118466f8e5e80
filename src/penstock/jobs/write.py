"""`pk.write`: rows become a dataset on storage, as a new version or not at all.

Order of work: check options, request and path before any row moves; see whether the dataset there can be reused;
arrange the rows over shards (`arrange`); one job in which every partition writes its shard (`penstock.dataset.part`);
publish. Whatever goes wrong, no version appears and the attempt's files are taken away. Rows that do not come from
Spark take `penstock.dataset.local`.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.dataset import commit, index
from penstock.dataset.follow_write import PartLog, announced, beat_seconds, ended
from penstock.dataset.heartbeat import Heartbeat
from penstock.dataset.local import write_arrow
from penstock.dataset.part import LANDED, RESULT_DDL, Landed, PartWriter, Report, fault_folder, spark_part
from penstock.dataset.snapshot import open_version
from penstock.dataset.sources import arrow_rows
from penstock.dataset.store import Store, open_store
from penstock.dataset.writing import (
    BLOCK_BYTES,
    Results,
    Source,
    WriteOptions,
    check_path,
    clean_up,
    difference,
    finish,
    named,
    new_name,
    raise_faults,
)
from penstock.errors import PenstockError, SelectionError, StorageError
from penstock.feed.dataset import Dataset
from penstock.jobs.arrange import arranged
from penstock.jobs.crossing import batch_settings, ship_by_value, task_ids
from penstock.jobs.failures import user_error
from penstock.jobs.features import computed, recipe_files
from penstock.jobs.identity import Unprovable, identity
from penstock.jobs.running import Running
from penstock.jobs.selection import Selection, select
from penstock.progress import Meter, notice, progress
from penstock.wire.nulls import Nulls
from penstock.wire.selection import Tensors

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession

    from penstock.recipe.fitted import FittedRecipe

POLL_SECONDS, LOOK_SECONDS = 0.05, 1.0
FOLLOWED_LOOK_SECONDS = 0.2
"""Where others wait for the parts."""
SETTLE_SECONDS, SWEEP_SECONDS = 1.5, 0.5
"""How long tasks may take to notice that they are cancelled, and how often their files are looked for."""


def write(
    rows: Any,
    path: str | os.PathLike[str],
    tensors: Tensors = None,
    *,
    recipe: FittedRecipe | None = None,
    dtype: Any = None,
    format: str = "arrow",
    workers: int | None = None,
    shards: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    block_bytes: int = BLOCK_BYTES,
    compression: str | None = None,
    nulls: Nulls = "error",
    mode: str = "error",
    follow: bool = False,
) -> Dataset:
    """Write rows as a dataset of tensors, and open it.

    `rows`: a Spark DataFrame; or, without Spark, a pyarrow Table or RecordBatchReader, or anything with
    `__arrow_c_stream__` (polars, duckdb, pandas).

    `path`: a folder, or `s3://...`, `gs://...`, `az://...`, `hdfs://...`. For Spark it must be storage that all
    executors share, and credentials must be in the executors' environment: none are sent along.

    `tensors`, `dtype`, `nulls`: as in `to_numpy`; and `pk.ragged("column")` for lists of unequal lengths, and strings
    and bytes as they are. A list of columns makes one tensor, named "x".

    `recipe`: a fitted recipe instead of `tensors`: its tensors are computed, natively on Spark, and the recipe is kept
    with them; `pk.open(path).recipe` gives it back.

    `format`: "arrow", whose bytes are tensors already, or "parquet", for exchange. `compression`: "zstd" or "lz4", for
    storage far away.

    `shuffle`: rows are spread over shards and permuted inside them, by `seed`; False keeps the order. `workers=K`: a
    multiple of K even shards. `shards`: so many. `block_bytes`: what is read at once; 4 to 32 million are a good size.

    `mode`: "error" where there is a dataset already, "overwrite" for a new version, "append" for one with more rows,
    "reuse" to take the one there if it was written with "reuse" and is provably the same.

    `follow`: a training may read along: `pk.open(path, follow=True)`, in another process, gives batches of the parts
    (partitions) that are there. Rows are then shuffled inside each part alone, because rows that are spread over all
    parts leave none of them whole before the end; and `workers` and `shards` cannot be chosen.

    >>> import tempfile
    >>> import penstock as pk
    >>> df = pk.session(cores=2).range(1000).selectExpr("id", "id / 2 as half")
    >>> ds = pk.write(df, tempfile.mkdtemp(), {"x": ["id", "half"], "y": "id"}, dtype="float32", workers=2)
    >>> ds.rows, [str(spec) for spec in ds.tensors.values()]
    (1000, ['x: float32[2]', 'y: float32'])
    """
    if recipe is not None and (tensors is not None or dtype is not None or nulls != "error"):
        raise SelectionError("a recipe says itself what its tensors are: leave tensors, dtype and nulls out.")
    parts = {} if recipe is None else recipe_files(recipe)
    options = WriteOptions(
        format, workers, shards, shuffle, seed, block_bytes, compression, mode, parts, follow
    )
    store = open_store(path)
    request = named(tensors)
    if recipe is not None:
        rows, request = computed(recipe, rows)
    if callable(getattr(rows, "mapInArrow", None)):
        version = _write_spark(rows, store, request, dtype, nulls, options)
    else:
        version = write_arrow(arrow_rows(rows), store, request, dtype, nulls, options)
    return Dataset(open_version(store, version))


def _write_spark(
    df: DataFrame, store: Store, tensors: Tensors, dtype: Any, nulls: Nulls, options: WriteOptions
) -> int:
    selection = select(df, tensors, dtype, nulls, ragged=True)
    newest = check_path(store, options.mode)
    crossing = df.select(*selection.columns)
    proof: Proof | None = None
    if options.mode == "reuse":
        proof = _prove(crossing, selection)
        if newest is not None:
            different = (
                proof.reason
                if isinstance(proof, Unprovable)
                else difference(commit.load(store, newest), proof, options)
            )
            if different is None:
                notice(f"{store.root}, version {newest}, was reused: source, plan and options are the same.")
                return newest
            notice(f"{store.root} is written anew: {different}.")
    store.prepare()
    ship_by_value()
    writer = PartWriter(selection.plan, store.target(), new_name(), options.for_shards)
    results: Results | None = None
    try:
        with Heartbeat(store, writer.name, beat_seconds(options)), announced(store, writer, options) as log:
            results = _run(df.sparkSession, crossing, selection, store, writer, options, log)
            # Files that changed while they were read prove nothing.
            kept = proof if isinstance(proof, dict) and _prove(crossing, selection) == proof else None
            source = Source(json.loads(df.schema.json()), kept, {"spark": df.sparkSession.version})
            manifest = finish(store, writer, options, results, source)
            ended(log, manifest)
    except BaseException:
        _sweep(store, writer.name, tasks_may_run=results is None)
        raise
    clean_up(store, writer.name, manifest)
    return manifest.version


def _sweep(store: Store, name: str, tasks_may_run: bool) -> None:
    """Take the files of a failed write away; also those that cancelled tasks begin before they notice."""
    until = time.monotonic() + (SETTLE_SECONDS if tasks_may_run else 0)
    clean_up(store, name, None)
    while time.monotonic() < until:
        time.sleep(SWEEP_SECONDS)
        clean_up(store, name, None)


Proof = dict[str, Any] | Unprovable
"""What is equal for two writes only if they would write the same rows, for the manifest; or why nothing is."""


def _prove(crossing: DataFrame, selection: Selection) -> Proof:
    found = identity(crossing)
    return found if isinstance(found, Unprovable) else {**found.to_dict(), "tensors": repr(selection.plan)}


def _run(
    spark: SparkSession,
    crossing: DataFrame,
    selection: Selection,
    store: Store,
    writer: PartWriter,
    options: WriteOptions,
    log: PartLog | None,
) -> Results:
    def job() -> list[Landed]:
        with arranged(crossing, options) as rows:
            parts = rows.mapInArrow(spark_part(writer, task_ids, options.follow), RESULT_DDL).collect()
        ordered = sorted(parts, key=lambda row: row.partition)
        return [
            Landed(
                row.partition,
                row.attempt,
                Report.from_json(row.report),
                index.from_bytes(bytes(row.blocks)),
            )
            for row in ordered
        ]

    pause = LOOK_SECONDS if log is None else FOLLOWED_LOOK_SECONDS
    with batch_settings(spark, selection.plan), Running(spark, job) as running, progress("Writing") as meter:
        look = time.monotonic() + pause
        while running.wait(POLL_SECONDS):
            if time.monotonic() >= look:
                _look(store, writer, meter, log)
                look = time.monotonic() + pause
    try:
        parts = running.answer()
    except PenstockError:
        raise
    except Exception as error:
        raise user_error(error, f"writes {store.root}") from error
    return [(part.report, part.blocks) for part in parts] if log is None else log.settled(parts)


def _look(store: Store, writer: PartWriter, meter: Meter, log: PartLog | None) -> None:
    """See how far the tasks are; raise at the first partition that cannot be written, which ends the job."""
    # A look that fails is no reason to end a job that goes on.
    with suppress(StorageError, FileNotFoundError):
        notes = [entry.name for entry in store.entries(fault_folder(writer.name))]
        faults = [store.read(name) for name in notes if not name.endswith(LANDED)]
        # Not one that is just being written.
        whole = [fault.decode() for fault in faults if fault.endswith(b"}")]
        raise_faults([Report.from_json(fault) for fault in whole], stopped_early=True)
        if log is not None:
            log.look()
        if meter.shown:
            mine = [entry for entry in store.entries(commit.SHARDS) if f"/{writer.name}-" in entry.name]
            size = sum(entry.bytes for entry in mine)
            row = writer.plan.tensor_bytes
            meter.update(size, size // row if row else 0, f"{len(mine)} shards")
