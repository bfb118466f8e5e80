"""Whatever `load_model` returned, or a file held, as a `Runner` on the task's device."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any

from penstock.errors import MissingDependency, PredictError
from penstock.scoring.calls import ArrayRunner, Runner, TorchRunner
from penstock.scoring.cuda import CudaRunner
from penstock.scoring.device import AUTO, Task, place, use_cores
from penstock.scoring.job import Job, ModelFile

EXPORTED, KERAS = ".pt2", ".keras"
TORCH, NUMPY = "torch", "numpy"


def runner(job: Job, task: Task) -> Runner:
    """Load the model of a job, on the task's device."""
    names = tuple(tensor.name for tensor in job.plan.tensors)
    dtypes = tuple(tensor.dtype for tensor in job.plan.tensors)
    loaded = from_file(job.load) if isinstance(job.load, ModelFile) else job.load()
    if is_keras(loaded):
        if "torch" in sys.modules:  # it may be what Keras computes with
            use_cores(sys.modules["torch"], task.cpus)
        return ArrayRunner(_keras_call(loaded, job.device), names, dtypes)
    if job.framework == NUMPY:
        return ArrayRunner(_function(loaded), names, dtypes)
    torch = _torch()
    use_cores(torch, task.cpus)
    device = place(torch, job.device, task.gpus)
    return torch_runner(loaded, names, dtypes, device)


def torch_runner(loaded: Any, names: Sequence[str], dtypes: Sequence[str], device: str) -> Runner:
    """A module, an exported program or a function of tensors, on a device."""
    torch = _torch()
    if isinstance(loaded, torch.export.ExportedProgram):
        if device != "cpu":
            from torch.export.passes import move_to_device_pass

            loaded = move_to_device_pass(loaded, device)
        loaded = loaded.module()  # has no eval(): what it does was settled when it was exported
    elif isinstance(loaded, torch.nn.Module):
        loaded = loaded.to(device).eval()
    function = _function(loaded)
    if torch.device(device).type == "cuda":
        return CudaRunner(function, names, dtypes, device)
    return TorchRunner(function, names, dtypes, device)


def is_keras(loaded: Any) -> bool:
    """Whether it is a Keras model, found out without importing Keras."""
    homes = {each.__module__.partition(".")[0] for each in type(loaded).__mro__}
    return bool(homes & {"keras", "tf_keras"}) and hasattr(loaded, "predict_on_batch")


def _keras_call(model: Any, device: str) -> Callable[..., Any]:
    """Keras's own way to compute one batch; several tensors go in as one dictionary."""

    def call(*one: Any, **named: Any) -> Any:
        with _keras_device(device):
            return model.predict_on_batch(one[0] if one else named)

    return call


def _keras_device(device: str) -> Any:
    if device == AUTO:
        return nullcontext()
    import keras

    return keras.device(device.replace("cuda", "gpu"))


def _function(loaded: Any) -> Callable[..., Any]:
    if callable(loaded):
        return loaded  # type: ignore[no-any-return]
    raise PredictError(
        f"load_model() returned {type(loaded).__name__}, which cannot be called: {loaded!r:.200}. Return a torch "
        "module, a Keras model, or a function of tensors."
    )


def from_file(file: ModelFile) -> Any:
    """The model that a file's bytes hold."""
    kind = os.path.splitext(file.name)[1]
    try:
        if kind == KERAS:
            return _from_disk(file)
        torch = _torch()
        if kind == EXPORTED:
            return torch.export.load(io.BytesIO(file.content))
        return torch.jit.load(io.BytesIO(file.content), map_location="cpu")
    except (RuntimeError, ValueError, OSError, KeyError) as error:
        what = {KERAS: "Keras model", EXPORTED: "exported program"}.get(kind, "TorchScript program")
        raise PredictError(
            f"{file.name} cannot be loaded as {'an' if what[0] == 'e' else 'a'} {what}: {error}. Files are exported "
            "programs (.pt2), Keras models (.keras) or TorchScript; for others pass a function that loads them."
        ) from error


def _from_disk(file: ModelFile) -> Any:
    """Keras reads files by their path only."""
    # What came with CUDA's torch has to be there before TensorFlow: later, in a worker that scores with torch as well,
    # importing it ends the process.
    with suppress(ImportError):
        import_module("triton")
    import keras

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"model{KERAS}")
        with open(path, "wb") as target:
            target.write(file.content)
        return keras.models.load_model(path, compile=False)


def _torch() -> Any:
    try:
        import torch
        import torch.export
    except ImportError as error:
        raise MissingDependency(f"torch (for {sys.executable})", extra="torch") from error
    return torch
