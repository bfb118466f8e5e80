"""Penstock takes a Spark DataFrame to a saturated GPU.

1. Get a session: `spark = pk.session()` is the active one, or a local one; no Java needed on the machine.
2. Turn a DataFrame that fits into tensors: `pk.to_torch(df, ["a", "b"], dtype="float32", device="cuda")`; likewise
   `pk.to_numpy`, `pk.to_tensorflow` and `pk.to_jax`.
3. Hand larger data to the training machines: `pk.split(df, {"train": 0.9, "valid": 0.1})`, then
   `pk.write(train, "s3://bucket/train", {"x": ["a", "b"], "y": "label"}, workers=16)`.
4. Open it there, without Spark: `pk.open("s3://bucket/train")`; `verify()` checks every byte.

Names are loaded when first used: `import penstock` alone brings in neither Spark nor any framework. The code's layers
are in `docs/architecture.md`; start reading at `penstock.jobs.tensors` and `penstock.jobs.write`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.dtypes import TensorSpec as TensorSpec
    from penstock.errors import PenstockError as PenstockError
    from penstock.feed.dataset import Dataset as Dataset
    from penstock.feed.dataset import open as open
    from penstock.jobs.convert import convert as convert
    from penstock.jobs.session import session as session
    from penstock.jobs.split import split as split
    from penstock.jobs.tensors import to_jax as to_jax
    from penstock.jobs.tensors import to_numpy as to_numpy
    from penstock.jobs.tensors import to_tensorflow as to_tensorflow
    from penstock.jobs.tensors import to_torch as to_torch
    from penstock.jobs.write import write as write
    from penstock.wire.selection import ragged as ragged

__version__ = "0.1.0"

_HOMES = {
    "Dataset": "penstock.feed.dataset",
    "PenstockError": "penstock.errors",
    "TensorSpec": "penstock.dtypes",
    "convert": "penstock.jobs.convert",
    "open": "penstock.feed.dataset",
    "ragged": "penstock.wire.selection",
    "session": "penstock.jobs.session",
    "split": "penstock.jobs.split",
    "to_jax": "penstock.jobs.tensors",
    "to_numpy": "penstock.jobs.tensors",
    "to_tensorflow": "penstock.jobs.tensors",
    "to_torch": "penstock.jobs.tensors",
    "write": "penstock.jobs.write",
}

__all__ = [
    "Dataset",
    "PenstockError",
    "TensorSpec",
    "convert",
    "open",
    "ragged",
    "session",
    "split",
    "to_jax",
    "to_numpy",
    "to_tensorflow",
    "to_torch",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
