"""`penstock demo`, stage by stage: the order in which they come, and that nothing is left when it ends early.

Every figure that is printed was measured or counted in this run; `Run.facts` has them all, and is kept as JSON beside
the report. The stages are in `preparing`, `learning`, `scoring` and `closing`. Go next to `acts`, the code that is
shown.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time

from penstock.errors import DeviceError, MissingDependency, SelectionError
from penstock.tools.demo import acts, closing, flights, learning, preparing, scoring
from penstock.tools.demo.folder import SCRATCH, demo_folder
from penstock.tools.demo.interrupts import quiet_connection, undisturbed
from penstock.tools.demo.run import TENSORFLOW, TORCH, Options, Run

DEVICES = ("cpu", "cuda")
QUIET_TENSORFLOW = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}
"""For all processes: it would tell each of them what its processor can do, and that oneDNN rounds otherwise."""


def run_demo(options: Options) -> None:
    """Tell the story; Ctrl-C leaves nothing behind."""
    began = time.perf_counter()
    for name, value in QUIET_TENSORFLOW.items():
        os.environ.setdefault(name, value)
    check(options)
    with quiet_connection(), demo_folder(options.keep) as folder:
        # Torch makes a folder beside all others that are temporary, and leaves it there.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder.work / SCRATCH))
        run = Run(options, folder, began=began)
        with run.interrupts:
            try:
                tell(run)
            finally:
                with undisturbed():
                    run.stop_spark()


def check(options: Options) -> None:
    """Say before anything begins what would stop it later."""
    if options.framework not in (TORCH, TENSORFLOW):
        raise SelectionError(f"framework={options.framework!r}: there are {TORCH!r} and {TENSORFLOW!r}.")
    if options.device not in DEVICES:
        raise SelectionError(
            f"device={options.device!r}: there are 'cpu' and 'cuda'. Pass one of them (--device)."
        )
    flights.data_folder()
    for package, extra in (
        ("pyspark", "spark"),
        (options.framework, options.framework),
        ("jinja2", "report"),
    ):
        if importlib.util.find_spec(package) is None:
            raise MissingDependency(package, extra=extra)
    if options.device != "cpu" and not sees_gpu(options.framework):
        raise DeviceError(
            f"device={options.device!r}: {options.framework} sees no GPU here. Leave it out, for the CPU."
        )


def sees_gpu(framework: str) -> bool:
    """Whether the framework has a GPU to train on."""
    if framework == TORCH:
        import torch

        return torch.cuda.is_available()
    # Not in this process: TensorFlow would tell the terminal what it looked for, and stay loaded beside Spark.
    asked = "import sys, tensorflow as tf; sys.exit(not tf.config.list_physical_devices('GPU'))"
    return subprocess.run([sys.executable, "-c", asked], capture_output=True, check=False).returncode == 0


def tell(run: Run) -> None:
    """All of it."""
    options = run.options
    learn = (
        f"{options.ranks} {options.trainer} processes learn"
        if options.ranks > 1
        else f"{options.trainer} learns"
    )
    run.screen.title(
        acts.TITLE,
        f"The flights of 2013, on this machine: Spark prepares them, {learn} from them, and Spark scores them. "
        "The code below is the code that runs.",
    )
    preparing.started(run)
    frame = preparing.joined(run)
    train, evaluate = preparing.divided(run, frame)
    preparing.lifted(run, frame)
    fitted, explanation = preparing.handed_off(run, train, evaluate)
    learning.baseline(run, train, evaluate, fitted)
    trained = learning.trained(run)
    learning.evaluated(run, trained)
    scoring.scored(run, evaluate, fitted, trained)
    closing.closed(run, explanation)
