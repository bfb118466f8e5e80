"""Values as JSON holds them, whatever they were: for facts that come out of data, manifests and logs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """The same with plain values alone; numbers that are not finite become None.

    >>> plain({"a": (1, float("nan")), 2: b"x"})
    {'a': [1, None], '2': "b'x'"}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        return plain(value.item())
    return str(value)
