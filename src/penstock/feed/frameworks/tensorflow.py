"""Host arrays become TensorFlow tensors, sharing memory on the CPU by DLPack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.dtypes import Array
from penstock.errors import DeviceError, MissingDependency

if TYPE_CHECKING:
    import tensorflow as tf


def check(dtypes: Sequence[str], device: Any) -> None:
    """Refuse a device that is not there, before any row moves."""
    tf = _tensorflow()
    if device is not None:
        known = [each.name.split("device:")[1] for each in tf.config.list_logical_devices()]
        asked = _name(device)
        if asked.removeprefix("/device:").removeprefix("/") not in known:
            raise DeviceError(f"TensorFlow sees no device {device!r}; it has {', '.join(known)}.")


def free_bytes(device: Any) -> int | None:
    """TensorFlow does not tell what a device has left."""
    return None


def place(arrays: Sequence[Array], dtypes: Sequence[str], device: Any) -> list[tf.Tensor]:
    """Tensors on the device."""
    tf = _tensorflow()
    tensors = []
    for array, name in zip(arrays, dtypes, strict=True):
        tensor = _host_tensor(tf, array, name)
        if device is not None and "CPU" not in _name(device):
            with tf.device(_name(device)):
                tensor = tf.identity(tensor)
        tensors.append(tensor)
    return tensors


def _host_tensor(tf: Any, array: Array, name: str) -> Any:
    if name == "bfloat16":
        return tf.bitcast(_host_tensor(tf, array, "uint16"), tf.bfloat16)
    if name == "bool" or not array.size:
        # DLPack bools and empty arrays are not taken by TensorFlow; a byte a row is copied quickly.
        return tf.convert_to_tensor(array)
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def _name(device: Any) -> str:
    text = str(device).upper().removeprefix("/DEVICE:").removeprefix("/")
    text = text.replace("CUDA", "GPU")
    return text if ":" in text else f"{text}:0"


def _tensorflow() -> Any:
    try:
        import tensorflow
    except ImportError as error:
        raise MissingDependency("tensorflow", extra="tensorflow") from error
    return tensorflow
