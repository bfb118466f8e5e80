"""Which side bounds: told right where reading or gathering is made slow on purpose."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.feed.epoch import Epoch
from penstock.feed.frameworks import jax as jax_feed
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.stats import Stats, Work

ROWS = 2000


@pytest.fixture
def ds(tmp_path: Path) -> pk.Dataset:
    return pk.write(
        pa.table({"a": np.arange(ROWS), "b": np.arange(ROWS, dtype=np.float32)}),
        tmp_path / "ds",
        shards=2,
        block_bytes=1024,
    )


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
        ({"waited": 0.1, "transforming": 9.0}, "transform"),
        ({"waited": 0.1, "placing": 3.0, "transforming": 2.9}, "placing"),
        ({"waited": 0.1, "transforming": 3.0}, "consumer"),
        ({"waited": 5.0, "transforming": 4.0}, "reading"),
    ],
)
def test_most_of_the_waiting_decides(counted: dict, bound: str | None) -> None:
    assert Stats(**{"rows": 10, "row_bytes": 8, "ended": 10.0, "threads": 2, **counted}).bound == bound


def test_a_slow_transform_bounds_and_not_the_consumer(ds: pk.Dataset) -> None:
    def slow(batch: dict) -> dict:
        time.sleep(0.02)
        return batch

    loader = ds.numpy(batch_size=100, transform=slow)
    list(loader)
    assert loader.stats.bound == "transform"
    assert loader.stats.transforming >= 20 * 0.02
    assert re.match(
        r"the transform bounds: it took 0\.\d s of .* before rows are written\.$", loader.verdict()
    )


def test_a_transform_that_takes_less_than_the_consumer_is_told_beside(ds: pk.Dataset) -> None:
    loader = ds.numpy(batch_size=100, transform=lambda batch: time.sleep(0.01) or batch)
    for _ in loader:
        time.sleep(0.05)
    assert loader.stats.bound == "consumer"
    assert re.search(r"change nothing\. The transform took 0\.\d s \(\d+%\) of the time\.$", loader.verdict())


@pytest.mark.parametrize("transform", [None, lambda batch: batch])
def test_jax_that_takes_long_to_place_batches_bounds_and_no_transform(
    ds: pk.Dataset, monkeypatch, transform
) -> None:
    place = jax_feed.place

    def slow(*arguments):
        time.sleep(0.02)
        return place(*arguments)

    monkeypatch.setattr(jax_feed, "place", slow)
    loader = ds.jax(batch_size=100, tensors="b", transform=transform)
    list(loader)
    assert loader.stats.bound == "placing"
    assert loader.verdict().startswith("placing batches on the device bounds: it took")
    assert "transform" not in loader.verdict()


def test_nothing_bounds_before_anything_was_read(ds: pk.Dataset) -> None:
    loader = ds.numpy(batch_size=100)
    assert loader.stats.bound is None
    assert loader.verdict() == "nothing was read yet."
