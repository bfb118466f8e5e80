"""Which rank this process is, of how many: from the arguments, torch.distributed, JAX, or the launcher's environment.

Looked up when the first batch is asked for and not before, because some trainers build loaders before the group exists.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import SelectionError


@dataclass(frozen=True)
class World:
    """This process's rank among all.

    >>> World(1, 4)
    World(rank=1, size=4)
    """

    rank: int = 0
    size: int = 1

    def __post_init__(self) -> None:
        if not (isinstance(self.rank, int) and isinstance(self.size, int) and 0 <= self.rank < self.size):
            raise SelectionError(
                f"rank={self.rank!r} of world={self.size!r}: ranks are whole numbers from 0 to world - 1."
            )


def find_world(
    rank: int | None = None, world: int | None = None, environment: Mapping[str, str] | None = None
) -> World:
    """The world as said, or as found, or this process alone; two sources that disagree are an error.

    >>> find_world(environment={"RANK": "2", "WORLD_SIZE": "4"})
    World(rank=2, size=4)
    """
    return told_world(rank, world, environment) or World()


def told_world(
    rank: int | None = None, world: int | None = None, environment: Mapping[str, str] | None = None
) -> World | None:
    """The world, where anything tells it by now; a process group may still come.

    >>> told_world(environment={}), told_world(0, 1, environment={})
    (None, World(rank=0, size=1))
    """
    if (rank is None) != (world is None):
        raise SelectionError(f"rank={rank} and world={world}: pass both, or neither.")
    if rank is not None and world is not None:
        return World(rank, world)
    given = os.environ if environment is None else environment
    found = {
        name: each
        for name, each in (
            ("torch.distributed", torch_world() if environment is None else None),
            ("jax", _jax() if environment is None else None),
            ("RANK and WORLD_SIZE", _launcher(given)),
            ("TF_CONFIG", _tensorflow(given)),
        )
        if each is not None
    }
    different = set(found.values())
    if len(different) > 1:
        told = "; ".join(f"{name} says rank {each.rank} of {each.size}" for name, each in found.items())
        raise SelectionError(f"the sources of rank and world disagree: {told}. Pass rank= and world=.")
    return different.pop() if different else None


def torch_world() -> World | None:
    """As torch's process group says, where there is one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    return World(torch.distributed.get_rank(), torch.distributed.get_world_size())


def _jax() -> World | None:
    distributed = getattr(sys.modules.get("jax"), "distributed", None)
    if distributed is None or not distributed.is_initialized():
        return None
    jax = sys.modules["jax"]
    return World(jax.process_index(), jax.process_count())


def _launcher(environment: Mapping[str, str]) -> World | None:
    rank, size = environment.get("RANK"), environment.get("WORLD_SIZE")
    if rank is None or size is None:
        return None
    try:
        return World(int(rank), int(size))
    except ValueError:
        raise SelectionError(f"RANK={rank!r} and WORLD_SIZE={size!r} are not whole numbers.") from None


def _tensorflow(environment: Mapping[str, str]) -> World | None:
    """Chief first, then the workers, as MultiWorkerMirroredStrategy numbers them."""
    text = environment.get("TF_CONFIG")
    if not text:
        return None
    try:
        found = json.loads(text)
        cluster, task = found.get("cluster", {}), found.get("task", {})
        sizes = {kind: len(cluster.get(kind, [])) for kind in ("chief", "worker")}
        kind, index = task.get("type", "worker"), int(task.get("index", 0))
    except (ValueError, AttributeError, TypeError) as error:
        raise SelectionError(f"TF_CONFIG cannot be read ({error}): {text!r:.200}") from None
    # With parameter servers there is one coordinator, which reads for all; its workers run what it tells them.
    if kind not in sizes or not sum(sizes.values()) or cluster.get("ps"):
        return None
    return World(index + (sizes["chief"] if kind == "worker" else 0), sum(sizes.values()))


def ranks_here(world: int | None, environment: Mapping[str, str] | None = None) -> int:
    """How many ranks of such a world share this machine, as far as the launcher tells. None: a world of any size.

    >>> (
    ...     ranks_here(16, {"LOCAL_WORLD_SIZE": "8"}),
    ...     ranks_here(1, {"LOCAL_WORLD_SIZE": "8"}),
    ...     ranks_here(16, {}),
    ...     ranks_here(None, {"LOCAL_WORLD_SIZE": "8"}),
    ... )
    (8, 1, 1, 8)
    """
    told = (os.environ if environment is None else environment).get("LOCAL_WORLD_SIZE", "")
    ranks = int(told) if told.isdigit() else 1
    return max(ranks if world is None else min(ranks, world), 1)


def refuse_worker_processes() -> None:
    """A loader reads with threads of its own; inside worker processes of a DataLoader every row would come twice."""
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data is not None else None
    if worker is not None:
        raise SelectionError(
            f"this is worker {worker.id} of {worker.num_workers} of a torch DataLoader, and the loader reads with "
            "threads of its own. Iterate it directly: `for batch in ds.torch(batch_size=...)`; or pass num_workers=0."
        )
