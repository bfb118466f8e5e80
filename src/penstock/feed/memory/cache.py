"""A dataset kept in host memory: blocks are read and decoded once, and later epochs find them there.

The rows lie in the order of the files, so the place of a row does not depend on the epoch. `Dataset.torch(...,
cache="host")` and its siblings ask for this; a GPU's own cache is in `penstock.feed.cuda.cache`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.errors import SelectionError, humane_bytes
from penstock.feed.memory.row_loops import RowLoops
from penstock.feed.memory.row_sizes import row_bytes
from penstock.feed.plan.route import Fetch, Need
from penstock.feed.reading.source import BlockCheck, Straight
from penstock.machine import free_memory
from penstock.wire.ragged import Ragged

CACHES = (None, "host", "device")


class Source(Protocol):
    """Where rows come from."""

    @property
    def bytes_read(self) -> int:
        """What came from storage so far."""

    def check(self, fetch: Fetch) -> BlockCheck | None:
        """For a run that will be read in parts: a check of its block, where one is due."""

    def confirm(self, check: BlockCheck) -> None:
        """All parts have been read: the block is right, or an error names it."""

    def straight(self, fetch: Fetch) -> Straight | None:
        """Where a run of rows lies in an open file, where it can be read from there without more ado."""

    def reads_runs(self, block: int) -> bool:
        """Whether runs of a block can be read without the rest of it, which is neither decoded nor checked."""

    def read(
        self, fetch: Fetch, views: Mapping[str, memoryview], check: BlockCheck | None = None
    ) -> dict[str, Ragged]:
        """Fill the views with a run of rows; ragged tensors are returned."""

    def close(self) -> None:
        """Give files back."""


def check_room(size: int, free: int | None, where: str, cache: str, ranks: int = 1) -> None:
    """Refuse what does not fit before anything is read. `ranks`: how many are about to take as much of it each."""
    if free is not None and size * ranks > free:
        each = "each rank" if ranks == 1 else f"each of {ranks} ranks ({humane_bytes(size * ranks)} together)"
        raise SelectionError(
            f"cache={cache!r} keeps {humane_bytes(size)} in memory on {each}, and {where} has {humane_bytes(free)} "
            "free. Leave cache out: without it the loader streams, with the same batches."
        )


class RowsInPlace(Protocol):
    """Rows that lie in host memory as long as an epoch: windows need no slots there, only their order."""

    def bases(self, need: Need) -> Array:
        """The numbers of the first rows of a window's fetches, which are the same for all tensors."""

    def take(self, name: str, index: Array, out: Array, loops: RowLoops) -> None:
        """Rows of a tensor, by their numbers."""

    def taken(self, needs: Iterable[Need]) -> AbstractContextManager[object]:
        """While rows of these windows are copied."""

    def forget(self, need: Need) -> None:
        """All rows of a window have been copied."""


class HostCache:
    """Room for all rows of some tensors; filled block by block."""

    def __init__(self, snapshot: Snapshot, specs: Sequence[TensorSpec], ranks: int = 1) -> None:
        """`ranks`: how many processes of this machine make one, all at about the same time."""
        self._starts, self._block_rows = snapshot.index.starts, snapshot.index.rows
        rows = snapshot.manifest.rows
        check_room(rows * row_bytes(snapshot, specs), free_memory(), "this machine", "host", ranks)
        self._fixed = [spec for spec in specs if not spec.ragged]
        self.arrays = {
            spec.name: np.empty((rows, *spec.shape), DTYPES[spec.dtype].storage) for spec in self._fixed
        }
        self._bytes = {
            name: memoryview(array.reshape(-1).view(np.uint8).data) for name, array in self.arrays.items()
        }
        self._ragged: dict[int, dict[str, Ragged]] = {}
        self._present = np.zeros(len(snapshot.index), bool)

    def bases(self, need: Need) -> Array:
        """As the rows of all files are counted."""
        return np.array([int(self._starts[fetch.block]) + fetch.first for fetch in need.fetches])

    def take(self, name: str, index: Array, out: Array, loops: RowLoops) -> None:
        """Out of the one array there is for each tensor."""
        loops.take(self.arrays[name], index, out)

    def taken(self, needs: Iterable[Need]) -> AbstractContextManager[object]:
        """Nothing can happen to them."""
        return nullcontext()

    def forget(self, need: Need) -> None:
        """They stay."""

    def load(self, block: int, source: Source) -> None:
        """Read a block, unless it is there; two threads that read the same one write the same bytes."""
        if self._present[block]:
            return
        whole = Fetch(block, 0, int(self._block_rows[block]), 0)
        check = source.check(whole)
        self._ragged[block] = source.read(whole, self._views(whole), check)
        if check is not None:
            source.confirm(check)
        self._present[block] = True

    def copy(self, fetch: Fetch, views: Mapping[str, memoryview]) -> dict[str, Ragged]:
        """A run of rows of a block that is there; as `Source.read`."""
        for name, view in self._views(fetch).items():
            if name in views:
                # NumPy lets other threads run meanwhile; a memoryview would not.
                np.copyto(np.frombuffer(views[name], np.uint8), np.frombuffer(view, np.uint8))
        rows = slice(fetch.first, fetch.first + fetch.rows)
        return {name: each[rows] for name, each in self._ragged[fetch.block].items()}

    def _views(self, fetch: Fetch) -> dict[str, memoryview]:
        start = int(self._starts[fetch.block]) + fetch.first
        return {
            spec.name: self._bytes[spec.name][start * spec.row_bytes : (start + fetch.rows) * spec.row_bytes]
            for spec in self._fixed
        }


class CachedSource:
    """A source behind a cache."""

    def __init__(self, source: Source, cache: HostCache) -> None:
        self._source, self._cache = source, cache

    @property
    def bytes_read(self) -> int:
        """What came from storage."""
        return self._source.bytes_read

    def check(self, fetch: Fetch) -> BlockCheck | None:
        """Blocks are checked on their way into the cache."""
        return None

    def confirm(self, check: BlockCheck) -> None:
        """As the source does."""
        self._source.confirm(check)

    def straight(self, fetch: Fetch) -> Straight | None:
        """It comes out of memory."""
        return None

    def reads_runs(self, block: int) -> bool:
        """Blocks come into the cache whole."""
        return False

    def read(
        self, fetch: Fetch, views: Mapping[str, memoryview], check: BlockCheck | None = None
    ) -> dict[str, Ragged]:
        """Fill the views from memory; what the cache does not keep is read."""
        self._cache.load(fetch.block, self._source)
        elsewhere = {name: view for name, view in views.items() if name not in self._cache.arrays}
        if elsewhere:
            self._source.read(fetch, elsewhere)
        return self._cache.copy(fetch, views)

    def close(self) -> None:
        """Give files back; the memory stays with the loader."""
        self._source.close()
