"""`checkpoint` and `restore` (exposed as `penstock.checkpoint` and `penstock.restore`): a training that can be
killed.

Model, optimizer and loader are kept together or not at all, so that a restored training has seen exactly the rows
that its weights have seen. `folder` makes each one atomic; `states` turns objects into files.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import CheckpointError
from penstock.feed.checkpoint.folder import (
    Found,
    checkpoints,
    contents,
    local_folder,
    prune,
    writing,
)
from penstock.feed.checkpoint.states import is_json, load, save
from penstock.feed.world import World, find_world


@dataclass(frozen=True)
class Restored:
    """What `restore` found; false where there was nothing, with the values of a training that has not begun.

    >>> bool(Restored()), Restored().step, Restored().epoch
    (False, 0, 0)
    """

    step: int = 0
    extra: Any = None
    epoch: int = 0
    """The epoch that the loader goes on in, where one was kept."""
    path: Path | None = None
    model: Any = None
    """What was given as model; where that holds arrays or tensors, with those of the checkpoint instead."""
    optimizer: Any = None
    loader: Any = None

    def __bool__(self) -> bool:
        return self.path is not None


def checkpoint(
    path: str | os.PathLike[str],
    *,
    model: Any = None,
    optimizer: Any = None,
    loader: Any = None,
    extra: Any = None,
    step: int | None = None,
    keep: int | None = 3,
) -> Path | None:
    """Keep a training's state in a new folder under `path`: all of it, or, if this process is killed, none.

    Args:
        path: a folder on a local or shared file system; it is made where there is none.
        model, optimizer, loader: objects with `state_dict()` (torch's modules, optimizers and schedulers, Penstock's
            loaders), Keras models and optimizers, and trees of NumPy or JAX arrays; several at once as a
            dictionary or list, such as `optimizer=[optimizer, scheduler]`. Of DistributedDataParallel the
            module inside is kept.
        extra: anything that JSON can say: numbers, texts, lists and dictionaries of them.
        step: the step it is named after; unless given, one more than the last checkpoint's.
        keep: how many of the newest checkpoints stay; None keeps all.

    Rank 0 writes, since all ranks have the same state; on the others the call returns None at once and does
    nothing, so it may be made on every rank or on rank 0 alone. No rank can overtake by more than a step:
    gradients wait for rank 0.

    >>> import tempfile, torch
    >>> from penstock.feed.checkpoint.checkpoint import checkpoint, restore
    >>> path, model = tempfile.mkdtemp(), torch.nn.Linear(2, 1)
    >>> restore(path, model=model).step  # the first time, there is nothing to restore
    0
    >>> checkpoint(path, model=model, step=120, extra={"loss": 0.5}).name
    '00000001-step-120'
    >>> found = restore(path, model=torch.nn.Linear(2, 1))
    >>> found.step, found.extra
    (120, {'loss': 0.5})
    """
    folder = local_folder(path)
    given = {"model": model, "optimizer": optimizer, "loader": loader}
    if all(value is None for value in (*given.values(), extra)):
        raise CheckpointError(str(folder), "nothing was given", "Pass model=, optimizer=, loader= or extra=.")
    if keep is not None and (not isinstance(keep, int) or keep < 1):
        raise CheckpointError(
            str(folder), f"keep={keep!r}", "Pass how many checkpoints stay, at least 1, or None for all."
        )
    if step is not None and (not isinstance(step, int) or step < 0):
        raise CheckpointError(str(folder), f"step={step!r}", "Pass a whole number from 0 on.")
    if not is_json(extra):
        raise CheckpointError(
            "extra", "JSON cannot say it", "Pass numbers, texts, lists and dictionaries with texts as keys."
        )
    if find_world().rank != 0:
        return None
    if step is None:
        step = max((found.step for found in checkpoints(folder)[-1:]), default=0) + 1
    with writing(folder, step) as (own, toc):
        toc["extra"] = extra
        toc["parts"] = {name: save(name, value, own) for name, value in given.items() if value is not None}
    prune(folder, keep)
    written: Path = toc["folder"]
    return written


def restore(
    path: str | os.PathLike[str],
    *,
    model: Any = None,
    optimizer: Any = None,
    loader: Any = None,
    step: int | None = None,
) -> Restored:
    """Put the newest whole checkpoint back into the objects given, on as many ranks as there are now.

    Args:
        path: where `checkpoint` was told to write.
        model, optimizer, loader: as they were given then; what is left out is not read. Objects get their states
            in place; arrays and tensors come back in the value's `model`, `optimizer` and `loader`.
        step: the checkpoint of this step instead of the newest.

    Where there is none the value is false, its `step` and `epoch` are 0, and nothing was changed: the same lines
    serve the first start and every other. A damaged checkpoint is passed over with a warning; if all are, that is
    an error. Every rank calls it before it trains; in a torch process group rank 0 says which checkpoint it is,
    else each takes the newest.

    >>> import tempfile
    >>> import numpy as np, pyarrow as pa
    >>> import penstock as pk
    >>> from penstock.feed.checkpoint.checkpoint import checkpoint, restore
    >>> ds = pk.write(pa.table({"a": list(range(10))}), tempfile.mkdtemp())
    >>> path, weights = tempfile.mkdtemp(), {"w": np.zeros(3)}
    >>> def train(loader, steps):
    ...     found = restore(path, model=weights, loader=loader)
    ...     step, now = found.step, found.model
    ...     for batch in loader:
    ...         now, step = {"w": now["w"] + batch["a"].sum()}, step + 1
    ...         checkpoint(path, model=now, loader=loader, step=step)
    ...         if step == steps:
    ...             break
    ...     return now["w"][0]
    >>> bool(train(ds.numpy(batch_size=2), steps=2) < train(ds.numpy(batch_size=2), steps=5))
    True
    >>> float(restore(path, model=weights).model["w"][0])
    45.0
    """
    folder, given = local_folder(path), {"model": model, "optimizer": optimizer, "loader": loader}
    found, toc = _chosen(folder, step)
    if found is None or toc is None:
        return Restored(model=model, optimizer=optimizer, loader=loader)
    missing = [name for name, value in given.items() if value is not None and name not in toc["parts"]]
    if missing:
        raise CheckpointError(
            missing[0],
            f"{found.folder} holds {', '.join(toc['parts']) or 'nothing but extra'}",
            f"Leave {missing[0]}= out.",
            "be restored",
        )
    _build(optimizer, model)
    restored = {
        name: None if value is None else load(name, value, found.folder, toc["parts"][name])
        for name, value in given.items()
    }
    return Restored(found.step, toc["extra"], _epoch(toc["parts"].get("loader")), found.folder, **restored)


def _chosen(folder: Path, step: int | None) -> tuple[Found | None, dict[str, Any] | None]:
    """The checkpoint to restore and what it holds; in a process group, rank 0's choice for all."""
    world, group = find_world(), _group()
    if group is None:
        return _newest(folder, step)
    told: list[Any] = [None, None]
    if world.rank == 0:
        try:
            found, _ = _newest(folder, step)
            told = [None if found is None else found.folder.name, None]
        except Exception as error:
            told = [None, error]
    group.broadcast_object_list(told, src=0)
    if told[1] is not None:
        raise told[1]
    if told[0] is None:
        return None, None
    return _same_as_rank_0(folder, told[0], world)


def _same_as_rank_0(folder: Path, name: str, world: World) -> tuple[Found, dict[str, Any]]:
    found = Found.read(folder / name)
    assert found is not None, "rank 0 named a checkpoint"
    toc = contents(found)
    if isinstance(toc, str):
        raise CheckpointError(
            str(found.folder),
            f"rank 0 took it, and on rank {world.rank} {toc}",
            "All ranks need the same folder: a file system that they share, or one machine.",
            "be restored",
        )
    return found, toc


def _newest(folder: Path, step: int | None) -> tuple[Found | None, dict[str, Any] | None]:
    every = [found for found in checkpoints(folder) if step is None or found.step == step]
    wrong: list[str] = []
    for found in reversed(every):
        toc = contents(found)
        if not isinstance(toc, str):
            for each in wrong:
                warnings.warn(f"a damaged checkpoint was passed over: {each}", stacklevel=4)
            return found, toc
        wrong.append(f"{found.folder}: {toc}.")
    if wrong:
        raise CheckpointError(
            str(folder),
            "none of its checkpoints is whole: " + " ".join(wrong),
            "Restore these files from a copy, or give another folder to begin anew.",
            "be restored from",
        )
    if step is not None:
        there = ", ".join(str(found.step) for found in checkpoints(folder)) or "none at all"
        raise CheckpointError(
            str(folder),
            f"it has no checkpoint of step {step}",
            f"Its steps are: {there}.",
            "be restored from",
        )
    return None, None


def _group() -> Any:
    """torch.distributed, where a process group of several ranks exists."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    return torch.distributed if torch.distributed.get_world_size() > 1 else None


def _build(optimizer: Any, model: Any) -> None:
    """A Keras optimizer has no variables before it knows the model's."""
    if getattr(optimizer, "built", True) is False and hasattr(model, "trainable_variables"):
        optimizer.build(model.trainable_variables)


def _epoch(loader: Any) -> int:
    """The first loader's epoch."""
    for entry in (loader or {}).values():
        state = entry["value"] if entry["kind"] == "state" else None
        if isinstance(state, dict) and isinstance(state.get("epoch"), int):
            return int(state["epoch"])
    return 0
