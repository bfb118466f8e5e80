"""How ragged tensors are handed out: as they are, filled up to one length, or as torch's nested tensors.

`Dataset.torch(..., pad=128)` asks for the second, `nested=True` for the third. Works on NumPy's arrays, before they
become a framework's tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.dtypes import Array, TensorSpec
from penstock.errors import SelectionError, listed
from penstock.feed.memory.row_loops import NUMPY, RowLoops
from penstock.wire.ragged import Ragged

Pad = int | Mapping[str, int] | None
"""One length for all ragged tensors, or a length by tensor."""


def length_name(name: str) -> str:
    """The tensor that says how long the rows of a padded one were.

    >>> length_name("tokens")
    'tokens_length'
    """
    return f"{name}_length"


def padded_lengths(pad: Any, specs: Sequence[TensorSpec]) -> dict[str, int]:
    """The length of each ragged tensor that is to be filled up; refuses what makes no sense."""
    ragged = [spec.name for spec in specs if spec.ragged]
    if pad is None:
        return {}
    found = dict(pad) if isinstance(pad, Mapping) else dict.fromkeys(ragged, pad)
    for name, length in found.items():
        if name not in ragged:
            there = f"ragged are {listed(ragged)}" if ragged else "none of the tensors is ragged"
            raise SelectionError(f"pad={pad!r} names {name!r}, and {there}.")
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise SelectionError(
                f"pad={pad!r}: {length!r} is no length; a whole number of at least 1 is wanted."
            )
        if any(spec.name == length_name(name) for spec in specs):
            raise SelectionError(
                f"pad={pad!r} would add a tensor {length_name(name)!r}, and there is one of that name already. Leave "
                "it out with tensors=[...]."
            )
    if not found:
        raise SelectionError(f"pad={pad!r} has nothing to pad: none of the tensors is ragged. Leave pad out.")
    return found


@dataclass(frozen=True)
class Shaping:
    """What is to become of ragged tensors."""

    dtypes: Mapping[str, str]
    lengths: Mapping[str, int]
    """Of those that are filled up."""
    nested: bool = False

    def ragged(
        self,
        name: str,
        rows: Ragged,
        sizes: Sequence[int],
        padded: int | None,
        place: Callable[[Array, str], Any],
        loops: RowLoops = NUMPY,
    ) -> Iterator[dict[str, Any]]:
        """For each of some batches the tensors that stand for one ragged tensor, out of the rows of all of them.

        `padded`: the last batch, which alone may be shorter, is filled up to so many rows. `place` makes an array the
        framework's tensor; it is asked once for all batches, which are views.
        """
        counts = [size if padded is None else padded for size in sizes]
        rows = lengthened(rows, sum(counts))
        ends = np.cumsum(counts).tolist()
        spans = list(itertools.pairwise([0, *ends]))
        if name in self.lengths:
            length = self.lengths[name]
            filled = np.zeros((len(rows), length, *rows.values.shape[1:]), rows.values.dtype)
            for start, stop in spans:  # one by one, which takes less memory on the way
                fill_up(rows[start:stop], filled[start:stop], loops)
            counted = np.minimum(np.diff(rows.offsets), length).astype(np.int32)
            dense, lengths = place(filled, self.dtypes[name]), place(counted, "int32")
            for start, stop in spans:
                yield {name: dense[start:stop], length_name(name): lengths[start:stop]}
            return
        begun = [int(rows.offsets[start]) for start, _ in spans] + [int(rows.offsets[-1])]
        own = [rows.offsets[start : stop + 1] - begun[batch] for batch, (start, stop) in enumerate(spans)]
        values, offsets = place(rows.values, self.dtypes[name]), place(np.concatenate(own), "int64")
        for batch, (start, stop) in enumerate(spans):
            part = values[begun[batch] : begun[batch + 1]], offsets[start + batch : stop + batch + 1]
            yield {name: Ragged(*part)} if not self.nested else {name: _nested(*part)}


def lengthened(rows: Ragged, wanted: int) -> Ragged:
    """With empty rows at the end."""
    if len(rows) == wanted:
        return rows
    return Ragged(rows.values, np.pad(rows.offsets, (0, wanted - len(rows)), mode="edge"))


def _nested(values: Any, offsets: Any) -> Any:
    import torch

    return torch.nested.nested_tensor_from_jagged(values, offsets)


def fill_up(rows: Ragged, dense: Array, loops: RowLoops = NUMPY) -> None:
    """Rows into ones of equal length, from the front; what is too long is cut off, and what is left stays as it was.

    >>> dense = np.zeros((3, 2), int)
    >>> fill_up(Ragged(np.array([1, 2, 3, 4]), np.array([0, 1, 1, 4])), dense)
    >>> dense.tolist()
    [[1, 0], [0, 0], [2, 3]]
    """
    count, length = dense.shape[:2]
    lengths, targets = np.minimum(np.diff(rows.offsets), length), length * np.arange(count)
    flat = dense.reshape(count * length, *dense.shape[2:])
    starts = np.ascontiguousarray(rows.offsets[:-1])
    loops.take_runs([rows.values], np.zeros(count, np.int64), starts, lengths, targets, flat)
