"""Penstock takes a Spark DataFrame to a saturated GPU.

1. Get a session: `spark = pk.session()` is the active one, or a local one; no Java needed on the machine.
2. Turn a DataFrame that fits into tensors: `pk.to_torch(df, ["a", "b"], dtype="float32", device="cuda")`; likewise
   `pk.to_numpy`, `pk.to_tensorflow` and `pk.to_jax`.
3. Declare features once, learn what they need in a few aggregates, and compute the same values on Spark, in serving and
   on a GPU: `fitted = pk.Recipe(x=pk.col("a").fill("median").standardize()).fit(df)`; `fitted.transform(df)`,
   `fitted.arrow(rows)`, `fitted.torch(columns)`.
4. Hand larger data to the training machines: `pk.split(df, {"train": 0.9, "valid": 0.1})`, then
   `pk.write(train, "s3://bucket/train", recipe=fitted, workers=16)`, or with `tensors={"x": ["a", "b"]}`.
5. Open it there, without Spark: `pk.open("s3://bucket/train")`; `verify()` checks every byte.

Names are loaded when first used: `import penstock` alone brings in neither Spark nor any framework. The code's layers
are in `docs/architecture.md`; start reading at `penstock.jobs.tensors`, `penstock.recipe.recipe` and
`penstock.jobs.write`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.dtypes import TensorSpec as TensorSpec
    from penstock.errors import PenstockError as PenstockError
    from penstock.expr.batch import batch as batch
    from penstock.expr.build import coalesce as coalesce
    from penstock.expr.build import col as col
    from penstock.expr.build import cross as cross
    from penstock.expr.build import lit as lit
    from penstock.expr.build import maximum as maximum
    from penstock.expr.build import minimum as minimum
    from penstock.expr.build import stack as stack
    from penstock.expr.build import when as when
    from penstock.expr.vocabulary import Vocabulary as Vocabulary
    from penstock.feed.checkpoint.checkpoint import checkpoint as checkpoint
    from penstock.feed.checkpoint.checkpoint import restore as restore
    from penstock.feed.dataset import Dataset as Dataset
    from penstock.feed.opening import open as open
    from penstock.jobs.baseline import Baseline as Baseline
    from penstock.jobs.baseline import baseline as baseline
    from penstock.jobs.classify import classify as classify
    from penstock.jobs.convert import convert as convert
    from penstock.jobs.launch import launch as launch
    from penstock.jobs.predict import predict as predict
    from penstock.jobs.session import session as session
    from penstock.jobs.split import split as split
    from penstock.jobs.tensors import to_jax as to_jax
    from penstock.jobs.tensors import to_numpy as to_numpy
    from penstock.jobs.tensors import to_tensorflow as to_tensorflow
    from penstock.jobs.tensors import to_torch as to_torch
    from penstock.jobs.udf import udf as udf
    from penstock.jobs.with_columns import with_columns as with_columns
    from penstock.jobs.write import write as write
    from penstock.lifted import lift as lift
    from penstock.recipe.fitted import FittedRecipe as FittedRecipe
    from penstock.recipe.loading import load_recipe as load_recipe
    from penstock.recipe.mllib import from_mllib as from_mllib
    from penstock.recipe.recipe import Recipe as Recipe
    from penstock.tools.explain import Explanation as Explanation
    from penstock.tools.explain import explain as explain
    from penstock.tools.report import Report as Report
    from penstock.tools.report import report as report
    from penstock.tools.size import Sizing as Sizing
    from penstock.tools.size import size as size
    from penstock.wire.selection import ragged as ragged

__version__ = "0.1.0"

_HOMES = {
    "Baseline": "penstock.jobs.baseline",
    "Dataset": "penstock.feed.dataset",
    "Explanation": "penstock.tools.explain",
    "FittedRecipe": "penstock.recipe.fitted",
    "PenstockError": "penstock.errors",
    "Recipe": "penstock.recipe.recipe",
    "Report": "penstock.tools.report",
    "Sizing": "penstock.tools.size",
    "TensorSpec": "penstock.dtypes",
    "Vocabulary": "penstock.expr.vocabulary",
    "baseline": "penstock.jobs.baseline",
    "batch": "penstock.expr.batch",
    "checkpoint": "penstock.feed.checkpoint.checkpoint",
    "classify": "penstock.jobs.classify",
    "coalesce": "penstock.expr.build",
    "col": "penstock.expr.build",
    "convert": "penstock.jobs.convert",
    "cross": "penstock.expr.build",
    "explain": "penstock.tools.explain",
    "from_mllib": "penstock.recipe.mllib",
    "launch": "penstock.jobs.launch",
    "lift": "penstock.lifted",
    "lit": "penstock.expr.build",
    "load_recipe": "penstock.recipe.loading",
    "maximum": "penstock.expr.build",
    "minimum": "penstock.expr.build",
    "open": "penstock.feed.opening",
    "predict": "penstock.jobs.predict",
    "ragged": "penstock.wire.selection",
    "report": "penstock.tools.report",
    "restore": "penstock.feed.checkpoint.checkpoint",
    "session": "penstock.jobs.session",
    "size": "penstock.tools.size",
    "split": "penstock.jobs.split",
    "stack": "penstock.expr.build",
    "to_jax": "penstock.jobs.tensors",
    "to_numpy": "penstock.jobs.tensors",
    "to_tensorflow": "penstock.jobs.tensors",
    "to_torch": "penstock.jobs.tensors",
    "udf": "penstock.jobs.udf",
    "when": "penstock.expr.build",
    "with_columns": "penstock.jobs.with_columns",
    "write": "penstock.jobs.write",
}

__all__ = [
    "Baseline",
    "Dataset",
    "Explanation",
    "FittedRecipe",
    "PenstockError",
    "Recipe",
    "Report",
    "Sizing",
    "TensorSpec",
    "Vocabulary",
    "baseline",
    "batch",
    "checkpoint",
    "classify",
    "coalesce",
    "col",
    "convert",
    "cross",
    "explain",
    "from_mllib",
    "launch",
    "lift",
    "lit",
    "load_recipe",
    "maximum",
    "minimum",
    "open",
    "predict",
    "ragged",
    "report",
    "restore",
    "session",
    "size",
    "split",
    "stack",
    "to_jax",
    "to_numpy",
    "to_tensorflow",
    "to_torch",
    "udf",
    "when",
    "with_columns",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
