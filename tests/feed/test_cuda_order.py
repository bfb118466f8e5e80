"""On a GPU's streams all that the feed does is in order: run without one, through calls that notice what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from arena_scenarios import SCENARIOS as OF_ARENAS
from cuda_scenarios import PLAIN, SCENARIOS, Scenario, epochs, small, written
from host_calls import HostCalls
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transform_scenarios import SCENARIOS as TRANSFORMED

import penstock as pk


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    return written(tmp_path_factory.mktemp("order"))


@pytest.mark.parametrize("scenario", SCENARIOS + TRANSFORMED + OF_ARENAS, ids=lambda each: each.__name__)
def test_all_is_in_order(ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> None:
    small(monkeypatch)
    calls = HostCalls()
    with calls.instead_of_cuda(monkeypatch):
        scenario(calls, ds)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batch=st.integers(1, 300),
    lanes=st.integers(1, 9),
    window=st.integers(1, 3),
    threads=st.integers(1, 4),
    world=st.integers(1, 5),
    last=st.sampled_from(["drop", "short", "pad"]),
    shuffle=st.booleans(),
    verify=st.booleans(),
    stage=st.sampled_from([40, 333, 1000, 4096]),
    gather=st.sampled_from([100, 3000, 1 << 20]),
)
def test_whatever_the_sizes(
    ds: pk.Dataset,
    batch: int,
    lanes: int,
    window: int,
    threads: int,
    world: int,
    last: str,
    shuffle: bool,
    verify: bool,
    stage: int,
    gather: int,
) -> None:
    asked = replace(PLAIN, batch_size=batch, lanes=lanes, window=window, threads=threads, world=world)
    calls = HostCalls()
    with pytest.MonkeyPatch.context() as monkeypatch:
        small(monkeypatch, stage, gather)
        with calls.instead_of_cuda(monkeypatch):
            epochs(calls, ds, replace(asked, last=last, shuffle=shuffle, verify=verify), ["id", "v", "b"])
