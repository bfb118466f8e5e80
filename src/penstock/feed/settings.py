"""What a loader is asked to do, checked when it is made; `Dataset.torch` and its siblings say what each means."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import SelectionError
from penstock.feed.memory.cache import CACHES
from penstock.feed.plan.order import LAST
from penstock.feed.shaping import Pad

Transform = Callable[[dict[str, Any]], dict[str, Any]]
"""A function of a batch, applied to each."""


@dataclass(frozen=True)
class Settings:
    """What a loader is asked to do."""

    batch_size: int | None
    shuffle: bool = True
    seed: int = 0
    global_batch_size: int | None = None
    last: str = "drop"
    rank: int | None = None
    world: int | None = None
    lanes: int = 64
    window: int = 1
    memory: int | None = None
    threads: int = 2
    verify: bool = True
    place: Transform | None = None
    """Brings each batch to a device that the arena knows nothing of; before `transform`, which sees it there."""
    transform: Transform | None = None
    cache: str | None = None
    pad: Pad = None
    nested: bool = False
    device: str = "cpu"
    """Where batches end up; for the log."""
    log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if (self.batch_size is None) == (self.global_batch_size is None):
            raise SelectionError(
                "pass batch_size (rows per rank) or global_batch_size (of all ranks), one of them."
            )
        for name in ("batch_size", "global_batch_size", "lanes", "window", "threads", "memory"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise SelectionError(f"{name}={value!r}: a whole number of at least 1 is wanted.")
        for name, choices in (("last", LAST), ("cache", CACHES)):
            value = getattr(self, name)
            if value not in choices:
                raise SelectionError(f"{name}={value!r}: choose one of {', '.join(map(repr, choices))}.")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise SelectionError(f"seed={self.seed!r}: a whole number is wanted.")
        self._check_log()

    def _check_log(self) -> None:
        if self.log is None:
            return
        if not isinstance(self.log, (str, os.PathLike)) or not isinstance(os.fspath(self.log), str):
            raise SelectionError(f"log={self.log!r}: the path of a file is wanted, such as 'run/log.jsonl'.")
        path = os.fspath(self.log)
        if "://" in path:
            raise SelectionError(
                f"log={path!r}: a log is appended to, so it has to lie on a disk, and not in an object store. Choose a "
                "path of this machine, and copy it afterwards."
            )
        if os.path.isdir(path) or not os.path.basename(path):
            raise SelectionError(f"log={path!r} is a folder: name a file in it, such as 'log.jsonl'.")

    @property
    def finishes(self) -> bool:
        """Whether something is done to each batch by itself, once its rows are there."""
        return self.place is not None or self.transform is not None

    def batch(self, world: int) -> int:
        """Rows of a step on all ranks together."""
        if self.global_batch_size is None:
            assert self.batch_size is not None
            return self.batch_size * world
        if self.global_batch_size % world:
            raise SelectionError(
                f"global_batch_size={self.global_batch_size} cannot be shared out to {world} ranks evenly. Choose a "
                f"multiple, such as {-(-self.global_batch_size // world) * world}."
            )
        return self.global_batch_size
