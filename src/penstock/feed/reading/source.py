"""Rows of blocks into memory that somebody else owns: what reader threads call.

Uncompressed Arrow shards on local disks are read straight to where the rows go (`preadv`, which lets other threads
run); everything else (object stores, compressed blocks, Parquet, ragged tensors) comes through
`penstock.dataset.blocks` and is copied. A run that is wanted in parts is fetched once. A block's bytes are checked
the first time they are read.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock.dataset import checksum
from penstock.dataset.blocks import block_place
from penstock.dataset.manifest import Shard
from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.errors import CorruptError, StorageError
from penstock.feed.plan.route import Fetch
from penstock.feed.reading.limits import FILES
from penstock.wire.ragged import Packed, Ragged

PASS_BYTES = 256 << 10
"""Read at a time of what is only checked; small enough to stay in the processor's cache."""


@dataclass(frozen=True)
class BlockCheck:
    """Running checksums of a block that is read in parts, by tensor."""

    block: int
    running: dict[str, checksum.Checksum]


class Straight(NamedTuple):
    """Where a run of rows lies in a file that is open, tensor by tensor."""

    file: int
    offsets: list[int]
    shard: Shard

    def fill(self, view: memoryview, offset: int) -> None:
        """Read bytes of the file."""
        size, done = len(view), os.preadv(self.file, [view], offset)
        while done < size:
            got = os.preadv(self.file, [view[done:]], offset + done)
            if got == 0:
                raise CorruptError([self.shard.file], "the file ends too early")
            done += got


@dataclass(frozen=True)
class HeldRun:
    """A run of rows that came from storage as a whole, and is taken in parts."""

    run: Fetch
    names: tuple[str, ...]
    tensors: Mapping[str, Packed]


def is_direct(snapshot: Snapshot, specs: Sequence[TensorSpec]) -> bool:
    """Whether these tensors' rows lie on this machine as they are in memory."""
    manifest = snapshot.manifest
    plain = snapshot.committed and manifest.storage == "arrow" and manifest.compression is None
    return plain and snapshot.store.local is not None and not any(spec.ragged for spec in specs)


def held_bytes(snapshot: Snapshot, specs: Sequence[TensorSpec]) -> int:
    """The most bytes that one reader has in memory of its own while it reads a block of these tensors."""
    index = snapshot.index
    if is_direct(snapshot, specs) or not len(index):
        return 0
    if not index.buffers.size:
        # Parquet and plain files: there are the bytes of the file, what is decoded of them, and what that is packed to.
        fixed = sum(spec.row_bytes for spec in specs if not spec.ragged)
        largest = int(index.rows.max()) * fixed
        ragged = int(index.length.max()) if any(spec.ragged for spec in specs) else 0
        return 3 * (largest + ragged)
    places = buffer_places(snapshot)
    chosen = [places[spec.name] + more for spec in specs for more in range(1 + spec.ragged)]
    buffers = index.buffers[:, chosen]
    held = buffers["length"] + (buffers["raw"] if snapshot.manifest.compression is not None else 0)
    return int(held.sum(axis=1).max())


def buffer_places(snapshot: Snapshot) -> dict[str, int]:
    """Of each tensor the number of its first buffer among those of a block."""
    found, place = {}, 0
    for spec in snapshot.manifest.tensors:
        found[spec.name] = place
        place += 1 + spec.ragged
    return found


class RowSource:
    """Reads runs of rows of a snapshot's blocks; safe in many threads. `close` gives the files back."""

    def __init__(self, snapshot: Snapshot, specs: Sequence[TensorSpec], verified: Array | None) -> None:
        """`verified` tells, and is told, which blocks need no check any more; None where none is wanted."""
        self._snapshot, self._specs, self._verified = snapshot, specs, verified
        self._files: dict[int, int] = {}
        self._lock = threading.Lock()
        self._direct = is_direct(snapshot, specs)
        self._places = buffer_places(snapshot)
        # As plain numbers: single elements of arrays are slow, and readers share one interpreter.
        self._offsets = {
            spec.name: snapshot.index.buffers[:, self._places[spec.name]]["offset"].tolist()
            for spec in specs
            if self._direct
        }
        self._straight = [(self._offsets[spec.name], spec.row_bytes) for spec in specs if self._direct]
        self._row_bytes = sum(size for _, size in self._straight)
        self._shards: list[int] = snapshot.index.shard.tolist()
        self._thread = threading.local()
        """The run that a thread is about to read in parts, and what it holds of it."""
        self.bytes_read = 0

    def check(self, fetch: Fetch) -> BlockCheck | None:
        """A check of a run's block, to be read in parts; where one is due, and the run is the whole block."""
        self._thread.run = fetch
        if self._verified is None or not self._direct or self._verified[fetch.block]:
            return None
        if fetch.rows != self._snapshot.index.rows[fetch.block]:
            return None
        kind, _ = checksum.parse(self._shard(fetch.block).checksum)
        return BlockCheck(fetch.block, {spec.name: checksum.new(kind) for spec in self._specs})

    def confirm(self, check: BlockCheck) -> None:
        """All parts of the block have been read: its bytes are right, or an error names it."""
        for name, running in check.running.items():
            if running.value() != int(self._buffer(check.block, name)["checksum"]):
                place = block_place(self._snapshot.index, self._shard(check.block), check.block)
                raise CorruptError([place], "a checksum is wrong")
        assert self._verified is not None
        self._verified[check.block] = True

    def straight(self, fetch: Fetch) -> Straight | None:
        """Where a run of rows lies, for who reads it without this; if its file is open, and no check is due."""
        block, first = fetch.block, fetch.first
        file = self._files.get(self._shards[block]) if self._direct else None
        if file is None or (self._verified is not None and not self._verified[block]):
            return None
        self.bytes_read += fetch.rows * self._row_bytes
        offsets = [offsets[block] + first * size for offsets, size in self._straight]
        return Straight(file, offsets, self._shard(block))

    def reads_runs(self, block: int) -> bool:
        """Where rows lie as they are in memory, and the block's bytes need no check any more."""
        return self._direct and (self._verified is None or bool(self._verified[block]))

    def read(
        self, fetch: Fetch, views: Mapping[str, memoryview], check: BlockCheck | None = None
    ) -> dict[str, Ragged]:
        """Fill the views with a run of rows; ragged tensors are returned, fixed ones without a view left out."""
        due = self._verified is not None and not self._verified[fetch.block]
        if self._direct:
            if due and check is None:
                self._read_checked(fetch, views)
            else:
                self._read_direct(fetch, views, check)
            return {}
        found = self._read_decoded(fetch, views, due and self._snapshot.committed)
        if self._verified is not None:
            self._verified[fetch.block] = True
        return found

    def _read_direct(self, fetch: Fetch, views: Mapping[str, memoryview], check: BlockCheck | None) -> None:
        if not views:
            return
        with self._opened(self._shards[fetch.block]) as file:
            for spec in self._specs:
                if spec.name in views:
                    self._fill(file, spec, fetch, views[spec.name])
                    if check is not None:
                        check.running[spec.name].update(views[spec.name])

    def _read_checked(self, fetch: Fetch, views: Mapping[str, memoryview]) -> None:
        """A part of a block that is due to be checked: the rest of it passes through a little memory."""
        kind, _ = checksum.parse(self._shard(fetch.block).checksum)
        check = BlockCheck(fetch.block, {spec.name: checksum.new(kind) for spec in self._specs})
        after = fetch.first + fetch.rows
        rest = int(self._snapshot.index.rows[fetch.block]) - after
        with self._opened(self._shards[fetch.block]) as file:
            # A block counts as checked only when all its tensors are.
            for spec in self._specs:
                self._pass(file, spec, Fetch(fetch.block, 0, fetch.first, 0), check)
                if spec.name in views:
                    self._fill(file, spec, fetch, views[spec.name])
                    check.running[spec.name].update(views[spec.name])
                else:
                    self._pass(file, spec, fetch, check)
                self._pass(file, spec, Fetch(fetch.block, after, rest, 0), check)
        self.confirm(check)

    def _pass(self, file: int, spec: TensorSpec, fetch: Fetch, check: BlockCheck) -> None:
        """Add rows that nobody wants to the checksums of their block."""
        most = max(PASS_BYTES // max(spec.row_bytes, 1), 1)
        room = memoryview(bytearray(min(most, fetch.rows) * spec.row_bytes))
        for part in fetch.parts(most):
            view = room[: part.rows * spec.row_bytes]
            self._fill(file, spec, part, view)
            check.running[spec.name].update(view)

    def _fill(self, file: int, spec: TensorSpec, fetch: Fetch, view: memoryview) -> None:
        if view.nbytes:
            offset = self._offsets[spec.name][fetch.block] + fetch.first * spec.row_bytes
            Straight(file, [offset], self._shard(fetch.block)).fill(view, offset)
            self.bytes_read += view.nbytes

    def _read_decoded(self, fetch: Fetch, views: Mapping[str, memoryview], check: bool) -> dict[str, Ragged]:
        names = [spec.name for spec in self._specs if spec.ragged or spec.name in views]
        tensors = self._tensors(fetch, tuple(names), check)
        found = {}
        for spec in self._specs:
            if spec.name not in names:
                continue
            part = tensors[spec.name]
            size = part.nbytes  # not below: what other threads add while it is worked out would be lost
            self.bytes_read += size
            if isinstance(part, Ragged):
                found[spec.name] = part
            else:
                room = np.frombuffer(views[spec.name], DTYPES[spec.dtype].storage)
                room[...] = part.reshape(-1)
        return found

    def _tensors(self, fetch: Fetch, names: tuple[str, ...], check: bool) -> dict[str, Packed]:
        """The rows of a part, out of the whole run it is of: a request or a decoded block for each is dear."""
        run: Fetch = getattr(self._thread, "run", fetch)
        if not run.holds(fetch):
            run = fetch
        held: HeldRun | None = getattr(self._thread, "held", None)
        if check:
            # A block counts as checked only when all its tensors are.
            held = HeldRun(
                run, every := tuple(spec.name for spec in self._specs), self._whole_run(run, every, True)
            )
        elif held is None or held.run != run or not set(names) <= set(held.names):
            held = HeldRun(run, names, self._whole_run(run, names, False))
        last = fetch.first + fetch.rows == run.first + run.rows
        self._thread.held = None if last else held
        part = slice(fetch.first - run.first, fetch.first - run.first + fetch.rows)
        return {name: held.tensors[name][part] for name in names}

    def _whole_run(self, run: Fetch, names: Sequence[str], check: bool) -> dict[str, Packed]:
        rows = slice(run.first, run.first + run.rows)
        if check or run.rows == self._snapshot.index.rows[run.block]:
            tensors = self._snapshot.blocks.read(run.block, names, check)
            tensors = {name: packed[rows] for name, packed in tensors.items()}
        else:
            tensors = self._snapshot.blocks.read_rows(run.block, rows, names)
        for spec in self._specs:
            if spec.name in tensors and (what := _wrong(spec, tensors[spec.name], run.rows)):
                place = block_place(self._snapshot.index, self._shard(run.block), run.block)
                raise CorruptError([place], what)
        return tensors

    def _shard(self, block: int) -> Shard:
        return self._snapshot.manifest.shards[self._shards[block]]

    def _buffer(self, block: int, name: str) -> Any:
        return self._snapshot.index.buffers[block, self._places[name]]

    @contextmanager
    def _opened(self, shard: int) -> Iterator[int]:
        """A shard's file; it stays open, unless many do."""
        if shard not in self._files:
            with self._lock:
                if shard not in self._files and FILES.take():
                    try:
                        self._files[shard] = self._open(shard)
                    except BaseException:
                        FILES.give_back(1)
                        raise
        kept = self._files.get(shard)
        if kept is not None:
            yield kept
            return
        file = self._open(shard)
        try:
            yield file
        finally:
            os.close(file)

    def _open(self, shard: int) -> int:
        name = self._snapshot.manifest.shards[shard].file
        assert self._snapshot.store.local is not None
        path = os.path.join(self._snapshot.store.local, name)
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise CorruptError([name], "the file is not there") from None
        except OSError as error:
            raise StorageError("read", path, error.strerror or str(error), _remedy(error)) from None

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            while self._files:
                # Taken out first: a number that is closed twice may be somebody else's by then.
                _, file = self._files.popitem()
                os.close(file)
                FILES.give_back(1)


def _remedy(error: OSError) -> str:
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        return ""
    return (
        "Readers keep half of what this process may open, and something else has the rest: raise the limit (ulimit "
        "-n), pass a smaller threads=, or close what is open."
    )


def _wrong(spec: TensorSpec, packed: Packed, rows: int) -> str | None:
    """What rows that were decoded are not, though they were when the dataset was opened: not all files are checked.

    Machine code copies them from address to address, and has no other check.
    """
    values = packed.values if isinstance(packed, Ragged) else packed
    if len(packed) != rows:
        return (
            f"of {rows:,} rows that {spec.name!r} had when the dataset was opened there are {len(packed):,}"
        )
    if values.dtype != DTYPES[spec.dtype].storage:
        return f"{spec.name!r} is {values.dtype} there, and was {spec.dtype} when the dataset was opened"
    if not isinstance(packed, Ragged):
        return None
    offsets = packed.offsets
    if not rows or (offsets[0] >= 0 and offsets[-1] <= len(values) and (np.diff(offsets) >= 0).all()):
        return None
    return f"rows of {spec.name!r} reach past its values"
