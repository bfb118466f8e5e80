"""What a GPU could be fed with: floors for `feed_gpu.py`, taken in the same run.

A copy from pinned memory; `preadv` into pinned memory by so many threads; and both at once, which is what the loader's
readers do, by threads that do nothing else.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

import penstock as pk
from penstock.feed.cuda.arena import AT_ONCE, STAGE_BYTES, Stage
from penstock.feed.cuda.calls import cuda_calls
from penstock.feed.cuda.pieces import Segment, pieces
from penstock.feed.reading.source import Straight

PIECE_BYTES, RUN_BYTES = 8 << 20, 16 << 20
"""What is read at a time, and what the loader's readers are told to read: as a rule a block."""

Job = tuple[int, int]
"""A file and where to read."""


def copy_floor() -> float:
    """GB/s from pinned memory to the device."""
    pinned = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(pinned, device="cuda")
    for _ in range(3):
        device.copy_(pinned, non_blocking=True)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(50):
        device.copy_(pinned, non_blocking=True)
    torch.cuda.synchronize()
    return 50 * pinned.numel() / (time.perf_counter() - began) / 1e9


def read_floor(ds: pk.Dataset, threads: int) -> float:
    """GB/s of `preadv` into pinned memory, in the order of the files."""

    def begin(take: Callable[[], Job | None]) -> Callable[[], int]:
        mine = memoryview(torch.empty(PIECE_BYTES, dtype=torch.uint8, pin_memory=True).numpy())

        def work() -> int:
            done = 0
            while (job := take()) is not None:
                done += os.preadv(job[0], [mine], job[1])
            return done

        return work

    with jobs(ds, PIECE_BYTES) as found:
        return rate(threads, found, begin)


def bare_floor(ds: pk.Dataset, threads: int) -> float:
    """GB/s of the loop of the loader's readers, which reads and copies, over runs in random order."""
    target = torch.empty(RUN_BYTES, dtype=torch.uint8, device="cuda")
    calls = cuda_calls(target.device)

    def begin(take: Callable[[], Job | None]) -> Callable[[], int]:
        stage = Stage(calls, STAGE_BYTES, [target])

        def work() -> int:
            done = 0
            while some := list(itertools.islice(iter(take, None), AT_ONCE)):
                stage.bring(
                    [
                        (Straight(file, [start], ds.shards[0]), piece)
                        for file, start in some
                        for piece in pieces([Segment(start, RUN_BYTES, 0)], STAGE_BYTES)
                    ]
                )
                done += RUN_BYTES * len(some)
            stage.settle()
            return done

        return work

    with jobs(ds, RUN_BYTES) as found:
        whole = [job for job in found if job[1] + RUN_BYTES <= os.fstat(job[0]).st_size]
        random.Random(1).shuffle(whole)
        return rate(threads, whole, begin)


@contextmanager
def jobs(ds: pk.Dataset, size: int) -> Iterator[list[Job]]:
    """The files of a dataset, open, in stretches of so many bytes."""
    files = [os.open(os.path.join(ds.path, shard.file), os.O_RDONLY) for shard in ds.shards]
    try:
        yield [(file, start) for file in files for start in range(0, os.fstat(file).st_size, size)]
    finally:
        for file in files:
            os.close(file)


def rate(
    threads: int, found: list[Job], begin: Callable[[Callable[[], Job | None]], Callable[[], int]]
) -> float:
    """GB/s of so many threads. `begin` makes one's work, before the clock starts; the work returns its bytes."""
    left, lock, done = iter(found), threading.Lock(), [0] * threads
    ready = threading.Barrier(threads + 1)

    def take() -> Job | None:
        with lock:
            return next(left, None)

    def run(number: int) -> None:
        try:
            work = begin(take)
        except BaseException:
            ready.abort()
            raise
        ready.wait()
        done[number] = work()

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - began) / 1e9
