"""Rows of blocks into memory that somebody else owns: what reader threads call.

Uncompressed Arrow shards on local disks are read straight to where the rows go (`preadv`, which lets other threads
run); everything else (object stores, compressed blocks, Parquet, ragged tensors) comes through
`penstock.dataset.blocks` and is copied. A block's bytes are checked the first time they are read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from penstock.dataset import checksum
from penstock.dataset.blocks import block_place
from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import DTYPES, Array, TensorSpec
from penstock.errors import CorruptError, StorageError
from penstock.wire.ragged import Ragged


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
        self.bytes_read = 0

    def read(self, block: int, first: int, rows: int, views: Mapping[str, memoryview]) -> dict[str, Ragged]:
        """Fill the views with a run of rows of a block; ragged tensors are returned."""
        whole = int(self._snapshot.index.rows[block])
        check = self._verified is not None and not self._verified[block]
        if self._direct and not (check and rows < whole):
            self._read_direct(block, first, rows, views, check)
            found: dict[str, Ragged] = {}
        else:
            found = self._read_decoded(block, first, rows, views, check)
        if check and self._verified is not None:
            self._verified[block] = True
        return found

    def _read_direct(
        self, block: int, first: int, rows: int, views: Mapping[str, memoryview], check: bool
    ) -> None:
        index = self._snapshot.index
        shard = self._snapshot.manifest.shards[int(index.shard[block])]
        file = self._file(int(index.shard[block]))
        for spec in self._specs:
            buffer = index.buffers[block, self._places[spec.name]]
            view, offset = views[spec.name], int(buffer["offset"]) + first * spec.row_bytes
            done = 0
            while done < view.nbytes:
                got = os.preadv(file, [view[done:]], offset + done)
                if got == 0:
                    raise CorruptError([shard.file], "the file ends too early")
                done += got
            if check:
                kind, _ = checksum.parse(shard.checksum)
                if checksum.of(kind, view) != int(buffer["checksum"]):
                    raise CorruptError([block_place(index, shard, block)], "a checksum is wrong")
            self.bytes_read += done

    def _read_decoded(
        self, block: int, first: int, rows: int, views: Mapping[str, memoryview], check: bool
    ) -> dict[str, Ragged]:
        names = [spec.name for spec in self._specs]
        tensors = self._snapshot.blocks.read(block, names, check and self._snapshot.committed)
        found = {}
        for spec in self._specs:
            part = tensors[spec.name][first : first + rows]
            self.bytes_read += part.nbytes
            if isinstance(part, Ragged):
                found[spec.name] = part
            else:
                room = np.frombuffer(views[spec.name], DTYPES[spec.dtype].storage)
                room[...] = part.reshape(-1)
        return found

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
