"""Loaders of ranks that share lanes: their rows, what they read for them, and what is said of it."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from rows_of_steps import rows_of_rank

import penstock as pk
from penstock.feed.plan.order import Order, Steps

ROWS, WIDTH = 20_000, 256


@pytest.fixture(scope="module", params=["read", "mapped"])
def ds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    """Small blocks are read into windows; large ones of wide rows are gathered out of a map."""
    values = np.repeat(np.arange(ROWS, dtype=np.float32), WIDTH)
    table = pa.table({"id": np.arange(ROWS), "v": pa.FixedSizeListArray.from_arrays(values, WIDTH)})
    size = (64 << 10) if request.param == "read" else (2 << 20)
    tensors = {"id": "id", "v": "v"} if request.param == "read" else {"v": "v"}
    return pk.write(table, tmp_path_factory.mktemp("shared"), tensors, shuffle=False, block_bytes=size)


def ids(batch: dict[str, np.ndarray]) -> list[int]:
    assert (batch["v"] == batch["v"][:, :1]).all()
    return batch["v"][:, 0].astype(int).tolist()


def expected(ds: pk.Dataset, lanes: int, shuffle: bool, world: int, batch: int, last: str, epoch: int):
    """Per rank, the ids of each step, from the order alone."""
    index = ds.snapshot.index
    order, steps = (
        Order(tuple(index.rows.tolist()), 5, epoch, lanes, 1, shuffle),
        Steps(ROWS, batch * world, last),
    )
    found = []
    for rank in range(world):
        t = [rows_of_rank(steps, step, rank, world, lanes) for step in range(steps.count)]
        places = [order.locate(each) for each in t]
        found.append([(index.starts[blocks] + rows).tolist() for blocks, rows in places])
    return found


@pytest.mark.filterwarnings("ignore:.*share.*lanes")
@pytest.mark.parametrize(("world", "batch", "last"), [(3, 500, "drop"), (5, 77, "short"), (12, 128, "drop")])
def test_their_rows_are_those_of_the_order_and_little_more_is_read(ds, world, batch, last) -> None:
    wanted, read = expected(ds, 8, True, world, batch, last, 0), 0
    for rank in range(world):
        loader = ds.numpy(batch, rank=rank, world=world, lanes=8, seed=5, last=last, verify=False)
        assert [ids(each) for each in loader] == wanted[rank]
        read += loader.stats.bytes_read
        loader.close()
    # A cut through a lane has it read on both sides, and a map brings whole pages in.
    cuts = world - np.gcd(world, 8)
    assert read <= ds.bytes * (1 + cuts / 8) * 1.15


@pytest.mark.parametrize("verify", [True, False])
def test_without_a_shuffle_each_row_is_read_by_its_rank(ds, verify) -> None:
    world, batch, read = 4, 50, []
    wanted = expected(ds, 1, False, world, batch, "short", 0)
    for rank in range(world):
        loader = ds.numpy(batch, rank=rank, world=world, shuffle=False, seed=5, last="short", verify=verify)
        for _ in range(2):
            assert [ids(each) for each in loader] == wanted[rank]
            read.append(loader.stats.bytes_read / sum(spec.row_bytes for spec in ds.tensors.values()) / ROWS)
        loader.close()
    # What is checked is read as a whole, once; and what was read ahead of the next epoch counts with the first.
    assert sum(read[1::2]) < 1.2
    if not verify:
        assert sum(read[0::2]) < 1.2


def test_one_rank_says_once_that_lanes_are_shared(ds) -> None:
    loader = ds.numpy(20, rank=0, world=24, seed=5)
    with pytest.warns(
        UserWarning, match="24 ranks share 64 lanes, and together read the data 1.25 times. lanes=72"
    ):
        next(iter(loader))
    others = [
        ds.numpy(20, rank=1, world=24),
        ds.numpy(20, rank=0, world=24, lanes=72),
        ds.numpy(20, rank=0, world=3),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in (loader, *others):
            next(iter(each))
