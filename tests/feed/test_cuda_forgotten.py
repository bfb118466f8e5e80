"""Whatever puts a GPU's streams in order is needed: each such call, forgotten, is noticed where there is no GPU too."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import arena_scenarios as arenas
import cuda_scenarios as plain
import pytest
import transform_scenarios as transformed
from host_calls import HostCalls

import penstock as pk
import penstock.feed

FEED = str(Path(penstock.feed.__file__).parent)
ASKS_FOR_OTHERS = {
    "CudaArena.beside",
    "CudaArena._give",
    "CudaArena.hand_over",
    "Stage.begin",
    "Stage.copied",
    "Stage.follow",
    "Stage.settle",
}
"""Whose calls count as their callers'."""
Site = tuple[str, str]
"""A call, and the function that makes it."""


class ForgetfulCalls(HostCalls):
    """Does not do what one function asks for."""

    def __init__(self, forgotten: Site | None) -> None:
        super().__init__()
        self._forgotten = forgotten
        self.sites: set[Site] = set()

    def _forgets(self, name: str) -> bool:
        frame: Any = sys._getframe(2)
        if not frame.f_code.co_filename.startswith(FEED):
            return False
        while frame.f_code.co_qualname in ASKS_FOR_OTHERS:
            frame = frame.f_back
        site = name, frame.f_code.co_qualname
        self.sites.add(site)
        return site == self._forgotten

    def enter(self) -> None:
        if not self._forgets("enter"):
            super().enter()

    def on(self, stream: Any) -> AbstractContextManager[None]:
        return nullcontext() if self._forgets("on") else super().on(stream)

    def record(self, event: Any, stream: Any) -> None:
        if not self._forgets("record"):
            super().record(event, stream)

    def wait(self, stream: Any, event: Any) -> None:
        if not self._forgets("wait"):
            super().wait(stream, event)

    def synchronize(self, event: Any) -> None:
        if not self._forgets("synchronize"):
            super().synchronize(event)

    def settle(self) -> None:
        if not self._forgets("settle"):
            super().settle()

    def uses(self, stream: Any, tensor: Any) -> None:
        if not self._forgets("uses"):
            super().uses(stream, tensor)


NOTICED: dict[Site, plain.Scenario] = {
    ("enter", "Stage.enter"): plain.streamed,
    ("settle", "CudaArena.__init__"): plain.streamed,
    ("settle", "CudaArena.close"): arenas.slots_after_rest,
    ("on", "CudaArena.begin"): plain.cached_on_the_device,
    ("on", "CudaArena.rest"): plain.streamed,
    ("on", "Epoch._begin"): plain.streamed,
    ("on", "Finisher._made"): transformed.new_tensors,
    ("on", "CudaArena.meet"): transformed.what_was_made_before_the_epoch,
    ("record", "CudaArena.meet"): transformed.what_was_made_before_the_epoch,
    ("wait", "CudaArena.meet"): transformed.what_was_made_before_the_epoch,
    # Readers: what they read, what they overwrite.
    ("synchronize", "Stage.bring"): plain.streamed,
    ("synchronize", "CudaArena.views"): plain.streamed,
    ("record", "Stage.bring"): plain.streamed,
    ("record", "CudaArena.landed"): plain.streamed,
    ("wait", "CudaArena.bring"): plain.streamed,
    ("wait", "CudaArena.landed"): plain.streamed,
    ("wait", "CudaArena.gather"): plain.streamed,
    ("record", "CudaArena.gather"): plain.streamed,
    ("synchronize", "CudaArena.kept"): arenas.kept_by_another_arena,
    ("synchronize", "CudaArena.rest"): arenas.slots_after_rest,
    # The tables of gathers.
    ("synchronize", "Sends.__call__"): plain.streamed,
    ("record", "Sends.__call__"): plain.streamed,
    ("synchronize", "Sends._grow"): arenas.tables,
    ("on", "Sends._grow"): arenas.tables,
    # The consumer.
    ("record", "CudaArena.begun"): plain.streamed,
    ("wait", "Epoch._handed_over"): plain.streamed,
    ("uses", "Epoch._handed_over"): plain.streamed,
    ("wait", "Finisher._handed_over"): transformed.new_tensors,
    ("uses", "Finisher._handed_over"): transformed.new_tensors,
    ("wait", "CudaArena.follow"): plain.another_stream,
    ("uses", "CudaArena.follow"): plain.another_stream,
}


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pk.Dataset]:
    yield plain.written(tmp_path_factory.mktemp("forgotten"))
    gc.collect()  # what failed knows iterators that were left midway, and those have files open


@pytest.mark.parametrize("forgotten", NOTICED, ids=": ".join)
def test_a_forgotten_call_is_noticed(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch, forgotten: Site
) -> None:
    plain.small(monkeypatch)
    calls = ForgetfulCalls(forgotten)
    with pytest.raises(AssertionError), calls.instead_of_cuda(monkeypatch):
        NOTICED[forgotten](calls, ds)
    assert forgotten in calls.sites
    assert calls.races


def test_these_are_all_calls_there_are(ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    plain.small(monkeypatch)
    found: set[Site] = set()
    for scenario in dict.fromkeys(NOTICED.values()):
        calls = ForgetfulCalls(None)
        with calls.instead_of_cuda(monkeypatch):
            scenario(calls, ds)
        found |= calls.sites
    assert found == set(NOTICED)
