"""Fitted pipelines of MLlib as recipes: they then serve without a JVM, with the same output.

`from_mllib` walks the stages; each becomes the expressions of the columns it adds. `columns` is what is known of
columns on the way, `fields` holds the stages that work on single values, `vectors` those that work on vectors,
`scores` the linear models. Stages are known by the names of their classes, so nothing here imports pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock.backends import engine
from penstock.errors import ExpressionError
from penstock.expr.check import columns_of, no_column
from penstock.expr.types import Type, parse_type
from penstock.recipe.fitted import FittedRecipe
from penstock.recipe.mllib import fields, scores, vectors
from penstock.recipe.mllib.columns import Columns, Lost, Refused, outputs_of

STAGES: Mapping[str, Callable[[Any, Columns], None]] = {**fields.STAGES, **vectors.STAGES, **scores.STAGES}
"""What each class of stage becomes."""
SEARCHES = ("CrossValidatorModel", "TrainValidationSplitModel")
"""Models that hold the best of several."""
REASONS = {
    "FeatureHasher": "its murmur3 hash takes the last bytes of a text otherwise than any hash Spark offers as an "
    'expression. Use pk.col("...").hash(buckets), which is the same in every engine',
    "SQLTransformer": "its SQL can say anything. Write the expressions it computes as a recipe",
}
"""Why not, of stages that somebody may miss."""


def from_mllib(model: Any, *, outputs: Sequence[str] | None = None, schema: Any = None) -> FittedRecipe:
    """A fitted pipeline of MLlib, or a single fitted stage, as a recipe with the same output.

    Its tensors are the columns that the stages add, under MLlib's names, or those of them that `outputs` names:
    numbers as float64 and vectors as dense lists of float64. It reads what these need. A value that MLlib would raise
    an error for raises one here.

    A pipeline does not know the types of its input columns. Without a `schema` a StringIndexer reads texts, a model of
    vectors reads lists of float64 of the length it was fitted on, and everything else reads float64, which whole
    numbers and float32 become by themselves. Give a `schema` where that is not so: a DataFrame, its schema, a pyarrow
    schema, or names and types such as `{"id": "int64", "embedding": "list<float64>[16]"}`. It matters for Imputer,
    which gives the type it reads (a mean becomes whole in a column of whole numbers), and for StringIndexer on numbers.

    Vectors of MLlib are read as lists: `transform` takes both, `arrow` lists. Stages that drop rows
    (`handleInvalid="skip"`), and those this does not know, are refused in one error that names them all. Of a model
    that a search found (CrossValidator, TrainValidationSplit) the best one is taken.

    Zeros follow IEEE here, as in dense vectors of MLlib: 0 times infinity is nan. Its sparse vectors leave zeros out,
    so they stay 0 beside nan and infinity; for finite numbers there is no difference but the sign of a zero.

    >>> import penstock as pk
    >>> from pyspark.ml.feature import Binarizer
    >>> spark = pk.session()
    >>> rich = from_mllib(Binarizer(inputCol="income", outputCol="rich", threshold=1e5))
    >>> rich.arrow({"income": [2e5, None]}).to_pydict()
    {'rich': [1.0, 0.0]}
    """
    columns = Columns(_schema(schema))
    stages = list(_stages(model))
    refused = [
        f"stage {place}, {type(stage).__name__}: {reason}."
        for place, stage in enumerate(stages)
        if (reason := _take(stage, columns))
    ]
    if refused:
        whole = f"{len(refused)} of the {len(stages)} stages cannot become expressions:"
        raise ExpressionError("\n  ".join([whole, *refused]))
    made = columns.made
    chosen = list(made) if outputs is None else list(outputs)
    for name in chosen:
        if name not in made:
            raise ExpressionError(f"outputs: {no_column(name, made)}")
    if not chosen:
        raise ExpressionError("no output is left: the model adds no column, or `outputs` is empty.")
    trees = {name: made[name].tree for name in chosen}
    read = dict.fromkeys(name for tree in trees.values() for name in columns_of(tree))
    return FittedRecipe(trees, {name: columns.inputs[name] for name in read})


def _stages(model: Any) -> Iterator[Any]:
    """The stages of a pipeline and of pipelines in it, the best model of a search, or the one stage that was given."""
    if not type(model).__module__.startswith("pyspark.ml."):
        raise ExpressionError(
            f"from_mllib takes a fitted model of pyspark.ml, and this is {type(model).__name__}. Give the "
            "PipelineModel that Pipeline.fit returned, or one of its stages."
        )
    name = type(model).__name__
    if name in SEARCHES:
        yield from _stages(model.bestModel)
    elif name == "PipelineModel":
        for stage in model.stages:
            yield from _stages(stage)
    else:
        yield model


def _take(stage: Any, columns: Columns) -> str | None:
    """Put a stage's columns to the others, or say why that cannot be."""
    name = type(stage).__name__
    try:
        if name not in STAGES:
            raise Refused(_unknown(stage))
        if stage.hasParam("handleInvalid") and stage.getOrDefault("handleInvalid") == "skip":
            raise Refused('handleInvalid="skip" drops rows, and a recipe keeps them. Set "keep" or "error"')
        STAGES[name](stage, columns)
    except Lost:
        columns.lose(outputs_of(stage))
    except ExpressionError as error:
        columns.lose(outputs_of(stage))
        return str(error).rstrip(".")
    return None


def _unknown(stage: Any) -> str:
    name = type(stage).__name__
    if name in REASONS:
        return REASONS[name]
    if hasattr(stage, "fit"):
        return "it is not fitted yet. Give the model that its fit returns"
    known = ", ".join(sorted(STAGES))
    return f"it is none of those that are known: {known}. Leave it out of the pipeline, and apply it in Spark before"


def _schema(given: Any) -> dict[str, Type]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {name: of if isinstance(of, Type) else parse_type(of) for name, of in given.items()}
    schema = given if hasattr(given, "fields") or not hasattr(given, "schema") else given.schema
    if hasattr(schema, "fields"):
        found: dict[str, Type] = engine("spark").schema_of(schema)
        return found
    try:
        found = engine("arrow").schema_of(schema)
    except (AttributeError, TypeError):
        raise ExpressionError(
            f"schema is {type(given).__name__}. Give a DataFrame, a schema of Spark or pyarrow, or names and types: "
            '{"id": "int64"}.'
        ) from None
    return found
