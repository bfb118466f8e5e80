"""A dataset kept on a GPU: blocks are copied there once, and later epochs are gathers alone.

As `penstock.feed.memory.cache`, on the device: rows lie in the order of the files. `penstock.feed.cuda.arena` fills
it and gathers out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.feed.plan.route import Fetch


class DeviceCache:
    """Room on a device for all rows of the fixed tensors."""

    def __init__(self, snapshot: Snapshot, specs: Sequence[TensorSpec], device: Any) -> None:
        import torch

        self.starts, self._block_rows = snapshot.index.starts, snapshot.index.rows
        self.tensors = {
            spec.name: torch.empty(
                (snapshot.manifest.rows, *spec.shape), dtype=getattr(torch, spec.dtype), device=device
            )
            for spec in specs
            if not spec.ragged
        }
        self._present = np.asarray(self._block_rows == 0)

    @property
    def whole(self) -> bool:
        """Whether every block is there."""
        return bool(self._present.all())

    def wanted(self, fetch: Fetch) -> Fetch | None:
        """The block of a run of rows, unless it is there."""
        if self._present[fetch.block]:
            return None
        return Fetch(fetch.block, 0, int(self._block_rows[fetch.block]), 0)

    def place(self, fetch: Fetch) -> int:
        """Where a run of rows belongs."""
        return int(self.starts[fetch.block]) + fetch.first

    def landed(self, fetch: Fetch) -> None:
        """A block has arrived, and its bytes are right."""
        self._present[fetch.block] = True
