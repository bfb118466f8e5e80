"""Values in memory: NumPy arrays with a mask of what is valid, texts as Arrow arrays, lists as offsets and items.

A whole number is held as int64 and a floating-point number as float64, whatever its type's width; the type says
what it becomes in Arrow. Where `valid` is None, all rows are. Constants are arrays of stride 0. `read` and `write`
are the way from Arrow and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.whole_columns import arrow_type
from penstock.dtypes import Array
from penstock.expr.nodes import Literal
from penstock.expr.types import Type

Mask = Array | None


@dataclass(frozen=True, slots=True)
class Flat:
    """Numbers, truth values, dates (days) and timestamps (microseconds)."""

    values: Array
    valid: Mask = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, places: Array) -> Flat:
        """The rows at these places."""
        return Flat(self.values[places], None if self.valid is None else self.valid[places])


@dataclass(frozen=True, slots=True)
class Text:
    """Texts; nulls are the array's own."""

    array: Any

    def __len__(self) -> int:
        return len(self.array)

    @property
    def valid(self) -> Mask:
        """Which rows have a value."""
        return None if self.array.null_count == 0 else np.asarray(self.array.is_valid())

    def take(self, places: Array) -> Text:
        """The rows at these places."""
        return Text(self.array.take(pa.array(places)))


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists: row i holds the items from offsets[i] to offsets[i + 1]. A null row may hold any."""

    offsets: Array
    items: Flat | Text
    valid: Mask = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Array:
        """How many items each row has."""
        return np.diff(self.offsets)

    def take(self, places: Array) -> Lists:
        """The rows at these places."""
        lengths = self.lengths[places]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        items = self.items.take(np.repeat(self.offsets[:-1][places], lengths) + within)
        return Lists(offsets, items, None if self.valid is None else self.valid[places])


Value = Flat | Text | Lists


def both(*masks: Mask) -> Mask:
    """What is valid in all."""
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found & mask
    return found


def is_valid(value: Value) -> Array:
    """Which rows have a value, as an array in any case."""
    return np.ones(len(value), bool) if value.valid is None else value.valid


def with_valid(value: Value, valid: Mask) -> Value:
    """The value with another mask."""
    if isinstance(value, Flat):
        return Flat(value.values, valid)
    if isinstance(value, Lists):
        return Lists(value.offsets, value.items, valid)
    nulls = pa.scalar(None, pa.string())
    return value if valid is None else Text(pc.if_else(pa.array(valid), value.array, nulls))


def concat(values: Sequence[Value]) -> Value:
    """The rows of several values of one kind, one after the other."""
    valid = None if all(v.valid is None for v in values) else np.concatenate([is_valid(v) for v in values])
    first = values[0]
    if isinstance(first, Flat):
        return Flat(np.concatenate([v.values for v in values if isinstance(v, Flat)]), valid)
    if isinstance(first, Text):
        return Text(pa.concat_arrays([v.array for v in values if isinstance(v, Text)]))
    lists = [v for v in values if isinstance(v, Lists)]
    offsets, start = [np.zeros(1, np.int64)], 0
    for one in lists:
        offsets.append(one.offsets[1:] + start)
        start += len(one.items)
    items = concat([one.items for one in lists])
    assert isinstance(items, Flat | Text)
    return Lists(np.concatenate(offsets), items, valid)


EPOCH = datetime(1970, 1, 1)


def constant(node: Literal, rows: int) -> Value:
    """A constant for so many rows."""
    value, kind = node.value, node.type.kind
    if kind == "string":
        return Text(pa.repeat(pa.scalar(value, pa.string()), rows))
    valid = None if value is not None else np.broadcast_to(np.False_, rows)
    if kind == "list":
        return Lists(np.zeros(rows + 1, np.int64), _no_items(node.type.item), valid)
    return Flat(np.broadcast_to(np.asarray(number(value), HELD[kind]), rows), valid)


def _no_items(of: Type) -> Flat | Text:
    return Text(pa.array([], pa.string())) if of.kind == "string" else Flat(np.zeros(0, HELD[of.kind]))


HELD: dict[str, type] = {
    "bool": np.bool_,
    "int": np.int64,
    "float": np.float64,
    "date": np.int64,
    "timestamp": np.int64,
    "timestamp_ntz": np.int64,
}


def number(value: Any) -> Any:
    """A constant as the number it is held as: days of a date, microseconds of a timestamp, 0 for null."""
    if isinstance(value, datetime):
        plain = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value  # noqa: UP017
        return (plain - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - EPOCH.date()).days
    return 0 if value is None else value


def read(array: Any, of: Type) -> Value:
    """An Arrow array (or chunked array) as a value of a type, which `schema_of` found for it."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if of.kind == "string":
        return Text(array.cast(pa.string()))
    valid = None if array.null_count == 0 else np.asarray(array.is_valid())
    if of.kind == "list":
        if pa.types.is_fixed_size_list(array.type):
            size = array.type.list_size
            items = read(array.values[array.offset * size : (array.offset + len(array)) * size], of.item)
            offsets = np.arange(len(array) + 1, dtype=np.int64) * size
        else:
            array = array.cast(pa.large_list(array.type.value_type))
            offsets = np.asarray(array.offsets)
            items = read(array.values[offsets[0] : offsets[-1]], of.item)
            offsets = offsets - offsets[0]
        assert isinstance(items, Flat | Text)
        return Lists(offsets, items, valid)
    return Flat(_numbers(array, of), valid)


def _numbers(array: Any, of: Type) -> Array:
    scale = 1
    if pa.types.is_timestamp(array.type):
        scale = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": -1000}[array.type.unit]
        array = array.cast(pa.int64())
    elif pa.types.is_date64(array.type):
        array = array.cast(pa.date32())
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    filled = array.fill_null(False if of.kind == "bool" else 0) if array.null_count else array
    found: Array = filled.to_numpy(zero_copy_only=False).astype(HELD[of.kind], copy=False)
    return found // -scale if scale < 0 else found * scale if scale > 1 else found


def write(value: Value, of: Type) -> Any:
    """A value as an Arrow array of its type."""
    if isinstance(value, Text):
        return value.array
    mask = None if value.valid is None else pa.array(~value.valid)
    if isinstance(value, Lists):
        items = write(value.items, of.item)
        if of.length is not None:
            return pa.FixedSizeListArray.from_arrays(items, of.length, mask=mask)
        return pa.ListArray.from_arrays(pa.array(value.offsets, pa.int32()), items, mask=mask)
    target = arrow_type(of)
    numbers = np.ascontiguousarray(value.values)
    if of.kind in ("int", "float"):
        numbers = numbers.astype(target.to_pandas_dtype(), copy=False)
    elif of.kind == "date":
        numbers = numbers.astype(np.int32)
    plain = pa.array(numbers, mask=None if value.valid is None else ~value.valid)
    return plain if plain.type == target else plain.cast(target)
