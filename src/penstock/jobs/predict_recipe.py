"""A recipe's tensors for `pk.predict`: native Spark expressions, so that only finished tensors cross.

The workers could compute them too, from the columns as they are, with the same values. Measured, that was a little
slower for numbers and a little faster for indexes of texts; but they would need xxhash for hashes, and recipes and
their programs cannot be shipped by value. Unlike in `FittedRecipe.transform`, a null that reaches a
tensor crosses and is found in the worker, where its row can be named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.backends import engine
from penstock.dtypes import DTYPES
from penstock.errors import SelectionError, listed
from penstock.expr.nodes import Call, Expression
from penstock.jobs.selection import Selection, select
from penstock.recipe.columns import spark_columns
from penstock.recipe.fitted import FittedRecipe
from penstock.recipe.recipe import Recipe
from penstock.wire.plan import Piece, Plan, TensorPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEPT = "__kept_"
LONGEST = 120


def recipe_source(
    df: DataFrame, recipe: Any, tensors: Any, dtype: Any, nulls: Any, kept: Sequence[str]
) -> tuple[DataFrame, list[str], Selection]:
    """The DataFrame of a recipe's tensors and the kept columns, how those are named there, and the selection."""
    from pyspark.sql import functions as F

    if isinstance(recipe, Recipe):
        raise SelectionError("this recipe has not learned anything yet: pass recipe=recipe.fit(df).")
    if not isinstance(recipe, FittedRecipe):
        raise SelectionError(
            f"recipe={recipe!r:.200}: a fitted recipe is wanted, as Recipe.fit and pk.load_recipe give it."
        )
    if dtype is not None or nulls != "error":
        raise SelectionError("a recipe says itself what its tensors are: leave dtype and nulls out.")
    names = _chosen(recipe, tensors)
    chosen = recipe.only(*names)
    trees, inputs = chosen.tensors, chosen.inputs
    # Under names of their own: inputs may be widened to the types they had, and tensors may have columns' names.
    hidden = [f"{KEPT}{place}" for place in range(len(kept))]
    copies = [
        F.col("`" + name.replace("`", "``") + "`").alias(new) for name, new in zip(kept, hidden, strict=True)
    ]
    whole = spark_columns(df.select("*", *copies), inputs, hidden, names)
    source = engine("spark").prepare(trees, inputs)(whole, keep=hidden)
    kinds = {name: chosen.outputs[name].type for name in names}
    leaves = {name: str(of.item if of.kind == "list" else of) for name, of in kinds.items()}
    wanted = {name: leaf for name, leaf in leaves.items() if leaf in DTYPES}
    selection = select(source, {name: name for name in names}, wanted, "error")
    plans = tuple(
        _told(tensor, trees[tensor.name], chosen.outputs[tensor.name].type.length)
        for tensor in selection.plan.tensors
    )
    return source, hidden, replace(selection, plan=Plan(plans))


def _chosen(recipe: FittedRecipe, tensors: Any) -> list[str]:
    names = list(recipe.tensors) if tensors is None else [tensors] if isinstance(tensors, str) else tensors
    if isinstance(names, dict) or not all(isinstance(name, str) for name in names) or not list(names):
        raise SelectionError(
            f"tensors={tensors!r:.200}: beside a recipe it is a list of those of the recipe's tensors that the model "
            f"takes. The recipe has {listed(list(recipe.tensors))}."
        )
    unknown = [name for name in names if name not in recipe.tensors]
    if unknown:
        raise SelectionError(
            f"the recipe has no tensor {listed(unknown)}; it has {listed(list(recipe.tensors))}."
        )
    return list(names)


def _told(tensor: TensorPlan, tree: Expression, length: int | None) -> TensorPlan:
    """The plan with expressions for columns' names, so that a null's message says where it came from."""
    (piece,) = tensor.pieces
    if isinstance(tree, Call) and tree.op == "stack" and len(tree.of) == length:
        shown = tuple(_short(arg) for arg in tree.of)
        return replace(tensor, pieces=(Piece(shown, (None,) * len(shown), packed=True),), matrix=True)
    return replace(tensor, pieces=(replace(piece, columns=(_short(tree),)),))


def _short(tree: Expression) -> str:
    text = repr(tree)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
