"""Rows of blocks into memory that somebody else owns: what reader threads call.

Uncompressed Arrow shards on local disks are read straight to where the rows go (`preadv`, which lets other threads
run); everything else (object stores, compressed blocks, Parquet, ragged tensors) comes through
`penstock.dataset.blocks` and is copied. A run that is wanted in parts is fetched once. A block's bytes are checked
the first time they are read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.dataset import checksum
from penstock.dataset.blocks import block_place
from penstock.dataset.manifest import Shard
from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.errors import CorruptError, StorageError
from penstock.feed.route import Fetch
from penstock.wire.ragged import Packed, Ragged


@dataclass(frozen=True)
class BlockCheck:
    """Running checksums of a block that is read in parts, by tensor."""

    block: int
    running: dict[str, checksum.Checksum]


@dataclass(frozen=True)
class HeldRun:
    """A run of rows that came from storage as a whole, and is taken in parts."""

    run: Fetch
    names: tuple[str, ...]
    tensors: Mapping[str, Packed]


class RowSource:
    """Reads runs of rows of a snapshot's blocks; safe in many threads. `close` gives the files back."""

    def __init__(self, snapshot: Snapshot, specs: Sequence[TensorSpec], verified: Array | None) -> None:
        """`verified` tells, and is told, which blocks need no check any more; None where none is wanted."""
        self._snapshot, self._specs, self._verified = snapshot, specs, verified
        self._files: dict[int, int] = {}
        self._lock = threading.Lock()
        manifest = snapshot.manifest
        plain = snapshot.committed and manifest.storage == "arrow" and manifest.compression is None
        self._direct = plain and snapshot.store.local is not None and not any(spec.ragged for spec in specs)
        self._places = {}
        place = 0
        for spec in manifest.tensors:
            self._places[spec.name] = place
            place += 1 + spec.ragged
        # As plain numbers: single elements of arrays are slow, and readers share one interpreter.
        self._offsets = {
            spec.name: snapshot.index.buffers[:, self._places[spec.name]]["offset"].tolist()
            for spec in specs
            if self._direct
        }
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

    def read(
        self, fetch: Fetch, views: Mapping[str, memoryview], check: BlockCheck | None = None
    ) -> dict[str, Ragged]:
        """Fill the views with a run of rows; ragged tensors are returned, fixed ones without a view left out."""
        due = self._verified is not None and not self._verified[fetch.block]
        if self._direct and (check is not None or not due):
            self._read_direct(fetch, views, check)
            return {}
        found = self._read_decoded(fetch, views, due and self._snapshot.committed)
        if self._verified is not None:
            self._verified[fetch.block] = True
        return found

    def _read_direct(self, fetch: Fetch, views: Mapping[str, memoryview], check: BlockCheck | None) -> None:
        file = self._file(self._shards[fetch.block])
        for spec in self._specs:
            if spec.name not in views:
                continue
            view, done = views[spec.name], 0
            offset = self._offsets[spec.name][fetch.block] + fetch.first * spec.row_bytes
            while done < view.nbytes:
                got = os.preadv(file, [view[done:]], offset + done)
                if got == 0:
                    raise CorruptError([self._shard(fetch.block).file], "the file ends too early")
                done += got
            if check is not None:
                check.running[spec.name].update(view)
            self.bytes_read += done

    def _read_decoded(self, fetch: Fetch, views: Mapping[str, memoryview], check: bool) -> dict[str, Ragged]:
        names = [spec.name for spec in self._specs if spec.ragged or spec.name in views]
        tensors = self._tensors(fetch, tuple(names), check)
        found = {}
        for spec in self._specs:
            if spec.name not in names:
                continue
            part = tensors[spec.name]
            self.bytes_read += part.nbytes
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
            return {name: packed[rows] for name, packed in tensors.items()}
        return self._snapshot.blocks.read_rows(run.block, rows, names)

    def _shard(self, block: int) -> Shard:
        return self._snapshot.manifest.shards[self._shards[block]]

    def _buffer(self, block: int, name: str) -> Any:
        return self._snapshot.index.buffers[block, self._places[name]]

    def _file(self, shard: int) -> int:
        found = self._files.get(shard)
        if found is not None:
            return found
        with self._lock:
            if shard not in self._files:
                name = self._snapshot.manifest.shards[shard].file
                assert self._snapshot.store.local is not None
                path = os.path.join(self._snapshot.store.local, name)
                try:
                    self._files[shard] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    raise CorruptError([name], "the file is not there") from None
                except OSError as error:
                    raise StorageError("read", path, error.strerror or str(error), "") from None
            return self._files[shard]

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            for file in self._files.values():
                os.close(file)
            self._files.clear()
