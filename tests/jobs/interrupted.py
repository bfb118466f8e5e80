"""Run by test_everywhere.py in a process of its own: waits inside a transfer until Ctrl-C, then shows what is left."""

from __future__ import annotations

import os
import sys
import tempfile
import threading

import penstock as pk


def slow(batches):
    import time

    for batch in batches:
        time.sleep(60)
        yield batch


def main(kind: str) -> None:
    spark = pk.session(remote="local[2]") if kind == "connect" else pk.session(cores=2, memory="1g")
    df = spark.range(0, 8, 1, 8)
    pk.to_numpy(df)
    print("waiting", flush=True)
    try:
        pk.to_numpy(df.mapInArrow(slow, "id long"))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    assert pk.to_numpy(df, "id").tolist() == list(range(8))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock")]
    sockets = [
        folder
        for folder in os.listdir(tempfile.gettempdir())
        if folder.startswith("penstock-")
        and os.path.exists(os.path.join(tempfile.gettempdir(), folder, "door"))
    ]
    assert not sockets, sockets
    spark.stop()
    print("all well")


if __name__ == "__main__":
    main(sys.argv[1])
