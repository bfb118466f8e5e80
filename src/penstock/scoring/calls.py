"""How a batch is given to a model, whatever its kind: a `Runner` gives memory, takes a batch, hands outputs out.

Each batch has memory of its own: a model may change its inputs, or hand them back. Modules and functions of torch
run here or, on a GPU, in `cuda`; Keras models and functions of NumPy arrays in `ArrayRunner`. `loading` chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from penstock.dtypes import DTYPES, Array
from penstock.errors import DeviceError


class Runner(Protocol):
    """A model, ready for batches."""

    def memory(self, shape: Sequence[int], dtype: str) -> Array:
        """Where the rows of a batch are written, in the dtype's storage."""

    def submit(self, arrays: Sequence[Array]) -> Any:
        """Start a batch, one array per tensor; errors of the model arise here."""

    def outputs(self, submitted: Any) -> Any:
        """What the model returned for a batch, with arrays for tensors."""

    def fatal(self, error: Exception) -> bool:
        """Whether nothing can be computed after this error."""


class TorchRunner:
    """A function of tensors, on the CPU (or on a device that torch copies to by itself)."""

    def __init__(
        self, function: Callable[..., Any], names: Sequence[str], dtypes: Sequence[str], device: str = "cpu"
    ) -> None:
        self._function, self._names, self._dtypes, self._device = function, names, dtypes, device

    def memory(self, shape: Sequence[int], dtype: str) -> Array:
        """Plain memory."""
        return np.empty(shape, DTYPES[dtype].storage)

    def submit(self, arrays: Sequence[Array]) -> Any:
        """Run the batch."""
        import torch

        tensors = [
            as_tensor(array, dtype).to(self._device)
            for array, dtype in zip(arrays, self._dtypes, strict=True)
        ]
        with torch.inference_mode():
            return called(self._function, self._names, tensors)

    def outputs(self, submitted: Any) -> Any:
        """As arrays; half floats as float32, which NumPy has and which holds them all."""
        return mapped(lambda tensor: on_host(tensor).numpy(), submitted)

    def fatal(self, error: Exception) -> bool:
        """The CPU goes on."""
        return False


class ArrayRunner:
    """A function of NumPy arrays."""

    def __init__(self, function: Callable[..., Any], names: Sequence[str], dtypes: Sequence[str]) -> None:
        if "bfloat16" in dtypes:
            raise DeviceError("NumPy has no dtype bfloat16; name another dtype, or give a model of torch.")
        self._function, self._names = function, names

    def memory(self, shape: Sequence[int], dtype: str) -> Array:
        """Plain memory."""
        return np.empty(shape, DTYPES[dtype].storage)

    def submit(self, arrays: Sequence[Array]) -> Any:
        """Run the batch."""
        return called(self._function, self._names, arrays)

    def outputs(self, submitted: Any) -> Any:
        """As they are."""
        return submitted

    def fatal(self, error: Exception) -> bool:
        """The CPU goes on."""
        return False


def called(function: Callable[..., Any], names: Sequence[str], tensors: Sequence[Any]) -> Any:
    """One tensor is passed by itself, several by name.

    >>> called(lambda x, y: x - y, ("y", "x"), (1, 5))
    4
    """
    if len(tensors) == 1:
        return function(tensors[0])
    return function(**dict(zip(names, tensors, strict=True)))


def as_tensor(array: Array, dtype: str) -> Any:
    """An array as the tensor it stands for, on the same memory."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def on_host(tensor: Any) -> Any:
    """A tensor in host memory, in a dtype that NumPy has."""
    import torch

    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor).cpu().contiguous()


def mapped(change: Callable[[Any], Any], outputs: Any) -> Any:
    """Outputs with every tensor in them changed; what is none stays as it is.

    Named tuples, and what torch.topk and its like return, become plain ones: the order of their values is what counts.
    """
    import torch

    if isinstance(outputs, torch.Tensor):
        return change(outputs)
    if isinstance(outputs, Mapping):
        return {name: mapped(change, value) for name, value in outputs.items()}
    if isinstance(outputs, tuple | list):
        changed = [mapped(change, value) for value in outputs]
        return tuple(changed) if isinstance(outputs, tuple) else changed
    return outputs
