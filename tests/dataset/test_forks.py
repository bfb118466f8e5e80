"""A process that is forked while threads are at work waits for none of them; another one gets datasets whole."""

from __future__ import annotations

import pickle
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk

BEGIN = """
import os, signal, sys, threading
import numpy as np, pyarrow as pa
import penstock as pk
from penstock.dataset import blocks
from penstock.dataset.store import DiskCache

path = sys.argv[1]
began, go_on = threading.Event(), threading.Event()

def at_work(work):
    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    return thread

def slowly(found=b"abc"):
    began.set()
    go_on.wait()
    return found

def forked(thread, child, meanwhile=lambda: None):
    process = os.fork()
    if process == 0:
        signal.alarm(30)
        print(child(), flush=True)
        os._exit(0)
    meanwhile()
    _, status = os.waitpid(process, 0)
    go_on.set()
    thread.join()
    print("status", status)
"""

READING = """
cache = DiskCache(path, 1 << 20)
thread = at_work(lambda: cache.through("0" * 32, 3, slowly))
forked(thread, lambda: bytes(cache.through("0" * 32, 3, lambda: b"abc")).decode())
"""

COUNTING = """
cache = DiskCache(path, 1 << 20)
def count():
    with cache._total():
        slowly()
thread = at_work(count)
def end():
    go_on.set()
    thread.join()
forked(thread, lambda: bytes(cache.through("0" * 32, 3, lambda: b"abc")).decode(), end)
"""

CHECKING = """
ds = pk.write(pa.table({"a": np.arange(3)}), path + "/ds", format="parquet")
check = blocks.ArrowBlocks._check_file
blocks.ArrowBlocks._check_file = lambda *some: slowly(check(*some))
thread = at_work(lambda: ds.snapshot.blocks.read(0, ["a"], True))
def child():
    blocks.ArrowBlocks._check_file = check
    return "abc"[: len(ds.snapshot.blocks.read(0, ["a"], True)["a"])]
forked(thread, child)
"""


@pytest.mark.parametrize("script", [READING, COUNTING, CHECKING], ids=["reading", "counting", "checking"])
def test_what_others_were_at_is_done_anew(tmp_path: Path, script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["abc", "status", "0"]), done.stderr


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"format": "parquet"}])
def test_a_dataset_goes_to_another_process_after_it_was_read(tmp_path: Path, options: dict[str, Any]) -> None:
    """Also with a cache, whose folder both share: `penstock.launch(train, ds)` sends it so."""
    pk.write(pa.table({"x": np.arange(1000.0)}), tmp_path / "train", shards=2, **options)
    memory = f"memory://{uuid.uuid4().hex}"
    pk.write(pa.table({"x": np.arange(1000.0)}), memory, shards=2, **options)
    for ds in (pk.open(tmp_path / "train"), pk.open(memory, cache_dir=tmp_path / "cache")):
        expected = [batch["x"].tolist() for batch in ds.numpy(100)]
        again = pickle.loads(pickle.dumps(ds))
        assert [batch["x"].tolist() for batch in again.numpy(100)] == expected
        assert repr(again) == repr(ds)
