"""Writes that stop where a test wants them to, for tests of following; also run as a process of its own, to be killed.

slow_writes.py PATH [MODE]      writes five parts and then waits for ever; its heart beats often
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as pk
from penstock.dataset import follow_log, local

PART_ROWS, ROW_BYTES = 200, 16
TENSORS = {"id": "id", "words": pk.ragged("words")}
Gate = Callable[[int], None]
"""Called with the number of each part before its rows are handed over; may wait, and may raise."""


def numbered(parts: int, gate: Gate = lambda part: None, uneven: int = 7) -> pa.RecordBatchReader:
    """A stream of parts whose sizes differ; ids count from 0, and each row has a list of id % 3 words."""
    schema = pa.schema([("id", pa.int64()), ("words", pa.list_(pa.int32()))])

    def batches() -> Iterator[pa.RecordBatch]:
        first = 0
        for part in range(parts):
            gate(part)
            ids = np.arange(first, first + PART_ROWS + uneven * part)
            words = [[number] * (number % 3) for number in ids.tolist()]
            yield pa.record_batch([pa.array(ids), pa.array(words, pa.list_(pa.int32()))], schema)
            first += len(ids)

    return pa.RecordBatchReader.from_batches(schema, batches())


def total(parts: int, uneven: int = 7) -> int:
    """Rows of so many parts."""
    return parts * PART_ROWS + uneven * parts * (parts - 1) // 2


class Writing:
    """A write in a thread, one part for every batch of the stream; `join` gives its dataset or raises its error."""

    def __init__(self, path: Path | str, rows: pa.RecordBatchReader, **options: Any) -> None:
        self._found: list[Any] = []
        self._options = {"tensors": TENSORS, "block_bytes": 1024, "follow": True, **options}
        self._thread = threading.Thread(target=self._write, args=(rows, path), daemon=True)
        self._thread.start()

    def _write(self, rows: pa.RecordBatchReader, path: Path | str) -> None:
        try:
            self._found.append(pk.write(rows, path, **self._options))
        except BaseException as error:
            self._found.append(error)

    @property
    def ended(self) -> bool:
        """Whether the write is over."""
        return bool(self._found)

    def join(self) -> pk.Dataset:
        """Wait for its end."""
        self._thread.join(120)
        assert self._found, "the write did not end"
        if isinstance(self._found[0], BaseException):
            raise self._found[0]
        found: pk.Dataset = self._found[0]
        return found


def one_part_per_batch() -> None:
    """Have the writer end a part with every batch."""
    local.FOLLOWED_BYTES = 1


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


if __name__ == "__main__":
    one_part_per_batch()
    follow_log.BEAT_SECONDS = 0.2

    def stop_at_five(part: int) -> None:
        if part == 5:
            time.sleep(600)

    mode = (sys.argv[2:] or ["error"])[0]
    pk.write(numbered(9, stop_at_five), sys.argv[1], TENSORS, follow=True, block_bytes=1024, mode=mode)
