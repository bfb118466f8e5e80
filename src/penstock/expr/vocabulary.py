"""Keys of a column in an order of their own, and perhaps a number for each: what `index` and its like look up.

A vocabulary has three keys or ten million, so they are held as one Arrow array, and what is built to look them up is
built once. `penstock.expr.show` writes small ones into the JSON, and large ones into files beside it.
"""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.types import INT64, STRING, Type

SHOWN = 4


class Vocabulary:
    """Distinct texts or whole numbers, each with its place, and with a number where `numbers` are given.

    >>> words = Vocabulary(["red", "green"])
    >>> words
    Vocabulary(['red', 'green'])
    >>> words.places["green"], len(words), words.type
    (1, 2, string)
    """

    def __init__(self, keys: Any, numbers: Any = None) -> None:
        import pyarrow as pa

        self.array = _keys(keys)
        self.numbers = None if numbers is None else _numbers(numbers)
        """float64, one for each key."""
        if self.numbers is not None and len(self.numbers) != len(self.array):
            raise ExpressionError(
                f"a vocabulary has a number for each key, and here are {len(self.numbers)} for {len(self.array)}."
            )
        self.type: Type = STRING if pa.types.is_string(self.array.type) else INT64

    def __len__(self) -> int:
        return len(self.array)

    @cached_property
    def places(self) -> dict[Any, int]:
        """Each key's place."""
        return {key: place for place, key in enumerate(self.array.to_pylist())}

    @cached_property
    def digest(self) -> str:
        """A hash of all it holds, the same in every process."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = hashlib.sha256(f"{self.type} {len(self)}".encode())
        if self.type == STRING:
            # Lengths and bytes: offsets depend on where the array was cut from.
            binary = self.array.cast(pa.binary())
            found.update(pc.binary_length(binary).to_numpy().astype("<i8").tobytes())
            found.update(b"".join(binary.to_pylist()))
        else:
            found.update(self.array.to_numpy().astype("<i8").tobytes())
        if self.numbers is not None:
            found.update(self.numbers.to_numpy().astype("<f8").tobytes())
        return found.hexdigest()[:32]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        if len(self) > SHOWN:
            return f"Vocabulary(<{len(self)} keys, {self.digest}>)"
        numbers = "" if self.numbers is None else f", {self.numbers.to_pylist()}"
        return f"Vocabulary({self.array.to_pylist()}{numbers})"


def _keys(keys: Any) -> Any:
    import pyarrow as pa

    if not isinstance(keys, pa.Array):
        given = list(keys)
        strange = [key for key in given if not _is_key(key)]
        if strange or len({type(key) for key in given}) > 1:
            raise ExpressionError(
                "a vocabulary is made of texts, or of whole numbers of 64 bits, and here are "
                f"{', '.join(map(repr, (strange or given)[:SHOWN]))}."
            )
        keys = pa.array(given, pa.int64() if given and isinstance(given[0], int) else pa.string())
    if keys.null_count or len(keys.unique()) != len(keys):
        raise ExpressionError(
            f"the keys of a vocabulary are distinct and not null, and these are not: {keys[:SHOWN]}"
        )
    return keys


def _is_key(key: Any) -> bool:
    if isinstance(key, str):
        return True
    return isinstance(key, int) and not isinstance(key, bool) and -(1 << 63) <= key < 1 << 63


def _numbers(numbers: Any) -> Any:
    import pyarrow as pa

    if not isinstance(numbers, pa.Array):
        if not all(isinstance(one, int | float) and math.isfinite(one) for one in numbers):
            raise ExpressionError(
                f"the numbers of a vocabulary are finite, and these are not: {numbers[:SHOWN]!r}."
            )
        numbers = pa.array(map(float, numbers), pa.float64())
    return numbers
