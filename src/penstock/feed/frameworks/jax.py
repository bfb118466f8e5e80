"""Host arrays become JAX arrays, sharing memory on the CPU by DLPack.

JAX narrows 64-bit values to 32 bits unless told otherwise, with no more than a warning. Here that is an error with two
cures: name a 32-bit dtype, or switch `jax_enable_x64` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.dtypes import DTYPES, Array
from penstock.errors import DeviceError, MissingDependency

if TYPE_CHECKING:
    import jax


def check(dtypes: Sequence[str], device: Any) -> None:
    """Refuse a device that is not there, and dtypes JAX would narrow, before any row moves."""
    jax = _jax()
    # One that is not named is there. To ask would begin JAX, which has to be told of its other processes before.
    if device is not None:
        _device(device)
    wide = sorted({name for name in dtypes if DTYPES[name].bytes == 8})
    if wide and not jax.config.jax_enable_x64:
        narrow = " or ".join(repr(name.replace("64", "32")) for name in wide)
        raise DeviceError(
            f"JAX would narrow {', '.join(wide)} to 32 bits in silence. Name the dtype you accept (dtype={narrow}), "
            'or keep 64 bits with jax.config.update("jax_enable_x64", True).'
        )


def free_bytes(device: Any) -> int | None:
    """What the device has left, where it tells."""
    stats = _device(device).memory_stats() or {}
    limit, used = stats.get("bytes_limit"), stats.get("bytes_in_use")
    return None if limit is None or used is None else int(limit - used)


def place(arrays: Sequence[Array], dtypes: Sequence[str], device: Any) -> list[jax.Array]:
    """Arrays on the device."""
    jax = _jax()
    target = _device(device)
    tensors = []
    for array, name in zip(arrays, dtypes, strict=True):
        shared = array.view(jax.numpy.bfloat16) if name == "bfloat16" else array
        if target.platform == "cpu" and shared.size and name != "bfloat16":
            tensors.append(jax.device_put(jax.numpy.from_dlpack(shared), target))
        else:
            tensors.append(jax.device_put(shared, target))
    return tensors


def _device(device: Any) -> Any:
    jax = _jax()
    if device is not None and not isinstance(device, str):
        return device
    platform, _, place = (device or "").partition(":")
    try:
        # Of this process: `jax.devices()` begins with those of process 0, in every process.
        found = jax.local_devices(backend=platform or None)
        return found[int(place or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise DeviceError(f"JAX sees no device {device!r}; it has {jax.local_devices()}.") from error


def _jax() -> Any:
    try:
        import jax
    except ImportError as error:
        raise MissingDependency("jax", extra="jax") from error
    return jax
