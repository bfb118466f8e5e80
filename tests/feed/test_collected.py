"""An iterator that nobody holds is ended by the collector: in any thread, in the middle of anything, under any lock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import faulthandler, gc, itertools, sys, threading, time
import numpy as np, pyarrow as pa
import penstock as pk
from penstock.dataset.stores import arrow
from penstock.feed import log
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.reading.source import RowSource

faulthandler.dump_traceback_later(30, exit=True)
gc.collect()
gc.disable()

class Cycle:
    pass

def dropped(loader):
    cycle = Cycle()
    cycle.itself, cycle.iterator = cycle, iter(loader)
    next(cycle.iterator)

def over():
    while any(thread.name.startswith("penstock") for thread in threading.enumerate()):
        time.sleep(0.02)
    return "over"
"""

IN_A_POOL = """
pk.write(pa.table({"a": np.arange(20_000)}), "memory://collected/one", block_bytes=4096)
armed, done, read = threading.Event(), threading.Event(), arrow.ArrowStore.read_range
calls, once = itertools.count(), iter([None])
HostArena.gather_bytes = 64 * 8  # so that the first batch needs the first windows alone

def collecting(self, *arguments):
    if next(calls) >= 30:
        armed.wait(20)  # else all may be read before the iterator is dropped
    if armed.is_set() and next(once, done) is None:
        assert not threading.current_thread().name.startswith("penstock")
        gc.collect()  # as the interpreter may at any moment; a reader waits for this very thread
        done.set()
    return read(self, *arguments)

arrow.ArrowStore.read_range = collecting
dropped(pk.open("memory://collected/one").numpy(64, lanes=4))
armed.set()
done.wait()
print(over())
"""

UNDER_A_LOCK = """
path, which = sys.argv[1:]
ds = pk.write(pa.table({"a": np.arange(20_000)}), path + "/ds", block_bytes=4096)
lock, read = threading.Lock(), RowSource.read

def reading(*arguments):
    time.sleep(0.01)
    with lock:
        return read(*arguments)

RowSource.read = reading
log.TICK_SECONDS = 0.01
loader = ds.numpy(64, lanes=4, log=path + "/log.jsonl", memory=1 << 20)
dropped(loader)
held = {"a reader's": lock, "the log's": loader._log._lock, "the statistics'": loader.stats.readers._lock}[which]
with held:
    time.sleep(0.1)  # now somebody waits for it
    gc.collect()
print(over())
"""


def run(script: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr


def test_in_a_thread_that_a_reader_waits_for() -> None:
    run(IN_A_POOL)


@pytest.mark.parametrize("lock", ["a reader's", "the log's", "the statistics'"])
def test_by_who_holds_a_lock_that_others_wait_for(tmp_path: Path, lock: str) -> None:
    run(UNDER_A_LOCK, str(tmp_path), lock)
