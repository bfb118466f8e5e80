"""A fitted recipe as files: one JSON document, and an Arrow file for each large vocabulary. `loading` reads them.

`save` is for local files; `files` for whoever has a store of his own, as `penstock.write` does. Nothing is pickled.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from penstock.expr.batch import batch_functions, importable
from penstock.expr.nodes import Expression
from penstock.expr.show import Large, trees_to_json
from penstock.expr.types import Type
from penstock.expr.vocabulary import Vocabulary
from penstock.recipe.report import fact_to_json

VERSION = 1
SUFFIX = ".arrow"
RECIPE_FILE = "recipe.json"


class Parts(Protocol):
    """What a recipe is made of; a `FittedRecipe` has it."""

    @property
    def tensors(self) -> Mapping[str, Expression]:
        """Each tensor's plain expression."""

    @property
    def inputs(self) -> Mapping[str, Type]:
        """The columns that are read."""

    @property
    def declared(self) -> Mapping[str, str] | None:
        """What the tensors were before anything was learned."""

    @property
    def facts(self) -> Sequence[Mapping[str, Any]]:
        """What was learned."""


def document(recipe: Parts) -> tuple[dict[str, Any], Large]:
    """The recipe as plain JSON values, and the vocabularies that are too large for them."""
    for tree in recipe.tensors.values():
        for function in batch_functions(tree):
            importable(function)
    large: Large = {}
    trees, shared = trees_to_json(list(recipe.tensors.values()), large)
    found = {
        "penstock_recipe": VERSION,
        "inputs": {name: str(of) for name, of in recipe.inputs.items()},
        "tensors": dict(zip(recipe.tensors, trees, strict=True)),
        "shared": shared,
        "declared": dict(recipe.declared) if recipe.declared is not None else None,
        "learned": [fact_to_json(one) for one in recipe.facts],
        "vocabularies": sorted(large),
    }
    return found, large


def files(recipe: Parts) -> dict[str, bytes]:
    """Names of files and what is in them; the first is the JSON."""
    found, large = document(recipe)
    text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
    return {RECIPE_FILE: text.encode()} | {
        f"{digest}{SUFFIX}": _bytes(each) for digest, each in large.items()
    }


def _bytes(vocabulary: Vocabulary) -> bytes:
    import pyarrow as pa

    columns = {"key": vocabulary.array}
    if vocabulary.numbers is not None:
        columns["number"] = vocabulary.numbers
    table, sink = pa.table(columns), io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def save(recipe: Parts, path: str | Path) -> None:
    """Write a recipe to a file, and its large vocabularies beside it; the JSON comes last, and whole."""
    target = Path(path)
    parts = files(recipe)
    for name, content in parts.items():
        if name != RECIPE_FILE:
            _put(beside(target, name), content)
    _put(target, parts[RECIPE_FILE])


def beside(target: Path, name: str) -> Path:
    """Where a file of a recipe stands that is not its JSON."""
    return target.with_name(f"{target.stem}.{Path(name).name}")


def _put(target: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
