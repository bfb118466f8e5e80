"""Spark writes and others read along: what tasks tell the driver, what it logs, and DDP ranks that train on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk
from penstock.dataset import follow_log
from penstock.dataset.follow_write import PartLog
from penstock.dataset.part import Landed, PartWriter
from penstock.dataset.store import open_store
from penstock.dataset.writing import Source, WriteOptions, clean_up, finish
from penstock.errors import DatasetError, FollowError, NullError
from penstock.wire.arrow_source import select_arrow

sys.path.insert(0, str(Path(__file__).parent.parent / "feed"))
from several_ranks import start_ranks
from slow_writes import TENSORS, numbered, total, wait_for

PARTS, ROWS = 6, 1000
RANK = Path(__file__).parent / "follow_rank.py"


def waiting(spark: Any, began: list[Path], parts: int = PARTS) -> Any:
    """Rows whose last partitions are not there before some files are."""
    files = [str(path) for path in began]

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import time

        for batch in batches:
            end = time.monotonic() + 120
            while batch["id"][0].as_py() >= 4 * ROWS and not all(map(os.path.exists, files)):
                assert time.monotonic() < end, "nobody has begun to train"
                time.sleep(0.05)
            yield batch

    df = spark.range(0, parts * ROWS, 1, parts).selectExpr("id", "cast(id as float) as x")
    return df.mapInArrow(slowly, df.schema)


def rows_of(folder: Path, epoch: int) -> list[list[list[int]]]:
    """The ids of each rank's steps in an epoch."""
    files = [folder / f"steps-{rank}.txt" for rank in range(2)]
    lines = [[list(map(int, line.split())) for line in file.read_text().splitlines()] for file in files]
    return [[line[1:] for line in rank if line[0] == epoch] for rank in lines]


def flat(ranks: list[list[list[int]]]) -> list[int]:
    return sorted(number for steps in ranks for step in steps for number in step)


def ended(ranks: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Each rank's exit code, and what it wrote to standard error."""
    try:
        said = [rank.communicate(timeout=150)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(rank.returncode, text) for rank, text in zip(ranks, said, strict=True)]


@pytest.mark.timeout(400)
def test_two_ranks_train_while_spark_writes(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "ds"
    ranks = start_ranks(2, RANK, str(path), str(tmp_path))
    try:
        # Cannot end before both ranks have made a step.
        ds = pk.write(waiting(spark, [tmp_path / "began-0", tmp_path / "began-1"]), path, follow=True)
    except BaseException:
        for rank in ranks:
            rank.kill()
        raise
    done = ended(ranks)
    assert [code for code, _ in done] == [0, 0], done
    first, second = rows_of(tmp_path, 0), rows_of(tmp_path, 1)
    for epoch in (first, second):
        assert [len(steps) for steps in epoch] == [-(-PARTS * ROWS // 64)] * 2
        assert flat(epoch) == list(range(PARTS * ROWS)), "every row, once"
    assert first != second
    # The version is what was logged, in the order of the log, and nothing else is left but the log itself.
    [folder] = (path / "_penstock").glob("follow-*")
    logged = [json.loads(part.read_text())["shards"] for part in sorted(folder.glob("0*.json"))]
    assert [shard["file"] for [shard] in logged] == [shard.file for shard in ds.shards]
    assert json.loads((folder / "end.json").read_text())["version"] == ds.version == 1
    assert {f"shards/{file.name}" for file in (path / "shards").iterdir()} == {
        shard.file for shard in ds.shards
    }
    assert not list((path / "_penstock").glob("faults-*/*"))
    assert not list((path / "_penstock").glob("writing-*"))
    assert sorted(ds.read()["id"].tolist()) == list(range(PARTS * ROWS))
    ids = ds.read(slice(0, ds.shards[0].rows))["id"].tolist()
    assert ids != sorted(ids), "rows are shuffled inside their part"


DRIVER = """
import sys
sys.path.insert(0, {here!r})
import penstock as pk
from pathlib import Path
from penstock.dataset import follow_log
from test_follow_write import waiting
follow_log.BEAT_SECONDS = 0.2
pk.write(waiting(pk.session(cores=2, memory="1g"), [Path("/never/there")]), sys.argv[1], follow=True)
"""


@pytest.mark.parametrize("kind", ["local", pytest.param("spark", marks=pytest.mark.long)])
@pytest.mark.timeout(700)
def test_a_killed_writer_fails_the_ranks_and_nothing_is_trained_on_twice(tmp_path: Path, kind: str) -> None:
    path, run = str(tmp_path / "ds"), str(tmp_path / "run")
    folders = [tmp_path / name for name in ("killed", "resumed", "anew")]
    for folder in folders:
        folder.mkdir()
    here = Path(__file__).parent
    code = (
        [str(here.parent / "feed" / "slow_writes.py")]
        if kind == "local"
        else ["-c", DRIVER.format(here=str(here))]
    )
    # A session of its own, so that the driver's JVM is killed with it, as a lost machine takes both.
    driver = subprocess.Popen([sys.executable, *code, path], start_new_session=True)
    ranks = start_ranks(2, RANK, path, str(folders[0]), run)
    try:
        wait_for(lambda: all((folders[0] / f"began-{rank}").exists() for rank in range(2)), 150)
    except BaseException:
        for rank in ranks:
            rank.kill()
        raise
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    for returned, said in ended(ranks):
        assert returned != 0
        assert "its writer has ended without a word: its heartbeat stopped" in said
    seen = flat(rows_of(folders[0], 0))
    assert seen
    assert len(seen) == len(set(seen))
    # Written again, it is another write: a checkpoint of the one that is gone is refused before any row is seen.
    pk.write(numbered(4), path, TENSORS, follow=True, block_bytes=1024)
    for returned, said in ended(start_ranks(2, RANK, path, str(folders[1]), run)):
        assert returned != 0
        assert "that write failed or was killed" in said
        assert "Begin anew, with another folder for checkpoints" in said
    assert not list(folders[1].iterdir())
    # As the error says.
    done = ended(start_ranks(2, RANK, path, str(folders[2]), run + "-anew"))
    assert [code for code, _ in done] == [0, 0], done
    for epoch in range(2):
        assert flat(rows_of(folders[2], epoch)) == list(range(total(4)))


@pytest.mark.timeout(400)
def test_a_failed_job_reaches_those_who_follow(spark: Any, tmp_path: Path) -> None:
    began = tmp_path / "began"
    df = waiting(spark, [began]).selectExpr(f"if(id = {5 * ROWS}, null, id) as id")
    failed: list[BaseException] = []

    def write() -> None:
        try:
            pk.write(df, tmp_path / "ds", follow=True)
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    batches = iter(pk.open(tmp_path / "ds", follow=True, timeout=150).numpy(100))
    next(batches)
    began.touch()
    with pytest.raises(
        FollowError, match="its write failed: NullError: nulls in columns that must have none: 'id'"
    ):
        list(batches)
    writer.join(150)
    assert isinstance(failed[0], NullError)
    assert not list((tmp_path / "ds" / "shards").iterdir())


class Attempts:
    """Parts as tasks would write them, one attempt at a time."""

    def __init__(self, path: Path) -> None:
        self.store = open_store(path)
        self.store.prepare()
        self.options = WriteOptions(follow=True)
        self.selection = select_arrow(pa.schema([("id", pa.int64())]), None, None, "error")
        self.writer = PartWriter(self.selection.plan, self.store.target(), "ab12", self.options.for_shards)
        self.log = PartLog(self.store, self.writer, self.options)

    def land(self, partition: int, attempt: int, *ids: int) -> Landed:
        batch = self.selection.prepare(pa.record_batch({"id": pa.array(ids, pa.int64())}))
        return Landed(partition, attempt, *self.writer.write(partition, attempt, [batch]))

    def logged(self) -> list[str]:
        found = iter(lambda: follow_log.read_part(self.store, "ab12", 1 + len(names)), None)
        names: list[str] = []
        for manifest in found:
            names.append(manifest.shards[0].file)
        return names


def test_one_attempt_of_a_partition_enters_the_log_and_the_version(tmp_path: Path) -> None:
    tasks = Attempts(tmp_path / "ds")
    late = tasks.land(1, 3, 10, 11)
    for landed in (tasks.land(0, 7, 1, 2), late, tasks.land(0, 9, 2, 1)):
        tasks.log.add(landed)
    files = ["shards/ab12-00000-7.arrow", "shards/ab12-00001-3.arrow"]
    assert tasks.logged() == files
    # Spark counts the attempts that came second; the log's stay, and what it has not heard of is added.
    results = tasks.log.settled([tasks.land(0, 12, 2, 1), tasks.land(1, 4, 11, 10), tasks.land(2, 5, 20)])
    files.append("shards/ab12-00002-5.arrow")
    assert tasks.logged() == files
    manifest = finish(tasks.store, tasks.writer, tasks.options, results, Source(None))
    clean_up(tasks.store, "ab12", manifest)
    assert [shard.file for shard in manifest.shards] == files
    assert sorted(pk.open(tmp_path / "ds").read()["id"].tolist()) == [1, 2, 10, 11, 20]
    assert {entry.name for entry in tasks.store.entries("shards")} == set(files)


def test_a_source_that_gives_other_rows_each_time_is_refused(tmp_path: Path) -> None:
    tasks = Attempts(tmp_path / "ds")
    tasks.log.add(tasks.land(0, 1, 1, 2))
    with pytest.raises(DatasetError, match="partition 0 gave 2 rows at one attempt and 3 at another"):
        tasks.log.settled([tasks.land(0, 2, 1, 2, 3)])


def test_a_log_entry_of_another_is_never_replaced(tmp_path: Path) -> None:
    tasks = Attempts(tmp_path / "ds")
    tasks.log.add(tasks.land(0, 1, 1, 2))
    with pytest.raises(DatasetError, match="is there already, and only this write may add to its log"):
        PartLog(tasks.store, tasks.writer, tasks.options).add(tasks.land(5, 1, 3))
    assert tasks.logged() == ["shards/ab12-00000-1.arrow"]


def test_notes_that_are_not_whole_and_shards_that_are_not_there_wait(tmp_path: Path) -> None:
    tasks = Attempts(tmp_path / "ds")
    landed = tasks.land(0, 1, 1, 2)
    note = tmp_path / "ds" / "_penstock" / "faults-ab12" / "00000-1.landed"
    note.parent.mkdir(parents=True)
    whole = landed.to_json()
    shard = tmp_path / "ds" / landed.report.shard.file
    for text in (whole[:-1], "", whole[: len(whole) // 2]):
        note.write_text(text)
        tasks.log.look()
        assert tasks.logged() == []
    note.write_text(whole)
    there = shard.read_bytes()
    shard.write_bytes(there[:-1])
    tasks.log.look()
    shard.unlink()
    tasks.log.look()
    assert tasks.logged() == []
    shard.write_bytes(there)
    tasks.log.look()
    tasks.log.look()
    assert tasks.logged() == [landed.report.shard.file]
