"""Logs read back: torn, strange and hostile lines are left out and counted, and runs are told apart."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from training_run import Trained

import penstock as pk
from penstock.errors import ReportError
from penstock.tools.report.log_lines import NUMBERS, find_logs, read_logs
from penstock.tools.report.timeline import axis


@pytest.fixture
def ds(tmp_path: Path) -> pk.Dataset:
    return pk.write(pa.table({"a": np.arange(1000)}), tmp_path / "ds")


@pytest.fixture
def log(ds: pk.Dataset, tmp_path: Path) -> Path:
    loader = ds.numpy(batch_size=100, log=tmp_path / "log.jsonl")
    for _ in loader:
        loader.note({"loss": 0.5})
    return tmp_path / "log.jsonl"


def test_a_log_cut_anywhere_can_be_read(ds: pk.Dataset, log: Path) -> None:
    """As after a kill: whatever is left of the last line, the rest is told."""
    whole = log.read_bytes()
    first_epoch = whole.index(b'"begin"')
    for end in range(len(whole), 0, -7):
        log.write_bytes(whole[:end])
        if end < first_epoch:
            with pytest.raises(ReportError, match="holds no epoch"):
                pk.report(ds, log=log)
            break
        try:
            found = pk.report(ds, log=log)
        except ReportError:
            assert b'"begin"' not in whole[:end].rpartition(b"\n")[0]
            continue
        feed = found.facts["feed"]
        assert feed["skipped_lines"] == (whole[end - 1 : end] != b"\n" and whole[end : end + 1] != b"\n")
        if end < len(whole) - 2:
            assert feed["ranks"][0]["ended"] is None
    log.write_bytes(whole[: whole.index(b'"end"')])
    page = pk.report(ds, log=log).html()
    assert "no end: it runs, or was killed" in page
    assert "1 lines of the log could not be read" in page


def test_a_log_that_does_not_tell_of_transforms_is_read(ds: pk.Dataset, log: Path) -> None:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    kept = [{key: line[key] for key in line if key not in ("placing", "transforming")} for line in lines]
    assert kept != lines
    log.write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    feed = pk.report(ds, log=log).facts["feed"]
    assert feed["skipped_lines"] == 0
    assert feed["ranks"][0]["rows"] == 1000
    assert feed["ranks"][0]["transforming"] == 0


def test_a_transform_that_bounds_is_told(ds: pk.Dataset, tmp_path: Path) -> None:
    def slow(batch: dict) -> dict:
        time.sleep(0.05)
        return batch

    for _ in ds.numpy(batch_size=100, transform=slow, log=tmp_path / "log.jsonl"):
        pass
    found = pk.report(ds, log=tmp_path / "log.jsonl").facts
    assert re.match(
        r"The training spent \d+% of its time on the transform of batches, and", found["headline"]
    )
    assert found["feed"]["ranks"][0]["verdict"].startswith("the transform bounds: it took 0.5 s of")


STRANGE = [
    b"",
    b"null",
    b"[1, 2]",
    b"\xff\xfe\x00",
    b"{" * 100_000,
    b'{"line": "feed"}',
    b'{"line": "evil", "time": 1, "run": "a", "rank": 0, "world": 1, "epoch": 0}',
    b'{"line": "begin", "time": "x", "run": "a", "rank": 0, "world": 1, "epoch": 0, "step": 0}',
    b'{"line": "begin", "time": 1e400, "run": "a", "rank": 0, "world": 1, "epoch": 0, "step": 0}',
    b'{"line": "begin", "time": NaN, "run": "a", "rank": 0, "world": 1, "epoch": 0, "step": 0}',
    b'{"line": "begin", "time": 1, "run": "a", "rank": -1, "world": 1, "epoch": 0, "step": 0}',
    b'{"line": "begin", "time": 1, "run": "a", "rank": true, "world": 1, "epoch": 0, "step": 0}',
    b'{"line": "begin", "time": 1, "run": "a", "rank": 0, "world": 1, "epoch": 1'
    + b"0" * 400
    + b', "step": 0}',
    b'{"line": "note", "time": 1, "run": "a", "rank": 0, "world": 1, "epoch": 0, "step": 0, "values": 3}',
    b'{"line": "note", "time": 1, "run": "a", "rank": 0, "world": 1, "epoch": 0, "step": 0, "values": {"a": "b"}}',
    b'{"line": "note", "time": 1, "run": "a", "rank": 0, "world": 1, "epoch": 0, "step": 0, "values": {"a": 1'
    + b"0" * 400
    + b"}}",
    b'{"line": "run", "format": "other", "time": 1, "run": "a", "rank": 0, "world": 1}',
]


def test_strange_lines_are_left_out_and_counted(ds: pk.Dataset, log: Path) -> None:
    before = pk.report(ds, log=log).facts["feed"]
    log.write_bytes(b"\n".join([*STRANGE, log.read_bytes(), *STRANGE]))
    after = pk.report(ds, log=log).facts["feed"]
    assert after["skipped_lines"] == 2 * (len(STRANGE) - 1), "an empty line is none"
    for name in ("ranks", "epochs", "notes"):
        assert after[name] == before[name]


def test_numbers_that_go_back_are_left_out(ds: pk.Dataset, log: Path) -> None:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    end = next(line for line in lines if line["line"] == "end")
    lines.insert(lines.index(end), {**end, "line": "feed", "rows": end["rows"] + 5})
    log.write_text("\n".join(map(json.dumps, lines)))
    found = pk.report(ds, log=log).facts["feed"]
    assert found["skipped_lines"] == 1
    assert found["ranks"][0]["rows"] == 1005
    assert found["ranks"][0]["ended"] is None


def test_resumed_runs_are_told_apart_and_long_pauses_shortened(ds: pk.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    loader = ds.numpy(batch_size=100, log=path)
    for step, _ in enumerate(loader, 1):
        if step == 4:
            break
    state = loader.state_dict()
    del _
    again = ds.numpy(batch_size=100, log=path)
    again.load_state_dict(state)
    list(again)
    later = [json.loads(line) for line in path.read_text().splitlines()]
    second = later[-1]["run"]
    moved = [{**line, "time": line["time"] + 86400 * (line["run"] == second)} for line in later]
    path.write_text("".join(json.dumps(line) + "\n" for line in moved))
    found = pk.report(ds, log=path).facts["feed"]
    assert found["runs"] == 2
    assert [
        (epoch["epoch"], epoch["step"], epoch["steps"], epoch["resumed"]) for epoch in found["epochs"]
    ] == [
        (0, 0, 4, False),
        (0, 4, 6, True),
    ]
    assert [epoch["ended"] for epoch in found["epochs"]] == ["left", "whole"]
    assert found["ranks"][0]["steps"] == 10
    (pause,) = found["timeline"]["pauses"]
    assert pause["seconds"] == pytest.approx(86400, abs=60)
    assert found["timeline"]["seconds"] < 60
    assert "resumed at step 4" in pk.report(ds, log=path).html()


def test_files_are_found_by_folder_by_name_and_one_by_one(trained: Trained, tmp_path: Path) -> None:
    folder = trained.log.parent
    ranks = [folder / "log-rank0.jsonl", folder / "log-rank1.jsonl"]
    assert find_logs(folder) == ranks
    assert find_logs(trained.log) == ranks, "the name that loaders were given"
    assert find_logs([str(rank) for rank in reversed(ranks)]) == ranks[::-1]
    assert find_logs([folder, ranks[0]]) == ranks, "none twice"
    together = tmp_path / "together.jsonl"
    together.write_bytes(b"".join(rank.read_bytes() for rank in ranks))
    assert [run.rank for run in read_logs(together).runs[::2]] == [0, 1]
    assert {(run.rank, run.world) for run in read_logs(together).runs} == {(0, 2), (1, 2)}


def test_an_epoch_that_only_one_rank_left_has_an_end(ds: pk.Dataset, tmp_path: Path) -> None:
    def rank(number: int, steps: int) -> None:
        loader = ds.numpy(batch_size=100, rank=number, world=2, log=tmp_path / "log.jsonl")
        for _ in itertools.islice(loader, steps):
            pass

    rank(0, 1000)
    rank(1, 2)
    found = pk.report(ds, log=tmp_path / "log.jsonl")
    assert [epoch["ended"] for epoch in found.facts["feed"]["epochs"]] == ["left on 1 of 2 ranks"]
    assert "no end" not in found.html()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_log_that_may_not_be_read_is_named(ds: pk.Dataset, log: Path) -> None:
    log.chmod(0)
    for given in (log, log.parent):
        with pytest.raises(ReportError, match="Permission denied"):
            pk.report(ds, log=given)


def test_an_axis_holds_ranks_that_overlap() -> None:
    found = axis([(10.0, 20.0), (12.0, 22.0), (22.1, 30.0)])
    assert (found.seconds, found.pauses) == (20.0, ())
    assert found.place(np.array([5.0, 10.0, 26.0, 99.0])).tolist() == [0.0, 0.0, 16.0, 20.0]


def test_epochs_of_no_time_at_all_are_drawn(tmp_path: Path) -> None:
    who = {"run": "a", "rank": 0, "world": 1}
    numbers = dict.fromkeys(NUMBERS, 0)
    lines = [
        {"line": "run", "format": "penstock-log", "version": 1, "time": 5, **who},
        {"line": "begin", "time": 5, "epoch": 0, "step": 0, **who},
        {"line": "end", "time": 5, "epoch": 0, "ended": "left", **numbers, **who},
        {"line": "note", "time": 5, "epoch": 0, "step": 0, "values": {"n": "nan"}, **who},
    ]  # fmt: skip
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    ds = pk.write(pa.table({"a": [1]}), tmp_path / "ds")
    found = pk.report(ds, log=path)
    assert found.facts["feed"]["ranks"][0]["waited_share"] is None
    assert found.facts["feed"]["notes"][0]["low"] is None
    assert "<html" in found.html()
