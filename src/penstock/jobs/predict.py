"""`pk.predict`: a model over a DataFrame's rows, as columns beside its own.

Everything is checked against the schema here (`predict_columns` has the columns, `predict_recipe` a recipe's tensors,
`predict_returns` the results); what runs in the workers is `penstock.scoring`, shipped by value. The result is lazy,
like any DataFrame: nothing is computed before it is asked for.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import SelectionError, humane_bytes, listed
from penstock.jobs.crossing import ship_by_value
from penstock.jobs.predict_columns import crossing
from penstock.jobs.predict_recipe import recipe_source
from penstock.jobs.predict_returns import read_returns
from penstock.jobs.running import is_connect
from penstock.jobs.selection import Nulls, Tensors, select
from penstock.scoring.device import AUTO
from penstock.scoring.job import ERROR, Job, ModelFile, Result
from penstock.scoring.loading import NUMPY, TORCH
from penstock.scoring.task import score

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from penstock.recipe.fitted import FittedRecipe

BATCH_SIZE = 4096
MOST_SHIPPED, MOST_OVER_CONNECT = 1 << 30, 100 << 20
"""Bytes of a model's file that travel with the job; Connect refuses messages of more than 128 MiB."""


def predict(
    df: DataFrame,
    load_model: Callable[[], Any] | str | os.PathLike[str],
    *,
    returns: str | StructType,
    recipe: FittedRecipe | None = None,
    tensors: Tensors = None,
    dtype: Any = None,
    nulls: Nulls = "error",
    batch_size: int = BATCH_SIZE,
    device: str = AUTO,
    framework: str = TORCH,
    keep: Sequence[str] | None = None,
    on_error: str = "raise",
) -> DataFrame:
    """A model's results as columns of a DataFrame, behind those that are kept.

    `load_model`: a function that returns a torch module (put into eval mode, and on the device), a Keras model or any
    function of tensors; each Python worker calls it once for all its tasks. Or the path of a file: an exported
    program (`.pt2`), a Keras model (`.keras`) or TorchScript. The file is read here and sent along, up to 1 GiB (100
    MiB over Connect); larger ones are loaded by a function, from storage that executors reach.

    `tensors`, `dtype`, `nulls`: what the model gets, as in `to_torch`. `recipe`: a fitted recipe instead, computed by
    native Spark expressions; `tensors` then names those that the model takes, if not all. One tensor is passed by
    itself, several by name (to a Keras model as a dictionary). `framework="numpy"`: functions get NumPy arrays.

    `returns`: the results' names and types, `"score float, embedding array<float>"` or a StructType: numbers,
    booleans and lists of them, and strings. The model returns one tensor, a tuple in this order, or a dictionary; a
    last axis of 1 too many is dropped. Floats may be rounded to the type; nothing else may change a value.

    `batch_size`: rows of a batch, exactly, but for the last of a partition. `device`: "auto" is the GPU that Spark
    gave the task, else a GPU that is there, else the CPU, with as many threads as `spark.task.cpus`.

    `keep`: the columns to keep, all by default. Few are faster. `on_error`: "raise" fails with the first bad row (a
    null, a value that does not fit, an error of the model), named by its first three kept columns; with "column" such
    rows have null results and a text in the column `error`, and all others are as they would be.

    >>> import penstock as pk
    >>> df = pk.session(cores=2).createDataFrame([(1, 0.5, 2.0), (2, 1.5, 3.0)], "id int, a double, b double")
    >>> def load_model():
    ...     return lambda x: x.sum(1)
    >>> pk.predict(df, load_model, tensors=["a", "b"], returns="total double", keep=["id"]).collect()
    [Row(id=1, total=2.5), Row(id=2, total=4.5)]
    """
    _check(df, batch_size, framework, on_error)
    results = read_returns(df.sparkSession, returns)
    kept = _kept(df, keep, results, on_error)
    if recipe is None:
        source, names = df, kept
        selection = select(df, tensors, dtype, nulls)
    else:
        source, names, selection = recipe_source(df, recipe, tensors, dtype, nulls, kept)
    columns = crossing(source, selection, dict(zip(kept, names, strict=True)), results, on_error == "column")
    job = Job(
        key=str(uuid.uuid4()),
        load=_model(load_model, is_connect(df)),
        plan=selection.plan,
        kept=columns.kept,
        returned=columns.returned,
        results=results,
        batch_size=int(batch_size),
        device=str(device),
        framework=framework,
        errors_as_column=on_error == "column",
        recipe=recipe is not None,
    )
    ship_by_value()
    scored = source.select(*columns.sent).mapInArrow(score(job), columns.schema)
    return scored.select(*columns.shown)


def _check(df: Any, batch_size: Any, framework: str, on_error: str) -> None:
    if not callable(getattr(df, "mapInArrow", None)):
        raise SelectionError(f"a Spark DataFrame is wanted, and this is {type(df).__name__}: {df!r:.200}")
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise SelectionError(f"batch_size={batch_size!r}: a whole number of rows is wanted, 1 or more.")
    if on_error not in ("raise", "column"):
        raise SelectionError(f'on_error={on_error!r} is not understood: pass "raise" or "column".')
    if framework not in (TORCH, NUMPY):
        raise SelectionError(f'framework={framework!r} is not understood: pass "torch" or "numpy".')


def _kept(df: DataFrame, keep: Sequence[str] | None, results: Sequence[Result], on_error: str) -> list[str]:
    """The columns to keep; none may have a result's name."""
    if isinstance(keep, str):
        raise SelectionError(f"keep={keep!r}: a list of columns is wanted: keep=[{keep!r}].")
    kept = list(df.columns if keep is None else keep)
    missing = [name for name in kept if name not in df.columns]
    if missing:
        raise SelectionError(f"keep names {listed(missing)}; the DataFrame has {listed(df.columns)}.")
    twice = [name for name in dict.fromkeys(kept) if kept.count(name) > 1 or df.columns.count(name) > 1]
    if twice:
        raise SelectionError(f"column {listed(twice)} is there more than once; rename it, or keep others.")
    mistaken = [result.name for result in results if result.name.lower() == ERROR]
    if mistaken and on_error == "column":
        raise SelectionError(
            f'returns has a column {mistaken[0]!r}, where on_error="column" puts its own. Give the result another name.'
        )
    new = [result.name for result in results] + [ERROR] * (on_error == "column")
    known = {name.lower() for name in kept}
    clash = [name for name in new if name.lower() in known]
    if clash:
        raise SelectionError(
            f"the DataFrame has a column {listed(clash)} already, and a result has that name. Give the result "
            "another name in returns, rename the column, or leave it out of keep."
            if clash[0] != ERROR
            else f'the DataFrame has a column {ERROR!r} already, where on_error="column" puts its own. Rename it, or '
            "leave it out of keep."
        )
    return kept


def _model(given: Any, connect: bool) -> Callable[[], Any] | ModelFile:
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        if not path.is_file():
            raise SelectionError(
                f"there is no file {os.fspath(given)!r} on this machine. A path names an exported program (.pt2), a "
                "Keras model (.keras) or TorchScript; for a model elsewhere pass a function that loads it."
            )
        limit, size = MOST_OVER_CONNECT if connect else MOST_SHIPPED, path.stat().st_size
        if size > limit:
            raise SelectionError(
                f"{path} has {humane_bytes(size)}, too much to send with a job ({humane_bytes(limit)}). Put it where "
                "executors can read it, and pass a function that loads it from there."
            )
        return ModelFile(path.name, path.read_bytes())
    homes = {each.__module__.partition(".")[0] for each in type(given).__mro__}
    if homes & {"torch", "keras", "tf_keras"}:
        raise SelectionError(
            f"load_model is a {type(given).__name__} itself. Pass a function that returns it: load_model=lambda: "
            "model."
        )
    if not callable(given):
        raise SelectionError(
            f"load_model={given!r:.200}: a function without arguments, or a path, is wanted."
        )
    return given  # type: ignore[no-any-return]
