"""That batches on a GPU are those on the host, and that nothing of an iteration is left, however it ends.

`feed_gpu.py` runs this before it measures anything; what is wrong ends it.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch

import penstock as pk
from penstock.errors import CorruptError
from penstock.feed.cuda.arena import give_pinned_back
from penstock.feed.loaders import chosen_specs, numpy_loader, torch_loader
from penstock.feed.memory import native_loops
from penstock.feed.settings import Settings

SAME: dict[str, Any] = {"rank": 0, "world": 1, "lanes": 16, "seed": 3}


def check(folder: str) -> None:
    """The same rows as on the host, bit for bit, for several seeds, batch sizes and worlds."""
    rows = 100_003
    numbered = pa.table(
        {
            "id": np.arange(rows),
            "v": pa.FixedSizeListArray.from_arrays(
                np.random.default_rng(1).random(rows * 7, dtype=np.float32), 7
            ),
            "b": np.arange(rows) % 3 == 0,
        }
    )
    ds = pk.write(numbered, folder, shards=5, block_bytes=100_000, mode="overwrite")
    snapshot = ds.snapshot
    specs = chosen_specs(snapshot, None)
    for seed in range(4):
        # The last two share lanes, and one of them leaves the rows in the order of the files.
        for batch, world, last in ((1000, 1, "drop"), (333, 2, "short"), (64, 3, "pad"), (200, 5, "drop")):
            for rank in range(world):
                for cache in (None, "host", "device"):
                    settings = Settings(
                        batch,
                        seed=seed,
                        rank=rank,
                        world=world,
                        last=last,
                        lanes=16,
                        threads=8,
                        window=1 + seed % 2,
                        shuffle=world != 5,
                    )
                    host = numpy_loader(snapshot, specs, settings)
                    device = torch_loader(snapshot, specs, replace(settings, cache=cache), "cuda")
                    for epoch in range(3):
                        for step, (ours, theirs) in enumerate(zip(host, device, strict=True)):
                            for name, array in ours.items():
                                if not np.array_equal(array, theirs[name].cpu().numpy()):
                                    where = (
                                        f"seed {seed}, epoch {epoch}, step {step}, rank {rank}, cache {cache}"
                                    )
                                    sys.exit(f"wrong: {name}, {where}")
    for pays in (native_loops.PAYS_FROM, 0):
        # Gathered by NumPy; then by machine code, where there is numba.
        with_loops(pays, lambda: check_ragged(os.path.join(folder, "ragged")))
    check_held(ds)
    check_made_before(ds)
    print("the batches on the device are those on the host, bit for bit")
    check_endings(ds, os.path.join(folder, "damaged"))
    print("however an iteration ends, nothing is left: no thread, no open shard, no pinned memory")


def with_loops(pays: int, run: Callable[[], None]) -> None:
    """With machine code from so many bytes on."""
    before, native_loops.PAYS_FROM = native_loops.PAYS_FROM, pays
    try:
        run()
    finally:
        native_loops.PAYS_FROM = before


def check_ragged(folder: str) -> None:
    """Ragged tensors: as they are, filled up, nested; a transform beside the training; every cache."""
    rows = 20_000
    texts = pa.table({"id": np.arange(rows), "tokens": [list(range(row % 11)) for row in range(rows)]})
    ds = pk.write(
        texts, folder, {"id": "id", "tokens": pk.ragged("tokens")}, block_bytes=20_000, mode="overwrite"
    )
    for cache in (None, "host", "device"):
        same = {"rank": 0, "world": 1, "lanes": 8, "last": "pad"}
        host = ds.numpy(500, pad=7, transform=lambda batch: {**batch, "twice": batch["id"] * 2}, **same)
        device = ds.torch(
            500,
            pad=7,
            device="cuda",
            cache=cache,
            transform=lambda batch: {**batch, "twice": batch["id"] * 2},
            **same,
        )
        nested = ds.torch(500, nested=True, device="cuda", cache=cache, **same)
        for _ in range(3):
            for ours, theirs, jagged in zip(host, device, nested, strict=True):
                for name, array in ours.items():
                    if not np.array_equal(array, theirs[name].cpu().numpy()):
                        sys.exit(f"wrong: {name} with cache {cache}")
                ids, found = ours["id"].tolist(), [row.tolist() for row in jagged["tokens"].cpu().unbind()]
                if found != [list(range(row % 11)) for row in ids]:
                    sys.exit(f"wrong: nested tokens with cache {cache}")


def check_held(ds: pk.Dataset) -> None:
    """Batches stay what they were as long as they are held, while the device is kept busy, by a transform too."""
    busy = torch.randn(4096, 4096, device="cuda")

    def late(batch: dict[str, Any]) -> dict[str, Any]:
        # Only once the product is there are the numbers, to which it adds nothing.
        return {"id": batch["id"] + (busy @ busy)[0, 0].isnan()}

    for cache, transform in itertools.product((None, "device"), (None, late)):
        loader = ds.torch(1000, device="cuda", rank=0, world=1, cache=cache, transform=transform)
        for _ in range(2):
            held = []
            for batch in loader:
                busy @ busy
                held.append(batch["id"])
            ids = torch.cat(held).cpu().numpy()
            if len(np.unique(ids)) != len(ids):
                sys.exit(f"wrong: held batches changed, cache {cache}")


def check_made_before(ds: pk.Dataset) -> None:
    """A transform sees what the training made before its loop, however late the device comes to that."""
    busy = torch.randn(4096, 4096, device="cuda")
    added = torch.zeros(1, dtype=torch.int64, device="cuda")
    loader = ds.torch(1000, device="cuda", transform=lambda batch: {"id": batch["id"] + added}, **SAME)
    host = ds.numpy(1000, **SAME)
    for epoch in range(3):
        for _ in range(20):
            busy @ busy
        added.fill_(1_000_000 * epoch)
        for step, (ours, theirs) in enumerate(zip(host, loader, strict=True)):
            if not np.array_equal(ours["id"] + 1_000_000 * epoch, theirs["id"].cpu().numpy()):
                sys.exit(f"wrong: what was made before the loop, epoch {epoch}, step {step}")


def check_endings(ds: pk.Dataset, damaged: str) -> None:
    """Every way to end an iteration, streamed and cached; what comes is right, and what was taken is given back."""
    pinned = pinned_bytes()
    for cache in (None, "host", "device"):
        for way in (left, failed, two_at_once, collected, resumed, on_another_stream):
            way(lambda cache=cache: ds.torch(1000, device="cuda", cache=cache, **SAME), ds)
            nothing_left(ds, f"{way.__name__}, cache {cache}")
        corrupt(damaged, cache)
        nothing_left(ds, f"corrupt, cache {cache}")
    now = pinned_bytes()
    if pinned is not None and now is not None and now > pinned:
        sys.exit(f"wrong: {now - pinned:,} bytes of pinned memory are left")


Make = Callable[[], Any]
"""Makes the loader on the device."""


def same(host: Iterable[Any], device: Iterable[Any], where: str) -> None:
    for step, (ours, theirs) in enumerate(zip(host, device, strict=True)):
        for name, array in ours.items():
            if not np.array_equal(array, theirs[name].cpu().numpy()):
                sys.exit(f"wrong: {name} at step {step}, {where}")


def left(make: Make, ds: pk.Dataset) -> None:
    """A loop that is left; the next epoch is whole."""
    loader, host = make(), ds.numpy(1000, **SAME)
    for each in (loader, host):
        for step, _ in enumerate(each):
            if step == 3:
                break
    same(host, loader, "after a break")


def failed(make: Make, ds: pk.Dataset) -> None:
    """An error in the loop, and one in a transform."""
    loader = make()
    try:
        for step, _ in enumerate(loader):
            if step == 3:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass

    def refuse(batch: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("no such thing")

    try:
        list(ds.torch(1000, device="cuda", transform=refuse, **SAME))
        sys.exit("wrong: an error in a transform is not told")
    except KeyError:
        pass


def two_at_once(make: Make, ds: pk.Dataset) -> None:
    """Two epochs side by side."""
    loader, host = make(), ds.numpy(1000, **SAME)
    pairs, ours = zip(loader, loader, strict=True), zip(host, host, strict=True)
    for step, ((a, b), (c, d)) in enumerate(zip(pairs, ours, strict=True)):
        same([c, d], [a, b], f"two iterators, step {step}")


def collected(make: Make, ds: pk.Dataset) -> None:
    """An iterator that only the collector finds."""
    cycle: dict[str, Any] = {"iterator": iter(make())}
    cycle["itself"] = cycle
    next(cycle["iterator"])
    del cycle
    gc.collect()


def resumed(make: Make, ds: pk.Dataset) -> None:
    """From a state in the middle of an epoch, taken on the device and on the host."""
    first, host = make(), ds.numpy(1000, **SAME)
    for each in (first, host):
        iterator = iter(each)
        for _ in range(7):
            next(iterator)
        iterator.close()
    if first.state_dict() != host.state_dict():
        sys.exit("wrong: the state on the device is another than on the host")
    for state in (first.state_dict(), host.state_dict()):
        loader, again = make(), ds.numpy(1000, **SAME)
        for each in (loader, again):
            each.load_state_dict(state)
        same(again, loader, "resumed")


def on_another_stream(make: Make, ds: pk.Dataset) -> None:
    """A consumer that takes batches on streams of its own, while the device is busy on the first."""
    busy, streams = torch.randn(2048, 2048, device="cuda"), [torch.cuda.Stream() for _ in range(2)]
    taken = []
    for step, batch in enumerate(make()):
        for _ in range(3):
            busy @ busy
        with torch.cuda.stream(streams[step % 2]):
            # The batch belongs to the stream it was taken on; another one has to wait for that, as always in torch.
            streams[step % 2].wait_stream(torch.cuda.default_stream())
            taken.append((batch["id"] * 2).to("cpu", non_blocking=False))
            batch["id"].record_stream(streams[step % 2])
    expected = [batch["id"] * 2 for batch in ds.numpy(1000, **SAME)]
    if not all(np.array_equal(a, b.numpy()) for a, b in zip(expected, taken, strict=True)):
        sys.exit("wrong: batches that are used on another stream")
    with torch.cuda.stream(streams[0]):
        found = [batch["id"].clone() for batch in make()]
    streams[0].synchronize()
    if not all(np.array_equal(a // 2, b.cpu().numpy()) for a, b in zip(expected, found, strict=True)):
        sys.exit("wrong: batches that are taken on another stream")


def corrupt(folder: str, cache: str | None) -> None:
    """A byte that was flipped ends the loop with an error that names the file."""
    table = pa.table({"id": np.arange(50_000), "x": np.arange(50_000) * 0.5})
    ds = pk.write(table, folder, shards=2, block_bytes=100_000, mode="overwrite")
    shard = os.path.join(ds.path, ds.shards[1].file)
    with open(shard, "r+b") as file:
        file.seek(int(ds.snapshot.index.buffers[-1, 0]["offset"]) + 5)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    try:
        list(ds.torch(1000, device="cuda", cache=cache, **SAME))
        sys.exit(f"wrong: damage is not found, cache {cache}")
    except CorruptError as error:
        if ds.shards[1].file not in str(error):
            sys.exit(f"wrong: the error does not name the file: {error}")
    nothing_left(ds, f"corrupt data, cache {cache}")


def nothing_left(ds: pk.Dataset, where: str) -> None:
    gc.collect()
    until = time.monotonic() + 20
    while threads := [each.name for each in threading.enumerate() if each.name.startswith("penstock")]:
        if time.monotonic() > until:
            sys.exit(f"wrong: threads are left: {threads}, {where}")
        time.sleep(0.01)
    shards = {os.path.realpath(os.path.join(ds.path, shard.file)) for shard in ds.shards}
    names = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    if files := shards & {os.path.realpath(name) for name in names}:
        sys.exit(f"wrong: files are open: {files}, {where}")


def pinned_bytes() -> int | None:
    """Pinned memory that torch has of the system, after it gave back what nobody uses; None where it is not told."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    give_pinned_back()
    told = getattr(torch.cuda, "host_memory_stats", None)
    found = told() if told is not None else {}
    return found.get("allocated_bytes.current")
