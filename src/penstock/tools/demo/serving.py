"""The way of a request: columns in, the recipe's tensors by Arrow, the model's score out. No Spark, no Java.

`serve` runs in a fresh process (`pk.launch` with one worker), and says whether anything of Spark was loaded there.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import penstock as pk

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

REQUESTS = 50
"""Requests of one row that are timed."""

Scorer = Callable[["NDArray[Any]", "NDArray[Any]"], "NDArray[Any]"]


@dataclass(frozen=True, eq=False)
class Served:
    """The scores, the milliseconds of a request of one row, and whether Spark was there."""

    scores: NDArray[Any]
    milliseconds: float
    spark: bool


def serve(folder: str, model: Any, rows: pa.Table, sizes: Sequence[int]) -> Served:
    """Score rows in batches of these sizes, then some of them one by one, as requests come."""
    import numpy as np

    features = opened(folder)
    score = keras_scorer(model) if isinstance(model, str) else torch_scorer(model)
    starts, scores, seconds = np.cumsum([0, *sizes[:-1]]).tolist(), [], []
    for start, size in zip(starts, sizes, strict=True):
        scores.append(answered(rows.slice(start, size), features, score))
    for place in range(min(REQUESTS, rows.num_rows)):
        began = time.perf_counter()
        answered(rows.slice(place, 1), features, score)
        seconds.append(time.perf_counter() - began)
    return Served(np.concatenate(scores), statistics.median(seconds) * 1000, "pyspark" in sys.modules)


def opened(folder: str) -> pk.FittedRecipe:
    """The recipe that was kept with the data, without the label."""
    recipe = pk.open(f"{folder}/train").recipe
    assert recipe is not None, "the dataset was written with one"
    return recipe.only("x", "ids")


def answered(rows: pa.Table, features: pk.FittedRecipe, model: Scorer) -> NDArray[Any]:
    """The scores of some rows."""
    tensors = features.arrow(rows)
    scores = model(matrix(tensors["x"]), matrix(tensors["ids"]))
    return scores


def matrix(column: pa.ChunkedArray) -> NDArray[Any]:
    """A tensor's column, whose rows are equally long, as one array of its own."""
    values = column.combine_chunks()
    flat: NDArray[Any] = values.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(values), -1).copy()


def torch_scorer(model: Any) -> Scorer:
    """A torch module as a function of arrays."""
    import torch

    # As Spark's tasks have: with another number of threads sums may be rounded otherwise.
    torch.set_num_threads(1)
    model.eval()

    def score(x: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
        with torch.inference_mode():
            found: NDArray[Any] = model(torch.from_numpy(x), torch.from_numpy(ids)).numpy()
            return found

    return score


def keras_scorer(path: str) -> Scorer:
    """A Keras model, in a file, as a function of arrays."""
    import keras

    model = keras.models.load_model(path, compile=False)

    def score(x: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = model.predict_on_batch({"x": x, "ids": ids})[:, 0]
        return found

    return score
