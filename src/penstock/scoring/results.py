"""What a model returned, held against what `returns` says, as Arrow columns.

Numbers may get wider, and floats may be rounded to the dtype that was named. A whole number that does not fit, and a
float beyond the dtype's range, is its row's fault; a fraction for a whole number and any other shape are errors that
name the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dtypes import DTYPES, Array
from penstock.errors import ReturnsError
from penstock.scoring.job import TEXT, Result

LISTS_AT_ONCE = (1 << 31) - 1
"""Arrow counts a list's values in 32 bits."""


def arrow_results(
    outputs: Any, results: Sequence[Result], rows: int
) -> tuple[list[pa.Array], dict[int, str]]:
    """One Arrow column per result; and by row, which value does not fit: such a row has no results at all.

    >>> columns, faults = arrow_results(np.array([[7], [300]]), [Result("n", "int8")], 2)
    >>> columns[0].to_pylist(), faults
    ([7, None], {1: "result 'n' is 300, which does not fit tinyint; declare a wider type in returns"})
    """
    found, faults = _by_result(outputs, results), dict[int, str]()
    columns = [_column(values, result, rows, faults) for values, result in zip(found, results, strict=True)]
    if faults:
        bad = np.isin(np.arange(rows), list(faults))
        places = pa.array(np.arange(rows), mask=bad)
        columns = [column.take(places) for column in columns]
    return columns, faults


def arrow_type(result: Result) -> pa.DataType:
    """A result's type in Arrow."""
    leaf = pa.string() if result.dtype == TEXT else pa.from_numpy_dtype(DTYPES[result.dtype].storage)
    for _ in range(result.depth):
        leaf = pa.list_(leaf)
    return leaf


def _by_result(outputs: Any, results: Sequence[Result]) -> list[Any]:
    declared = ", ".join(map(str, results))
    if isinstance(outputs, Mapping):
        missing = [result.name for result in results if result.name not in outputs]
        if missing:
            raise ReturnsError(
                f"the model returned a dictionary of {', '.join(map(repr, outputs))}, without {missing[0]!r}",
                declared,
            )
        return [outputs[result.name] for result in results]
    if isinstance(outputs, tuple) or (isinstance(outputs, list) and len(results) > 1):
        if len(outputs) != len(results):
            raise ReturnsError(f"the model returned {len(outputs)} values, not {len(results)}", declared)
        return list(outputs)
    if len(results) > 1:
        raise ReturnsError(
            f"the model returned one {type(outputs).__name__}, not {len(results)}: a tuple in this order, or a "
            "dictionary by name, is wanted",
            declared,
        )
    return [outputs]


def _column(values: Any, result: Result, rows: int, faults: dict[int, str]) -> pa.Array:
    try:
        # As objects, where they may be texts: an array of NumPy's own would make a text of every number beside one, and
        # drop the NULs at a text's end.
        array = np.asarray(values, object if result.dtype == TEXT and not hasattr(values, "dtype") else None)
    except (ValueError, TypeError) as error:
        raise ReturnsError(f"column {result.name!r} is no array: {error}", str(result)) from error
    seen = f"{array.dtype}{list(array.shape)}"
    if array.ndim == result.depth + 2 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim != result.depth + 1 or len(array) != rows:
        raise ReturnsError(
            f"column {result.name!r} came as {seen}, and {result.shape(rows)} is wanted for {rows} rows",
            str(result),
        )
    if result.dtype == TEXT:
        return _texts(array, result, seen)
    array = _cast(array, result, seen, faults)
    return _nested(np.ascontiguousarray(array))


def _texts(array: Array, result: Result, seen: str) -> pa.Array:
    values: list[Any] = array.reshape(-1).tolist()
    other = next((value for value in values if value is not None and not isinstance(value, str)), None)
    if other is not None:
        raise ReturnsError(
            f"column {result.name!r} came as {seen}, which are no texts: among them is {other!r}, of type "
            f"{type(other).__name__}, and str or None is wanted",
            str(result),
        )
    try:
        return pa.array(array.tolist(), arrow_type(result))
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise ReturnsError(
            f"column {result.name!r} holds what is no text of Unicode ({error})", str(result)
        ) from error


def _cast(array: Array, result: Result, seen: str, faults: dict[int, str]) -> Array:
    target = DTYPES[result.dtype].storage
    if array.dtype == target:
        return array
    if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, target, "same_kind"):
        raise ReturnsError(
            f"column {result.name!r} came as {seen}, which does not become {DTYPES[result.dtype].spark} by itself",
            str(result),
        )
    with np.errstate(over="ignore"):
        cast: Array = array.astype(target)
    changed = _changed(array, cast)
    if changed is not None and changed.any():
        for row in np.flatnonzero(changed.reshape(len(array), -1).any(1)):
            value = array[row][changed[row]].flat[0] if array.ndim > 1 else array[row]
            faults.setdefault(
                int(row),
                f"result {result.name!r} is {value}, which does not fit {DTYPES[result.dtype].spark}; declare a wider "
                "type in returns",
            )
    return cast


def _changed(array: Array, cast: Array) -> Array | None:
    """Which whole numbers became others, and which floats infinite; None where there are none that could.

    >>> _changed(np.array([2**53, 2**53 + 1, 2**63 - 1]), np.array([2.0**53, 2.0**53, 2.0**63])).tolist()
    [False, True, True]
    """
    if array.dtype.kind == "f":
        infinite: Array = np.isinf(cast) & np.isfinite(array)
        return infinite
    if array.dtype.kind not in "iu":
        return None
    if cast.dtype.kind == "f":
        # A float beyond the whole numbers' range has no way back: they may be rounded up to its end, and no further.
        beyond: Array = cast >= 2.0 ** (8 * array.itemsize - (array.dtype.kind == "i"))
        back = np.where(beyond, 0, cast).astype(array.dtype)
        beyond |= back != array
        return beyond
    changed: Array = (cast != array) | ((cast < 0) != (array < 0))
    return changed


def _nested(array: Array) -> pa.Array:
    """Lists of lists around the values."""
    if array.size > LISTS_AT_ONCE and array.ndim > 1:
        raise ReturnsError(
            f"a batch's lists hold {array.size} numbers, more than Arrow counts", "smaller batches"
        )
    found = pa.array(array.reshape(-1))
    for depth in range(array.ndim - 1, 0, -1):
        count, length = int(np.prod(array.shape[:depth])), array.shape[depth]
        found = pa.ListArray.from_arrays(
            pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(length)), found
        )
    return found
