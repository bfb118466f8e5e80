"""The plain torch tensors in whatever a transform returned, so that the allocator can be told who uses their memory.

`arena` asks. A tensor that is not found may be overwritten while the training still reads it: so this looks into
objects it does not know as well, though not through all that they refer to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

DEPTH = 4
"""So many objects may lie inside each other, lists and mappings not counted: an object may refer to half a program."""
CLOSED = (type(None), str, bytes, int, float, complex, type, FunctionType, ModuleType)
"""What holds no batch."""
VALUES = frozenset({type(None), bool, str, bytes, int, float, complex})
"""What a container may hold a million of, as a vocabulary does: not even looked at."""
ROWS = (list, tuple, set, frozenset, deque)


def plain_tensors(batch: Any) -> list[torch.Tensor]:
    """All of them, whatever holds them; sparse and nested ones as what they are made of.

    >>> import torch
    >>> batch = {"x": [torch.zeros(2)], "y": (torch.ones(3).to_sparse(), "text", 1)}
    >>> [tensor.untyped_storage().nbytes() for tensor in plain_tensors(batch)]
    [8, 24, 12]
    """
    return list(_found(batch))


def _found(batch: Any) -> Iterator[torch.Tensor]:
    import torch

    waiting = [(batch, 0)]
    # Kept as well as counted, so that no other object gets the number of one that was made on the way.
    seen: dict[int, Any] = {}
    while waiting:
        each, depth = waiting.pop()
        if id(each) in seen or isinstance(each, CLOSED):
            continue
        seen[id(each)] = each
        if isinstance(each, torch.Tensor):
            inside = _parts(each)
            if inside and inside[0] is each:
                if each.numel():
                    yield each
                continue
        else:
            inside = _items(each)
            if depth < DEPTH:
                inside += _attributes(each)
        deeper = depth + (not isinstance(each, (Mapping, *ROWS)))
        waiting.extend((held, deeper) for held in reversed(inside))


def _parts(tensor: torch.Tensor) -> list[Any]:
    """What a tensor is made of: itself alone, where it has memory of its own."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    wrapper: Any = tensor
    if is_traceable_wrapper_subclass(wrapper):  # jagged ones, and those that are spread over devices
        return [getattr(wrapper, name) for name in wrapper.__tensor_flatten__()[0]]
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a subclass that keeps its tensors wherever it likes
        return _attributes(tensor)
    return [tensor]


def _items(each: Any) -> list[Any]:
    values = each.values() if isinstance(each, Mapping) else each if isinstance(each, ROWS) else ()
    return [held for held in values if type(held) not in VALUES]


def _attributes(each: Any) -> list[Any]:
    held = list(getattr(each, "__dict__", {}).values())
    for kind in type(each).__mro__:
        names = kind.__dict__.get("__slots__", ())
        for name in [names] if isinstance(names, str) else names:
            private = name.startswith("__") and not name.endswith("__")
            held.append(getattr(each, f"_{kind.__name__.lstrip('_')}{name}" if private else name, None))
    return held
