"""What a GPU's arena goes through that no loader is sure to come to; as `cuda_scenarios`, and run with those."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
from cuda_scenarios import PLAIN, Scenario, expected, loader_on, same
from host_calls import CPU, HostCalls

import penstock as pk
from penstock.feed.cuda.arena import CudaArena
from penstock.feed.cuda.sends import Sends
from penstock.feed.memory.arena import Room
from penstock.feed.plan.route import Fetch
from penstock.feed.reading.source import RowSource


def bring(arena: CudaArena, reader: int, slot: int, source: RowSource, fetch: Fetch) -> None:
    for part in fetch.parts(arena.most_rows):
        source.read(part, arena.views(reader, slot, part))
        arena.landed(reader, slot, part)


def kept_by_another_arena(calls: HostCalls, ds: pk.Dataset) -> None:
    """The cache was filled by an arena whose streams this one knows nothing of."""
    settings = replace(PLAIN, cache="device")
    loader, host = loader_on(ds, settings, ["id", "v"]), expected(ds, PLAIN, ["id", "v"])
    first, second = (loader._place.arena(Room(64, 1000, 8), None) for _ in range(2))
    note = first._cache.landed

    def landed(fetch: Fetch) -> None:
        assert not calls.late, "whoever looks may find it from now on"
        note(fetch)

    first._cache.landed = landed
    with closing(RowSource(ds.snapshot, loader.specs, None)) as source:
        for block in range(len(ds.snapshot.index)):
            wanted = first.wanted(Fetch(block, 0, 1, 0))
            bring(first, 0, 0, source, wanted)
            first.kept(0, wanted)
    loader._kept.put(second)
    for mine, theirs in zip(loader, host, strict=True):
        calls.use(mine)
        same(mine, theirs)
    assert loader.stats.bytes_read == 0
    loader.close()
    first.close()


def slots_after_rest(calls: HostCalls, ds: pk.Dataset) -> None:
    """A window that was never whole is overwritten by another reader, in the next epoch."""
    loader = loader_on(ds, PLAIN, ["id", "v"])
    arena = loader._place.arena(Room(2, 1000, 8), None)
    with closing(RowSource(ds.snapshot, loader.specs, None)) as source:
        bring(arena, 0, 1, source, Fetch(0, 0, 20, 0))
        arena.rest()
        bring(arena, 1, 1, source, Fetch(1, 0, 20, 0))
    arena.close()


def tables(calls: HostCalls, ds: pk.Dataset) -> None:
    """Tables that grow while others are on their way; sent by who has another stream."""
    stream = calls.stream()
    sends = Sends(calls, stream, CPU)
    with calls.on(calls.default):
        for size in (3, 2, 5, 9, 4, 6, 20, 30, 40, 100):
            found = sends(np.arange(size))
            with calls.on(stream):
                assert (found + 1).tolist() == list(range(1, size + 1))
            del found
    calls.settle()


SCENARIOS: list[Scenario] = [kept_by_another_arena, slots_after_rest, tables]
