"""`launch` (exposed as `penstock.launch`): one function as several ranks, on this machine or on Spark's executors.

It promises what rank 0 returned, or the first failing rank's error, and in either case that no rank is left. Local
ranks are `launch_processes`, Spark's `launch_spark`; what ranks find in their environment is `launch_world`, and
how one ends `launch_ends`. `penstock.feed.checkpoint.checkpoint` lets a function go on where a killed one stood.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import LaunchError, MissingDependency
from penstock.jobs.launch_ends import End, first_failed, outcome
from penstock.jobs.launch_lines import show
from penstock.jobs.launch_processes import Processes
from penstock.jobs.launch_spark import run_on_spark
from penstock.jobs.launch_worker import WHERE_SIGNAL
from penstock.jobs.launch_world import Place, environments, held_ports, shared_gpus, visible_gpus
from penstock.machine import usable_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
GATHER_SECONDS = 0.5
"""For the other ranks' own errors, once one has failed."""
TIMED_OUT = 124
"""The exit code that `timeout` of the shell has."""


def launch(
    train: Callable[..., Any],
    *args: Any,
    workers: int = 2,
    spark: SparkSession | None = None,
    gpus: int | None = None,
    timeout: float | None = None,
) -> Any:
    """Call `train(*args)` as several ranks at once, each in a process of its own; returns what rank 0 returned.

    Args:
        train: a function, from a notebook or script too, and without a `__main__` guard: it is sent by
            cloudpickle. Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and TF_CONFIG in
            its environment, so that `torch.distributed.init_process_group()`,
            `tf.distribute.MultiWorkerMirroredStrategy()` and the loaders of a dataset need no arguments.
        args: what it is called with; `functools.partial` passes keywords.
        workers: how many ranks.
        spark: run them on this session's executors instead, one rank in each task, all at once (a barrier stage),
            classic or over Spark Connect. Executors need what `train` imports; Penstock itself is sent along.
        gpus: how many GPUs each rank has for itself. Without it every rank sees all of its machine's, or those
            that Spark gave its task. A rank's first is always `cuda:LOCAL_RANK`, which is 0 where it sees no
            others. 0 hides them all.
        timeout: seconds after which ranks that still run are stopped, having printed where they stand.

    What ranks print is shown as it comes, each line behind its rank: `[rank 1] loss 0.3`. When one fails, the
    others are stopped and its error is raised as a `LaunchError` that holds its traceback, and the error itself as
    its cause. Ctrl-C, and the death of this process, stop all ranks and the processes they started, but not those that
    were given a session of their own to outlive them (`start_new_session=True`). Cores are shared out by
    OMP_NUM_THREADS unless it is set.

    A lost machine or executor is a `LaunchError` too. Launch again: ranks that `penstock.restore` go on at the last
    `penstock.checkpoint`, on any number of workers.

    >>> from penstock.jobs.launch import launch
    >>> def train(scale):
    ...     import os
    ...
    ...     return scale * int(os.environ["WORLD_SIZE"])
    >>> launch(train, 10, workers=2)
    20
    """
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise LaunchError(f"workers={workers!r}: pass how many ranks there are to be, at least 1.")
    if timeout is not None and (
        not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout > 0
    ):
        raise LaunchError(f"timeout={timeout!r}: pass seconds, more than 0, or None to wait for ever.")
    if gpus is not None and (not isinstance(gpus, int) or isinstance(gpus, bool) or gpus < 0):
        raise LaunchError(f"gpus={gpus!r}: pass how many GPUs each rank has for itself, 0 for none.")
    if not callable(train):
        raise LaunchError(
            f"launch takes a function, not {type(train).__name__}. A script runs with: penstock train script.py"
        )
    deadline = None if timeout is None else time.monotonic() + timeout
    if spark is not None:
        ends = run_on_spark(spark, packed(train, args, path=None), workers, gpus, deadline, timeout)
    else:
        ends = _locally(packed(train, args, path=sys.path), workers, gpus, deadline, timeout)
    return returned(ends)


def packed(train: Callable[..., Any], args: tuple[Any, ...], path: list[str] | None) -> bytes:
    """The function and its arguments, as `launch_worker` reads them; with `path`, ranks import from where we do."""
    try:
        import cloudpickle
    except ImportError as error:
        raise MissingDependency("cloudpickle", extra="core") from error
    try:
        call = cloudpickle.dumps((train, args))
    except Exception as error:
        name = getattr(train, "__qualname__", repr(train))
        raise LaunchError(
            f"{name} cannot be sent to other processes: {type(error).__name__}: {error}. It may not hold on to "
            "sessions, open files, locks or loaders: make them inside of it, and pass paths."
        ) from error
    return pickle.dumps({"call": call, "path": path, "argv": sys.argv})


def returned(ends: list[End]) -> Any:
    """What rank 0 returned; raises where a rank failed."""
    import cloudpickle

    found = outcome(ends)
    if isinstance(found, LaunchError):
        first = first_failed(ends)
        raised = first.report.error if first is not None and first.report is not None else None
        raise found from (None if raised is None else _unpickled(raised))
    try:
        return cloudpickle.loads(found)
    except Exception as error:
        raise LaunchError(
            f"all ranks ended well, but what rank 0 returned cannot be made here: {type(error).__name__}: "
            f"{error}. Return numbers, texts, arrays or a state_dict(), or write a file and return its path."
        ) from error


def _unpickled(raised: bytes) -> BaseException | None:
    import cloudpickle

    try:
        error = cloudpickle.loads(raised)
    except Exception:  # its class may not exist here
        return None
    return error if isinstance(error, BaseException) else None


def _locally(
    payload: bytes, workers: int, gpus: int | None, deadline: float | None, timeout: float | None
) -> list[End]:
    import penstock

    root = str(Path(penstock.__file__).parents[1])
    shared = shared_gpus(workers, gpus, visible_gpus(os.environ))
    with held_ports(LOOPBACK, workers + 1) as (master, *others):
        places = [Place(LOOPBACK, port) for port in others]
        each = environments(places, master, os.environ, usable_cores(), shared)
        with Processes(payload, each, root, show) as ranks:
            while ranks.running and not ranks.trouble:
                left = float("inf") if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise _too_long(ranks, timeout)
                ranks.pump(min(left, 0.2))
            if ranks.trouble:
                ranks.pump(GATHER_SECONDS)
    return list(ranks.ends.values())


def _too_long(ranks: Processes, timeout: float | None) -> LaunchError:
    still = ranks.running
    ranks.ask(WHERE_SIGNAL)
    ranks.pump(GATHER_SECONDS)
    return LaunchError(
        f"after timeout={timeout:g} seconds rank {', '.join(map(str, still))} still ran, and all ranks were "
        "stopped. Where each stood is printed above.",
        exit_code=TIMED_OUT,
    )
