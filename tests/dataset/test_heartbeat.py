"""A write that lives is left alone by vacuum, however old its files are."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as pk
from penstock.dataset.heartbeat import PREFIX, Heartbeat
from penstock.dataset.store import open_store

DAY = 24 * 3600


def aged(path: Path) -> Path:
    """The file, a week old."""
    then = time.time() - 7 * DAY
    os.utime(path, (then, then))
    return path


def test_vacuum_spares_the_old_shards_of_a_write_under_way(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"a": [1, 2, 3]}), tmp_path)
    alive, dead = tmp_path / "shards/aaaa-00000-0.arrow", tmp_path / "shards/bbbb-00000-0.arrow"
    for file in (alive, dead):
        file.write_bytes(b"half a shard")
        aged(file)
    aged_sign = tmp_path / f"{PREFIX}bbbb"
    aged_sign.write_bytes(b"")
    aged(aged_sign)
    with Heartbeat(open_store(tmp_path), "aaaa"):
        assert sorted(ds.vacuum()) == ["_penstock/writing-bbbb", "shards/bbbb-00000-0.arrow"]
        assert alive.exists()
    assert ds.vacuum() == ["shards/aaaa-00000-0.arrow"], "its sign is gone, and so is its protection"
    ds.verify()


def test_the_sign_is_kept_young_and_taken_away(tmp_path: Path) -> None:
    sign = tmp_path / f"{PREFIX}cccc"
    with Heartbeat(open_store(tmp_path), "cccc", seconds=0.05):
        aged(sign)
        until = time.monotonic() + 10
        while sign.stat().st_mtime < time.time() - DAY and time.monotonic() < until:
            time.sleep(0.02)
        assert sign.stat().st_mtime > time.time() - DAY
    assert not sign.exists()


def test_a_write_leaves_no_sign(tmp_path: Path) -> None:
    pk.write(pa.table({"a": [1, 2, 3]}), tmp_path)
    assert not list(tmp_path.rglob("writing-*"))


def test_a_sign_waits_for_no_disk_and_outlives_any_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)
    store, sign = open_store(tmp_path), tmp_path / f"{PREFIX}dddd"
    touch, tried = store.touch, threading.Event()

    def refused(name: str) -> None:
        monkeypatch.setattr(store, "touch", touch)
        tried.set()
        raise TypeError("a client's own mistake")

    with Heartbeat(store, "dddd", seconds=0.05):
        monkeypatch.setattr(store, "touch", refused)
        assert tried.wait(10)
        aged(sign)
        until = time.monotonic() + 10
        while sign.stat().st_mtime < time.time() - DAY and time.monotonic() < until:
            time.sleep(0.02)
        assert sign.stat().st_mtime > time.time() - DAY, "its heart has stopped"
    assert forced == []
    assert not sign.exists()
