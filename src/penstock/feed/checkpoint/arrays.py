"""NumPy and JAX arrays as bytes of a checkpoint's file, and back: exactly as they were, or refused when they are saved.

Each is written a byte after the other, with its dtype, shape and place in a table. Used by `states`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock.errors import CheckpointError


def keepable(name: str, value: Any) -> Any:
    """An array, or one of NumPy's numbers, as an array that can be read back; an error where it cannot."""
    if isinstance(value, np.ndarray) and type(value) not in (np.ndarray, np.memmap):
        raise CheckpointError(
            name,
            f"it is of type {type(value).__module__}.{type(value).__qualname__}",
            "Pass numpy.asarray(...) of it.",
        )
    array = np.asarray(value)
    if array.dtype.hasobject or dtype_code(array.dtype) is None:
        raise CheckpointError(
            name,
            f"it is an array of dtype {array.dtype}, of which bytes alone do not tell the values",
            "Keep numbers, texts (dtype U) or times; the fields of a structured array each as an array of its own.",
        )
    return array


def dtype_code(dtype: Any) -> str | None:
    """A text that gives the same dtype again, byte order and all; None where none does.

    >>> dtype_code(np.dtype(">f4")), dtype_code(np.dtype("M8[s]")), dtype_code(np.dtype([("x", "f4")]))
    ('>f4', '<M8[s]', None)
    """
    for code in (dtype.str, dtype.name):
        try:
            if _dtype(code) == dtype:
                return str(code)
        except (TypeError, AttributeError, ImportError):
            continue
    return None


def _dtype(code: str) -> Any:
    try:
        return np.dtype(code)
    except TypeError:  # bfloat16 and its like, which NumPy knows by JAX alone
        import jax.numpy as jnp

        return np.dtype(getattr(jnp, code))


def write_array(file: Any, array: Any) -> None:
    """Append an array's bytes."""
    if array.nbytes:
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def read_array(data: Any, code: str, shape: list[int], place: int) -> Any:
    """The array of this dtype and shape whose bytes begin at `place`."""
    dtype = _dtype(code)
    count = math.prod(shape) * dtype.itemsize
    if not count:
        return np.empty(shape, dtype)
    return np.array(data[place : place + count]).view(dtype).reshape(shape)


def placed(array: Any, like: Any) -> Any:
    """An array or tensor where the one given was, having been of the same shape and dtype; in its order of bytes."""
    if not isinstance(array, np.ndarray | np.generic):
        return _placed_tensor(array, like)
    if array.shape != like.shape or not _same_values(array.dtype, like.dtype):
        raise ValueError(
            f"it is {array.dtype.name}{list(array.shape)} there and {like.dtype.name}{list(like.shape)} here"
        )
    if isinstance(like, np.ndarray | np.generic):
        # Texts keep the length they were saved with: nothing is cut off.
        array = array if array.dtype.kind in "US" else array.astype(like.dtype, copy=False)
        return array if isinstance(like, np.ndarray) else array[()]
    import jax

    return jax.device_put(array, like.sharding)


def _placed_tensor(tensor: Any, like: Any) -> Any:
    import torch

    if not isinstance(like, torch.Tensor):
        raise ValueError(f"it is a tensor there and of type {type(like).__name__} here")
    if tensor.shape != like.shape or tensor.dtype != like.dtype:
        there, here = (f"{each.dtype}{list(each.shape)}".removeprefix("torch.") for each in (tensor, like))
        raise ValueError(f"it is {there} there and {here} here")
    return tensor.to(like.device)


def _same_values(one: Any, other: Any) -> bool:
    if one.kind in "US":
        return bool(one.kind == other.kind)
    return bool(one.newbyteorder("=") == other.newbyteorder("="))


def host_array(name: str, value: Any) -> Any:
    """A JAX array on the host, whole."""
    if not value.is_fully_addressable:
        if not value.is_fully_replicated:
            raise CheckpointError(
                name,
                "it is spread over several processes",
                "Gather it first (jax.experimental.multihost_utils.process_allgather), or use Orbax.",
            )
        value = value.addressable_data(0)
    try:
        return np.asarray(value)
    except TypeError as error:  # keys of random numbers
        raise CheckpointError(name, str(error), "Pass jax.random.key_data(key).") from error
