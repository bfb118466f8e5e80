"""Whether all ranks are about to read the same: asked once by every loader, where a torch process group exists.

Ranks compare through the store of keys and values that the group met by, and not by a collective: who waits can say for
whom, and no GPU takes part, which under NCCL might be another than the loader's. `world` says which rank this is.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any

from penstock.errors import SelectionError
from penstock.feed.world import World, torch_world

PATIENCE = 20.0
"""Seconds until a rank that waits for others says so."""
LONGEST = 1800.0
"""Seconds until it gives up, where the store tells no timeout."""
LEAVING = 5.0
"""Seconds that rank 0 stays for those that still read: the store is mostly its process's, which may end next."""
PAUSES = 0.001, 0.1
"""Between looks at the store: the first, and the longest. 256 ranks that wait ask it some 2,500 times a second."""
SHOWN = 12
"""Ranks that a message names."""

Told = dict[str, Any]


def agree(mine: Mapping[str, Any], world: World) -> None:
    """Compare what every rank is about to do, where a torch process group exists; differences are an error."""
    if world.size == 1 or torch_world() is None:
        return
    store = _store()
    theirs = _gathered(mine, world) if store is None else exchanged(store, mine, world)
    for rank, each in enumerate(theirs):
        different = [key for key in mine if each.get(key) != mine[key]]
        if different:
            told = "; ".join(f"{key}: {mine[key]!r} here, {each.get(key)!r} there" for key in different)
            raise SelectionError(
                f"rank {world.rank} and rank {rank} do not read the same: {told}. Give all ranks the same dataset, "
                "seed, batch size and state, and begin the same loaders on all of them in the same order; a loader "
                "for one rank alone takes rank=0, world=1."
            )


def _store() -> Any:
    """The store of the process group, under a prefix of our own; None where torch shows none that works."""
    torch = sys.modules["torch"]
    try:
        found = torch.distributed.distributed_c10d._get_default_store()
        store = torch.distributed.PrefixStore("penstock", found)
        store.add("here", 0)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    except RuntimeError as error:
        # MPI and the fake backend have one without any methods; a store that cannot be reached is another matter.
        if "pure virtual" in str(error):
            return None
        raise
    return store


def _gathered(mine: Mapping[str, Any], world: World) -> list[Told]:
    """By a collective."""
    theirs: list[Told | None] = [None] * world.size
    sys.modules["torch"].distributed.all_gather_object(theirs, dict(mine))
    return [each or {} for each in theirs]


def exchanged(store: Any, mine: Mapping[str, Any], world: World) -> list[Told]:
    """What all ranks say in this turn, by rank; waits for those that have not said it.

    Turns are counted in the store, a count for each rank, so they begin anew with a new store, and go on where a new
    process group meets by an old one, as under torchrun. Ranks that begin other loaders, or in another order, meet in
    one turn, and find that they differ. A rank asks the store some eight times, whatever the number of ranks, beside
    the looks while it waits; one answer has what all of them said, 64 kB with 256 ranks.
    """
    turn = store.add(f"turns/{world.rank}", 1)
    store.set(_key(turn, world.rank), json.dumps(dict(mine), default=int))
    store.add(f"{turn}/came", 1)
    _wait(store, turn, world)
    found = [json.loads(each) for each in store.multi_get([_key(turn, rank) for rank in range(world.size)])]
    # All have come to this turn, so nobody reads the one before any more.
    store.delete_key(_key(turn - 1, world.rank))
    store.add(f"{turn}/read", 1)
    if world.rank == 0:
        for name in ("came", "read"):
            store.delete_key(f"{turn - 1}/{name}")
        until, pause = time.monotonic() + LEAVING, PAUSES[0]
        while store.add(f"{turn}/read", 0) < world.size and time.monotonic() < until:
            pause = _paused(pause)
    return found


def _key(turn: int, rank: int) -> str:
    return f"{turn}/rank/{rank}"


def _wait(store: Any, turn: int, world: World) -> None:
    """Return when all ranks have come to this turn."""
    timeout = getattr(store, "timeout", None)
    longest = timeout.total_seconds() if timeout else LONGEST
    began, pause, warned = time.monotonic(), PAUSES[0], False
    # Looks, and no wait in the store: that would hold up a Ctrl-C, and torch's own threads, which use it too.
    while store.add(f"{turn}/came", 0) < world.size:
        waited = time.monotonic() - began
        if waited > longest:
            raise SelectionError(_told(store, turn, world, waited))
        if waited > PATIENCE and not warned:
            warnings.warn(
                f"{_told(store, turn, world, waited)} Waiting until {longest:,.0f} s have passed.",
                stacklevel=5,  # the loop over the loader
            )
            warned = True
        pause = _paused(pause)


def _paused(pause: float) -> float:
    time.sleep(pause)
    return min(2 * pause, PAUSES[1])


def _told(store: Any, turn: int, world: World, waited: float) -> str:
    missing = [str(rank) for rank in range(world.size) if not store.check([_key(turn, rank)])]
    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    ranks = f"rank{'s' * (len(missing) != 1)} {', '.join(missing[:SHOWN])}{more}" if missing else "the last"
    return (
        f"rank {world.rank} of {world.size} has begun a loader and waited {waited:,.0f} s for {ranks}: ranks of a "
        "process group compare what they read before the first batch. Begin the same loaders on all ranks, in the same "
        "order. A loader for one rank alone takes rank=0, world=1, such as ds.torch(..., rank=0, world=1)."
    )
