"""Runs in a rank's own process: take the function, call it, say how it ended. Started by `launch_processes`.

It promises that the process, and every process of its group, ends when the launcher's does, however that ended. Nothing
but Python's own library is needed until the function's own imports run, besides cloudpickle.
"""

from __future__ import annotations

import atexit
import faulthandler
import fcntl
import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from penstock.jobs.launch_ends import INTERRUPTED, Report

WHERE_SIGNAL = signal.SIGUSR2
"""Asks a rank to print where it stands; sent to those that are still running when time is up."""
F_SETSIG = getattr(fcntl, "F_SETSIG", 10)
"""Linux; missing from Python's module in some builds."""
TIED_SECONDS = 1.0


def main() -> None:
    """Run one rank; the arguments are open files and the launcher's process."""
    payload, report, lifeline, parent = map(int, sys.argv[1:5])
    for file in (report, lifeline):  # not for processes that the rank starts
        os.set_inheritable(file, False)
    _end_with(lifeline, parent)
    faulthandler.enable()
    faulthandler.register(WHERE_SIGNAL, all_threads=False)
    said = _called(_read(payload))
    _write(report, said.to_bytes())
    _leave(said.code)


def _leave(code: int) -> None:
    """End as Python ends, but for the last: taking the interpreter apart.

    There torch's process groups abort or crash now and then, even one that was destroyed in time, and a training
    that had ended well would count as failed. Threads are waited for, as always, unless the rank has failed.
    """
    if code == 0:
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def _end_with(lifeline: int, parent: int) -> None:
    """Tie this process group to the launcher, which holds the other end of a pipe and never writes to it.

    The kernel is asked for SIGKILL to the whole group when that end closes: no thread of ours need be able to run,
    and processes that the rank started die too. A thread watches as well, for systems without such signals.
    """
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgid(0))
        fcntl.fcntl(lifeline, F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=_watch, args=(lifeline, parent), name="penstock-lifeline", daemon=True).start()


def _watch(lifeline: int, parent: int) -> None:
    while not select.select([lifeline], [], [], TIED_SECONDS)[0] and os.getppid() == parent:
        pass
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _called(payload: bytes) -> Report:
    """Call the function, and report how it ended, whatever it did."""
    import cloudpickle

    given = pickle.loads(payload)
    rank = int(os.environ["RANK"])
    sys.argv = list(given["argv"])
    if given["path"] is not None:
        sys.path[:] = given["path"]
    try:
        function, arguments = _unpacked(given["call"])
        value = function(*arguments)
        return Report(time.time(), result=_packed(cloudpickle.dumps, value) if rank == 0 else None)
    except SystemExit as ended:
        return _ended(ended)
    except KeyboardInterrupt as interrupted:
        # Without a word of its own: where the launcher was interrupted, so were all ranks.
        return Report(time.time(), INTERRUPTED, trace=_trace(interrupted))
    except BaseException as error:
        at = time.time()
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Report(at, 1, what=text, trace=_trace(error), error=_pickled(error))


def _unpacked(call: bytes) -> tuple[Any, Sequence[Any]]:
    import cloudpickle

    try:
        function, arguments = cloudpickle.loads(call)
    except ImportError as error:
        error.add_note(
            "This rank's process cannot import what the function needs. Install it there; on Spark, a module of "
            'your own goes along with spark.addArtifacts("module.py", pyfile=True). Or define the function in the '
            "script itself."
        )
        raise
    return function, arguments


def _packed(dumps: Any, value: Any) -> bytes:
    try:
        data: bytes = dumps(value)
    except Exception as error:
        raise TypeError(
            f"what rank 0 returned cannot be sent back ({type(error).__name__}: {error}). Return numbers, texts, "
            "arrays or a state_dict(), or write a file and return its path."
        ) from error
    return data


def _ended(ended: SystemExit) -> Report:
    """As Python itself takes sys.exit: nothing is 0, a number is the code, and anything else is printed."""
    if ended.code is None or isinstance(ended.code, int):
        code = (ended.code or 0) & 0xFF
        return Report(time.time(), code, what=f"it ended itself with exit code {code}" if code else "")
    return Report(time.time(), 1, what=f"it ended itself: {ended.code}")


def _trace(error: BaseException) -> str:
    """The traceback, without the frames of Penstock's own at its beginning."""
    own = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frame: TracebackType | None = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(own):
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame or error.__traceback__))


def _pickled(error: BaseException) -> bytes | None:
    """The error itself, where it can be made again elsewhere."""
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(data)
    except Exception:
        return None
    return data


def _read(file: int) -> bytes:
    """All of a file, without moving its position, which all ranks share."""
    pieces, place = [], 0
    while piece := os.pread(file, 16 << 20, place):
        pieces.append(piece)
        place += len(piece)
    os.close(file)
    return b"".join(pieces)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
