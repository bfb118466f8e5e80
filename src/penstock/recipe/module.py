"""A fitted recipe as an `nn.Module`: part of a model, and exported with it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class RecipeModule(torch.nn.Module):
    """Columns in, the recipe's tensors out, each with which of its rows (of lists: which elements) are valid.

    It never waits for the device and never raises for a null: that is what the masks are for. A column is a tensor, or
    a pair of a tensor and a bool tensor of what is valid.
    """

    def __init__(self, program: Any) -> None:
        super().__init__()
        self._program = program
        self.columns: list[str] = program.columns

    def forward(self, columns: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The tensors, and the masks."""
        values, masks = {}, {}
        for name, (tensor, valid) in self._program(columns).items():
            values[name] = tensor
            masks[name] = torch.ones_like(tensor, dtype=torch.bool) if valid is None else valid
        return values, masks
