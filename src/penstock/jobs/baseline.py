"""`baseline`: a classical model on a recipe's tensors, in one call: the number to beat before anyone pays for a GPU.

Fitted on the cluster by MLlib, evaluated on rows it has not seen; linear models come back as a recipe that scores
without a JVM (`penstock.from_mllib`), from the columns that the recipe reads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import DataError, SelectionError, listed
from penstock.expr.check import columns_of
from penstock.expr.nodes import Expression
from penstock.expr.types import Type
from penstock.jobs.split import split
from penstock.lifted import substituted
from penstock.recipe.fitted import FittedRecipe
from penstock.recipe.mllib import from_mllib
from penstock.recipe.recipe import Recipe

if TYPE_CHECKING:
    from pyspark.ml import PipelineModel
    from pyspark.sql import DataFrame

LINEAR = {"logistic": "probability", "linear": "prediction"}
"""The kinds that serve without a JVM, and the column their score is in."""
KINDS = ("logistic", "gbt", "linear", "gbt_regression")
BINARY = ("logistic", "gbt")
LABEL, FEATURES, ONE_HOT = "__label", "__features", "__one_hot"
VALUES_PER_TASK = 5_000_000
"""Of a linear model's passes. There are a hundred of them, each over all rows, and a task costs some 15 ms of processor
time whatever it has to do: 100,000 rows of 32 features in 8 tasks took 31 s of it, in 2 tasks 15 s."""
TAKEN = (LABEL, FEATURES, "rawprediction", "probability", "prediction")
"""Columns beside the features, in small letters: Spark does not tell large ones from them."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """A fitted baseline: its model, what it reached on rows it has not seen, and how to score without a JVM.

    >>> print(Baseline("gbt", None, {"auc": 0.75}, {"train": 8000, "test": 2000}, 12.5, None))
    gbt baseline: auc 0.7500 on 2,000 rows it has not seen, fitted on 8,000 in 12.5 s
    """

    kind: str
    model: PipelineModel
    metrics: Mapping[str, float]
    rows: Mapping[str, int]
    seconds: float
    serving: FittedRecipe | None
    """For linear kinds: a recipe whose tensor "score" is the model's, of the columns the recipe reads."""

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in self.metrics.items())
        return (
            f"{self.kind} baseline: {shown} on {self.rows['test']:,} rows it has not seen, fitted on "
            f"{self.rows['train']:,} in {self.seconds:.1f} s"
        )


def baseline(
    df: DataFrame,
    recipe: Recipe | FittedRecipe,
    *,
    label: str,
    kind: str = "logistic",
    tensors: Sequence[str] | None = None,
    test: float | DataFrame = 0.2,
    seed: int = 0,
) -> Baseline:
    """Fit and evaluate one of MLlib's models on the tensors of a recipe.

    Args:
        df: the rows to fit on; with a fraction as `test`, both.
        recipe: the features. One that is not fitted is fitted on the training rows alone.
        label: what to predict: a tensor of the recipe, of one number, or a column; 0 or 1 for "logistic" and "gbt".
        kind: "logistic", "gbt" (gradient-boosted trees), "linear" or "gbt_regression".
        tensors: the tensors to learn from; without it all but the label. In linear models ids become one column for
            each of their values.
        test: the fraction of rows to evaluate on, or a DataFrame of them: a later month, say.
        seed: of the split, and of the trees.

    >>> import penstock as pk
    >>> df = pk.session().range(400).selectExpr("id as a", "cast(id > 199 as int) as late")
    >>> found = pk.baseline(df, pk.Recipe(x=pk.stack(pk.col("a").standardize())), label="late")
    >>> found.metrics["auc"], found.serving.arrow({"a": [399.0]})["score"][0].as_py() > 0.5
    (1.0, True)
    """
    if kind not in KINDS:
        raise SelectionError(f"kind={kind!r}: there are {listed(KINDS)}.")
    if isinstance(test, float | int):
        if not 0 < test < 1:
            raise SelectionError(f"test={test!r}: a fraction between 0 and 1 is wanted, or a DataFrame.")
        parts = split(df, {"train": 1 - test, "test": test}, seed=seed)
        train, unseen = parts["train"], parts["test"]
    else:
        train, unseen = df, test
    began = time.perf_counter()
    fitted = recipe.fit(train) if isinstance(recipe, Recipe) else recipe
    chosen = _chosen(fitted, label, tensors)
    features = _distinct([feature for name in chosen for feature in _features(fitted, name)])
    learning, seen = (_frame(fitted, part, label, features).cache() for part in (train, unseen))
    try:
        rows = _checked(kind, label, learning, seen)
        model = _pipeline(kind, features, seed).fit(
            _in_few_tasks(kind, learning, rows["train"] * len(features))
        )
        seconds = time.perf_counter() - began
        metrics = _metrics(kind, model.transform(seen))
    finally:
        learning.unpersist()
        seen.unpersist()
    return Baseline(kind, model, metrics, rows, seconds, _serving(kind, model, fitted, features))


@dataclass(frozen=True, slots=True, eq=False)
class _Feature:
    """One number of a tensor: the name of its column, and where it is."""

    name: str
    tensor: str
    place: int | None
    ids: int | None


def _chosen(fitted: FittedRecipe, label: str, tensors: Sequence[str] | None) -> list[str]:
    found = [name for name in fitted.tensors if name != label] if tensors is None else list(tensors)
    missing = [name for name in found if name not in fitted.tensors]
    if missing:
        raise SelectionError(
            f"the recipe has no tensor {missing[0]!r}; it has {listed(list(fitted.tensors))}."
        )
    if not found or label in found:
        raise SelectionError("there is nothing to learn from but the label. Give the recipe another tensor.")
    if label not in fitted.tensors:
        _refuse_reading(fitted, label, found)
    return found


def _refuse_reading(fitted: FittedRecipe, label: str, chosen: Sequence[str]) -> None:
    """Raise where a tensor to learn from holds the column that is to be predicted."""
    reads = {name: columns_of(fitted.tensors[name]) for name in chosen}
    telling = [name for name in chosen if label in reads[name]]
    if not telling:
        return
    others = [name for name in chosen if name not in telling]
    itself = [name for name in telling if set(reads[name]) == {label}]
    advice = [f"label={itself[0]!r}, if that tensor is what to predict"] if itself else []
    advice += [f"tensors={others!r}"] if others else []
    raise SelectionError(
        f"tensor {telling[0]!r} reads column {label!r}, which is the label: what is to be predicted would be learned "
        f"from. {'Pass ' + '; or '.join(advice) if advice else 'Give the recipe a tensor that does not read it'}."
    )


def _features(fitted: FittedRecipe, tensor: str) -> list[_Feature]:
    output = fitted.outputs[tensor]
    of: Type = output.type
    if of.kind != "list":
        if not (of.is_number or of.kind == "bool"):
            raise SelectionError(f"tensor {tensor!r} is {of}, and a baseline learns from numbers.")
        return [_Feature(tensor, tensor, None, output.ids[0])]
    if of.length is None:
        raise SelectionError(
            f"tensor {tensor!r} has rows of unequal lengths. Pad it, or name others by tensors=."
        )
    ids = output.ids if len(output.ids) == of.length else (None,) * of.length
    return [_Feature(f"{tensor}_{place}", tensor, place, ids[place]) for place in range(of.length)]


def _distinct(features: Sequence[_Feature]) -> list[_Feature]:
    """The features under names that no other column has: a stack `x` may stand beside a tensor `x_0`.

    MLlib looks its columns up by names as SQL writes them, in which dots and backticks mean something.

    >>> made = [_Feature(name, "x", None, None) for name in ("x_0", "X_0", "prediction", "a.b`c")]
    >>> [each.name for each in _distinct(made)]
    ['x_0', 'X_0_', 'prediction_', 'a_b_c']
    """
    taken, found = set(TAKEN), list[_Feature]()
    for each in features:
        name = each.name.replace(".", "_").replace("`", "_")
        while {name.lower(), f"{name.lower()}{ONE_HOT}"} & taken:
            name += "_"
        taken |= {name.lower(), f"{name.lower()}{ONE_HOT}"}
        found.append(replace(each, name=name))
    return found


def _frame(fitted: FittedRecipe, df: DataFrame, label: str, features: list[_Feature]) -> DataFrame:
    """The features as columns of numbers, and the label."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType, NumericType, StringType

    from penstock.backends.spark.sql_text import quoted

    known = label in fitted.tensors
    if not known and label not in df.columns:
        raise SelectionError(
            f"label={label!r} is neither a tensor of the recipe nor a column of the DataFrame."
        )
    found = fitted.transform(df, keep=() if known else (label,))
    of = next(field.dataType for field in found.schema.fields if field.name == label)
    if not isinstance(of, NumericType | BooleanType | StringType):
        raise SelectionError(
            f"label={label!r} is of type {of.simpleString()}, and a number or a boolean is wanted. Make one of it in "
            "Spark, or name another."
        )
    tensors = {each.tensor: F.col(quoted(each.tensor)) for each in features}
    columns = [
        (tensors[each.tensor] if each.place is None else tensors[each.tensor][each.place])
        .cast("double")
        .alias(each.name)
        for each in features
    ]
    return found.select(*columns, F.col(quoted(label)).try_cast("double").alias(LABEL))


def _checked(kind: str, label: str, learning: DataFrame, seen: DataFrame) -> dict[str, int]:
    """How many rows there are to fit and to evaluate on; an error where their labels cannot be used."""
    from pyspark.sql import functions as F

    own = F.col(LABEL)
    lacking = own.isNull() | F.isnan(own)
    other = ~own.isin(0.0, 1.0) & ~lacking
    both = learning.select(LABEL, F.lit("train").alias("part")).unionAll(
        seen.select(LABEL, F.lit("test").alias("part"))
    )
    counted = both.groupBy("part").agg(
        F.count("*").alias("rows"),
        F.count(F.when(lacking, 1)).alias("lacking"),
        F.count(F.when(other, 1)).alias("others"),
        F.min(F.when(other, own)).alias("other"),
        F.min(own).alias("least"),
        F.max(own).alias("most"),
    )
    found = {row.part: row for row in counted.collect()}
    for part, what in (("train", "fit"), ("test", "evaluate")):
        row = found.get(part)
        if row is None:
            raise DataError(
                f"there are no rows to {what} on. Pass "
                + (
                    "more rows."
                    if part == "train"
                    else "more rows, a larger test=, or a DataFrame with rows."
                )
            )
        whose = f"label {label!r} of the {row.rows:,} rows to {what} on"
        if row.lacking:
            raise DataError(
                f"{whose} is null or no number in {row.lacking:,} of them. Fill it, or drop these rows, in Spark."
            )
        if kind in BINARY and row.others:
            raise DataError(
                f"{whose} is {row.other:g} in the least of {row.others:,} that are neither 0 nor 1, and "
                f'kind={kind!r} tells these two apart. Make it 0 or 1 in Spark, or pass kind="linear" or '
                '"gbt_regression".'
            )
        if kind in BINARY and row.least == row.most:
            raise DataError(
                f"{whose} is {row.least:g} in all of them, and kind={kind!r} needs both 0 and 1. Take more rows"
                + (", or another part of them." if part == "train" else ", or a larger test=.")
            )
    return {part: found[part].rows for part in ("train", "test")}


def _in_few_tasks(kind: str, learning: DataFrame, values: int) -> DataFrame:
    """The rows in no more partitions than pay; trees take few passes and long ones, and keep theirs."""
    return learning.coalesce(-(-values // VALUES_PER_TASK)) if kind in LINEAR else learning


def _pipeline(kind: str, features: list[_Feature], seed: int) -> Any:
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import GBTClassifier, LogisticRegression
    from pyspark.ml.feature import OneHotEncoder, VectorAssembler
    from pyspark.ml.regression import GBTRegressor, LinearRegression

    ids = [each.name for each in features if each.ids is not None] if kind in LINEAR else []
    stages: list[Any] = []
    if ids:
        stages.append(
            OneHotEncoder(
                inputCols=ids,
                outputCols=[f"{name}{ONE_HOT}" for name in ids],
                handleInvalid="keep",
                dropLast=False,
            )
        )
    inputs = [f"{each.name}{ONE_HOT}" if each.name in ids else each.name for each in features]
    stages.append(VectorAssembler(inputCols=inputs, outputCol=FEATURES))
    options: dict[str, Any] = {"featuresCol": FEATURES, "labelCol": LABEL}
    models: dict[str, Any] = {
        "logistic": LogisticRegression,
        "linear": LinearRegression,
        "gbt": GBTClassifier,
        "gbt_regression": GBTRegressor,
    }
    model = models[kind](**options) if kind in LINEAR else models[kind](**options, seed=seed)
    return Pipeline(stages=[*stages, model])


def _metrics(kind: str, scored: DataFrame) -> dict[str, float]:
    from pyspark.ml.evaluation import BinaryClassificationEvaluator, RegressionEvaluator

    if kind in BINARY:
        from pyspark.sql import functions as F

        right = scored.select(F.avg((F.col("prediction") == F.col(LABEL)).cast("double"))).collect()[0][0]
        auc = BinaryClassificationEvaluator(labelCol=LABEL).evaluate(scored)
        return {"auc": float(auc), "accuracy": float(right)}
    return {
        "rmse": float(RegressionEvaluator(labelCol=LABEL, metricName="rmse").evaluate(scored)),
        "r2": float(RegressionEvaluator(labelCol=LABEL, metricName="r2").evaluate(scored)),
    }


def _serving(
    kind: str, model: PipelineModel, fitted: FittedRecipe, features: list[_Feature]
) -> FittedRecipe | None:
    """The model behind the recipe, as one recipe; None where trees decide."""
    if kind not in LINEAR:
        return None
    scores = from_mllib(model, outputs=[LINEAR[kind]])
    values: dict[str, Expression] = {}
    for each in features:
        tree = fitted.tensors[each.tensor]
        values[each.name] = (tree if each.place is None else tree.element(each.place)).cast("float64")
    score = substituted(scores.tensors[LINEAR[kind]], values, "baseline")
    score = score.element(1) if kind == "logistic" else score
    return FittedRecipe({"score": score}, fitted.inputs).only("score")
