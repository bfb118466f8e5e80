"""Where the demo's files lie: nothing of the user's is touched, and a run that fails leaves nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from penstock.errors import StorageError
from penstock.tools.demo.folder import FACTS, REPORT, WRITTEN, demo_folder
from penstock.tools.demo.interrupts import undisturbed

OWN = json.dumps(dict.fromkeys(WRITTEN))


def fill(folder: Path) -> None:
    (folder / "train" / "shards").mkdir(parents=True)
    for name in ("train/shards/a.arrow", "log-rank0.jsonl", "model.keras"):
        (folder / name).write_text("x")
    (folder / FACTS).write_text(OWN)


def test_a_named_folder_is_kept_and_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        with demo_folder(str(tmp_path / "new" / "kept")) as folder:
            assert list(folder.work.iterdir()) == []
            assert folder.kept() == folder.work == tmp_path / "new" / "kept"
            fill(folder.work)
    assert (tmp_path / "new" / "kept" / "train" / "shards" / "a.arrow").is_file()


@pytest.mark.parametrize("facts", [None, "{}", "[]", "x", '{"penstock": "1"}', "\xff"])
def test_a_folder_of_others_is_refused_and_left_alone(tmp_path: Path, facts: str | None) -> None:
    if facts is not None:
        (tmp_path / FACTS).write_bytes(facts.encode("latin-1"))
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "thesis.txt").write_text("years of work")
    with (
        pytest.raises(
            StorageError, match=r"it holds files that are not the demo's\. Name a folder that is empty"
        ),
        demo_folder(str(tmp_path)),
    ):
        pass
    assert (tmp_path / "train" / "thesis.txt").read_text() == "years of work"


def stopped(keep: Path, error: type[BaseException]) -> None:
    with demo_folder(str(keep)) as folder:
        fill(folder.work)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_run_that_ends_early_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    for name in ("kept", "new/deep/kept"):
        with pytest.raises(error):
            stopped(tmp_path / name, error)
        assert list(tmp_path.iterdir()) == [], "nor the folders around it that were made for it"
    beside = tmp_path / "mine"
    beside.mkdir()
    (beside / FACTS).write_text(OWN)
    (beside / "notes.txt").write_text("of mine")
    with pytest.raises(error):
        stopped(beside, error)
    assert [path.name for path in beside.iterdir()] == ["notes.txt"]


def test_without_a_name_all_goes_but_what_is_put_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for text in ("first", "second"):
        with demo_folder(None) as folder:
            fill(folder.work)
            (folder.work / REPORT).write_text(text)
            if text == "first":
                assert list(tmp_path.iterdir()) == [], "made when it is needed"
            folder.keep()
        assert not folder.work.exists()
        kept = folder.kept()
        assert kept == tmp_path / "penstock" / "demo"
        assert sorted(path.name for path in kept.iterdir()) == [FACTS, REPORT]
        assert (kept / REPORT).read_text() == text


def test_the_last_run_stays_where_another_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = tmp_path / "penstock" / "demo"
    kept.mkdir(parents=True, mode=0o700)
    (kept / REPORT).write_text("whole")
    with demo_folder(None) as folder, pytest.raises(FileNotFoundError):
        folder.keep()  # the run ended before it had a report
    assert [path.name for path in kept.iterdir()] == [REPORT]
    assert (kept / REPORT).read_text() == "whole"


def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(StorageError, match="Name a folder that may be written to"),
        demo_folder(str(tmp_path / "file" / "kept")),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_cleaning_up_is_not_interrupted() -> None:
    before = signal.getsignal(signal.SIGINT)
    with undisturbed():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
