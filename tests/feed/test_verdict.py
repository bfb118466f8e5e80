"""Which side bounds: told right where reading or gathering is made slow on purpose."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.feed.epoch import Epoch
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.stats import Stats, Work

ROWS = 2000


@pytest.fixture
def ds(tmp_path: Path) -> pk.Dataset:
    return pk.write(pa.table({"a": np.arange(ROWS)}), tmp_path / "ds", shards=2, block_bytes=1024)


def slowed(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, seconds: float) -> None:
    original = getattr(owner, name)

    def slow(self, *arguments):
        time.sleep(seconds)
        return original(self, *arguments)

    monkeypatch.setattr(owner, name, slow)


def test_slow_reading_bounds(ds: pk.Dataset, monkeypatch) -> None:
    slowed(monkeypatch, Epoch, "_read", 0.02)
    loader = ds.numpy(batch_size=100)
    list(loader)
    assert loader.stats.bound == "reading"
    assert loader.verdict().startswith("reading bounds")


def test_a_slow_gather_bounds_while_readers_have_nothing_to_do(ds: pk.Dataset, monkeypatch) -> None:
    slowed(monkeypatch, HostArena, "gather", 0.5)
    loader = ds.numpy(batch_size=100, lanes=4)  # so few that one gather does not touch all there is
    list(loader)
    assert loader.stats.bound == "gather"
    assert loader.verdict().startswith("the gather bounds")
    assert loader.stats.readers_waited > 0.5 * loader.stats.threads * loader.stats.seconds


def test_a_wait_for_the_first_batch_alone_is_no_slow_storage(ds: pk.Dataset, monkeypatch) -> None:
    slowed(monkeypatch, Epoch, "_read", 0.005)
    loader = ds.numpy(batch_size=100)
    for _ in loader:
        time.sleep(0.1)
    assert loader.stats.bound == "start"
    assert loader.verdict().startswith("the start bounds")


def test_what_a_loader_has_to_make_first_is_a_wait_for_the_first_batch(ds: pk.Dataset, monkeypatch) -> None:
    slowed(monkeypatch, HostArena, "begin", 0.3)
    loader = ds.numpy(batch_size=100)
    list(loader)
    assert 0.3 <= loader.stats.start_waited <= loader.stats.waited


@pytest.mark.parametrize(
    ("counted", "bound"),
    [
        ({"waited": 0.4}, "consumer"),
        ({"waited": 6.0, "writer_waited": 4.0}, "write"),
        ({"waited": 6.0, "gather_waited": 4.0, "writer_waited": 1.0}, "gather"),
        ({"waited": 6.0, "gather_waited": 2.0, "writer_waited": 2.0}, "reading"),
        ({"waited": 6.0, "start_waited": 5.8, "gather_waited": 4.0, "readers": Work(2.0)}, "start"),
        ({"waited": 6.0, "start_waited": 5.8, "readers": Work(18.0)}, "reading"),
        ({"waited": 6.0, "start_waited": 5.0, "readers": Work(2.0)}, "reading"),
        ({"waited": 6.0, "rows": 0}, None),
    ],
)
def test_most_of_the_waiting_decides(counted: dict, bound: str | None) -> None:
    assert Stats(**{"rows": 10, "row_bytes": 8, "ended": 10.0, "threads": 2, **counted}).bound == bound


def test_nothing_bounds_before_anything_was_read(ds: pk.Dataset) -> None:
    loader = ds.numpy(batch_size=100)
    assert loader.stats.bound is None
    assert loader.verdict() == "nothing was read yet."
