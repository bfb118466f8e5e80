"""What a Python worker keeps between tasks.

Spark uses its Python workers again, but the code that is sent comes anew with every task, globals and all. So models
are kept in a module that is put among Python's own, where the next task finds it.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any

HOME = "_penstock_worker"
MOST = 3
"""Models a worker keeps; those used longest ago go first."""


def once(key: str, make: Callable[[], Any]) -> Any:
    """What `make` returned when this process first asked for the key.

    >>> once("a", lambda: [1]) is once("a", lambda: [2])
    True
    """
    home = sys.modules.setdefault(HOME, ModuleType(HOME, "What Penstock keeps in a Python worker."))
    kept: OrderedDict[str, Any] = home.__dict__.setdefault("kept", OrderedDict())
    if key not in kept:
        while len(kept) >= MOST:
            kept.popitem(last=False)  # before the new one is made: both may not fit the device
        kept[key] = make()
    kept.move_to_end(key)
    return kept[key]
