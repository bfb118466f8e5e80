"""Values as tensors: one dimension for single values, two for lists, and masks of what is valid.

Whole numbers are int64, floating-point numbers float64, dates days and timestamps microseconds, whatever the type's
width; `write` makes them narrow at the end. Nothing here or in the kernels waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from penstock.errors import ExpressionError
from penstock.expr.nodes import Literal
from penstock.expr.types import Type, int_range

Mask = Tensor | None


@dataclass(frozen=True, slots=True)
class Value:
    """A column on a device."""

    values: Tensor
    valid: Mask = None
    """Which rows have a value; None for all."""
    items: Mask = None
    """Of lists: which elements have one; None for all."""


def both(*masks: Mask) -> Mask:
    """What is valid in all."""
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found & mask
    return found


def is_valid(value: Value) -> Tensor:
    """Which rows have a value, as a tensor in any case."""
    if value.valid is not None:
        return value.valid
    return torch.ones(value.values.shape[0], dtype=torch.bool, device=value.values.device)


HELD = {"bool": torch.bool, "float": torch.float64}
_EPOCH = datetime(1970, 1, 1)


def held(of: Type) -> torch.dtype:
    """The dtype a type is computed in."""
    return HELD.get(of.kind, torch.int64)


def lookup(numbers: tuple[Any, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A small table on a device, sent there once: sending it for every batch would wait for the device."""
    if (
        torch.compiler.is_compiling()
    ):  # what is made while a program is traced holds no numbers: never keep it
        return torch.tensor(numbers, dtype=dtype, device=device)
    return _kept(numbers, dtype, device)


@lru_cache(maxsize=256)
def _kept(numbers: tuple[Any, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=dtype, device=device)


def constant(node: Literal, rows: int, device: torch.device) -> Value:
    """A constant for so many rows; one number, seen by all."""
    value = torch.full((), _number(node.value), dtype=held(node.type), device=device).expand(rows)
    if node.value is not None:
        return Value(value)
    return Value(value, torch.full((), False, device=device).expand(rows))


def _number(value: Any) -> Any:
    if isinstance(value, datetime):
        plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return (plain - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    return 0 if value is None else value


def read(name: str, given: Any, of: Type) -> Value:
    """A column as users give it: a tensor; with which rows are valid; of lists also with which elements are."""
    parts = list(given) if isinstance(given, tuple | list) else [given]
    if not 1 <= len(parts) <= 3 or not all(
        isinstance(part, Tensor) or (part is None and place) for place, part in enumerate(parts)
    ):
        raise ExpressionError(
            f"column {name!r} is given as {type(given).__name__}. Give a tensor, or a pair of tensors: the values, "
            "and which of them are valid."
        )
    values, valid, items = [*parts, None, None][:3]
    leaf = of.item if of.kind == "list" else of
    if values.dim() != 1 + (of.kind == "list") or (of.length is not None and values.shape[1] != of.length):
        raise ExpressionError(
            f"column {name!r} is of type {of}, and its tensor has the shape {tuple(values.shape)}."
        )
    if values.dtype.is_floating_point and leaf.kind != "float":
        raise ExpressionError(f"column {name!r} is of type {of}, and its tensor of {values.dtype}.")
    if valid is not None and items is None and valid.shape == values.shape and values.dim() == 2:
        valid, items = None, valid
    for mask, shape in ((valid, values.shape[:1]), (items, values.shape)):
        if mask is not None and (mask.dtype != torch.bool or mask.shape != shape):
            raise ExpressionError(
                f"column {name!r}: what is valid is given as {mask.dtype} of shape {tuple(mask.shape)}. "
                "It has to be bool, one for each row, or one for each element of a list."
            )
    if leaf.kind == "float" and leaf.bits < 64:
        values = values.to(getattr(torch, str(leaf)))  # as a table of that type would hold it
    return Value(values.to(held(leaf)), valid, items)


WHOLE = {64: 1 << 53, 32: 1 << 24, 16: 1 << 11}
"""Up to here a float of so many bits holds every whole number."""


def check_fits(name: str, given: Any, of: Type) -> None:
    """Refuse valid values that the column's type does not hold. It waits for the device, if the tensor's is wider."""
    value = read(name, given, of)
    plain: Tensor = given[0] if isinstance(given, tuple | list) else given
    leaf = of.item if of.kind == "list" else of
    dtype = plain.dtype
    if not leaf.is_number or dtype == torch.bool:
        return
    if dtype.is_floating_point:
        if torch.finfo(dtype).bits <= leaf.bits:
            return
        wrong = torch.isinf(value.values) & ~torch.isinf(plain)
    else:
        low, high = int_range(leaf) if leaf.kind == "int" else (-WHOLE[leaf.bits], WHOLE[leaf.bits])
        info = torch.iinfo(dtype)
        if low <= info.min and info.max <= high:
            return
        plain = plain.to(
            torch.int64
        )  # torch does not compare all unsigned ones; the greatest become negative
        wrong = (plain < max(low, info.min)) | (plain > high)
    for mask in (value.items, value.valid):
        if mask is not None:
            wrong = wrong & (mask if mask.dim() == wrong.dim() else mask[:, None])
    if bool(wrong.any()):
        raise ExpressionError(
            f"column {name!r} was {of} when the recipe was fitted, and its tensor of {dtype} has "
            f"{plain[wrong][0].item()}, which does not fit. Cast it back, or fit the recipe anew."
        )


def write(value: Value, of: Type) -> tuple[Tensor, Mask]:
    """A value in its type's own width, with which rows, or elements of a list, are valid."""
    leaf = of.item if of.kind == "list" else of
    values = value.values
    if leaf.kind in ("int", "float"):
        values = values.to(getattr(torch, str(leaf)))
    valid = value.valid
    if value.items is not None:
        valid = value.items if valid is None else value.items & valid[:, None]
    return values, valid
