"""MLlib's vectors and lists of a fixed length: what passes through on Spark, and what fails inside it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import ExpressionError, NullReached

col = pk.col
EMBEDDED = pa.table({"e": pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.float64(), 3)), "f": [1.5, 2.5]})


def vectors(spark, *rows: list[float] | None):
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    lists = spark.createDataFrame([(row,) for row in rows], "v array<double>").coalesce(1)
    return lists.select(F.when(F.col("v").isNotNull(), array_to_vector("v")).alias("v"))


def test_vectors_pass_through(spark, tmp_path) -> None:
    from pyspark.ml.linalg import Vectors

    df = vectors(spark, [1.0, 2.0], [3.0, 4.0])
    fitted = pk.Recipe(x=col("v")).fit(df)
    fitted.save(tmp_path / "recipe.json")
    again = pk.load_recipe(tmp_path / "recipe.json")
    assert [row.x for row in again.transform(df).collect()] == [Vectors.dense(1, 2), Vectors.dense(3, 4)]
    # Where there is no MLlib they are lists.
    assert again.arrow({"v": [[1, 2.5], [3, 4]]}).to_pydict() == {"x": [[1.0, 2.5], [3.0, 4.0]]}
    for rows in ([None], [[1.0, None]]):
        with pytest.raises(NullReached, match="a null reached tensor 'x', from column 'v'"):
            again.arrow({"v": rows})


def test_operations_take_vectors_as_lists(spark) -> None:
    df = vectors(spark, [1.0, 2.0], [3.0, 5.0], None)
    fitted = pk.Recipe(
        first=col("v").element(0).fill("mean"),
        total=col("v").list_sum().fill(0).standardize(),
        all=pk.stack(col("v").element(1).fill(0.0), col("v").list_length().fill(0)),
    ).fit(df)
    assert {name: str(of) for name, of in fitted.inputs.items()} == {"v": "list<float64>"}
    assert ".fill(2.0)" in repr(fitted.tensors["first"])
    by_arrow = fitted.arrow({"v": [[1.0, 2.0], [3.0, 5.0], None]}).to_pydict()
    assert by_arrow["all"] == [[2.0, 2.0], [5.0, 2.0], [0.0, 0.0]]
    assert fitted.transform(df).toArrow().to_pydict() == by_arrow


def test_a_vector_that_is_null_fails_the_job(spark) -> None:
    df = vectors(spark, [1.0, 2.0], None)
    fitted = pk.Recipe(x=col("v")).fit(df)
    with pytest.raises(Exception, match="a null reached tensor 'x', from column 'v'"):
        fitted.transform(df).collect()


def test_lists_of_another_length_fail_the_job(spark) -> None:
    fitted = pk.Recipe(x=pk.stack(col("e"), col("f")), y=col("e").list_sum()).fit(EMBEDDED)
    fine = spark.createDataFrame(EMBEDDED)
    assert fitted.transform(fine).toArrow().to_pydict() == fitted.arrow(EMBEDDED).to_pydict()
    short = spark.sql("select array(1d, 2d) as e, 1d as f")
    with pytest.raises(Exception, match=r"column 'e' was list<float64>\[3\].*a list of 2\. Give 3 elements"):
        fitted.transform(short).collect()
    with pytest.raises(ExpressionError, match=r"column 'e'.*list<float64>\[3\]"):
        fitted.arrow(short.toArrow())
    with pytest.raises(Exception, match="a null reached tensor"):
        fitted.transform(spark.sql("select cast(null as array<double>) as e, 1d as f")).collect()


def test_whole_numbers_that_float64_does_not_hold_fail_the_job(spark) -> None:
    fitted = pk.Recipe(x=col("f") * 2, y=col("e").element(0)).fit(EMBEDDED)
    fine = spark.sql(f"select array({2**53}, 1, 2) as e, bigint({-(2**53)}) as f")
    assert fitted.transform(fine).toArrow().to_pydict() == fitted.arrow(fine.toArrow()).to_pydict()
    for wrong, name in (
        ("array(1L, 2L, 3L) as e, 9007199254740993 as f", "f"),
        ("array(9007199254740993, 2, 3) as e, 1 as f", "e"),
    ):
        rows = spark.sql(f"select {wrong}")
        with pytest.raises(Exception, match=f"column '{name}'.*9007199254740993"):
            fitted.transform(rows).collect()
        with pytest.raises(ExpressionError, match=f"column '{name}'.*9007199254740993"):
            fitted.arrow(rows.toArrow())


def test_too_many_keys_for_lists_are_refused_before_spark_runs(spark) -> None:
    from penstock.backends.spark.lookups import MOST_IN_LISTS

    keys = pk.Vocabulary(range(MOST_IN_LISTS + 1))
    fitted = pk.Recipe(x=col("l").index_in(keys)).fit(pa.table({"l": [[1, 2]]}))
    assert fitted.arrow({"l": [[1, MOST_IN_LISTS]]}).to_pydict() == {"x": [[3, MOST_IN_LISTS + 2]]}
    with pytest.raises(ExpressionError, match=r"50001 keys are too many.*50000 is the most.*max_size.*hash"):
        fitted.transform(spark.sql("select array(1L) as l"))
