"""Shards as arrays: rows are gathered straight out of the page cache, without a copy of their own.

Each tensor of a dataset is one array over addresses that belong to nobody, with the shards mapped into it one after
the other. Blocks of several tensors begin at different places of those, so rows are counted block by block, which is
one order for all tensors; where a block begins, the gather looks up. All that needs buffers that begin at multiples
of a row, as `pk.write` lays them, uncompressed Arrow files on a local disk, and leases
(`penstock.feed.memory.leases`); where anything of this is missing, `MappedRows.over` says no, and rows are read.
Readers have the kernel bring a window's pages in; once its rows are handed out the pages are let go, so that no more
of a dataset is mapped than would be read.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np

from penstock.dataset.forks import in_forks
from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.errors import StorageError
from penstock.feed.memory.cache import Source
from penstock.feed.memory.leases import Leases, NoLease
from penstock.feed.memory.row_loops import Blocks, RowLoops
from penstock.feed.plan.route import Fetch, Need
from penstock.feed.reading.limits import MAPS, most_open_files
from penstock.feed.reading.source import BlockCheck, Straight, buffer_places, is_direct
from penstock.wire.ragged import Ragged

WIDE = 512
"""Bytes of a tensor's row; below it the one copy saved is worth less than what looking rows up in small pages costs.
Not so where machine code gathers: it asks for rows ahead, and pages are looked up meanwhile."""
WIDE_SHARE = 0.9
"""Of a row's bytes, those in wide tensors; else there are many tensors, and each costs a look of its own."""
LEAST_BUFFER = 1 << 20
"""Bytes of a block in a tensor (in all narrow ones, their mean); below it so much of what is mapped are neighbours that
`memory` would not hold, and bringing pages in and letting them go costs as much as reading."""
POPULATE_READ = 22
"""MADV_POPULATE_READ, of Linux 5.14 and later: an error where touching the pages would end the process."""
PAGE = mmap.PAGESIZE
AROUND = 64 << 10
"""A touched page brings its neighbours along, within such a stretch of addresses."""
LARGE = 2 << 20
"""Where the page cache keeps files in stretches of so many bytes, one entry maps a whole one, if addresses allow it. An
epoch of 1 KB rows then took a fifth less processor time."""
MOST_ADDRESSES = 1 << 40
"""Of one tensor with shards that begin at multiples of `LARGE` and of a row; a process has some 2**47."""
FAILED = ctypes.c_void_p(-1).value
NO_RESERVE, FIXED = 0x4000, 0x10


def _libc() -> Any:
    found = ctypes.CDLL(None, use_errno=True)
    found.mmap.restype = ctypes.c_void_p
    found.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    ]  # fmt: skip
    found.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    found.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found


class _Region:
    """The addresses of one tensor, with all shards in them."""

    def __init__(self, libc: Any, spec: TensorSpec, sizes: Sequence[int], files: Sequence[int]) -> None:
        self._libc, self._spec = libc, spec
        step = math.lcm(LARGE, spec.row_bytes)
        if len(sizes) * step + sum(sizes) > MOST_ADDRESSES:
            step = math.lcm(PAGE, spec.row_bytes)
        lengths = np.array([-(-size // step) * step for size in sizes], np.int64)
        self.starts: Array = np.concatenate([[0], np.cumsum(lengths)])
        """Where each shard begins; a multiple of a page, a large one if that can be, and of a row."""
        self._size = int(self.starts[-1])
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
        self._reserved = self._map(None, self._size + LARGE, 0, private, -1)
        self.base = -(-self._reserved // LARGE) * LARGE
        try:
            for start, size, file in zip(self.starts.tolist(), sizes, files, strict=False):
                self._map(self.base + start, size, mmap.PROT_READ, mmap.MAP_SHARED | FIXED, file)
        except BaseException:
            self.close()
            raise

    def _map(self, where: int | None, size: int, access: int, flags: int, file: int) -> int:
        found = self._libc.mmap(where, size, access, flags, file, 0)
        if found is None or found == FAILED:
            raise NoLease(os.strerror(ctypes.get_errno()))
        return int(found)

    def array(self) -> Array:
        """All of it as rows; those that lie in no buffer may be no memory at all."""
        raw = (ctypes.c_uint8 * self._size).from_address(self.base)
        flat: Array = np.frombuffer(memoryview(raw), np.uint8).view(DTYPES[self._spec.dtype].storage)
        return flat.reshape(-1, *self._spec.shape)

    def populate(self, start: int, stop: int) -> int:
        """Bring pages in; 0, or the number of an error."""
        first = start // PAGE * PAGE
        done = self._libc.madvise(self.base + first, stop - first, POPULATE_READ)
        return ctypes.get_errno() if done else 0

    def forget(self, start: int, stop: int) -> None:
        """Let pages go, and those that came with them; the page cache keeps them, and who needs one gets it back."""
        first = max((self.base + start) // AROUND * AROUND, self.base)
        last = min(-(-(self.base + stop) // AROUND) * AROUND, self.base + self._size)
        self._libc.madvise(first, last - first, mmap.MADV_DONTNEED)

    def close(self) -> None:
        self._libc.munmap(self._reserved, self._size + LARGE)


class MappedRows:
    """All rows of some tensors, where they lie; mapped while somebody iterates."""

    def __init__(self, snapshot: Snapshot, specs: Sequence[TensorSpec]) -> None:
        assert snapshot.store.local is not None
        self._folder, self._manifest, self._index = snapshot.store.local, snapshot.manifest, snapshot.index
        self._specs = specs
        places = buffer_places(snapshot)
        self._offsets = {spec.name: snapshot.index.buffers[:, places[spec.name]]["offset"] for spec in specs}
        # As plain numbers: single elements of arrays are slow, and readers share one interpreter.
        self._shards: list[int] = snapshot.index.shard.tolist()
        self._users = 0
        # Of one thread several times: the collector may end another iterator while this one begins.
        self._lock = threading.RLock()
        self._opened = ExitStack()
        """What is to be given back when nobody iterates any more."""
        self._regions: dict[str, _Region] = {}
        self._blocks: dict[str, Blocks] = {}
        self._bits = int(snapshot.index.rows.max()).bit_length()
        in_forks(self)

    @staticmethod
    def over(snapshot: Snapshot, specs: Sequence[TensorSpec], narrow: bool) -> MappedRows | None:
        """For a dataset whose rows can be gathered out of a map, and gain by it; else None.

        `narrow`: whether narrow rows may gain too, as they do where machine code gathers them.
        """
        if not is_direct(snapshot, specs) or not len(snapshot.index):
            return None
        sizes, rows = [spec.row_bytes for spec in specs], int(snapshot.index.rows.max())
        if not all(sizes) or not (_gain(sizes, rows) or (narrow and _gain_narrow(sizes, rows))):
            return None
        if len(snapshot.manifest.shards) > most_open_files():
            return None
        found = MappedRows(snapshot, specs)
        if any((found._offsets[spec.name] % spec.row_bytes).any() for spec in specs):
            return None
        try:
            found.open()
        except NoLease:
            return None
        found.close()
        return found

    def open(self) -> None:
        """Map everything, unless another iterator has."""
        with self._lock:
            # Nothing is left then, but in a process that was forked: what is there is the other's.
            if not self._users:
                self._opened.close()
                try:
                    self._map()
                except BaseException:
                    self._opened.close()
                    raise
            self._users += 1

    def forked(self) -> None:
        """Those who use the maps, and have the lock perhaps, are the other process's."""
        self._users, self._lock = 0, threading.RLock()

    def _map(self) -> None:
        shards = self._manifest.shards
        maps = len(shards) * len(self._specs)
        if not MAPS.take(maps):
            raise NoLease("so much is mapped already")
        self._opened.callback(MAPS.give_back, maps)
        self.leases = Leases(self._folder, shards)
        self._opened.callback(self.leases.close)
        libc = _libc()
        for spec in self._specs:
            region = _Region(libc, spec, [shard.bytes for shard in shards], self.leases.files)
            self._opened.callback(region.close)
            self._regions[spec.name] = region
            starts = region.starts[self._index.shard] + self._offsets[spec.name].astype(np.int64)
            first_rows, addresses = starts // spec.row_bytes, starts + region.base
            self._blocks[spec.name] = Blocks(self._bits, region.array(), first_rows, addresses)
        # Whoever looks for rows later finds none, rather than addresses that may be somebody else's.
        self._opened.callback(self._regions.clear)
        self._opened.callback(self._blocks.clear)
        if error := self._regions[self._specs[0].name].populate(0, 1):
            raise NoLease(os.strerror(error))

    def close(self) -> None:
        """Give addresses and files back, when nobody iterates any more."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._opened.close()

    def bases(self, need: Need) -> Array:
        """Block by block: tensors begin at places of their own, which would be an order of its own for each."""
        return np.array([(fetch.block << self._bits) + fetch.first for fetch in need.fetches])

    def take(self, name: str, index: Array, out: Array, loops: RowLoops) -> None:
        """Out of the blocks."""
        loops.take_of_blocks(self._blocks[name], index, out)

    def taken(self, needs: Iterable[Need]) -> AbstractContextManager[object]:
        """While rows of these windows are copied, their shards do not change."""
        return self.leases.held({self._shard(fetch) for need in needs for fetch in need.fetches})

    def bring(self, fetch: Fetch) -> int:
        """Bring a run of rows into memory, and say how many bytes that are."""
        total = 0
        with self.leases.held([self._shard(fetch)]):
            for spec in self._specs:
                start, stop = self._span(spec, fetch)
                if error := self._regions[spec.name].populate(start, stop):
                    raise StorageError("read", self._file(fetch), os.strerror(error), "")
                total += stop - start
        return total

    def check(self, fetch: Fetch, check: BlockCheck) -> None:
        """Add a run of rows that was brought in to the checksums of its block."""
        with self.leases.held([self._shard(fetch)]):
            for spec in self._specs:
                first = self._first_row(spec, fetch)
                rows = self._blocks[spec.name].array[first : first + fetch.rows]
                check.running[spec.name].update(memoryview(rows.reshape(-1).view(np.uint8).data))

    def forget(self, need: Need) -> None:
        """A window's rows have been handed out."""
        for fetch in need.fetches:
            for spec in self._specs:
                self._regions[spec.name].forget(*self._span(spec, fetch))

    def _span(self, spec: TensorSpec, fetch: Fetch) -> tuple[int, int]:
        first = self._first_row(spec, fetch)
        return first * spec.row_bytes, (first + fetch.rows) * spec.row_bytes

    def _first_row(self, spec: TensorSpec, fetch: Fetch) -> int:
        return int(self._blocks[spec.name].first_rows[fetch.block]) + fetch.first

    def _shard(self, fetch: Fetch) -> int:
        return self._shards[fetch.block]

    def _file(self, fetch: Fetch) -> str:
        return os.path.join(self._folder, self._manifest.shards[self._shard(fetch)].file)


def _gain(sizes: Sequence[int], rows: int) -> bool:
    """Whether tensors with rows of these sizes, so many in a block, gain by being mapped, whoever gathers them."""
    wide = [size for size in sizes if size >= WIDE]
    return sum(wide) >= WIDE_SHARE * sum(sizes) and rows * min(wide) >= LEAST_BUFFER


def _gain_narrow(sizes: Sequence[int], rows: int) -> bool:
    """Likewise where machine code gathers them."""
    return rows * sum(sizes) >= LEAST_BUFFER * len(sizes)


class MappedSource:
    """Brings rows in where they lie, instead of reading them. The rows are open, and are closed with it."""

    def __init__(self, source: Source, rows: MappedRows) -> None:
        self._source, self._rows = source, rows
        self.bytes_read = 0

    def check(self, fetch: Fetch) -> BlockCheck | None:
        """As the source does."""
        return self._source.check(fetch)

    def confirm(self, check: BlockCheck) -> None:
        """As the source does."""
        self._source.confirm(check)

    def straight(self, fetch: Fetch) -> Straight | None:
        """It is brought in where it lies."""
        return None

    def reads_runs(self, block: int) -> bool:
        """As the source does."""
        return self._source.reads_runs(block)

    def read(
        self, fetch: Fetch, views: Mapping[str, memoryview], check: BlockCheck | None = None
    ) -> dict[str, Ragged]:
        """Nothing is copied; a block that is to be checked, and was asked for in part, is read for that."""
        # Not in one statement: what other threads add while it is brought in would be lost.
        brought = self._rows.bring(fetch)
        self.bytes_read += brought
        if check is not None:
            self._rows.check(fetch, check)
        else:
            self._source.read(fetch, {})
        return {}

    def close(self) -> None:
        """Give addresses and files back."""
        try:
            self._rows.close()
        finally:
            self._source.close()
