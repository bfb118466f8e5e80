"""Run by test_ending.py: forks in the middle of an epoch, and says what parent and child then see.

    forking_epoch.py DATASET

The child iterates the same loader anew, then goes on with the iterator it inherited, and ends as any process does; the
parent looks at its leases, and goes on. The fork happens while locks are held, as a gather or a reader may hold them.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import penstock as pk
from penstock.errors import DatasetError
from penstock.feed.memory import mapped
from penstock.feed.reading import limits

SECONDS = 60


def anew(loader) -> None:
    loader.set_epoch(0)
    print("anew", sum(len(batch["y"]) for batch in loader), flush=True)


def child(loader, iterator) -> None:
    signal.alarm(SECONDS)
    close = mapped._Region.close

    def slowly(region) -> None:
        """Two that begin at once are to meet, before what was the other process's is given back."""
        time.sleep(0.1)
        close(region)

    mapped._Region.close = slowly
    begun = [threading.Thread(target=anew, args=(loader,)) for _ in range(2)]
    for each in begun:
        each.start()
    for each in begun:
        each.join()
    try:
        for _ in iterator:
            pass
    except DatasetError as error:
        print("inherited refused" if str(os.getppid()) in str(error) else error, flush=True)


@contextmanager
def held(*locks) -> Iterator[None]:
    """Locks that another thread holds: one that is not there in the child, so nobody gives them back."""
    ready, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            ready.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait()
    parent = os.getpid()
    yield
    if os.getpid() == parent:
        done.set()
        thread.join()


def main() -> None:
    mapped.LEAST_BUFFER = 0
    loader = pk.open(sys.argv[1]).numpy(20, lanes=4, memory=12 << 20, last="short", rank=0, world=1)
    iterator = iter(loader)
    rows = sum(len(next(iterator)["y"]) for _ in range(5))
    leases = loader._place._mapped.leases
    with held(leases._changed, limits.FILES._lock, loader._place._mapped._lock, loader._place._buffers._lock):
        process = os.fork()
    if process == 0:
        child(loader, iterator)
        return
    _, status = os.waitpid(process, 0)
    if status:
        sys.exit(f"the child ended with {status}")
    print("leased", all(fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_RDLCK for file in leases.files))
    print("went on", rows + sum(len(batch["y"]) for batch in iterator))


if __name__ == "__main__":
    main()
