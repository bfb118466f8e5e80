"""The plain torch tensors in whatever a transform returned, so that the allocator can be told who uses their memory.

`arena` asks. A tensor that is not found may be overwritten while the training still reads it: so this looks into
objects it does not know as well, though not through all that they refer to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

DEPTH = 4
"""So many objects may lie inside each other, lists and mappings not counted: an object may refer to half a program."""
CLOSED = (type(None), str, bytes, int, float, complex, type, FunctionType, ModuleType)
"""What holds no batch."""


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

    waiting, seen = [(batch, 0)], set[int]()
    while waiting:
        each, depth = waiting.pop()
        if isinstance(each, torch.Tensor):
            yield from _plain(each)
        elif id(each) not in seen and not isinstance(each, CLOSED):
            # What is looked into stays alive through the batch, so that no other object gets its number.
            seen.add(id(each))
            inside = _items(each)
            if depth < DEPTH:
                inside += _attributes(each)
            deeper = depth + (not isinstance(each, Mapping | list | tuple | set | frozenset))
            waiting.extend((held, deeper) for held in reversed(inside))


def _plain(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    import torch

    if tensor.layout == torch.jagged:
        return tensor.values(), tensor.offsets()  # type: ignore[attr-defined]
    if tensor.is_nested:
        return tensor.unbind()
    if tensor.layout == torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor,)


def _items(each: Any) -> list[Any]:
    if isinstance(each, Mapping):
        return list(each.values())
    return list(each) if isinstance(each, list | tuple | set | frozenset) else []


def _attributes(each: Any) -> list[Any]:
    held = list(getattr(each, "__dict__", {}).values())
    for kind in type(each).__mro__:
        names = kind.__dict__.get("__slots__", ())
        held += [getattr(each, name, None) for name in ([names] if isinstance(names, str) else names)]
    return held
