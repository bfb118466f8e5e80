"""What is in a dataset's tensors: each with its spread, that of its columns, lengths of ragged ones, frequent texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import Array, TensorSpec
from penstock.expr.check import columns_of, type_of
from penstock.expr.nodes import Call, Expression
from penstock.recipe.fitted import FittedRecipe
from penstock.tools.report.distributions import TOP, numbers
from penstock.tools.report.sampling import Sample
from penstock.wire.ragged import Packed, Ragged

MOST_COLUMNS, MOST_UNNAMED = 64, 16
"""A row's numbers are told one by one up to so many; up to so many where they have no names."""
COLUMN_BINS = 24
LONGEST = 60
"""Letters of a text that is shown."""
MOST_WORDS = 3
"""Operations that tell two features of one column apart."""
DULL = frozenset(
    (
        "add",
        "subtract",
        "multiply",
        "divide",
        "negate",
        "cast",
        "convert_argument",
        "fill",
        "clip",
        "stack",
        "index_in",
    )
)
"""Operations that most features have, so that they tell none from another."""


def tensor_facts(snapshot: Snapshot, sample: Sample, recipe: FittedRecipe | None) -> list[dict[str, Any]]:
    """One entry for each tensor."""
    return [_tensor(spec, snapshot, sample, recipe) for spec in snapshot.manifest.tensors]


def _tensor(
    spec: TensorSpec, snapshot: Snapshot, sample: Sample, recipe: FittedRecipe | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": spec.name,
        "is": str(spec).removeprefix(f"{spec.name}: "),
        "dtype": spec.dtype,
        "shape": list(spec.shape),
        "kind": spec.kind,
        "row_bytes": None if spec.ragged else spec.row_bytes,
        "columns": list(snapshot.manifest.columns.get(spec.name, ())),
    }
    ids = recipe.outputs[spec.name].ids if recipe is not None and spec.name in recipe.outputs else ()
    known = [each for each in ids if each is not None]
    if known:
        found["ids"] = list(ids)
    if spec.name in sample.refused:
        return found | {"unread": sample.refused[spec.name]}
    packed = sample.tensors.get(spec.name)
    if packed is None or not len(packed):
        return found
    if isinstance(packed, Ragged):
        lengths = np.diff(packed.offsets)
        found["lengths"] = numbers(lengths)
        found["row_bytes"] = float(lengths.mean()) * spec.row_bytes
    if spec.kind in ("string", "binary"):
        return found | {"texts": _texts(packed, spec.kind)}
    values = _numbers(packed, spec.dtype)
    found["spread"] = numbers(values)
    if spec.dtype == "bool":
        found["spread"]["counted"] = [[bool(value), each] for value, each in found["spread"]["counted"]]
    names = _names(spec, found["columns"], recipe) if spec.kind == "fixed" and len(spec.shape) == 1 else []
    if len(names) > 1:
        found["each"] = [
            {
                "name": names[place],
                "ids": ids[place] if len(ids) == spec.shape[0] else None,
                **numbers(values[:, place], COLUMN_BINS),
            }
            for place in range(len(names))
        ]
    return found


def _numbers(packed: Packed, dtype: str) -> Array:
    values = packed.values if isinstance(packed, Ragged) else packed
    if dtype == "bfloat16":  # lies as the upper half of a float32
        return (values.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(values)


def _names(spec: TensorSpec, columns: list[str], recipe: FittedRecipe | None) -> list[str]:
    """What the numbers of a row are called: by the recipe's parts, or by the columns they came from.

    Empty where they are too many to be told one by one.
    """
    count = spec.shape[0]
    if count > MOST_COLUMNS:
        return []
    tree = None if recipe is None else recipe.tensors.get(spec.name)
    if recipe is not None and isinstance(tree, Call) and tree.op == "stack":
        parts = [each for part in tree.of for each in _parts(part, recipe)]
        if len(parts) == count:
            return _told_apart(parts)
    if len(columns) == count:
        return columns
    return [f"[{place}]" for place in range(count)] if count <= MOST_UNNAMED else []


def _parts(part: Expression, recipe: FittedRecipe) -> Iterator[tuple[str, str, Expression]]:
    """Of each number that a part of a stack makes: its columns, its place in a list, and what computes it."""
    of, title = type_of(part, recipe.inputs), ", ".join(columns_of(part)) or "constant"
    width = (of.length or 0) if of.kind == "list" else 1
    listed = isinstance(part, Call) and part.op == "stack" and len(part.of) == width
    for place in range(width):
        yield title, f" [{place}]" if width > 1 else "", part.of[place] if listed else part  # type: ignore[attr-defined]


def _told_apart(parts: list[tuple[str, str, Expression]]) -> list[str]:
    """The names; where columns are used more than once, with what is done to them, else with the place in the row."""
    names = [title + place for title, place, _ in parts]
    found = Counter(names)
    for at, (title, place, part) in enumerate(parts):
        if found[names[at]] > 1:
            words = _words(part)
            names[at] = f"{title}: {words}" if words else title + place
    found = Counter(names)
    return [name if found[name] == 1 else f"{name} [{at}]" for at, name in enumerate(names)]


def _words(expression: Expression) -> str:
    """The operations that say most about a feature, from the outermost on.

    >>> from penstock.expr.build import col
    >>> _words((col("at").hour("UTC") * 60 + col("at").minute("UTC")).sin().cast("float32"))
    'sin, hour, minute'
    """
    found: dict[str, None] = {}
    ahead, seen = [expression], set()
    while ahead and len(found) < MOST_WORDS:
        node = ahead.pop()
        if isinstance(node, Call) and id(node) not in seen:
            seen.add(id(node))
            found |= {} if node.op in DULL else {node.op: None}
            ahead += reversed(node.of)
    return ", ".join(found)


def _texts(packed: Packed, kind: str) -> dict[str, Any]:
    assert isinstance(packed, Ragged)
    data, ends = packed.values.tobytes(), packed.offsets.tolist()
    counted = Counter(data[first:last] for first, last in pairwise(ends))
    top = [[_shown(text, kind), count] for text, count in counted.most_common(TOP)]
    return {"count": len(packed), "different": len(counted), "most_frequent": top}


def _shown(text: bytes, kind: str) -> str:
    found = text.decode("utf-8", "backslashreplace") if kind == "string" else text[:LONGEST].hex(" ")
    return found if len(found) <= LONGEST else f"{found[: LONGEST - 3]}..."
