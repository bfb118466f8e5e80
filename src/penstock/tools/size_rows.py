"""What there is to read, from tensors, a dataset or a recipe; for `penstock size`.

Of tensors and recipes it is what `pk.write` would make, a shard for each worker. A dataset tells what it is; where
another number of rows is asked about, it is taken for a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import SizeError
from penstock.feed.memory.row_sizes import row_bytes as loader_row_bytes
from penstock.tools.size_forms import form_name
from penstock.tools.size_memory import planned_blocks, shard_blocks
from penstock.tools.size_tensors import Tensors, parse_tensors, recipe_tensors

if TYPE_CHECKING:
    from penstock.feed.dataset import Dataset
    from penstock.recipe.fitted import FittedRecipe


@dataclass(frozen=True)
class Rows:
    """What there is to read, wherever that was learned."""

    source: str
    tensors: tuple[str, ...]
    rows: int
    row_bytes: int
    """Of the tensors."""
    memory_row_bytes: int
    """As the loader counts them, which takes a little more where rows have lengths of their own."""
    stored: int
    """Bytes on storage."""
    shards: int
    shard_bytes: int
    """Of the largest."""
    blocks: tuple[int, ...]
    own: tuple[str, int] | None = None
    """How a dataset is stored, and its bytes."""


def find_rows(
    rows: int | None, tensors: Tensors | None, dataset: Any, recipe: FittedRecipe | None, workers: int
) -> Rows:
    """The rows that are asked about, from the one source that is given.

    >>> find_rows(1000, "x:float32:256", None, None, workers=4).shard_bytes
    256000
    """
    given = [
        name
        for name, value in (("tensors", tensors), ("dataset", dataset), ("recipe", recipe))
        if value is not None
    ]
    if len(given) != 1:
        said = f"{' and '.join(given)} are given" if given else "none is given"
        raise SizeError(
            f"what a row is made of comes from tensors, from a dataset or from a recipe, and {said}. Pass one of "
            "them, such as tensors={'x': ('float32', 256)} (--tensor x:float32:256)."
        )
    if dataset is not None:
        return _stored_rows(rows, _opened(dataset), workers)
    found = parse_tensors(tensors) if tensors is not None else recipe_tensors(recipe)  # type: ignore[arg-type]
    if rows is None:
        raise SizeError(f"how many rows there are is not told by {given[0]}. Pass rows=2e9 (--rows 2e9).")
    row_bytes = sum(each.row_bytes for each in found)
    if not row_bytes:
        raise SizeError(f"a row of {', '.join(map(str, found))} takes no bytes. Give a shape without a zero.")
    specs = [each.spec for each in found]
    return Rows(
        given[0],
        tuple(map(str, found)),
        rows,
        row_bytes,
        row_bytes,
        rows * row_bytes,
        workers,
        -(-rows // workers) * row_bytes,
        tuple(planned_blocks(rows, workers, specs, row_bytes)),
    )


def _opened(dataset: Any) -> Dataset:
    from penstock.feed.dataset import Dataset
    from penstock.feed.opening import open

    return dataset if isinstance(dataset, Dataset) else open(dataset)


def _stored_rows(rows: int | None, ds: Dataset, workers: int) -> Rows:
    if not ds.rows or not ds.bytes:
        raise SizeError(
            f"{ds.path} has no rows, so it tells nothing about sizes. Pass tensors= and rows= instead "
            "(--tensor x:float32:256 --rows 2e9)."
        )
    specs = list(ds.tensors.values())
    fixed, mean = sum(spec.row_bytes for spec in specs if not spec.ragged), -(-ds.bytes // ds.rows)
    row_bytes = mean if any(spec.ragged for spec in specs) else max(fixed, 1)
    block_bytes, known = ds.options.get("block_bytes"), rows in (None, ds.rows)
    all_rows = ds.rows if rows is None else rows
    stored = -(-ds.bytes * all_rows // ds.rows)
    shards = len(ds.shards) if known else workers
    largest = max(each.bytes for each in ds.shards) if known else -(-stored // workers)
    blocks = (
        shard_blocks(ds.shards, specs, block_bytes)
        if known
        else planned_blocks(all_rows, workers, specs, row_bytes)
    )
    storage = ds.options.get("format")
    name = "as it is" if storage is None else form_name(storage, ds.options.get("compression"))
    return Rows(
        f"dataset {ds.path}" + ("" if known else f", of {ds.rows:,} rows"),
        tuple(map(str, specs)),
        all_rows,
        row_bytes,
        loader_row_bytes(ds.snapshot, specs),
        stored,
        shards,
        largest,
        tuple(blocks),
        (name, stored),
    )
