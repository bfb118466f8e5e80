"""Where checkpoints lie and which of them is the newest; and states that say little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from penstock.dataset.store import open_store
from penstock.errors import CheckpointError
from penstock.feed.checkpoint.checkpoint import checkpoint, restore
from penstock.feed.checkpoint.folder import TOC


@pytest.mark.parametrize(
    ("kept", "given", "said"),
    [
        (torch.zeros(5), torch.zeros(3), r"it is float32\[5\] there and float32\[3\] here"),
        (
            torch.zeros(3),
            torch.zeros(3, dtype=torch.float64),
            r"it is float32\[3\] there and float64\[3\] here",
        ),
        (torch.zeros(3), np.zeros(3), r"it is a tensor there and of type ndarray here"),
    ],
)
def test_a_tensor_of_another_kind_is_refused(tmp_path: Path, kept: Any, given: Any, said: str) -> None:
    checkpoint(tmp_path, model={"w": kept})
    with pytest.raises(
        CheckpointError, match=rf"model\['w'\] cannot be restored from the checkpoint.*{said}"
    ):
        restore(tmp_path, model={"w": given})
    assert torch.equal(restore(tmp_path, model={"w": kept + 1}).model["w"], kept)


def test_an_address_is_read_as_that_of_a_dataset(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/a%20b"
    checkpoint(address, extra=1)
    assert [each.name for each in tmp_path.iterdir()] == ["a b"]
    assert open_store(address).local == str(tmp_path / "a b")
    assert restore(address).extra == 1


@pytest.mark.parametrize("later", [5, 20])
def test_of_two_with_one_number_the_newest_is_the_one_written_last(tmp_path: Path, later: int) -> None:
    for step in (20, 5):
        written = checkpoint(tmp_path, extra=step, step=step)
        # As two writers leave them that take a number at the same moment.
        folder = written.rename(tmp_path / f"00000001-step-{step}")
        os.utime(folder / TOC, (10**9, 10**9 + (step == later)))
    assert restore(tmp_path).extra == later
    checkpoint(tmp_path, extra="next", step=1, keep=2)
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"00000001-step-{later}", "00000002-step-1"]


def test_a_loader_whose_state_is_no_dictionary(tmp_path: Path) -> None:
    class Other:
        state: Any = None

        def state_dict(self) -> list[int]:
            return [1, 2]

        def load_state_dict(self, state: list[int]) -> None:
            self.state = state

    checkpoint(tmp_path, loader=Other(), step=3)
    found = restore(tmp_path, loader=Other())
    assert (found.step, found.epoch, found.loader.state) == (3, 0, [1, 2])
