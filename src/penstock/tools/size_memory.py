"""What the loader takes on each rank, without data: by the loader's own arithmetic (`penstock.feed.plan.budget`).

Blocks are those that `pk.write` would make, or a dataset's own. The figure is that of one order (seed 0, epoch 0, rank
0), and exact for it; how blocks fall on lanes in another order takes up to a third more or less. Of more than about two
terabytes a part is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.dataset.manifest import Shard
from penstock.dataset.shards import block_rows
from penstock.dataset.writing import BLOCK_BYTES
from penstock.dtypes import TensorSpec
from penstock.feed.cuda.arena import AT_ONCE, PINNED_BYTES, STAGES, CudaArena
from penstock.feed.dataset import LANES, WINDOW
from penstock.feed.loaders import DEVICE_THREADS, HOST_THREADS
from penstock.feed.memory.host_arena import HostArena
from penstock.feed.plan.budget import Costs, budget
from penstock.feed.plan.order import Order, Steps
from penstock.feed.plan.route import Route

MOST_BLOCKS, FEW_BLOCKS = 131_071, 1_021
"""Primes, so that the blocks do not fall on the lanes evenly, which is a case of its own."""
MOST_STEPS = 1 << 20
"""Where there are more, fewer blocks are looked at; and then each step is taken for several, as the loader gathers."""


@dataclass(frozen=True)
class LoaderMemory:
    """What a rank's loader takes, with its standard settings and so many rows in a batch."""

    host: int
    """Bytes for batches in host memory."""
    device: int
    """Bytes on a GPU, for batches there."""
    pinned: int
    """Bytes of host memory beside those on the GPU."""


def loader_memory(
    blocks: Sequence[int],
    row_bytes: int,
    batch_size: int,
    workers: int,
    *,
    host_threads: int = HOST_THREADS,
    device_threads: int = DEVICE_THREADS,
) -> LoaderMemory:
    """Of every rank, where `blocks` are the rows of each block.

    >>> found = loader_memory([16384] * 512, row_bytes=1024, batch_size=8192, workers=16)
    >>> 0 < found.device < 2 << 30
    True
    """
    batch = batch_size * workers
    # An odd number, as above.
    enough = batch * MOST_STEPS // max(blocks) | 1
    few = tuple(blocks[: min(max(enough, FEW_BLOCKS), MOST_BLOCKS)])
    rows = sum(few)
    order = Order(few, seed=0, epoch=0, lanes=LANES, window=WINDOW)
    route = Route(order, Steps(rows, batch), 0, workers)
    if batch * MOST_STEPS < rows:
        # Steps shorter than the lanes are many may take a rank through more lanes than the longer ones that stand for
        # them would.
        world = max(round(LANES / len(route.lanes)), 1)
        route = Route(order, Steps(rows, -(-rows // MOST_STEPS)), 0, world)
    on_device = device_costs(row_bytes, device_threads)
    device = budget(route, on_device, device_threads, None).bytes - on_device.staged
    host = budget(route, host_costs(row_bytes), host_threads, None).bytes
    return LoaderMemory(host, device, on_device.staged)


def host_costs(row_bytes: int) -> Costs:
    """What rows cost in host memory; as `penstock.feed.places.HostPlace` says of a dataset."""
    return Costs(row_bytes, 8, HostArena.gather_bytes, HostArena.ahead + 2, 0)


def device_costs(row_bytes: int, threads: int) -> Costs:
    """What rows cost on a GPU; as `penstock.feed.places.CudaPlace` says of a plain dataset without ragged tensors."""
    staged = STAGES * PINNED_BYTES * threads
    return Costs(row_bytes, 0, CudaArena.gather_bytes, CudaArena.ahead + 2, staged, at_once=AT_ONCE)


def planned_blocks(rows: int, shards: int, specs: Sequence[TensorSpec], row_bytes: int) -> list[int]:
    """Rows of the blocks that `pk.write` would make of so many rows, as far as they matter here.

    >>> planned_blocks(40_000, 2, [TensorSpec("x", "float32", (256,))], 1024)
    [16384, 3616, 16384, 3616]
    """
    each = block_rows(specs, BLOCK_BYTES) or max(BLOCK_BYTES // max(row_bytes, 1), 1)
    share = -(-rows // shards)
    one = _cut(min(share, each * MOST_BLOCKS), each)
    return (one * min(shards, -(-MOST_BLOCKS // len(one))))[:MOST_BLOCKS]


def shard_blocks(shards: Sequence[Shard], specs: Sequence[TensorSpec], block_bytes: int | None) -> list[int]:
    """Rows of the blocks of a dataset's shards, as far as its manifest tells: all full but the last of a shard."""
    full = block_rows(specs, block_bytes) if block_bytes else None
    blocks: list[int] = []
    for shard in shards:
        even = -(-shard.rows // max(shard.blocks, 1))
        told = full is not None and -(-shard.rows // full) == shard.blocks
        blocks += _cut(shard.rows, full if told and full else max(even, 1))
        if len(blocks) > MOST_BLOCKS:
            break
    return blocks


def _cut(rows: int, each: int) -> list[int]:
    full, rest = divmod(rows, each)
    return [each] * full + ([rest] if rest else [])
