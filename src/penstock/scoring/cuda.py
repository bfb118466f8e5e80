"""A model on a GPU, with copies beside computing.

Rows are written straight into pinned memory; a stream of its own brings them to the device while the batch before is
computed; results come back into pinned memory behind it. `submit` only queues all this. So the worker reads and packs
the next batch while the GPU computes this one; `task` asks for outputs a few batches later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.dtypes import DTYPES, Array
from penstock.scoring.calls import as_tensor, called, mapped


class CudaRunner:
    """A function of tensors on a CUDA device.

    `overlap`: off, a batch is copied, computed and copied back before `submit` returns; for benchmarks.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        names: Sequence[str],
        dtypes: Sequence[str],
        device: str,
        *,
        overlap: bool = True,
    ) -> None:
        import torch

        self._function, self._names, self._dtypes = function, names, dtypes
        self._device, self._overlap = torch.device(device), overlap
        with torch.cuda.device(self._device):
            self._copies: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def memory(self, shape: Sequence[int], dtype: str) -> Array:
        """Pinned memory; torch keeps what was freed, so that only the first batches pay for pinning."""
        import torch

        storage = DTYPES[dtype].storage
        count = storage.itemsize
        for axis in shape:
            count *= axis
        pinned = torch.empty(count, dtype=torch.uint8, pin_memory=True)
        found: Array = pinned.numpy().view(storage).reshape(tuple(shape))
        return found

    def submit(self, arrays: Sequence[Array]) -> Any:
        """Queue the batch: copy, compute, copy back."""
        import torch

        with torch.cuda.device(self._device), torch.inference_mode():
            compute = torch.cuda.current_stream()
            hosts = [as_tensor(array, dtype) for array, dtype in zip(arrays, self._dtypes, strict=True)]
            with torch.cuda.stream(self._copies):
                tensors = [host.to(self._device, non_blocking=True) for host in hosts]
            compute.wait_stream(self._copies)
            for tensor in tensors:
                tensor.record_stream(compute)
            found = mapped(_to_pinned, called(self._function, self._names, tensors))
            done = compute.record_event()
            if not self._overlap:
                done.synchronize()
        return found, done, hosts  # the hosts' memory must live until they are copied

    def outputs(self, submitted: Any) -> Any:
        """Wait for a batch's results."""
        found, done, _ = submitted
        done.synchronize()
        return mapped(lambda tensor: tensor.numpy(), found)

    def fatal(self, error: Exception) -> bool:
        """After an error of CUDA's own nothing on the device can be used; one of memory passes."""
        import torch

        if isinstance(error, torch.OutOfMemoryError):
            return False
        return "CUDA error" in str(error) or type(error).__name__ == "AcceleratorError"


def _to_pinned(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    if tensor.device.type == "cpu":
        return tensor.contiguous()
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)
