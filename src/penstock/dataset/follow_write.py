"""The writer's half of a log that others follow (`follow_log`): parts are added as they land, by the driver alone.

Spark hands the results of tasks over when the job has ended, so tasks leave notes beside the dataset, as they do for
faults, and the driver looks for them. Of several attempts at one partition the first note that is found counts, in the
log and then in the version; whatever Spark retries or runs twice, one attempt of a partition is ever read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa

from penstock.dataset import follow_log, index
from penstock.dataset.follow_log import End
from penstock.dataset.heartbeat import SECONDS
from penstock.dataset.manifest import Manifest
from penstock.dataset.part import LANDED, Landed, PartWriter, Report, fault_folder
from penstock.dataset.store import Store
from penstock.dataset.writing import Results, WriteOptions, columns_stored, specs_seen
from penstock.errors import DatasetError

REASON_LETTERS = 2000
"""An error's text may hold a stack; its beginning tells what happened."""


def beat_seconds(options: WriteOptions) -> float:
    """How often the heart of a write beats: more often where somebody waits for its parts."""
    return follow_log.BEAT_SECONDS if options.follow else SECONDS


@contextmanager
def announced(store: Store, writer: PartWriter, options: WriteOptions) -> Iterator[PartLog | None]:
    """Tell followers, if there may be any, that a write has begun; and if it fails, why."""
    if not options.follow:
        yield None
        return
    log = PartLog(store, writer, options)
    store.put(follow_log.begin_name(writer.name), follow_log.begin_bytes(follow_log.BEAT_SECONDS))
    try:
        yield log
    except BaseException as error:
        with suppress(DatasetError):
            # Ctrl-C may come just after the commit.
            version = follow_log.version_of(store, writer.name)
            reason = f"{type(error).__name__}: {error}"[:REASON_LETTERS] if version is None else ""
            log.end(End(version, reason))
        raise


class PartLog:
    """The parts of one write in the order they landed."""

    def __init__(self, store: Store, writer: PartWriter, options: WriteOptions) -> None:
        self._store, self._writer, self._options = store, writer, options
        self._landed: dict[int, Landed] = {}
        """By partition, in the order of the log; partitions without rows too."""
        self._parts = 0
        self._first: Report | None = None
        self._looked: set[str] = set()

    def look(self) -> None:
        """Add the parts of which tasks have left notes since the last look."""
        for entry in self._store.entries(fault_folder(self._writer.name)):
            if not entry.name.endswith(LANDED) or entry.name in self._looked:
                continue
            landed = Landed.from_json(self._store.read(entry.name))
            if landed is not None and self._visible(landed):
                self.add(landed)
                self._looked.add(entry.name)

    def _visible(self, landed: Landed) -> bool:
        """Whether the shard is there as seen from here; the end of the write tells who never sees it."""
        shard = landed.report.shard
        if shard is None:
            return True
        try:
            return self._store.size(shard.file) == shard.bytes
        except FileNotFoundError:
            return False

    def add(self, landed: Landed) -> None:
        """Append a part, unless its partition has one."""
        if landed.partition in self._landed:
            return
        if landed.report.shard is not None:
            self._append(landed.report, landed.blocks)
        self._landed[landed.partition] = landed

    def _append(self, report: Report, blocks: pa.Table) -> None:
        assert report.shard is not None
        first, number, name = self._first or report, self._parts + 1, self._writer.name
        data = index.to_bytes(index.renumbered([blocks]))
        where = follow_log.part_name(name, number)
        file = index.file_for(where.removesuffix(".json") + ".arrow", data)
        manifest = Manifest(
            version=number,
            tensors=specs_seen(self._writer, [first, report]),
            shards=(report.shard,),
            index=file,
            storage=self._options.storage,
            compression=self._options.compression,
            columns={tensor.name: tensor.columns for tensor in self._writer.plan.tensors},
            stored=columns_stored(self._writer, self._options),
        )
        self._store.put(file.file, data)
        self._create(where, manifest.to_json().encode())
        self._first, self._parts = first, number

    def _create(self, where: str, data: bytes) -> None:
        # A client whose answer was lost asks again, and is told that the name is taken: by itself.
        if not self._store.create(where, data) and self._store.read(where) != data:
            raise DatasetError(
                f"{self._store.locate(where)} is there already, and only this write may add to its log. Nothing was "
                "committed; write again."
            )

    def settled(self, ended: Sequence[Landed]) -> Results:
        """What came of all partitions, as Spark counts them, in the order of the log; what is not in it is added now.

        Where Spark counts another attempt than the log, the log's stays: it is whole, and may have been trained on.
        """
        for each in ended:
            logged = self._landed.get(each.partition)
            if logged is not None and _rows(logged) != _rows(each):
                raise DatasetError(
                    f"partition {each.partition} gave {_rows(logged)} rows at one attempt and {_rows(each)} at "
                    "another, and the first were given to followers already: its source gives other rows each time. "
                    "Write that to storage first, or write without follow=True."
                )
            if not each.report.failed:
                self.add(each)
        failed = [(each.report, each.blocks) for each in ended if each.report.failed]
        return [*((each.report, each.blocks) for each in self._landed.values()), *failed]

    def end(self, end: End) -> None:
        """Tell how the write ended."""
        self._store.create(follow_log.end_name(self._writer.name), follow_log.end_bytes(end))


def _rows(landed: Landed) -> int:
    return landed.report.shard.rows if landed.report.shard is not None else 0


def ended(log: PartLog | None, manifest: Manifest) -> None:
    """Tell followers, if there may be any, which version the write became."""
    if log is not None:
        log.end(End(manifest.version))
