"""Host memory to GPU: Penstock's staged copy beside the usual ways, in one run; needs a GPU and no Spark.

    python benchmarks/place_gpu.py [--gigabytes 4]

First the staged copy is checked, bit for bit, for every dtype and for sizes around the stage's; then it is timed
against `tensor.cuda()` from ordinary memory, against pinning the whole tensor first, and against the floor: a copy
from memory that is pinned already.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from penstock.dtypes import DTYPES
from penstock.feed.frameworks.torch import STAGE_BYTES, place, to_cuda
from penstock.wire.arena import Arena


def check() -> None:
    generator = np.random.default_rng(7)
    for name, dtype in DTYPES.items():
        for rows in (0, 1, 1000):
            raw = generator.integers(0, 2 if name == "bool" else 256, rows * 5 * dtype.bytes, np.uint8)
            array = raw.view(dtype.storage).reshape(rows, 5)
            host, device = (place([array], [name], where)[0] for where in ("cpu", "cuda"))
            assert (device.is_cuda, device.dtype, device.shape) == (True, getattr(torch, name), host.shape)
            assert torch.equal(device.cpu().view(torch.uint8), host.view(torch.uint8)), (name, rows)
    for stage in (1, 7, 64):
        for size in (0, 1, stage - 1, stage, stage + 1, 2 * stage, 10 * stage + 3):
            tensor = torch.from_numpy(generator.integers(0, 256, size, np.uint8))
            assert torch.equal(to_cuda(tensor, torch.device("cuda"), stage).cpu(), tensor), (stage, size)
    big = torch.arange(3 * STAGE_BYTES // 4 + 5, dtype=torch.int32)
    for _ in range(20):
        assert torch.equal(to_cuda(big, torch.device("cuda")).cpu(), big)
    print("bit for bit: every dtype, sizes around the stage's, 20 rounds")


def timed(run: Callable[[], object], rounds: int = 5) -> float:
    seconds = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        result = run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        del result
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=4)
    given = parser.parse_args()
    check()
    size = int(given.gigabytes * 1e9) // 4 * 4
    arena = Arena()
    with arena.tail(size) as view:
        np.frombuffer(view, np.float32)[:] = 1.5
    array = arena.array(np.dtype(np.float32), (size // 4,))
    host = torch.from_numpy(array)
    device = torch.device("cuda")
    ways: dict[str, Callable[[], object]] = {
        "tensor.cuda() from ordinary memory": host.cuda,
        "tensor.pin_memory().cuda()": lambda: host.pin_memory().cuda(),
    }
    for megabytes in (4, 16, 32, 64, 128):
        ways[f"Penstock, two stages of {megabytes} MiB"] = lambda m=megabytes: to_cuda(host, device, m << 20)
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    ways["floor: copy from memory pinned already"] = pinned.cuda
    print(
        torch.cuda.get_device_name(), f"torch {torch.__version__}, {size / 1e9:.1f} GB float32, median of 5"
    )
    print("| way | GB/s |\n| --- | --- |")
    for name, run in ways.items():
        run()
        print(f"| {name} | {size / timed(run) / 1e9:.1f} |")


if __name__ == "__main__":
    main()
