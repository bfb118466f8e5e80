"""A reader's loop without the interpreter: runs of rows through pinned memory to a GPU, compiled by numba.

Every call of Python's own hands the interpreter's lock over, and a reader that comes back from the disk waits until
whoever trains gives it up. Here whole runs are one call: wait for the buffer, read, begin to copy, and again. Where
numba is not installed, or anything goes wrong, readers do the same step by step (`arena`), and tell what it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from penstock.feed.cuda.pieces import Piece
from penstock.feed.machine_code import machine_code

FAILED = -1


class Functions(NamedTuple):
    """Addresses of what is called; pointers are passed as numbers."""

    read: int
    """`pread`: file, memory, bytes, offset -> bytes."""
    wait: int
    """`cuEventSynchronize`: event -> code."""
    copy: int
    """`cuMemcpyHtoDAsync`: target, memory, bytes, stream -> code."""
    record: int
    """`cuEventRecord`: event, stream -> code."""


Loop = Callable[..., int]
"""stream, the buffer used last, events of the buffers, buffers, pieces (file, offset, size, how many copies), copies
(target, start in the piece, size) -> the buffer used last, or FAILED."""


@cache
def compiled(functions: Functions) -> Loop | None:
    """The loop over these functions, compiled once in a process; None where numba is not installed or does not work."""
    found: Loop | None = machine_code(
        "int64(int64,int64,int64[::1],int64[::1],int64[:,::1],int64[:,::1])", lambda: _loop(functions)
    )
    return found


def native_bring(
    loop: Loop, targets: Sequence[int], buffers: Sequence[int], events: Sequence[int], stream: int
) -> Callable[[int, Sequence[tuple[int, Piece]]], int]:
    """The loop for one reader's buffers, all given by their addresses."""
    own, happened = np.array(buffers, np.int64), np.array(events, np.int64)

    def bring(turn: int, parts: Sequence[tuple[int, Piece]]) -> int:
        reads = [(file, piece.offset, piece.size, len(piece.copies)) for file, piece in parts]
        copies = [
            (targets[tensor] + target, start, size)
            for _, piece in parts
            for tensor, target, start, size in piece.copies
        ]
        return loop(stream, turn, happened, own, np.array(reads, np.int64), np.array(copies, np.int64))

    return bring


def _loop(functions: Functions) -> Loop:
    number, code = ctypes.c_uint64, ctypes.c_int
    read = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int, number, number, ctypes.c_int64)(functions.read)
    wait = ctypes.CFUNCTYPE(code, number)(functions.wait)
    copy = ctypes.CFUNCTYPE(code, number, number, number, number)(functions.copy)
    record = ctypes.CFUNCTYPE(code, number, number)(functions.record)
    failed = FAILED

    def loop(
        stream: int, turn: int, events: Any, buffers: Any, pieces: Any, copies: Any
    ) -> int:  # pragma: no cover, compiled
        at = 0
        for piece in range(len(pieces)):
            turn = (turn + 1) % len(buffers)
            file, offset, size = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
            if wait(events[turn]) != 0:
                return failed
            done = 0
            while done < size:
                got = read(file, buffers[turn] + done, size - done, offset + done)
                if got <= 0:
                    return failed
                done += got
            for _ in range(pieces[piece, 3]):
                if copy(copies[at, 0], buffers[turn] + copies[at, 1], copies[at, 2], stream) != 0:
                    return failed
                at += 1
            if record(events[turn], stream) != 0:
                return failed
        return turn

    return loop
