"""`penstock train script.py --workers 4`: a script as several ranks, each as `python script.py` would run it.

The same machinery as `penstock.launch`; what ranks find in their environment is written there. Scripts made for
torchrun run as they are.
"""

from __future__ import annotations

import runpy
import sys
import types
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import LaunchError
from penstock.jobs.launch import launch


def train_script(
    target: str,
    arguments: Sequence[str] = (),
    workers: int = 2,
    gpus: int | None = None,
    timeout: float | None = None,
    module: bool = False,
) -> None:
    """Run a script, or with `module` what `python -m target` would run, as several ranks.

    A rank that fails, or ends itself with an exit code other than 0, is a `LaunchError` with that `exit_code`; one
    that was killed counts 128 and the signal's number, as in a shell.

    >>> import tempfile
    >>> script = Path(tempfile.mkdtemp()) / "script.py"
    >>> _ = script.write_text("import os, sys; sys.exit(3 if os.environ['RANK'] == sys.argv[1] else 0)")
    >>> train_script(str(script), ["7"])
    >>> try:
    ...     train_script(str(script), ["1"])
    ... except LaunchError as error:
    ...     print(error, error.exit_code)
    rank 1 failed: it ended itself with exit code 3 3
    """
    if not module and not Path(target).is_file():
        raise LaunchError(f"there is no script at {target}. Pass the path of a Python file.")
    launch(run_as_main, target, list(arguments), module, workers=workers, gpus=gpus, timeout=timeout)


def run_as_main(target: str, arguments: Sequence[str], module: bool) -> None:
    """What a rank does: stand for `python target`, or `python -m target`."""
    sys.argv = [target, *arguments]
    if module:
        sys.path.insert(0, "")
        runpy.run_module(target, run_name="__main__", alter_sys=True)
        return
    path = Path(target)
    sys.path.insert(0, str(path.resolve().parent))
    main = types.ModuleType("__main__")
    main.__file__ = target
    # It stays there: what the script leaves running, and processes it spawns, look for it.
    sys.modules["__main__"] = main
    exec(compile(path.read_bytes(), target, "exec", dont_inherit=True), main.__dict__)
