"""Ranks that compare what they read: in threads over stores of every kind, and as processes where some come late."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch.distributed as dist
from several_ranks import finished, free_port, start_ranks

import penstock as pk
from penstock.errors import SelectionError
from penstock.feed import agreement
from penstock.feed.agreement import agree, exchanged
from penstock.feed.world import World

WAITING = Path(__file__).parent / "waiting_rank.py"
WORLD = 3

Stores = Callable[[], dist.Store]


@pytest.fixture(params=["hash", "file", "tcp"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    """Each call a rank's way to the same store."""
    if request.param == "hash":
        store = dist.HashStore()
        yield lambda: store
    elif request.param == "file":
        yield lambda: dist.FileStore(str(tmp_path / "store"), WORLD)
    else:
        server = dist.TCPStore("127.0.0.1", 0, is_master=True)
        yield lambda: dist.TCPStore("127.0.0.1", server.port)


def together(stores: Stores, says: Callable[[int], dict]) -> list[list[dict]]:
    """What each rank hears when all of them begin a loader."""
    with ThreadPoolExecutor(WORLD) as pool:
        asked = [pool.submit(exchanged, stores(), says(rank), World(rank, WORLD)) for rank in range(WORLD)]
        return [each.result(timeout=30) for each in asked]


def test_every_rank_hears_all_of_them_each_time(stores: Stores) -> None:
    for turn in range(4):
        heard = together(stores, lambda rank, turn=turn: {"turn": turn, "rank": rank, "t": np.int64(1)})
        assert heard == [[{"turn": turn, "rank": rank, "t": 1} for rank in range(WORLD)]] * WORLD


def test_the_store_does_not_fill_up(stores: Stores) -> None:
    together(stores, lambda rank: {"rank": rank})
    together(stores, lambda rank: {"rank": rank})
    kept = stores().num_keys()
    for _ in range(5):
        together(stores, lambda rank: {"rank": rank})
    assert stores().num_keys() == kept


def test_ranks_that_left_a_turn_do_not_mix_it_up_with_the_next() -> None:
    """Rank 0 gave up; what the others begin meets what it had begun, whose difference shows, and nobody hangs."""
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=0.05))
    with pytest.raises(SelectionError, match="waited 0 s for ranks 1, 2: "):
        exchanged(store, {"seed": 0}, World(0, WORLD))
    store.set_timeout(timedelta(seconds=30))
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(exchanged, store, {"seed": 1}, World(rank, WORLD)) for rank in (1, 2)]
        assert [each.result(timeout=30) for each in asked] == [[{"seed": 0}, {"seed": 1}, {"seed": 1}]] * 2


def test_who_waits_can_be_interrupted(ctrl_c: None) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        exchanged(dist.HashStore(), {"seed": 0}, World(0, 2))
    timer.join()


def test_many_ranks_that_are_missing_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = dist.HashStore()
    monkeypatch.setattr(agreement, "PATIENCE", 0.05)
    store.set_timeout(timedelta(seconds=0.2))
    with (
        pytest.warns(UserWarning, match=r"for ranks 0, 1, 2, .*, 11 and 243 more: .* Waiting until 0 s"),
        pytest.raises(SelectionError, match="rank 255 of 256 has begun"),
    ):
        exchanged(store, {"seed": 0}, World(255, 256))


def test_a_group_without_a_store_that_works_compares_all_the_same() -> None:
    """Its collectives give back what they were given."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
    try:
        assert agreement._store() is None
        agree({"seed": 0}, World(1, 4))
    finally:
        dist.destroy_process_group()


@pytest.mark.timeout(120)
def test_a_rank_that_waits_for_others_says_so(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"id": np.arange(900)}), tmp_path / "ds", shards=1)
    done = finished(start_ranks(WORLD, WAITING, ds.path, str(tmp_path), str(free_port())))
    assert [each.returncode for each in done] == [0] * WORLD, done[0].stderr
    told = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(WORLD)]
    assert [each["late"] for each in told] == ["no error"] * WORLD
    (warning,) = told[0]["warnings"]
    assert warning["text"].startswith("rank 0 of 3 has begun a loader and waited ")
    assert " s for ranks 1, 2: ranks of a process group compare " in warning["text"]
    assert " takes rank=0, world=1" in warning["text"]
    assert Path(warning["file"]).name == "disagreeing_rank.py", "whose loop it is"
    assert told[1]["warnings"] == told[2]["warnings"] == []
    assert told[0]["never"].startswith("SelectionError: rank 0 of 3 has begun a loader and waited ")
    assert " takes rank=0, world=1" in told[0]["never"]
    for rank in (1, 2):
        assert "rank 0 do not read the same: seed: 1 here, 0 there" in told[rank]["other"]
    assert [each["again"] for each in told] == ["no error"] * WORLD, "a new process group counts anew"
