"""Rows through a fitted recipe, on their way to a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.dataset.sources import arrow_rows
from penstock.errors import SelectionError
from penstock.recipe.fitted import FittedRecipe
from penstock.recipe.recipe import Recipe
from penstock.wire.selection import Tensors, ragged


def recipe_files(recipe: FittedRecipe) -> dict[str, bytes]:
    """The files that keep a recipe beside the data."""
    if isinstance(recipe, Recipe):
        raise SelectionError("this recipe has not learned anything yet: pass recipe=recipe.fit(df).")
    if not isinstance(recipe, FittedRecipe):
        raise SelectionError(
            f"recipe={recipe!r}: a fitted recipe is wanted, as Recipe.fit and pk.load_recipe give it."
        )
    return recipe.files()


def computed(recipe: FittedRecipe, rows: Any) -> tuple[Any, Tensors]:
    """Rows that hold the recipe's tensors, and the request for them."""
    request = {
        name: ragged(name) if of.kind == "list" and of.length is None else name
        for name, of in ((name, each.type) for name, each in recipe.outputs.items())
    }
    if callable(getattr(rows, "mapInArrow", None)):
        return recipe.transform(rows), request
    source = arrow_rows(rows)
    empty = recipe.arrow(source.schema.empty_table())

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source.stream():
            yield from recipe.arrow(batch).to_batches()

    return pa.RecordBatchReader.from_batches(empty.schema, batches()), request
