"""A transform is called once per step, in the order of steps, just in time, however many steps are gathered at once."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import host_calls
import numpy as np
import pyarrow as pa
import pytest
import torch
from left_behind import strangers
from slow_writes import Writing, numbered

import penstock as pk
from penstock.feed.loader import Loader
from penstock.feed.loaders import chosen_specs, numpy_loader, shaping
from penstock.feed.places import CudaPlace
from penstock.feed.settings import Settings

ROWS, BATCH = 5000, 10
Log = list[tuple[Any, ...]]


class NotedCalls(host_calls.HostCalls):
    """Notes what the consumer's thread asks of streams, in its order; readers ask for copies meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.log: Log = []
        self._consumer = threading.get_ident()

    def record(self, event: Any, stream: Any) -> None:
        super().record(event, stream)
        self._note("record", event, stream)

    def wait(self, stream: Any, event: Any) -> None:
        super().wait(stream, event)
        self._note("wait", event, stream)

    def _note(self, *asked: Any) -> None:
        if threading.get_ident() == self._consumer:
            self.log.append(asked)


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[NotedCalls]:
    found = NotedCalls()
    with found.instead_of_cuda(monkeypatch):
        yield found


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    rows = {"id": np.arange(ROWS), "tokens": [list(range(row % 5)) for row in range(ROWS)]}
    tensors = {"id": "id", "tokens": pk.ragged("tokens")}
    return pk.write(pa.table(rows), tmp_path_factory.mktemp("transform"), tensors, block_bytes=5000)


def on_the_host(ds: pk.Dataset, settings: Settings) -> Loader:
    return numpy_loader(ds.snapshot, chosen_specs(ds.snapshot, None), settings)


def on_the_device(ds: pk.Dataset, settings: Settings) -> Loader:
    specs = chosen_specs(ds.snapshot, None)
    place = CudaPlace(ds.snapshot, specs, None, shaping(specs, settings), host_calls.CPU)
    return Loader(ds.snapshot, specs, settings, place)


PLACES = [pytest.param(on_the_host, 0, id="host"), pytest.param(on_the_device, 1, id="device")]
Make = Callable[[pk.Dataset, Settings], Loader]


def made(make: Make, ds: pk.Dataset, transform: Any, **settings: Any) -> Loader:
    given = {"batch_size": BATCH, "lanes": 4, "rank": 0, "world": 1, "transform": transform, **settings}
    return make(ds, Settings(**given))


@pytest.mark.parametrize(("make", "ahead"), PLACES)
@pytest.mark.parametrize("last", ["drop", "pad"])
def test_it_is_called_once_a_step_in_order_and_just_in_time(
    ds: pk.Dataset, make: Make, ahead: int, last: str
) -> None:
    seen: list[list[int]] = []

    def transform(batch: dict[str, Any]) -> dict[str, Any]:
        seen.append(batch["id"].tolist())
        return {"twice": batch["id"] * 2}

    loader = made(make, ds, transform, last=last)
    plain = made(make, ds, None, last=last)
    for _ in range(2):
        seen.clear()
        for step, (batch, raw) in enumerate(zip(loader, plain, strict=True)):
            assert len(seen) == min(step + 1 + ahead, ROWS // BATCH)
            assert seen[step] == raw["id"].tolist()
            assert batch["twice"].tolist() == (raw["id"] * 2).tolist()
        assert len(seen) == ROWS // BATCH


@pytest.mark.parametrize(("make", "ahead"), PLACES)
@pytest.mark.parametrize("bad", [0, 1, 7, ROWS // BATCH - 1])
def test_an_error_comes_after_the_steps_before_it(ds: pk.Dataset, make: Make, ahead: int, bad: int) -> None:
    calls = iter(range(ROWS))

    def transform(batch: dict[str, Any]) -> dict[str, Any]:
        if next(calls) == bad:
            raise ZeroDivisionError("in the transform")
        return batch

    loader, found = made(make, ds, transform), list[Any]()
    with pytest.raises(ZeroDivisionError, match="in the transform"):
        found.extend(loader)
    assert len(found) == bad == loader.stats.steps
    assert loader.state_dict()["t"] == bad * BATCH
    assert strangers() == []


@pytest.mark.parametrize(("make", "ahead"), PLACES)
@pytest.mark.parametrize("ends", ["left", "left before an error", "error", "whole"])
def test_however_it_ends_nothing_is_held_before_the_collector_comes(
    ds: pk.Dataset, make: Make, ahead: int, ends: str
) -> None:
    calls, held = iter(range(ROWS)), list[weakref.ref[torch.Tensor]]()

    def transform(batch: dict[str, Any]) -> dict[str, Any]:
        if next(calls) == 5 and "error" in ends:
            raise ZeroDivisionError
        batch = {"made": torch.as_tensor(batch["id"]) + 1}
        held.append(weakref.ref(batch["made"]))
        return batch

    loader = made(make, ds, transform)
    gc.collect()
    gc.disable()
    try:
        batches = iter(loader)
        for _ in range(5):
            batch = next(batches)
            assert sum(each() is not None for each in held) <= 1 + ahead + 1
        held.append(weakref.ref(batches.gi_frame.f_locals["epoch"]))
        if ends == "error":
            with pytest.raises(ZeroDivisionError):
                next(batches)
        if ends == "whole":
            batch = list(batches)[-1]
            assert not getattr(loader._kept._held[0][0], "_under_way", None)
        del batch
        batches.close()
        del batches
        assert not any(each() is not None for each in held)
        loader.close()
    finally:
        gc.enable()


def test_a_step_is_handed_over_after_its_own_event_and_transformed_one_ahead(
    ds: pk.Dataset, calls: NotedCalls
) -> None:
    """What the consumer's stream waits for was recorded on the gathering one behind the step's transform."""

    def transform(batch: dict[str, Any]) -> dict[str, Any]:
        calls.log.append(("transform", calls.current()))
        return {"id": batch["id"] + 1}

    loader = made(on_the_device, ds, transform)
    for _ in loader:
        calls.log.append(("taken",))
    kinds = [each[0] for each in calls.log]
    transforms = [place for place, kind in enumerate(kinds) if kind == "transform"]
    (side,) = {calls.log[place][1] for place in transforms}
    assert side != calls.current()
    # Right behind the transform, so that nothing of the next step is waited for.
    begun = [calls.log[place + 1] for place in transforms]
    assert all(kind == "record" and stream is side for kind, _, stream in begun)
    waited = [
        place for place, each in enumerate(calls.log) if each[0] == "wait" and each[2] == calls.current()
    ]
    assert [calls.log[place][1] for place in waited] == [event for _, event, _ in begun]
    steps = ROWS // BATCH
    for step, place in enumerate(waited):
        assert kinds[:place].count("transform") == min(step + 2, steps)
        assert kinds[:place].count("taken") == step
    assert len(waited) == steps


def test_time_in_a_transform_is_no_wait_while_a_write_is_followed(tmp_path: Path) -> None:
    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.02)
        return batch

    Writing(tmp_path / "ds", numbered(2)).join()
    loader = pk.open(tmp_path / "ds", follow=True).numpy(50, transform=slow)
    for step, _ in enumerate(loader, 1):
        assert 0.02 * step <= loader.stats.transforming
        assert loader.stats.waited + loader.stats.transforming <= loader.stats.seconds


def test_without_a_transform_gathers_are_handed_over_as_a_whole(ds: pk.Dataset, calls: NotedCalls) -> None:
    for _ in made(on_the_device, ds, None, batch_size=1000):
        pass
    assert sum(each[0] == "wait" and each[2] == calls.current() for each in calls.log) < 5
