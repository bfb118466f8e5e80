"""`pk.baseline`: MLlib's models on a recipe's tensors, and their scores without a JVM."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import functions as F

import penstock as pk
from penstock.errors import DataError, SelectionError

ROWS = 3000


@pytest.fixture(scope="module")
def flights(spark):
    """A label that depends on a number, a category and chance."""
    df = spark.range(ROWS).selectExpr(
        "pmod(xxhash64(id), 1000) / 100D as hour",
        "concat('carrier ', pmod(xxhash64(id, 1), 5)) as carrier",
        "pmod(xxhash64(id, 2), 100) / 100D as chance",
    )
    lateness = (
        F.col("hour") / 10 + F.when(F.col("carrier") == "carrier 3", 0.5).otherwise(0) + F.col("chance") / 2
    )
    return df.select(
        "hour", "carrier", (lateness > 0.9).cast("int").alias("late"), (lateness * 60).alias("minutes")
    ).cache()


RECIPE = pk.Recipe(
    x=pk.stack(pk.col("hour").standardize(), dtype="float32"),
    ids=pk.stack(pk.col("carrier").index(), dtype="int32"),
)


def test_a_logistic_baseline_scores_without_a_jvm_as_with_one(flights) -> None:
    found = pk.baseline(flights, RECIPE, label="late")
    assert 0.85 < found.metrics["auc"] < 1.0
    assert found.rows["train"] + found.rows["test"] == ROWS
    rows = flights.limit(50).toPandas()
    scores = found.serving.arrow({"hour": rows["hour"].tolist(), "carrier": rows["carrier"].tolist()})
    there = found.serving.transform(flights.limit(50)).collect()
    assert scores["score"].to_pylist() == pytest.approx([row.score for row in there], rel=1e-12)
    assert str(found).startswith("logistic baseline: auc 0.")


def test_its_scores_are_those_of_mllib(flights) -> None:
    fitted = RECIPE.fit(flights)
    found = pk.baseline(flights, fitted, label="late", test=flights.limit(200))
    assert found.rows == {"train": ROWS, "test": 200}
    tensors = fitted.transform(flights.limit(40)).selectExpr("double(x[0]) as x_0", "double(ids[0]) as ids_0")
    theirs = [float(row.probability[1]) for row in found.model.transform(tensors).collect()]
    rows = flights.limit(40).toArrow()
    assert found.serving.arrow(rows)["score"].to_pylist() == pytest.approx(theirs, rel=1e-9)


def test_trees_and_regressions(flights) -> None:
    assert pk.baseline(flights, RECIPE, label="late", kind="gbt").metrics["auc"] > 0.85
    line = pk.baseline(flights, RECIPE, label="minutes", kind="linear")
    assert line.metrics["r2"] > 0.5
    assert line.serving is not None
    trees = pk.baseline(flights, RECIPE, label="minutes", kind="gbt_regression", tensors=["x"])
    assert trees.serving is None
    assert trees.metrics["rmse"] > line.metrics["rmse"]


def test_the_label_may_be_a_tensor_of_the_recipe(flights) -> None:
    recipe = pk.Recipe(x=pk.col("hour"), y=pk.col("late").cast("float32"))
    found = pk.baseline(flights, recipe, label="y")
    assert found.metrics["auc"] > 0.7
    assert list(found.serving.inputs) == ["hour"], "who asks for a score does not know the label"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"kind": "forest"}, "kind='forest'"),
        ({"label": "delay"}, "label='delay' is neither"),
        ({"tensors": ["z"]}, "no tensor 'z'"),
        ({"tensors": []}, "nothing to learn from"),
        ({"test": 1.5}, "a fraction between 0 and 1"),
    ],
)
def test_what_cannot_be_fitted_says_why(flights, asked, said) -> None:
    with pytest.raises(SelectionError, match=said):
        pk.baseline(flights, RECIPE, **{"label": "late", **asked})


def test_a_tensor_that_reads_the_label_is_not_learned_from(flights) -> None:
    recipe = pk.Recipe(x=pk.col("hour"), y=pk.col("late").cast("float32"))
    with pytest.raises(
        SelectionError, match=r"tensor 'y' reads column 'late', .* Pass label='y', .*; or tensors=\['x'\]\."
    ):
        pk.baseline(flights, recipe, label="late")
    assert pk.baseline(flights, recipe, label="late", tensors=["x"]).metrics["auc"] < 1.0
    mixed = pk.Recipe(x=pk.stack(pk.col("hour"), pk.col("late").cast("float64")))
    with pytest.raises(SelectionError, match=r"tensor 'x' reads column 'late', .* Give the recipe a tensor"):
        pk.baseline(flights, mixed, label="late")


@pytest.mark.parametrize(
    ("label", "kind", "test", "said"),
    [
        ("late", "logistic", "hour > 99", "no rows to evaluate on"),
        ("late", "linear", "hour > 99", "no rows to evaluate on"),
        (
            "int(late * 2)",
            "gbt",
            "late = 0",
            r"is 2 in the least of [\d,]+ that are neither 0 nor 1, and kind='gbt'",
        ),
        ("late", "logistic", "late = 0", r"rows to evaluate on is 0 in all of them"),
        (
            "1",
            "gbt",
            "true",
            r"'label' of the 3,000 rows to fit on is 1 in all of them, and kind='gbt' needs both",
        ),
        (
            "if(hour < 1, null, late)",
            "logistic",
            "true",
            r"rows to fit on is null or no number in \d+ of them",
        ),
        ("if(hour < 1, double('nan'), minutes)", "linear", "true", r"is null or no number in \d+ of them"),
        ("if(late = 1, 'yes', 'no')", "logistic", "true", r"is null or no number in 3,000 of them"),
    ],
)
def test_labels_and_rows_are_looked_at_before_the_fit(flights, label, kind, test, said) -> None:
    df = flights.selectExpr("hour", "carrier", "late", f"{label} as label")
    fitted = pk.Recipe(x=pk.col("hour")).fit(df)
    with pytest.raises(DataError, match=said):
        pk.baseline(df, fitted, label="label", kind=kind, test=df.where(test))


def test_no_rows_to_fit_on_and_labels_that_are_no_numbers(flights) -> None:
    fitted = pk.Recipe(x=pk.col("hour")).fit(flights)
    with pytest.raises(DataError, match="no rows to fit on"):
        pk.baseline(flights.where("hour > 99"), fitted, label="late", test=flights)
    dated = flights.selectExpr("hour", "current_date() as late")
    with pytest.raises(
        SelectionError, match="label='late' is of type date, and a number or a boolean is wanted"
    ):
        pk.baseline(dated, fitted, label="late")


def test_names_with_backticks_and_dots(flights) -> None:
    df = flights.withColumnRenamed("late", "la`t.e")
    recipe = pk.Recipe(**{"x`y": pk.stack(pk.col("hour").standardize()), "x.y": pk.col("carrier").index()})
    found = pk.baseline(df, recipe, label="la`t.e")
    assert found.metrics["auc"] > 0.5
    assert found.serving is not None
    assert found.serving.arrow({"hour": [3.0], "carrier": ["carrier 3"]})["score"][0].as_py() is not None


def test_a_stack_beside_a_tensor_named_like_its_element(flights) -> None:
    recipe = pk.Recipe(
        x=pk.stack(pk.col("hour"), pk.col("minutes")), x_0=pk.col("hour") * 2, prediction=pk.col("hour") + 1
    )
    found = pk.baseline(flights, recipe, label="late")
    rows = flights.limit(20)
    scores = found.serving.arrow(rows.select("hour", "minutes").toArrow())["score"].to_pylist()
    late = [row.late for row in rows.collect()]
    assert found.metrics["auc"] > 0.99
    assert np.mean([(score > 0.5) == bool(one) for score, one in zip(scores, late, strict=True)]) > 0.9
