"""`pk.batch`: users' functions of whole columns, in serving and on Spark, saved by name."""

from __future__ import annotations

from pathlib import Path

import batch_functions
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as pk
from penstock.errors import ExpressionError, RecipeError, UnsupportedOperation

ROWS = pa.table({"t": ["one two", "", None, "a b c"], "x": [1.0, 2.0, 3.0, 4.0]})


def recipe() -> pk.Recipe:
    return pk.Recipe(
        n=batch_functions.words(pk.col("t")).standardize(),
        d=batch_functions.doubled(pk.col("x")),
        l=batch_functions.letters(pk.col("t")).pad(3, 0),
    )


def test_in_serving() -> None:
    found = recipe().fit(ROWS).arrow(ROWS).to_pydict()
    assert found["d"] == [2.0, 4.0, 6.0, 8.0]
    assert found["l"] == [[111, 110, 101], [0, 0, 0], [0, 0, 0], [97, 32, 98]]
    assert sum(found["n"]) == pytest.approx(0)


def test_on_spark(spark) -> None:
    df = spark.createDataFrame(ROWS).coalesce(1)
    # Workers do not see this test's folder, so the functions travel by value, as those of a notebook do.
    count = pk.batch(lambda texts: [len((text or "").split()) for text in texts.to_pylist()], returns="int64")
    codes = pk.batch(
        lambda texts: [[1] * len(text or "") for text in texts.to_pylist()], returns="list<int64>"
    )
    fitted = pk.Recipe(n=count(pk.col("t")).standardize(), c=codes(pk.col("t")).pad(2, 9)).fit(df)
    assert fitted.transform(df).toArrow().to_pydict() == fitted.arrow(ROWS).to_pydict()
    assert "leaves the JVM" not in fitted.explain()
    assert "<lambda> of n" in fitted.explain()


def test_saved_by_name(tmp_path: Path) -> None:
    fitted = recipe().fit(ROWS)
    fitted.save(tmp_path / "r.json")
    assert "batch_functions:words" in (tmp_path / "r.json").read_text()
    assert pk.load_recipe(tmp_path / "r.json").arrow(ROWS).equals(fitted.arrow(ROWS))


def test_a_function_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    recipe().fit(ROWS).save(path)
    text = path.read_text()
    for old, new, said in (
        ("batch_functions:words", "batch_functions:lost", "batch_functions:lost is gone"),
        ("batch_functions:words", "no_such_module:words", "no_such_module:words is gone"),
        ("batch_functions:words", "os:system", "os:system is no batch function"),
        ("batch_functions:words", "batch_functions:plain", "is no batch function"),
        ("batch_functions:words", "batch_functions:doubled", "float64 out of numpy columns now"),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(RecipeError, match=said):
            pk.load_recipe(path)


def test_a_function_without_a_name_cannot_be_saved(tmp_path: Path) -> None:
    for function in (lambda x: x, batch_functions.plain):
        fitted = pk.Recipe(t=pk.batch(function, returns="float64")(pk.col("x"))).fit(ROWS)
        with pytest.raises(
            ExpressionError, match=r"Decorate it with @batch in a module|is no batch function"
        ):
            fitted.save(tmp_path / "r.json")
    assert list(tmp_path.iterdir()) == []


def test_what_a_function_may_not_return() -> None:
    for function, said in (
        (batch_functions.too_few, "returned 1 values for 4 rows"),
        (batch_functions.of_another_type, "returned what is no int64"),
    ):
        with pytest.raises(ExpressionError, match=said):
            pk.Recipe(t=function(pk.col("t"))).fit(ROWS).arrow(ROWS)


def test_tensors_have_no_such_thing() -> None:
    with pytest.raises(UnsupportedOperation, match="no tensor form"):
        pk.Recipe(t=batch_functions.doubled(pk.col("x"))).fit(ROWS).module()


def test_mistakes() -> None:
    with pytest.raises(ExpressionError, match="columns is 'pandas'"):
        pk.batch(len, returns="int64", columns="pandas")
    with pytest.raises(ExpressionError, match="is not a type"):
        pk.batch(len, returns="number")
    with pytest.raises(ExpressionError, match="takes a function"):
        pk.batch(3, returns="int64")  # type: ignore[call-overload]


def test_functions_of_one_name_are_different_functions() -> None:
    """All lambdas of a place have one name; they were taken for one function."""
    times = {
        number: pk.batch(lambda x, by=number: pc.multiply(x, by), returns="float64") for number in (1.0, 10.0)
    }
    one, ten = (function(pk.col("x")) for function in times.values())
    fitted = pk.Recipe(one=one, ten=ten, mean=pk.stack(one.fill("mean"), ten.fill("mean"))).fit(ROWS)
    found = fitted.arrow({"x": [1.0, 2.0]})
    assert found.to_pydict() == {
        "one": [1.0, 2.0],
        "ten": [10.0, 20.0],
        "mean": [[1.0, 10.0], [2.0, 20.0]],
    }
    assert ".fill(2.5)" in repr(fitted)
    assert ".fill(25.0)" in repr(fitted)
    assert not one.same(ten)
    assert one.same(times[1.0](pk.col("x")))
    assert fitted.explain().count("<lambda> of one") == 1


def test_spark_keeps_functions_of_one_name_apart(spark) -> None:
    one, ten = (pk.batch(lambda x, by=by: pc.multiply(x, by), returns="float64") for by in (1.0, 10.0))
    recipe = pk.Recipe(one=one(pk.col("x")), ten=ten(pk.col("x")), mean=ten(pk.col("x")).fill("mean"))
    df = spark.createDataFrame(ROWS).coalesce(1)
    fitted = recipe.fit(df)
    assert ".fill(25.0)" in repr(fitted)
    found = fitted.transform(df).toArrow().to_pydict()
    assert found == fitted.arrow(ROWS).to_pydict()
    assert found["one"] == [1.0, 2.0, 3.0, 4.0]
    assert found["ten"] == found["mean"] == [10.0, 20.0, 30.0, 40.0]
