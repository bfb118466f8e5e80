"""What loaders go through whose batches are transformed beside the training; as `cuda_scenarios`, run with those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from cuda_scenarios import PLAIN, Scenario, expected, loader_on
from host_calls import HostCalls

import penstock as pk
from penstock.feed.settings import Settings

NAMES = ["id", "v"]
Batch = dict[str, Any]


def transformed(
    calls: HostCalls,
    ds: pk.Dataset,
    transform: Callable[[Batch], Any],
    wanted: Callable[[Batch], list[Any]],
    tensors: Callable[[Any], list[torch.Tensor]],
    settings: Settings = PLAIN,
) -> None:
    """`wanted`: what comes of a batch on the host; `tensors`: the same of what the transform returned."""
    calls.twice = settings.cache == "device"
    loader = loader_on(ds, replace(settings, transform=transform), NAMES)
    host = expected(ds, settings, NAMES)
    for _ in range(3):
        for batch, theirs in zip(loader, host, strict=True):
            found = tensors(batch)
            calls.use(found)
            assert all(map(np.array_equal, [each.numpy() for each in found], wanted(theirs)))
            del batch, found


def new_tensors(calls: HostCalls, ds: pk.Dataset) -> None:
    for settings in (PLAIN, replace(PLAIN, cache="device"), replace(PLAIN, last="pad")):
        transformed(
            calls,
            ds,
            lambda batch: {"twice": batch["id"] * 2, "sum": batch["v"].sum(1)},
            lambda batch: [batch["id"] * 2],
            lambda batch: [batch["twice"], batch["sum"]][:1],
            settings,
        )


def views(calls: HostCalls, ds: pk.Dataset) -> None:
    transformed(
        calls,
        ds,
        lambda batch: (batch["id"][1:], batch["v"].t()),
        lambda batch: [batch["id"][1:], batch["v"].T],
        list,
    )


def tensors_in_whatever_holds_them(calls: HostCalls, ds: pk.Dataset) -> None:
    def transform(batch: Batch) -> Any:
        return SimpleNamespace(deep=[{"a": batch["id"] + 1}, (batch["v"] * 2, "text")])

    transformed(
        calls,
        ds,
        transform,
        lambda batch: [batch["id"] + 1, batch["v"] * 2],
        lambda made: [made.deep[0]["a"], made.deep[1][0]],
    )


def batches_held_across_steps(calls: HostCalls, ds: pk.Dataset) -> None:
    """Each comes with the one before, whose memory was let go meanwhile by who trains."""
    before: list[Batch] = []

    def transform(batch: Batch) -> Batch:
        last = before.pop() if before else batch
        before.append(batch)
        return {"id": batch["id"], "last": last["v"] + 0}

    transformed(
        calls, ds, transform, lambda batch: [batch["id"]], lambda made: [made["id"], made["last"]][:1]
    )


def changed_in_place(calls: HostCalls, ds: pk.Dataset) -> None:
    def transform(batch: Batch) -> Batch:
        batch["v"].mul_(2)
        return batch

    transformed(calls, ds, transform, lambda batch: [batch["v"] * 2], lambda made: [made["v"]])


def error_in_a_transform(calls: HostCalls, ds: pk.Dataset) -> None:
    """The steps before it are handed out; the next epoch has an arena of its own."""
    steps = iter(range(1000))

    def transform(batch: Batch) -> Batch:
        if next(steps) == 7:
            raise ZeroDivisionError
        return {"id": batch["id"] + 0}

    loader = loader_on(ds, replace(PLAIN, transform=transform), NAMES)
    held = []
    try:
        for batch in loader:
            calls.use(batch)
            held.append(batch)
    except ZeroDivisionError:
        pass
    assert len(held) == 7
    for batch in loader:
        calls.use(batch)
    calls.use(held)


def taken_on_other_streams(calls: HostCalls, ds: pk.Dataset) -> None:
    loader = loader_on(ds, replace(PLAIN, transform=lambda batch: {"id": batch["id"] + 1}), NAMES)
    streams, batches = [calls.stream(), calls.stream()], iter(loader)
    for step in range(len(loader)):
        with calls.on(streams[step % 2]):
            batch = next(batches)
            calls.use(batch)
            del batch


def what_was_made_before_the_epoch(calls: HostCalls, ds: pk.Dataset) -> None:
    """A transform uses what the training made before the loop, in every epoch anew."""
    made: list[torch.Tensor] = []
    loader = loader_on(ds, replace(PLAIN, transform=lambda batch: {"id": batch["id"] * made[-1]}), NAMES)
    for epoch in range(3):
        made.append(torch.ones((), dtype=torch.int64) * epoch)
        for batch in loader:
            calls.use(batch)


SCENARIOS: list[Scenario] = [
    new_tensors,
    views,
    tensors_in_whatever_holds_them,
    batches_held_across_steps,
    changed_in_place,
    error_in_a_transform,
    taken_on_other_streams,
    what_was_made_before_the_epoch,
]
