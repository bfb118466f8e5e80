"""Loaders against the order they promise: every row once, the same for any world, resumed anywhere, nothing left."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from left_behind import open_below, strangers

import penstock as pk
from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.errors import CorruptError, DatasetError, DeviceError, SelectionError
from penstock.feed.loader import Loader
from penstock.feed.loaders import chosen_specs, numpy_loader, torch_loader
from penstock.feed.memory.arena import Runs
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.memory.ragged_slots import RaggedSlots
from penstock.feed.places import HostPlace
from penstock.feed.plan.order import Order
from penstock.feed.plan.route import Fetch, Need
from penstock.feed.settings import Settings
from penstock.wire.ragged import Ragged

ROWS = 1203
BATCH = 35


def table() -> pa.Table:
    return pa.table(
        {
            "id": np.arange(ROWS),
            "v": pa.FixedSizeListArray.from_arrays(np.repeat(np.arange(ROWS, dtype=np.float32), 3), 3),
            "even": np.arange(ROWS) % 2 == 0,
            "tokens": [list(range(row % 4)) for row in range(ROWS)],
            "text": [f"row {row}" for row in range(ROWS)],
        }
    )


TENSORS = {"id": "id", "v": "v", "even": "even", "tokens": pk.ragged("tokens"), "text": "text"}


@pytest.fixture(scope="module", params=[{}, {"compression": "zstd"}, {"format": "parquet"}], ids=str)
def snapshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    path = tmp_path_factory.mktemp("feed")
    ds = pk.write(table(), path, TENSORS, shuffle=False, shards=3, block_bytes=2000, **request.param)
    return ds.snapshot


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    assert strangers() == []
    assert open_below(tmp_path_factory.getbasetemp()) == []


def make(
    snapshot: Snapshot, framework: str = "numpy", tensors: list[str] | None = None, **settings
) -> Loader:
    specs = chosen_specs(snapshot, tensors)
    chosen = Settings(**{"batch_size": BATCH, "lanes": 8, "window": 2, "seed": 3, **settings})
    if framework == "numpy":
        return numpy_loader(snapshot, specs, chosen)
    return torch_loader(snapshot, specs, chosen, "cpu")


def expected(snapshot: Snapshot, lanes: int = 8, shuffle: bool = True, epoch: int = 0) -> np.ndarray:
    """The ids in the order of the epoch, from the order alone."""
    order = Order(tuple(snapshot.index.rows.tolist()), 3, epoch, lanes if shuffle else 1, 2, shuffle)
    blocks, rows = order.locate(np.arange(ROWS))
    return snapshot.index.starts[blocks] + rows


def check_batch(batch: dict, valid: np.ndarray) -> np.ndarray:
    ids = np.asarray(batch["id"])[valid]
    assert (np.asarray(batch["v"])[valid] == ids[:, None]).all()
    assert (np.asarray(batch["even"])[valid] == (ids % 2 == 0)).all()
    for place, number in zip(np.flatnonzero(valid).tolist(), ids.tolist(), strict=True):
        assert np.asarray(batch["tokens"].row(place)).tolist() == list(range(number % 4))
        assert np.asarray(batch["text"].row(place)).tobytes().decode() == f"row {number}"
    return ids


@pytest.mark.parametrize("last", ["drop", "short", "pad"])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_ranks_together_see_the_order(snapshot, framework, world, shuffle, last) -> None:
    ids = expected(snapshot, shuffle=shuffle)
    seen = []
    for rank in range(world):
        loader = make(snapshot, framework, rank=rank, world=world, shuffle=shuffle, last=last)
        length, mine = len(loader), []
        for batch in loader:
            size = len(batch["id"])
            if last == "pad":
                assert size == BATCH
                assert not np.asarray(batch["v"])[~np.asarray(batch["valid"])].any()
            valid = np.asarray(batch["valid"]) if last == "pad" else np.ones(size, bool)
            mine.append(check_batch(batch, valid))
        assert len(mine) == length
        seen.append(mine)
    batch = BATCH * world
    assert len(seen[0]) == (ROWS // batch if last == "drop" else -(-ROWS // batch))
    for step in range(len(seen[0])):
        together = np.concatenate([mine[step] for mine in seen])
        assert sorted(together.tolist()) == sorted(ids[step * batch : (step + 1) * batch].tolist())
        if world == 1:
            assert together.tolist() == ids[step * batch : (step + 1) * batch].tolist()


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 3), (3, 2), (2, 4)])
def test_it_goes_on_where_it_stopped_on_another_world(snapshot, first, second) -> None:
    ids = expected(snapshot).tolist()
    seen, states = [], []
    for rank in range(first):
        loader = make(snapshot, rank=rank, world=first, last="short", tensors=["id"])
        batches = iter(loader)
        for _ in range(4):
            seen += next(batches)["id"].tolist()
        batches.close()
        states.append(loader.state_dict())
    assert all(state == states[0] for state in states), "the state is the same on all ranks"
    assert states[0]["t"] == 4 * BATCH * first
    for rank in range(second):
        loader = make(snapshot, rank=rank, world=second, last="short", tensors=["id"], lanes=2)
        loader.load_state_dict(states[0])
        left = len(loader)
        resumed = [batch["id"].tolist() for batch in loader]
        assert len(resumed) == left
        seen += [number for batch in resumed for number in batch]
        assert loader.state_dict()["epoch"] == 1
        assert loader.state_dict()["t"] == 0
    assert sorted(seen) == sorted(ids)


def test_epochs_follow_each_other_in_orders_of_their_own(snapshot) -> None:
    loader = make(snapshot, tensors=["id"], last="short", rank=0, world=1)
    for epoch in range(3):
        found = np.concatenate([batch["id"] for batch in loader])
        assert found.tolist() == expected(snapshot, epoch=epoch).tolist()
    loader.set_epoch(1)
    assert next(iter(loader))["id"].tolist() == expected(snapshot, epoch=1)[:BATCH].tolist()


def test_an_epoch_set_meanwhile_is_what_the_state_tells_at_the_end(snapshot) -> None:
    loader, other = (make(snapshot, tensors=["id"], rank=0, world=1) for _ in range(2))
    for _ in loader:
        loader.set_epoch(5)
    assert loader.state_dict()["epoch"] == 5
    other.load_state_dict(loader.state_dict())
    assert next(iter(other))["id"].tolist() == next(iter(loader))["id"].tolist()


def test_a_batch_stays_what_it_was(snapshot) -> None:
    batches = list(make(snapshot, tensors=["id", "v"], rank=0, world=1))
    ids = np.concatenate([batch["id"] for batch in batches])
    assert ids.tolist() == expected(snapshot)[: len(ids)].tolist()


def test_leaving_early_leaves_nothing(snapshot) -> None:
    for _ in range(3):
        batches = iter(make(snapshot, rank=0, world=1))
        next(batches)
        del batches


def test_an_error_in_the_loop_leaves_nothing(snapshot) -> None:
    def loop() -> None:
        for batch in make(snapshot, rank=0, world=1):
            raise ZeroDivisionError(len(batch))

    with pytest.raises(ZeroDivisionError):
        loop()


def test_a_truncated_shard_reaches_the_loop_by_name(tmp_path: Path) -> None:
    ds = pk.write(table(), tmp_path, "id", shards=2, block_bytes=2000)
    shard = tmp_path / ds.shards[1].file
    shard.write_bytes(shard.read_bytes()[: ds.shards[1].bytes // 2])
    with pytest.raises(CorruptError, match=ds.shards[1].file):
        list(make(ds.snapshot, rank=0, world=1))


def test_a_flipped_byte_is_found_on_the_first_read(tmp_path: Path) -> None:
    ds = pk.write(table(), tmp_path, "id", shards=1, block_bytes=2000)
    offset = int(ds.snapshot.index.buffers[3, 0]["offset"])
    shard = tmp_path / ds.shards[0].file
    data = bytearray(shard.read_bytes())
    data[offset + 5] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptError, match="block 3"):
        list(make(ds.snapshot, rank=0, world=1))


def test_states_of_something_else_are_refused(snapshot) -> None:
    loader = make(snapshot, rank=0, world=1)
    state = loader.state_dict()
    for key, value in (("format", 2), ("fingerprint", "other"), ("seed", 4), ("shuffle", False)):
        with pytest.raises(DatasetError, match=f"another {key}"):
            loader.load_state_dict({**state, key: value})
    loader.load_state_dict(state)


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"batch_size": None},
        {"global_batch_size": 8},
        {"last": "keep"},
        {"lanes": 0},
        {"window": True},
        {"seed": 1.5},
        {"memory": -1},
    ],
)
def test_wrong_settings_are_refused_at_once(snapshot, wrong) -> None:
    with pytest.raises(SelectionError):
        make(snapshot, **wrong)


def test_a_global_batch_is_shared_out(snapshot) -> None:
    loader = make(snapshot, batch_size=None, global_batch_size=60, rank=1, world=3, tensors=["id"])
    assert {len(batch["id"]) for batch in loader} == {20}
    with pytest.raises(SelectionError, match="multiple"):
        len(make(snapshot, batch_size=None, global_batch_size=61, rank=0, world=3))


def test_too_little_memory_is_an_error_that_names_what_would_fit(snapshot) -> None:
    loader = make(snapshot, rank=0, world=1, memory=1000)
    with pytest.raises(SelectionError, match=r"lanes=8 and window=2.*memory=1\.0 kB"):
        next(iter(loader))
    plenty = replace(loader.settings, memory=1 << 30)
    assert next(iter(make(snapshot, rank=0, world=1, memory=plenty.memory)))


def test_a_transform_sees_every_batch(snapshot) -> None:
    loader = make(
        snapshot, rank=0, world=1, tensors=["id"], transform=lambda batch: {"twice": batch["id"] * 2}
    )
    assert next(iter(loader))["twice"].tolist() == (expected(snapshot)[:BATCH] * 2).tolist()


def test_a_resumed_short_last_step_is_shared_out_anew(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"id": np.arange(1920)}), tmp_path, shards=3, block_bytes=1024)
    first = ds.numpy(100, rank=0, world=1, last="short", lanes=64)
    batches = iter(first)
    seen = next(batches)["id"].tolist()
    batches.close()
    for rank in range(3):
        loader = ds.numpy(global_batch_size=192, rank=rank, world=3, last="short", lanes=64)
        loader.load_state_dict(first.state_dict())
        seen += np.concatenate([batch["id"] for batch in loader]).tolist()
    assert sorted(seen) == list(range(1920))


def test_a_gather_that_fails_ends_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = pk.write(pa.table({"id": np.arange(60_000)}), tmp_path, shuffle=False, block_bytes=1600)
    gather, calls = HostArena.gather, iter(range(100))

    def failing(arena: HostArena, runs: object) -> dict:
        if next(calls) == 3:
            raise MemoryError("no room for a batch")
        return gather(arena, runs)

    monkeypatch.setattr(HostArena, "gather", failing)
    with pytest.raises(MemoryError, match="no room"):
        list(ds.numpy(2000, shuffle=False, rank=0, world=1))


def test_a_gather_that_fails_waits_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the one after it gives memory back that the one before it still gathers from."""
    ds = pk.write(pa.table({"a": np.arange(20_000)}), tmp_path / "ds", block_bytes=1024)
    expected = [batch["a"].copy() for batch in ds.numpy(64, seed=3, lanes=4)]
    original, calls, lock = HostArena.gather, [0], threading.Lock()

    def gather(self, runs):
        with lock:
            calls[0] += 1
            turn = calls[0]
        if turn == 5:
            time.sleep(0.5)
        if turn == 6:
            raise ValueError("no")
        return original(self, runs)

    monkeypatch.setattr(HostArena, "gather", gather)
    monkeypatch.setattr(HostArena, "gather_bytes", 64 * 8)
    found, loader = [], iter(ds.numpy(64, seed=3, lanes=4))
    with pytest.raises(ValueError, match="no"):
        found.extend(batch["a"].copy() for batch in loader)
    assert len(found) == 5
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=False))


def test_memory_of_batches_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of it exists than is counted towards `memory`, from one epoch to the next, whatever room they need."""
    monkeypatch.setattr(HostArena, "gather_bytes", 640)
    tell, told = Future.set_result, itertools.count()

    def slow(self: Future, result: object) -> None:
        tell(self, result)
        if next(told) % 25 == 0:
            # As where a thread has no processor for a moment: it is not to hold what it has handed over.
            time.sleep(0.02)

    monkeypatch.setattr(Future, "set_result", slow)
    ds = pk.write(pa.table({"a": np.arange(20_000)}), tmp_path / "ds", block_bytes=1024)
    loader = ds.numpy(10, lanes=4, rank=0, world=1)
    for _ in range(3):
        for _ in loader:
            pass
    assert isinstance(loader._place, HostPlace)
    most = loader._place.costs(loader.settings.threads).gathers
    assert 1 <= len(loader._place._buffers._kept["a"]) <= most
    loader.close()
    assert loader._place._buffers._kept == {}
    for _ in loader:
        pass
    place = loader._place
    assert place._buffers._kept
    del loader
    assert place._buffers._kept == {}, "a loader that is dropped gives back what it kept"


def test_what_cannot_begin_uses_up_no_epoch(snapshot) -> None:
    loader = make(snapshot, rank=0, world=1, memory=1000, tensors=["id"])
    with pytest.raises(SelectionError):
        next(iter(loader))
    loader.settings = replace(loader.settings, memory=None)
    assert next(iter(loader))["id"].tolist() == expected(snapshot)[:BATCH].tolist()


def test_an_epoch_that_is_set_is_what_the_state_tells(snapshot) -> None:
    loader = make(snapshot, rank=0, world=1)
    loader.set_epoch(5)
    assert loader.state_dict()["epoch"] == 5


def test_a_tensor_named_as_the_mask_is_not_overwritten(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"valid": [50, 51]}), tmp_path)
    with pytest.raises(SelectionError, match="'valid'"):
        ds.numpy(4, last="pad")


def test_devices_of_another_kind_are_refused(snapshot) -> None:
    with pytest.raises(DeviceError, match="meta"):
        torch_loader(snapshot, chosen_specs(snapshot, None), Settings(4), "meta")
    assert next(iter(torch_loader(snapshot, chosen_specs(snapshot, ["id"]), Settings(4), None)))


def test_pieces_of_a_window_that_was_never_finished_are_forgotten() -> None:
    slots = RaggedSlots([TensorSpec("r", "int64", (), "ragged")], 1, 20)
    rows = {count: Ragged(np.full(count, count), np.arange(count + 1)) for count in (2, 3, 5, 7)}
    for place, count in ((0, 5), (5, 2)):
        slots.put("r", 0, place, rows[count])
    for place, count in ((0, 7), (7, 3)):
        slots.put("r", 0, place, rows[count])
    slots.finish(0, Need(0, 10, None, (Fetch(0, 0, 7, 0), Fetch(1, 0, 3, 7))))
    whole = slots.gather(Runs(*(np.array([each]) for each in (0, 0, 0, 10)), 1, 0, 10, 0, np.zeros(0)))
    assert whole["r"].values.tolist() == [7] * 7 + [3] * 3
    assert slots._tensors["r"].pieces == [{}]


def test_slots_hold_no_more_of_a_block_than_their_rows(tmp_path: Path) -> None:
    """With fewer blocks than lanes every slot is a small part of one."""
    rows = pa.table({"r": [[row] * 50 for row in range(2000)]})
    ds = pk.write(rows, tmp_path, {"r": pk.ragged("r")}, shards=1)
    loader = ds.numpy(10, rank=0, world=1)
    for _ in loader:
        pass
    ((arena, _),) = loader._kept._held
    values = arena._ragged._tensors["r"]._values
    assert sum(len(each) > 0 for each in values) > 10
    assert all(each.base is None or each.base.nbytes == each.nbytes for each in values)


@pytest.mark.parametrize("cache", [None, "host"])
def test_ragged_batches_stay_as_they_are_while_somebody_holds_them(
    tmp_path: Path, cache: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory of gathers is used again, and only then when nobody holds a batch."""
    monkeypatch.setattr(HostArena, "gather_bytes", 4096)
    rows = pa.table({"r": [[row] * (row % 9) for row in range(3000)]})
    ds = pk.write(rows, tmp_path, {"r": pk.ragged("r")}, shards=2, block_bytes=8192)
    loader = ds.torch(30, rank=0, world=1, lanes=4, cache=cache)
    for _ in range(2):
        held = [batch["r"] for batch in loader]
        lengths = [np.diff(each.offsets.numpy()) for each in held]
        for each, sizes in zip(held, lengths, strict=True):
            values = each.values.numpy()
            assert (sizes == 0).sum() + len(np.split(values, np.cumsum(sizes)[:-1])) >= 30
            assert all((part % 9 == len(part)).all() for part in np.split(values, np.cumsum(sizes)[:-1]))
        assert sorted(np.unique(np.concatenate([each.values.numpy() for each in held])).tolist()) == [
            row for row in range(3000) if row % 9
        ]
