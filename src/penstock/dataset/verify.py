"""Every byte of a version against its checksums, several shards at a time.

A shard is read once from end to end; each block's bytes have their own checksum, so that damage is named by block,
and the file has one over everything, so that no byte between them escapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

import numpy as np

from penstock.dataset import checksum
from penstock.dataset.blocks import read_ranges
from penstock.dataset.index import Index
from penstock.dataset.manifest import Manifest, Shard
from penstock.dataset.store import Store, uncached
from penstock.errors import CorruptError
from penstock.progress import Meter, progress

THREADS = 8
CHUNK = 8 << 20


@dataclass
class _Tally:
    """How far all threads together are."""

    meter: Meter
    bytes: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        self._lock = Lock()

    def add(self, size: int, rows: int) -> None:
        with self._lock:
            self.bytes, self.rows = self.bytes + size, self.rows + rows
            self.meter.update(self.bytes, self.rows)


def verify(store: Store, manifest: Manifest, index: Index) -> None:
    """Read everything; `CorruptError` names each bad shard and block."""
    store = uncached(store)
    firsts = np.searchsorted(index.shard, np.arange(len(manifest.shards) + 1))
    with progress("Verifying") as meter, ThreadPoolExecutor(THREADS) as pool:
        tally = _Tally(meter)
        jobs = [
            pool.submit(_bad_places, store, shard, index, int(firsts[place]), int(firsts[place + 1]), tally)
            for place, shard in enumerate(manifest.shards)
        ]
        try:
            bad = [place for job in jobs for place in job.result()]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if bad:
        raise CorruptError(bad, "the bytes are not those that were written")


def _bad_places(store: Store, shard: Shard, index: Index, first: int, last: int, tally: _Tally) -> list[str]:
    try:
        size = store.size(shard.file)
    except FileNotFoundError:
        return [f"{shard.file} (missing)"]
    if size != shard.bytes:
        return [f"{shard.file} ({size} bytes instead of {shard.bytes})"]
    kind, expected = checksum.parse(shard.checksum)
    whole, bad = checksum.new(kind), []
    position = 0
    for number in range(first, last):
        start, length = int(index.offset[number]), int(index.length[number])
        for data in _chunks(store, shard, position, start):
            whole.update(data)
        block = checksum.new(kind)
        for data in _chunks(store, shard, start, start + length):
            whole.update(data)
            block.update(data)
        if block.value() != int(index.checksum[number]):
            bad.append(f"{shard.file}, block {number - first}")
        position = start + length
        tally.add(length, int(index.rows[number]))
    for data in _chunks(store, shard, position, shard.bytes):
        whole.update(data)
    if whole.value() != expected and not bad:
        bad.append(f"{shard.file}, between its blocks")
    return bad


def _chunks(store: Store, shard: Shard, start: int, stop: int) -> Iterator[memoryview]:
    while start < stop:
        data = memoryview(read_ranges(store, shard, [(start, min(CHUNK, stop - start))])[0])
        yield data
        start += data.nbytes
