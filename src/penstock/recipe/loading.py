"""Fitted recipes read back from their files; `storage` writes them.

The JSON is read as a stranger's input: every tree is built anew with all checks, a vocabulary's bytes are held against
its digest, and nothing is executed but the import of modules whose `penstock.batch` functions it names.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.backends.whole_columns import whole
from penstock.errors import ExpressionError, RecipeError
from penstock.expr.check import columns_of, type_of
from penstock.expr.show import trees_from_json
from penstock.expr.types import parse_type
from penstock.expr.vocabulary import Vocabulary
from penstock.recipe.fitted import FittedRecipe
from penstock.recipe.fitting import learns
from penstock.recipe.report import fact_from_json
from penstock.recipe.storage import SUFFIX, VERSION, beside


def load_recipe(path: str | Path) -> FittedRecipe:
    """Read back what `FittedRecipe.save` wrote; neither Spark nor Java is needed.

    >>> import tempfile
    >>> from penstock.expr.build import col
    >>> from penstock.expr.types import FLOAT64
    >>> path = tempfile.mkdtemp() + "/recipe.json"
    >>> FittedRecipe({"x": col("a").clip(0, 1)}, {"a": FLOAT64}).save(path)
    >>> load_recipe(path)
    FittedRecipe(
        x=col('a').clip(0, 1),
    )
    """
    target = Path(path)

    def read(name: str) -> bytes:
        file = beside(target, name)
        try:
            return file.read_bytes()
        except OSError as error:
            raise RecipeError(str(target), f"its vocabulary {file.name} is not there: {error}") from None

    try:
        text = target.read_bytes()
    except OSError as error:
        raise RecipeError(str(target), f"it cannot be read: {error.strerror or error}") from None
    return from_files(text, read, str(target))


def from_files(text: bytes, read: Callable[[str], bytes], where: str) -> FittedRecipe:
    """A recipe from its JSON; `read` gives the files beside it by name."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecipeError(where, f"it is no JSON: {error}") from None
    if not isinstance(found, dict) or "penstock_recipe" not in found:
        raise RecipeError(where, "it is JSON, but not a recipe of Penstock")
    version = found["penstock_recipe"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RecipeError(where, f"its version is {version!r}, which is none")
    if version > VERSION:
        raise RecipeError(
            where,
            f"it is written in version {version}, and this Penstock reads up to {VERSION}. Install a newer one",
        )
    try:
        return _recipe(found, read)
    except RecipeError:
        raise
    except ExpressionError as error:
        raise RecipeError(where, str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecipeError(
            where, f"something in it is not as it should be ({type(error).__name__}: {error})"
        ) from None


def _recipe(found: dict[str, Any], read: Callable[[str], bytes]) -> FittedRecipe:
    large = {digest: _vocabulary(read(f"{digest}{SUFFIX}"), digest) for digest in found["vocabularies"]}
    inputs = {str(name): parse_type(of) for name, of in found["inputs"].items()}
    trees = trees_from_json(list(found["tensors"].values()), found.get("shared", []), large)
    tensors = dict(zip(map(str, found["tensors"]), trees, strict=True))
    if not tensors:
        raise ExpressionError("it has no tensors")
    for tree in tensors.values():
        if learns(tree):
            raise ExpressionError(
                f"{tree!r} has to learn from data first, and no fitted recipe has such a thing"
            )
        type_of(tree, inputs)
    used = {name for tree in tensors.values() for name in columns_of(tree)}
    if used != set(inputs):
        raise ExpressionError(f"its inputs are {sorted(inputs)}, and its tensors read {sorted(used)}")
    declared = found["declared"]
    return FittedRecipe(
        tensors,
        inputs,
        None if declared is None else {name: str(declared[name]) for name in tensors},
        tuple(fact_from_json(one) for one in found["learned"]),
    )


def _vocabulary(content: bytes, digest: str) -> Vocabulary:
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(content).read_all().combine_chunks()
        key, number = table["key"], table["number"] if "number" in table.column_names else None
        found = Vocabulary(whole(key), None if number is None else whole(number))
    except (pa.ArrowException, KeyError) as error:
        raise ExpressionError(f"the vocabulary {digest}{SUFFIX} cannot be read: {error}") from None
    if found.digest != digest:
        raise ExpressionError(f"the vocabulary {digest}{SUFFIX} has changed since it was written")
    return found
