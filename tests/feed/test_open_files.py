"""What a loader keeps open, leases included, is half of what the process may: the rest is for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import resource, sys
import numpy as np, pyarrow as pa
import penstock as pk
from penstock.feed.memory import mapped
from penstock.feed.reading.limits import FILES

mapped.LEAST_BUFFER = 0
SHARDS, WIDTH = 40, 512
rows = SHARDS * 64
numbers = np.arange(rows * WIDTH, dtype=np.uint32).astype(np.uint8)
table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(numbers), WIDTH), "y": np.arange(rows)})
ds = pk.write(table, sys.argv[1], shards=SHARDS, block_bytes=1 << 20)
first, second = ds.numpy(50, last="short"), ds.numpy(50, last="short")
resource.setrlimit(resource.RLIMIT_NOFILE, (2 * SHARDS, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

# All of the half is leased, and blocks that are asked for in part are still to be checked.
ids = [number for batch in first for number in batch["y"]]
assert sorted(ids) == list(range(rows)), len(ids)
assert first._place._mapped is not None
assert FILES._count == 0, FILES._count

# Two at once: the second reads.
iterator = iter(first)
next(iterator)
assert FILES._count == SHARDS, FILES._count
ids = [number for batch in second for number in batch["y"]]
assert sorted(ids) == list(range(rows)), len(ids)
assert second._place._mapped is None
iterator.close()
assert FILES._count == 0, FILES._count
"""


def test_leases_count_among_open_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "ds")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
