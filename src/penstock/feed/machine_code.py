"""Functions as machine code that runs without the interpreter's lock: made by numba, where that is installed and works.

`memory.native_loops` has loops over rows made, `cuda.native_reads` a reader's. Both have a way without.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from penstock.dataset.forks import in_forks


class _Making:
    """Whether machine code can be made: in a process that was forked meanwhile, nobody gives up numba's own locks."""

    def __init__(self) -> None:
        self.usable, self.lock = True, threading.Lock()
        in_forks(self)

    def forked(self) -> None:
        """Who was at it is not there."""
        self.usable, self.lock = self.usable and not self.lock.locked(), threading.Lock()


MAKING = _Making()


def machine_code(signature: str, make: Callable[[], Callable[..., Any]]) -> Any:
    """What `make` gives, as machine code; None if that cannot be had.

    >>> added = machine_code("int64(int64,int64)", lambda: lambda a, b: a + b)
    >>> added is None or added(1, 2) == 3
    True
    """
    with MAKING.lock:
        if not MAKING.usable:
            return None
        # Whatever it is that numba cannot do here, there is another way; some versions refuse to be imported.
        try:
            import numba

            disabled = getattr(numba.config, "DISABLE_JIT", False)
            return None if disabled else numba.njit(signature, nogil=True)(make())
        except Exception:
            return None
