"""What a recipe learned, and what comes out of it: its own report, with the size of every vocabulary and embedding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.recipe.fitted import FittedRecipe

COUNTS = ("rows", "nulls", "not_finite", "distinct", "kept")
MOMENTS = ("mean", "deviation", "low", "high")
PAIRS = ("quantiles", "most_frequent")


def recipe_facts(recipe: FittedRecipe) -> dict[str, Any]:
    """What was learned, operation by operation; the columns read; and the tensors."""
    return {
        "inputs": {name: str(of) for name, of in recipe.inputs.items()},
        "learned": [_learned(fact) for fact in recipe.report().facts],
        "outputs": [
            {
                "name": name,
                "type": str(output.type),
                "ids": [each for each in output.ids if each is not None],
                "declared": (recipe.declared or {}).get(name),
            }
            for name, output in recipe.outputs.items()
        ],
    }


def _learned(fact: Mapping[str, Any]) -> dict[str, Any]:
    """One operation's facts. They come out of a file, and are for people: what is not as it should be is left out."""
    found: dict[str, Any] = {
        "operation": str(fact.get("operation", "")),
        "columns": [str(name) for name in _listed(fact.get("columns"))],
    }
    found |= {name: fact[name] for name in COUNTS if isinstance(fact.get(name), int)}
    if all(isinstance(fact.get(name), (int, float)) for name in MOMENTS):
        found |= {name: fact[name] for name in MOMENTS}
    for name in PAIRS:
        pairs = [pair for pair in _listed(fact.get(name)) if len(_listed(pair)) == 2]
        if pairs and all(isinstance(value, (int, float)) for _, value in pairs):
            found[name] = pairs
    return found | ({"mode": fact["mode"]} if "mode" in fact else {})


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []
