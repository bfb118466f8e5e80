"""Objects to files and back: the states of models, optimizers and loaders, of torch, Keras and JAX.

What is given may be one object, or dictionaries, lists and tuples of them. Each of its leaves is kept in its own way:

    state_dict() of numbers and texts (loaders, schedulers)   checkpoint.json
    state_dict() with tensors, and tensors themselves         NAME.pt, read with weights_only=True
    Keras models and optimizers, NumPy and JAX arrays         NAME.bin, a byte after the other; checkpoint.json has
    the table

Objects with a state are restored in place; arrays and tensors come back as new ones, in the structure that was given,
on the same device. Nothing that is read can run code.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.errors import CheckpointError, DatasetError
from penstock.feed.checkpoint.arrays import dtype_code, host_array, keepable, placed, read_array, write_array

PLAIN = (bool, int, float, str, type(None))
"""Exactly these: of a class made from one, such as an enum's, only the class's own code could make the value again."""
KEEP_PLAIN = "Keep tensors, numbers, texts and plain dictionaries, lists and tuples of them in state_dict()."


class Leaf(NamedTuple):
    """A leaf and where it stands, such as `['layers'][0]`; empty for an object that was given by itself."""

    where: str
    value: Any


def save(name: str, given: Any, folder: Path) -> dict[str, Any]:
    """Write an object's states to files beside `checkpoint.json`; what that has to say about them."""
    table: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    arrays: list[Any] = []
    place = 0
    for where, value in leaves(given):
        if where in table:
            raise CheckpointError(name + where, "two keys of a dictionary read the same")
        kind, state = _state(name + where, value)
        if kind in ("state", "value"):
            table[where] = {"kind": kind, "value": state}
        elif kind in ("torch", "tensor"):
            table[where] = {"kind": kind}
            tensors[where] = state
        else:
            described = []
            for key, array in state:
                array = keepable(name + where, array)
                described.append([key, dtype_code(array.dtype), list(array.shape), place])
                arrays.append(array)
                place += array.nbytes
            table[where] = {"kind": kind, "arrays": described}
    if tensors:
        _save_tensors(name, tensors, folder / f"{name}.pt")
    if arrays:
        with (folder / f"{name}.bin").open("wb") as file:
            for array in arrays:
                write_array(file, array)
    return table


def load(name: str, given: Any, folder: Path, table: Mapping[str, Any]) -> Any:
    """Put the states back into the objects given; returns them, with arrays and tensors replaced."""
    expected, found = {where for where, _ in leaves(given)}, set(table)
    if expected != found:
        more = "; ".join(
            f"{said} {', '.join(sorted(name + where for where in some))}"
            for said, some in (
                ("only the checkpoint has", found - expected),
                ("only what was given has", expected - found),
            )
            if some
        )
        raise _mismatch(name, more)
    kinds = {entry["kind"] for entry in table.values()}
    tensors: Any = {}
    if kinds & {"torch", "tensor"}:
        tensors = _torch().load(folder / f"{name}.pt", map_location="cpu", weights_only=True)
    file = folder / f"{name}.bin"
    data = np.memmap(file, np.uint8, "r") if file.exists() and file.stat().st_size else None

    def restored(leaf: Leaf) -> Any:
        entry = table[leaf.where]
        if entry["kind"] in ("torch", "tensor"):
            state = tensors[leaf.where]
        elif entry["kind"] in ("state", "value"):
            state = entry["value"]
        else:
            state = {key: read_array(data, *rest) for key, *rest in entry["arrays"]}
        try:
            return _restored(leaf.value, entry["kind"], state)
        except CheckpointError:
            raise
        except DatasetError as error:  # a loader's, which says by itself what to do
            raise CheckpointError(
                name + leaf.where, str(error), doing="be restored from the checkpoint"
            ) from error
        except Exception as error:
            raise _mismatch(name + leaf.where, f"{type(error).__name__}: {error}") from error

    return mapped(given, restored)


def _save_tensors(name: str, tensors: dict[str, Any], file: Path) -> None:
    """Write what torch keeps, and make sure that it can be read back: of tensors of other classes only torch knows."""
    torch = _torch()
    torch.save(tensors, file)
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    if unsafe:
        raise CheckpointError(
            name,
            f"it holds {', '.join(sorted(unsafe))}, which torch reads back only by running code",
            KEEP_PLAIN,
        )


def _mismatch(name: str, what: str) -> CheckpointError:
    return CheckpointError(
        name, what, "Build it as it was when the checkpoint was taken.", "be restored from the checkpoint"
    )


# --- one leaf ---------------------------------------------------------------------------------------------


def _state(name: str, value: Any) -> tuple[str, Any]:
    """How a leaf is kept, and what of it."""
    if type(value) in PLAIN:
        return "value", value
    if _is_tensor(value):
        return "tensor", value
    if callable(getattr(value, "load_state_dict", None)):
        state = unwrapped(value).state_dict()
        if is_json(state):
            return "state", state
        return "torch", _loadable(name, state)
    if callable(getattr(value, "get_weights", None)) and callable(getattr(value, "set_weights", None)):
        return "weights", [(str(place), np.asarray(array)) for place, array in enumerate(value.get_weights())]
    if callable(getattr(value, "save_own_variables", None)):
        store: dict[str, Any] = {}
        value.save_own_variables(store)
        return "variables", [(key, np.asarray(array)) for key, array in store.items()]
    if isinstance(value, np.ndarray | np.generic):
        return "array", [("", value)]
    if type(value).__module__.startswith("jax") and hasattr(value, "addressable_shards"):
        return "array", [("", host_array(name, value))]
    raise CheckpointError(
        name,
        f"it is of type {_type_name(value)}",
        "Pass an object with state_dict() and load_state_dict(), a Keras model or optimizer, or dictionaries, "
        "lists and tuples of those, of tensors, of NumPy or JAX arrays and of plain numbers and texts.",
    )


def _restored(value: Any, kind: str, state: Any) -> Any:
    """The leaf with its state; objects keep their identity."""
    if kind in ("state", "torch"):
        unwrapped(value).load_state_dict(state)
        return value
    if kind == "weights":
        value.set_weights([state[str(place)] for place in range(len(state))])
        return value
    if kind == "variables":
        value.load_own_variables(state)
        return value
    if kind == "tensor":
        return placed(state, value)
    if kind == "array":
        return placed(state[""], value)
    return state


def unwrapped(model: Any) -> Any:
    """The module inside of DistributedDataParallel, DataParallel and torch.compile: its names never change."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DistributedDataParallel", "DataParallel"):
            inner = model.module
        if inner is None:
            return model
        model = inner


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_json(state: Any) -> bool:
    """Whether JSON gives back the same."""
    if type(state) is dict:
        return all(type(key) is str and is_json(item) for key, item in state.items())
    if type(state) is list:
        return all(map(is_json, state))
    return type(state) in PLAIN


def _loadable(name: str, value: Any) -> Any:
    """What torch can read back without running code: refused here, since a checkpoint nobody can restore is worse
    than none.

    NumPy's numbers, which learning rates often are, become Python's; all else is returned as it is.
    """
    torch = _torch()
    if isinstance(value, torch.Tensor):
        if hasattr(value, "full_tensor"):  # a DTensor: FSDP and tensor parallelism
            raise CheckpointError(
                name,
                "it is spread over the ranks",
                "Use torch.distributed.checkpoint for sharded models, with loader.state_dict() beside it.",
            )
        return value
    plain = value.item() if isinstance(value, np.generic) else value
    if type(plain) in (*PLAIN, bytes, complex, torch.Size, torch.dtype, torch.device):
        return plain
    if type(value) in (dict, OrderedDict, Counter):
        items = [(_loadable(name, key), _loadable(f"{name}[{key!r}]", item)) for key, item in value.items()]
        # The same object where nothing changed, and else a copy: torch keeps versions in an attribute of it.
        if all(
            new[0] is key and new[1] is item for new, (key, item) in zip(items, value.items(), strict=True)
        ):
            return value
        changed = copy.copy(value)
        changed.clear()
        changed.update(dict(items))
        return changed
    if type(value) in (list, tuple, set):
        return type(value)(_loadable(f"{name}[{place}]", item) for place, item in enumerate(value))
    raise CheckpointError(
        name,
        f"it is of type {_type_name(value)}, which torch reads back only by running code",
        KEEP_PLAIN,
    )


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _torch() -> Any:
    import torch

    return torch


# --- trees of leaves --------------------------------------------------------------------------------------


def leaves(given: Any, where: str = "") -> Iterator[Leaf]:
    """The leaves of dictionaries, lists and tuples.

    >>> [leaf.where for leaf in leaves({"a": [1, 2], "b": 3})]
    ["['a'][0]", "['a'][1]", "['b']"]
    """
    children = _children(given)
    if children is None:
        yield Leaf(where, given)
        return
    for step, child in children:
        yield from leaves(child, where + step)


def mapped(given: Any, change: Callable[[Leaf], Any], where: str = "") -> Any:
    """The same structure with every leaf changed."""
    children = _children(given)
    if children is None:
        return change(Leaf(where, given))
    changed = [mapped(child, change, where + step) for step, child in children]
    if isinstance(given, Mapping):
        return type(given)(zip(given, changed, strict=True))  # type: ignore[call-arg]
    if hasattr(given, "_fields"):
        return type(given)(*changed)
    return type(given)(changed)


def _children(given: Any) -> list[tuple[str, Any]] | None:
    if type(given).__name__ in ("dict", "OrderedDict"):
        return [(f"[{key!r}]", item) for key, item in given.items()]
    if isinstance(given, tuple) and hasattr(given, "_fields"):  # optax's states are such
        return [(f".{key}", item) for key, item in zip(given._fields, given, strict=True)]
    if type(given) in (list, tuple):
        return [(f"[{place}]", item) for place, item in enumerate(given)]
    return None
