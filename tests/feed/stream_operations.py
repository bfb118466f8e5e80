"""Which memory an operation of torch reads and writes; `host_calls` has it told of every one.

What an operation does is read off its schema: what it changes is marked there, views are, and all else that comes out
is new. Of what `index_select` takes rows out of only those rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from stream_order import Where
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    is_traceable_wrapper_subclass,
)
from torch.utils._pytree import tree_leaves

from penstock.wire.ragged import Ragged

unwatched = _disable_current_modes
Run = Callable[[Any, Sequence[Any], dict[str, Any]], Any]


class Watch(TorchDispatchMode):
    """Has all operations of this thread run by somebody else."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._run(func, args, kwargs or {})


def touched(
    operation: Any, args: Sequence[Any], kwargs: dict[str, Any], found: Any
) -> Iterator[tuple[torch.Tensor, Where, bool]]:
    """Tensors, the bytes of their storage that are touched, and whether those are written."""
    schema = operation._schema
    inside: set[int] = set()
    makes_alike = operation._opname.startswith("new_") or operation._opname.endswith("_like")
    for number, argument in enumerate(schema.arguments):
        given = args[number] if number < len(args) else kwargs.get(argument.name)
        marked = argument.alias_info
        for tensor in plain(given):
            inside.add(tensor.untyped_storage()._cdata)
            if marked is not None and marked.is_write:
                yield tensor, extent(tensor), True
            elif marked is None and not makes_alike:
                rows = args[2] if operation._opname == "index_select" and number == 0 else None
                yield tensor, extent(tensor) if rows is None else rows_of(tensor, args[1], rows), False
    for tensor in plain(found):
        if tensor.untyped_storage()._cdata not in inside:
            yield tensor, extent(tensor), True


def plain(value: Any) -> Iterator[torch.Tensor]:
    """The tensors that have memory."""
    for each in tree_leaves(value):
        if isinstance(each, Ragged):
            yield from plain([each.values, each.offsets])
        if not isinstance(each, torch.Tensor):
            continue
        if is_traceable_wrapper_subclass(each):
            yield from plain([getattr(each, name) for name in each.__tensor_flatten__()[0]])
        elif each.layout == torch.strided and each.numel():
            yield each


def extent(tensor: torch.Tensor) -> Where:
    """From its first byte to its last."""
    first, size = tensor.storage_offset(), tensor.element_size()
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = first + sum((count - 1) * step for count, step in steps)
    return Where(first * size, (last + 1) * size)


def rows_of(tensor: torch.Tensor, dimension: int, rows: torch.Tensor) -> Where:
    whole = extent(tensor)
    if dimension or not tensor.is_contiguous():
        return whole
    return whole._replace(rows=rows.numpy(), width=(whole.stop - whole.start) // len(tensor))
