"""`to_numpy`, `to_torch`, `to_tensorflow`, `to_jax`: a DataFrame that fits becomes tensors, in one call.

The four differ only in the last step. Order of work: check the request against the schema (`selection`), check the
device (`penstock.feed`), run the job (`transfer`), place the arrays. Nothing is computed in Spark before the first two
have passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from penstock.dtypes import Array
from penstock.errors import SelectionError
from penstock.feed.frameworks import jax as jax_feed
from penstock.feed.frameworks import numpy as numpy_feed
from penstock.feed.frameworks import tensorflow as tensorflow_feed
from penstock.feed.frameworks import torch as torch_feed
from penstock.jobs.selection import Nulls, Tensors, select
from penstock.jobs.transfer import transfer
from penstock.machine import free_memory

if TYPE_CHECKING:
    import jax
    import tensorflow as tf
    import torch
    from pyspark.sql import DataFrame

SHARE = 0.7  # of what is free; the rest is for what else runs meanwhile


class Framework(Protocol):
    """What each file of `penstock.feed` offers."""

    def check(self, dtypes: Sequence[str], device: Any) -> None:
        """Refuse what cannot be had, before any row moves."""

    def free_bytes(self, device: Any) -> int | None:
        """What the device has left; None where it is the host."""

    def place(self, arrays: Sequence[Array], dtypes: Sequence[str], device: Any) -> Sequence[Any]:
        """The arrays as tensors on the device."""


def to_numpy(
    df: DataFrame,
    tensors: Tensors = None,
    *,
    dtype: Any = None,
    device: Any = None,
    nulls: Nulls = "error",
    max_bytes: int | None = None,
) -> Array | dict[str, Array]:
    """The DataFrame's columns as NumPy arrays.

    `tensors`: None for a dict with one array per column; a list of columns for one 2-D array; a column's name for that
    column; or a mapping of names to either. Arrays of numbers and MLlib vectors give a further axis. Rows come in the
    order of `df.collect()`.

    `dtype`: one for all tensors, or a mapping by tensor. Without it no value changes: dates become days, timestamps
    microseconds, and types that no dtype holds exactly are refused. With it numbers are rounded as the dtype rounds;
    overflow of an integer, and NaN to an integer, raise all the same.

    `nulls`: "error", "nan", a value, or a mapping of columns to values. A null list becomes a list of that value.

    `max_bytes`: stop beyond so many bytes (default: 70 % of what the machine, or the device, has free).

    >>> import penstock as pk
    >>> df = pk.session(cores=2).createDataFrame([(1, 0.5), (2, 1.5)], "a int, b double")
    >>> pk.to_numpy(df, ["a", "b"], dtype="float32")
    array([[1. , 0.5],
           [2. , 1.5]], dtype=float32)
    """
    return cast(
        "Array | dict[str, Array]", _tensors(df, tensors, dtype, device, nulls, max_bytes, numpy_feed)
    )


def to_torch(
    df: DataFrame,
    tensors: Tensors = None,
    *,
    dtype: Any = None,
    device: Any = None,
    nulls: Nulls = "error",
    max_bytes: int | None = None,
) -> torch.Tensor | dict[str, torch.Tensor]:
    """The DataFrame's columns as torch tensors on `device`; arguments as in `to_numpy`.

    >>> import penstock as pk
    >>> df = pk.session(cores=2).createDataFrame([(1, 0.5), (2, 1.5)], "a int, b double")
    >>> pk.to_torch(df, {"x": ["b"], "y": "a"})["y"]
    tensor([1, 2], dtype=torch.int32)
    """
    result = _tensors(df, tensors, dtype, device, nulls, max_bytes, torch_feed)
    return cast("torch.Tensor | dict[str, torch.Tensor]", result)


def to_tensorflow(
    df: DataFrame,
    tensors: Tensors = None,
    *,
    dtype: Any = None,
    device: Any = None,
    nulls: Nulls = "error",
    max_bytes: int | None = None,
) -> tf.Tensor | dict[str, tf.Tensor]:
    """The DataFrame's columns as TensorFlow tensors on `device`; arguments as in `to_numpy`.

    >>> import penstock as pk
    >>> df = pk.session(cores=2).createDataFrame([(1, 0.5), (2, 1.5)], "a int, b double")
    >>> pk.to_tensorflow(df, ["a", "b"], dtype="float32").shape
    TensorShape([2, 2])
    """
    return _tensors(df, tensors, dtype, device, nulls, max_bytes, tensorflow_feed)


def to_jax(
    df: DataFrame,
    tensors: Tensors = None,
    *,
    dtype: Any = None,
    device: Any = None,
    nulls: Nulls = "error",
    max_bytes: int | None = None,
) -> jax.Array | dict[str, jax.Array]:
    """The DataFrame's columns as JAX arrays on `device`; arguments as in `to_numpy`.

    >>> import penstock as pk
    >>> df = pk.session(cores=2).createDataFrame([(1, 0.5), (2, 1.5)], "a int, b double")
    >>> pk.to_jax(df, ["a", "b"], dtype="float32").dtype
    dtype('float32')
    """
    result = _tensors(df, tensors, dtype, device, nulls, max_bytes, jax_feed)
    return cast("jax.Array | dict[str, jax.Array]", result)


def _tensors(
    df: DataFrame,
    tensors: Tensors,
    dtype: Any,
    device: Any,
    nulls: Nulls,
    max_bytes: int | None,
    framework: Framework,
) -> Any:
    if not callable(getattr(df, "mapInArrow", None)):
        raise SelectionError(f"a Spark DataFrame is wanted, and this is {type(df).__name__}: {df!r:.200}")
    selection = select(df, tensors, dtype, nulls)
    dtypes = [tensor.dtype for tensor in selection.plan.tensors]
    framework.check(dtypes, device)
    limit, source = _limit(framework.free_bytes(device), max_bytes)
    arrays = transfer(df, selection, limit, source, tensors)
    placed = framework.place(arrays, dtypes, device)
    if selection.single:
        return placed[0]
    return {tensor.name: each for tensor, each in zip(selection.plan.tensors, placed, strict=True)}


def _limit(device_free: int | None, max_bytes: int | None) -> tuple[int, str]:
    if max_bytes is not None:
        return int(max_bytes), "max_bytes"
    host = free_memory()
    if device_free is not None and device_free < host:
        return int(SHARE * device_free), f"{SHARE:.0%} of what the device has free"
    return int(SHARE * host), f"{SHARE:.0%} of what the machine has free"
