"""Run by test_memory.py in a process of its own: reads an epoch and prints how far its own memory grew.

    measured_epoch.py DATASET SMALL FRAMEWORK MEMORY LANES BATCH [OPTIONS]

Prints one line of JSON: the growth, between the first batch asked for and the last, at their peaks, of what the process
allocated (RssAnon) and of what it has in maps of files (RssFile); the rows seen; and what the loader says it uses.
SMALL is a dataset of the same kind that is read first: what libraries load and set up on first use is not the loader's.
OPTIONS are more of the loader's arguments, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import numpy as np

import penstock as pk
from penstock.feed.loader import Loader
from penstock.wire.ragged import Ragged

STATUS = Path("/proc/self/status")


def resident() -> np.ndarray:
    lines = dict(line.split(":") for line in STATUS.read_text().splitlines())
    return np.array([int(lines[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile")])


class Peak:
    """The most memory of both kinds seen while it was entered, looked at every millisecond."""

    def __enter__(self) -> Peak:
        self._stop, self.before = threading.Event(), resident()
        self.most = self.before
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        # Once more: the thread may have had no processor, and what the loader keeps is still there.
        self.most = np.maximum(self.most, resident())

    def _watch(self) -> None:
        while not self._stop.wait(0.001):
            self.most = np.maximum(self.most, resident())


def consumed(loader: Loader) -> int:
    rows, total = 0, 0.0
    for batch in loader:
        rows += len(batch["x"])
        x = batch["x"]
        total += float(x.values[0]) if isinstance(x, Ragged) else float(np.asarray(x)[0, 0])
    assert total >= 0
    return rows


def main() -> None:
    path, small, framework = sys.argv[1:4]
    memory, lanes, batch = map(int, sys.argv[4:7])
    options = json.loads(sys.argv[7]) if sys.argv[7:] else {}
    consumed(getattr(pk.open(small), framework)(batch, last="short", **options))
    loader = getattr(pk.open(path), framework)(batch, memory=memory, lanes=lanes, last="short", **options)
    with Peak() as peak:
        rows = consumed(loader)
    allocated, mapped = (peak.most - peak.before).tolist()
    told = {"grown": allocated, "mapped": mapped, "rows": rows, "said": loader.stats.memory}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
