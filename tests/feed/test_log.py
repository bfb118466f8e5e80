"""The training log: what is in it, whose file it is, and what is left of it when a process is killed or a disk full."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from left_behind import ended, open_below, threads
from slow_writes import PART_ROWS, Writing, numbered, wait_for

import penstock as pk
from penstock.dataset import local
from penstock.errors import SelectionError, StorageError
from penstock.feed import log as log_module

ROWS = 1000
FIELDS = {
    "line", "time", "run", "rank", "world", "epoch", "step", "seconds", "rows", "bytes", "bytes_read", "waited",
    "start_waited", "readers_waited", "gather_waited", "writer_waited", "placing", "transforming",
    "memory", "threads",
}  # fmt: skip


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    table = pa.table({"a": np.arange(ROWS), "b": np.arange(ROWS, dtype=np.float32)})
    return pk.write(table, tmp_path_factory.mktemp("log") / "ds", shards=2, block_bytes=2000)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert ended(), threads()
    assert open_below(tmp_path) == []


@pytest.fixture(autouse=True)
def no_line_for_time_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long an epoch takes here is the machine's affair; who wants to see such lines has them come often."""
    monkeypatch.setattr(log_module, "TICK_SECONDS", 3600)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def kinds(path: Path) -> list[str]:
    return [line["line"] for line in lines(path)]


def test_an_epoch_is_told_from_begin_to_end(ds: pk.Dataset, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(log_module, "TICK_SECONDS", 0.02)
    path = tmp_path / "new" / "folder" / "log.jsonl"
    loader = ds.torch(batch_size=100, seed=7, log=path)
    assert not path.parent.exists(), "construction does nothing"
    for _ in loader:
        wait_for(lambda: '"line":"feed"' in path.read_text())
    found = lines(path)
    head, begin, *feed, end = found
    assert (head["line"], begin["line"], end["line"]) == ("run", "begin", "end")
    assert {each["line"] for each in feed} == {"feed"}
    assert head["format"] == "penstock-log"
    assert (head["version"], head["penstock"]) == (1, pk.__version__)
    assert (head["dataset"], head["fingerprint"]) == (ds.path, ds.fingerprint)
    assert (head["batch_size"], head["seed"], head["device"]) == (100, 7, "cpu")
    assert (begin["epoch"], begin["step"], begin["fingerprint"]) == (0, 0, ds.fingerprint)
    assert set(end) == FIELDS | {"ended", "verdict"}
    assert all(set(each) == FIELDS for each in feed)
    assert (end["step"], end["rows"], end["bytes"]) == (10, ROWS, loader.stats.bytes)
    assert (end["ended"], end["verdict"]) == ("whole", loader.verdict())
    assert (end["memory"], end["threads"]) == (loader.stats.memory, loader.settings.threads)
    assert end["waited"] == pytest.approx(loader.stats.waited, abs=1e-3)
    for name in ("time", "step", "seconds", "rows", "bytes", "waited", "readers_waited"):
        values = [each[name] for each in [*feed, end]]
        assert values == sorted(values), f"{name} never goes back"


def test_epochs_and_resumed_runs_are_appended(ds: pk.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    loader = ds.numpy(batch_size=100, log=path)
    for _ in loader:
        pass
    for step, _ in enumerate(loader, 1):
        if step == 3:
            break
    state = loader.state_dict()
    del _
    again = ds.numpy(batch_size=100, log=path)
    again.load_state_dict(state)
    again.note({"before": 1})
    for _ in again:
        pass
    again.note({"after": 2})
    assert kinds(path) == ["run", "begin", "end", "begin", "end", "run", "note", "begin", "end", "note"]
    found = lines(path)
    assert [each["ended"] for each in found if each["line"] == "end"] == ["whole", "left", "whole"]
    assert [(each["epoch"], each["step"]) for each in found if each["line"] == "begin"] == [
        (0, 0),
        (1, 0),
        (1, 3),
    ]
    assert [(each["epoch"], each["step"]) for each in found if each["line"] == "end"] == [
        (0, 10),
        (1, 3),
        (1, 10),
    ]
    assert [(each["epoch"], each["step"]) for each in found if each["line"] == "note"] == [(1, 3), (1, 10)]
    assert len({each["run"] for each in found}) == 2


def test_a_trainer_that_stops_at_the_last_batch_took_the_whole_epoch(ds: pk.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    batches = iter(ds.numpy(batch_size=100, log=path))
    for _ in range(10):
        next(batches)
    del batches
    assert lines(path)[-1]["ended"] == "whole"


def test_an_error_in_the_feed_is_named(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"a": np.arange(ROWS)}), tmp_path / "ds")
    shard = tmp_path / "ds" / ds.shards[0].file
    shard.write_bytes(shard.read_bytes()[:200])
    path = tmp_path / "log.jsonl"
    with pytest.raises(pk.PenstockError, match="damaged"):
        list(ds.numpy(batch_size=100, log=path))
    assert lines(path)[-1]["ended"] == "CorruptError"


def test_every_rank_has_its_file_once_the_rank_is_known(ds: pk.Dataset, tmp_path: Path, monkeypatch) -> None:
    loaders = []
    for rank in range(2):
        loaders.append(ds.numpy(batch_size=50, log=tmp_path / "log.v1.jsonl"))
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        list(loaders[-1])
    assert sorted(os.listdir(tmp_path)) == ["log.v1-rank0.jsonl", "log.v1-rank1.jsonl"]
    assert [(each["rank"], each["world"]) for each in lines(tmp_path / "log.v1-rank1.jsonl")] == [(1, 2)] * 3


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_other_frameworks_log(ds: pk.Dataset, tmp_path: Path, framework: str) -> None:
    path = tmp_path / "log.jsonl"
    loader = getattr(ds, framework)(batch_size=100, tensors=["b"], log=path)
    assert len(list(loader)) == 10
    assert kinds(path) == ["run", "begin", "end"]
    assert lines(path)[-1]["rows"] == ROWS


def test_a_followed_write_is_logged(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(local, "FOLLOWED_BYTES", 1)
    all_taken = threading.Event()

    def late(part: int) -> None:
        """The second part comes when the first has been used up, and a while later."""
        if part == 1:
            assert all_taken.wait(60)
            time.sleep(0.5)

    writing = Writing(tmp_path / "ds", numbered(3, late, uneven=0))
    path = tmp_path / "log.jsonl"
    loader = pk.open(tmp_path / "ds", follow=True, timeout=60).numpy(batch_size=50, log=path)
    for _ in range(2):
        for step, batch in enumerate(loader, 1):
            loader.note({"first": int(batch["id"][0])})
            if step == PART_ROWS // 50:
                all_taken.set()
    fingerprint = writing.join().fingerprint
    head, *others = lines(path)
    ends = [each for each in others if each["line"] == "end"]
    assert head["fingerprint"].startswith("follow-")
    assert [(each["epoch"], each["step"], each["rows"]) for each in ends] == [(0, 12, 600), (1, 12, 600)]
    assert ends[0]["waited"] >= ends[0]["writer_waited"] > 0
    told = [each["fingerprint"] for each in others if each["line"] == "begin"]
    assert told == [head["fingerprint"], fingerprint]
    assert sum(each["line"] == "note" for each in others) == 24


def test_numbers_are_noted_at_their_step(ds: pk.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    loader = ds.numpy(batch_size=100, log=path)
    values = [1, 0.5, math.inf, -math.inf, math.nan, np.float32(0.25), np.int64(3), 2**62, -0.0, 1e308]
    for _, value in zip(loader, values, strict=True):
        loader.note({"v": value})
    loader.note({})
    found = [each for each in lines(path) if each["line"] == "note"]
    assert [each["step"] for each in found] == list(range(1, 11))
    assert [each["values"]["v"] for each in found] == [
        1, 0.5, "inf", "-inf", "nan", 0.25, 3, 2**62, -0.0, 1e308,
    ]  # fmt: skip
    for text in path.read_text("utf-8").splitlines():  # any reader of JSON takes it
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def tensor() -> object:
    import torch

    return torch.ones(())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ok": True}, "'ok' is a bool"),
        ({"loss": "0.3"}, "'loss' is a str"),
        ({"loss": None}, "float(...)"),
        ({"loss": tensor()}, "'loss' is a Tensor"),
        ({"loss": np.ones(2)}, "'loss' is a ndarray"),
        ({"count": 2**63}, "beyond 64 bits"),
        ({3: 1.0}, "3 is no name"),
        ({"": 1.0}, "no name"),
        (0.3, "such as {'loss': 0.3}"),
    ],
)
@pytest.mark.parametrize("logged", [True, False])
def test_what_is_no_number_is_refused(ds: pk.Dataset, tmp_path: Path, given, told: str, logged: bool) -> None:
    loader = ds.numpy(batch_size=100, log=tmp_path / "log.jsonl" if logged else None)
    with pytest.raises(SelectionError) as refused:
        loader.note(given)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (3, "the path of a file"),
        (b"log", "the path of a file"),
        ("s3://bucket/log.jsonl", "object store"),
        ("", "is a folder"),
        (".", "is a folder"),
        ("run/", "is a folder"),
    ],
)
def test_a_path_that_cannot_be_a_log_is_refused_at_once(ds: pk.Dataset, given, told: str) -> None:
    with pytest.raises(SelectionError) as refused:
        ds.numpy(batch_size=100, log=given)
    assert told in str(refused.value)


def test_a_log_that_cannot_begin_is_an_error_and_uses_up_no_epoch(ds: pk.Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    loader = ds.numpy(batch_size=100, log=tmp_path / "file" / "log.jsonl")
    for _ in range(2):
        with pytest.raises(StorageError, match="choose another path for log="):
            next(iter(loader))
    assert loader.state_dict()["epoch"] == 0


def test_a_disk_that_fills_ends_no_training(ds: pk.Dataset, tmp_path: Path, monkeypatch) -> None:
    """Half a line is written, then nothing; when there is room again, the next line stands for itself."""
    path, write, full = tmp_path / "log.jsonl", os.write, False

    def filling(descriptor: int, data: bytes) -> int:
        nonlocal full
        if b'"end"' in data and not full:
            full = True
            return write(descriptor, data[:40])
        if full and path.stat().st_size:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    loader = ds.numpy(batch_size=100, log=path)
    monkeypatch.setattr(os, "write", filling)
    with pytest.warns(UserWarning, match=r"has a gap: No space left on device\. The training goes on"):
        assert len(list(loader)) == 10
    monkeypatch.setattr(os, "write", write)
    assert len(list(loader)) == 10
    torn = [text for text in path.read_text("utf-8").splitlines() if not text.endswith("}")]
    assert len(torn) == 1
    assert [json.loads(text)["line"] for text in path.read_text().splitlines() if text not in torn] == [
        "run", "begin", "begin", "end",
    ]  # fmt: skip


KILLED = """
import sys, time
import penstock as pk
from penstock.feed import log
log.TICK_SECONDS = 0.01
loader = pk.open(sys.argv[1]).numpy(batch_size=10, log=sys.argv[2])
while True:
    for _ in loader:
        loader.note({"loss": 0.5})
        time.sleep(0.001)
"""


def test_a_killed_process_leaves_lines_that_can_be_read(ds: pk.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for _ in range(2):
        size = path.stat().st_size if path.exists() else 0
        process = subprocess.Popen([sys.executable, "-c", KILLED, ds.path, str(path)])
        try:
            until = time.monotonic() + 120
            while not path.exists() or path.stat().st_size < size + 4000:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.01)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    with path.open("ab") as file:  # as if it had been killed in the middle of a line
        file.write(b'{"line":"feed","ti')
    assert len(list(ds.numpy(batch_size=100, log=path))) == 10
    texts = path.read_text("utf-8").splitlines()
    bad = [text for text in texts if not text.endswith("}")]
    assert bad == ['{"line":"feed","ti']
    found = [json.loads(text) for text in texts if text not in bad]
    assert [each["line"] for each in found].count("run") == 3
    assert found[-1]["ended"] == "whole"


def test_waiting_that_is_under_way_is_told(ds: pk.Dataset, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(log_module, "TICK_SECONDS", 0.02)
    from penstock.feed.reading.source import RowSource

    read, path = RowSource.read, tmp_path / "log.jsonl"

    def slow(self, *arguments):
        wait_for(lambda: path.read_text().count('"line":"feed"') >= 2)
        return read(self, *arguments)

    monkeypatch.setattr(RowSource, "read", slow)
    next(iter(ds.numpy(batch_size=100, log=path)))
    early = [each["waited"] for each in lines(path) if each["line"] == "feed" and each["rows"] == 0]
    assert len(early) >= 2, "lines come while the consumer waits"
    assert early == sorted(early)
    assert early[-1] > 0
