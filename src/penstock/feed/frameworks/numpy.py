"""Host arrays stay host arrays: the framework that is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.dtypes import Array
from penstock.errors import DeviceError


def check(dtypes: Sequence[str], device: Any) -> None:
    """NumPy lives on the CPU and has no bfloat16."""
    if device not in (None, "cpu"):
        raise DeviceError(
            f"NumPy arrays live on the CPU; for device={device!r} use to_torch, to_tensorflow or to_jax."
        )
    if "bfloat16" in dtypes:
        raise DeviceError(
            "NumPy has no bfloat16; name float16 or float32, or use to_torch, to_tensorflow or to_jax."
        )


def free_bytes(device: Any) -> int | None:
    """None: the host's memory is looked at in any case."""
    return None


def place(arrays: Sequence[Array], dtypes: Sequence[str], device: Any) -> list[Array]:
    """Nothing to do."""
    return list(arrays)
