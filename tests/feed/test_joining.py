"""Which write or version `pk.open(follow=True)` takes: one that lives, never what a killed writer left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow_writes import TENSORS, Writing, numbered, total, wait_for

import penstock as pk
from penstock.dataset import follow_log, local
from penstock.dataset.heartbeat import PREFIX, Heartbeat
from penstock.dataset.store import open_store
from penstock.errors import CheckpointError, DatasetError, DatasetMissing, FollowError
from penstock.feed.checkpoint.checkpoint import checkpoint, restore
from penstock.feed.follow import joining
from penstock.feed.follow.following import Following


@pytest.fixture(autouse=True)
def quick_parts_and_hearts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "FOLLOWED_BYTES", 1)
    monkeypatch.setattr(follow_log, "BEAT_SECONDS", 0.2)
    # A heart that lives may have no processor for a while.
    monkeypatch.setattr(follow_log, "LOST_BEATS", 600)


@contextmanager
def writer(path: Path, *, mode: str = "error") -> Iterator[subprocess.Popen[bytes]]:
    """A process that has written five parts, killed when the block ends."""
    before = len(list(path.glob("_penstock/follow-*/0*.json")))
    script = Path(__file__).parent / "slow_writes.py"
    with subprocess.Popen([sys.executable, str(script), str(path), mode]) as process:
        try:
            wait_for(lambda: len(list(path.glob("_penstock/follow-*/0*.json"))) == before + 5)
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def ids(batches: Any) -> list[int]:
    return sorted(number for batch in batches for number in np.asarray(batch["id"]).tolist())


def test_a_write_that_was_killed_and_repeated_is_the_repeated_one(tmp_path: Path) -> None:
    with writer(tmp_path / "ds"):
        pass
    Writing(tmp_path / "ds", numbered(2)).join()
    opened = pk.open(tmp_path / "ds", follow=True, timeout=120)
    assert opened.version == 1
    assert ids(opened.numpy(32, last="short")) == list(range(total(2)))


def test_what_a_killed_writer_left_is_waited_past(tmp_path: Path) -> None:
    with writer(tmp_path / "ds"):
        pass
    with ThreadPoolExecutor(1) as pool:
        # It has parts and a young sign of life: a trainer that is started again at once must not take them.
        waiting = pool.submit(
            lambda: ids(pk.open(tmp_path / "ds", follow=True, timeout=120).numpy(32, last="short"))
        )
        wait_for(lambda: waiting.running())
        Writing(tmp_path / "ds", numbered(2)).join()
        assert waiting.result(150) == list(range(total(2)))


def test_a_killed_overwrite_leaves_the_version_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Writing(tmp_path / "ds", numbered(2)).join()
    with writer(tmp_path / "ds", mode="overwrite"):
        pass
    monkeypatch.setattr(follow_log, "LOST_BEATS", 5)
    assert pk.open(tmp_path / "ds", follow=True, timeout=120).version == 1
    assert "no write is under way" in capfd.readouterr().err


def test_a_write_that_lives_is_joined_although_a_version_came_after_its_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "DOUBTED_BEATS", 300)
    with writer(tmp_path / "ds"):
        pk.write(numbered(1), tmp_path / "ds", TENSORS, mode="overwrite")
        loader = pk.open(tmp_path / "ds", follow=True, timeout=120).numpy(32)
        batches = iter(loader)
        for _ in range(10):
            next(batches)
        assert loader.state_dict()["fingerprint"].startswith("follow-")
        batches.close()


def test_a_timeout_shorter_than_the_proof_says_what_is_known(tmp_path: Path) -> None:
    with writer(tmp_path / "ds"):
        ds = pk.open(tmp_path / "ds", follow=True, timeout=120)
        batches = iter(ds.numpy(32))
        next(batches)
    ds._following.timeout = 2
    with (
        pytest.warns(UserWarning, match=r"no part has landed"),
        pytest.raises(FollowError) as told,
    ):
        list(batches)
    assert "The writer's heart has not beaten for" in str(told.value)
    assert "See whether the writer still runs. If not: Nothing was committed" in str(told.value)
    assert "lives" not in str(told.value)


def test_who_finds_an_old_version_is_told_and_can_wait_for_the_next(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ds"
    Writing(path, numbered(1)).join()
    assert pk.open(path, follow=True).rows == total(1)
    told = capfd.readouterr().err
    assert "no write is under way, so pk.open(follow=True) takes version 1, of 20" in told
    assert told.endswith("To wait for the next write instead, pass version=2.\n")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            lambda: ids(pk.open(path, follow=True, version=2, timeout=120).numpy(32, last="short"))
        )
        wait_for(lambda: waiting.running())
        Writing(path, numbered(3), mode="overwrite").join()
        assert waiting.result(150) == list(range(total(3)))
    # The same line serves a start that comes later, whatever has been written since.
    Writing(path, numbered(2), mode="overwrite").join()
    for version, parts in ((1, 1), (2, 3), (3, 2)):
        found = pk.open(path, follow=True, version=version)
        assert (found.version, found.rows) == (version, total(parts))
    assert capfd.readouterr().err == ""
    with pytest.raises(DatasetMissing, match="no version 0"):
        pk.open(path, follow=True, version=0)
    with pytest.raises(FollowError, match=r"no write has begun there for 0\.3 s"):
        pk.open(path, follow=True, version=4, timeout=0.3)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    pk.open(path, follow=True)
    assert capfd.readouterr().err == "", "one rank says it for all"


def test_a_state_of_a_write_that_is_gone_says_so(tmp_path: Path) -> None:
    path, run = tmp_path / "ds", tmp_path / "run"
    with writer(path):
        loader = pk.open(path, follow=True, timeout=120).numpy(32)
        batches = iter(loader)
        next(batches)
        checkpoint(run, model={"w": np.ones(2)}, loader=loader, step=1)
        batches.close()
    Writing(path, numbered(2)).join()
    again = pk.open(path, follow=True, timeout=120).numpy(32, last="short")
    with pytest.raises(CheckpointError) as told:
        restore(run, model={"w": np.zeros(2)}, loader=again)
    assert "has no version of: that write failed or was killed" in str(told.value)
    assert "Begin anew, with another folder for checkpoints" in str(told.value)
    assert "Build it as it was" not in str(told.value)
    # As it says: the weights alone, and every row of the epoch.
    assert restore(run, model={"w": np.zeros(2)}).model["w"].tolist() == [1, 1]
    assert ids(again) == list(range(total(2)))


def test_a_state_of_an_older_version_names_it(tmp_path: Path) -> None:
    path = tmp_path / "ds"
    Writing(path, numbered(2)).join()
    loader = pk.open(path, follow=True).numpy(32, last="short")
    batches = iter(loader)
    seen = [next(batches) for _ in range(3)]
    state = loader.state_dict()
    batches.close()
    Writing(path, numbered(3), mode="overwrite").join()
    with pytest.raises(DatasetError, match=r"while version 1 was being written.*follow=True, version=1\)"):
        pk.open(path, follow=True).numpy(32).load_state_dict(state)
    with pytest.raises(DatasetError, match=r"while version 1 was being written"):
        pk.open(path, version=1).numpy(32).load_state_dict(state)
    resumed = pk.open(path, follow=True, version=1).numpy(32, last="short")
    resumed.load_state_dict(state)
    assert ids([*seen, *resumed]) == list(range(total(2)))


def test_checkpoints_inside_a_followed_epoch_resume_there(tmp_path: Path) -> None:
    path, run, first, second = tmp_path / "ds", tmp_path / "run", [], []
    with ThreadPoolExecutor(1) as pool:
        trained = pool.submit(_train_and_die, path, run, first)
        wait_for(lambda: trained.running())
        writing = Writing(path, numbered(4, lambda part: trained.result(150) if part == 3 else None))
        assert trained.result(150) == 12
    loader = pk.open(path, follow=True, timeout=120).numpy(32, last="short")
    found = restore(run, model={"seen": np.zeros(1)}, loader=loader)
    assert (found.step, found.epoch) == (10, 0)
    second += [number for batch in loader for number in batch["id"].tolist()]
    writing.join()
    kept = first[: 10 * 32]
    assert found.model["seen"] == sum(kept)
    assert sorted(kept + second) == list(range(total(4)))


def _train_and_die(path: Path, run: Path, seen: list[int]) -> int:
    """Twelve steps of a followed epoch, the tenth of which is the last that is kept."""
    loader = pk.open(path, follow=True, timeout=120).numpy(32)
    batches = iter(loader)
    weights = np.zeros(1)
    for step in range(1, 13):
        batch = next(batches)
        seen += batch["id"].tolist()
        weights = weights + batch["id"].sum()
        if step % 5 == 0:
            checkpoint(run, model={"seen": weights}, loader=loader, step=step)
    batches.close()
    return 12


def test_many_parts_and_few_files(tmp_path: Path) -> None:
    script = """
import resource, sys
import pyarrow as pa, penstock as pk
from penstock.dataset import local
local.FOLLOWED_BYTES = 1
rows = [pa.record_batch({"id": pa.array([number], "int64")}) for number in range(150)]
pk.write(pa.RecordBatchReader.from_batches(rows[0].schema, rows), sys.argv[1], follow=True)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
for batch_size in (64, 150):
    loader = pk.open(sys.argv[1], follow=True).numpy(batch_size, last="short")
    seen = [number for batch in loader for number in batch["id"]]
    assert sorted(seen) == list(range(150)), len(seen)
held = []
try:
    while True:
        held.append(open("/dev/null"))
except OSError:
    for _ in range(6):
        held.pop().close()
loader = pk.open(sys.argv[1], follow=True).numpy(150, last="short")
try:
    list(loader)
except pk.errors.StorageError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "ds")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Too many open files. Readers keep half of what this process may open" in done.stdout


def test_the_last_write_that_died_is_told_to_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "POLL_SECONDS", 0.02)
    with writer(tmp_path / "ds"):
        pass
    with pytest.raises(FollowError, match=r"for 0\.1 s; one that began before shows no life"):
        pk.open(tmp_path / "ds", follow=True, timeout=0.1)
    monkeypatch.setattr(follow_log, "LOST_BEATS", 1)
    with pytest.raises(FollowError, match=r"for 2 s; the last one ended without a word"):
        pk.open(tmp_path / "ds", follow=True, timeout=2)


@pytest.mark.parametrize("ahead", [60.0, -60.0, 1800.0])
def test_a_reader_whose_clock_is_wrong_joins_what_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    pk.write(numbered(1), tmp_path, TENSORS)
    store, now = open_store(tmp_path), time.time
    monkeypatch.setattr(follow_log, "LOST_BEATS", 15)
    monkeypatch.setattr(joining, "DOUBTED_BEATS", 300)  # a heart that lives may have no processor for a while
    with Heartbeat(store, "abc123", 0.2):
        store.put(follow_log.begin_name("abc123"), follow_log.begin_bytes(0.2))
        monkeypatch.setattr(time, "time", lambda: now() + ahead)
        found = joining.find(store, 60.0)
    assert isinstance(found, Following)
    assert found.name == "abc123"


@pytest.mark.parametrize(("age", "waits"), [(60.0, True), (7200.0, False)])
def test_what_died_lately_is_waited_for_shortly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float, waits: bool
) -> None:
    pk.write(numbered(1), tmp_path, TENSORS)
    store = open_store(tmp_path)
    monkeypatch.setattr(follow_log, "LOST_BEATS", 15)
    store.touch(f"{PREFIX}abc123")
    store.put(follow_log.begin_name("abc123"), follow_log.begin_bytes(0.2))
    then = time.time() - age
    os.utime(store.locate(f"{PREFIX}abc123"), (then, then))
    watch = joining.Watch(store)
    assert watch.look() == (None, waits)
    watch._since -= (joining.DOUBTED_BEATS + 1) * 0.2
    assert watch.look() == (None, False)
