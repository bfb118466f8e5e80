"""Fitting by Spark and by Arrow: two implementations that must learn the same, in few jobs."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from recipe_data import everything

import penstock as pk
from penstock.errors import FitError

col = pk.col


def facts(fitted: pk.FittedRecipe) -> list[dict]:
    """What was learned, without what is rounded differently or is approximate."""
    exact = ["operation", "columns", "rows", "nulls", "not_finite", "low", "high", "mode"]
    exact += ["distinct", "kept", "most_frequent"]
    return [{name: one[name] for name in exact if name in one} for one in fitted.facts]


def test_spark_and_arrow_learn_the_same(df, table) -> None:
    by_spark, by_arrow = everything().fit(df), everything().fit(table)
    deep = {"col('shop').count_encode().log1p().standardize()"}
    for one, other in zip(facts(by_spark), facts(by_arrow), strict=True):
        if one["operation"] in deep or "quantile" in str(one) or "log1p" in one["operation"]:
            assert one.keys() == other.keys()
            continue
        assert one == other
    for one, other in zip(by_spark.facts, by_arrow.facts, strict=True):
        for name in ("mean", "deviation"):
            if name in one:
                assert one[name] == pytest.approx(other[name], rel=1e-12), one["operation"]
    spark_keys = {
        name: repr(tree) for name, tree in by_spark.tensors.items() if name in ("hot", "tokens", "top")
    }
    assert spark_keys == {name: repr(by_arrow.tensors[name]) for name in spark_keys}


def test_quantiles_are_within_their_rank_error(df, table) -> None:
    shares = [place / 20 for place in range(1, 20)]
    recipe = pk.Recipe(x=col("price").fill(0).quantile_bins(20))
    values = sorted(value for value in table["price"].fill_null(0).to_pylist() if value < float("inf"))
    for data in (df, table):
        [fact] = [one for one in recipe.fit(data).facts if "quantiles" in one]
        for share, (asked, value) in zip(shares, fact["quantiles"], strict=True):
            assert asked == pytest.approx(share)
            rank = sum(one <= value for one in values) / len(values)
            below = sum(one < value for one in values) / len(values)
            assert below - 1e-4 <= share <= rank + 1e-4


@pytest.mark.parametrize("keys", [["9", "10"], ["b", "10"], ["", "07", "7"]])
def test_ties_of_texts_go_by_the_text_even_where_it_looks_like_a_number(spark, keys: list[str]) -> None:
    recipe = pk.Recipe(
        x=pk.stack(col("text").index(max_size=len(keys) - 1), col("number").index(max_size=1), dtype="int32")
    )
    rows = pa.table({"text": keys, "number": pa.array([9, 10, 11][: len(keys)])})
    assert facts(recipe.fit(spark.createDataFrame(rows))) == facts(recipe.fit(rows))


def executions(spark) -> int:
    """How many SQL executions this session has run."""
    return spark._jsparkSession.sharedState().statusStore().executionsCount()


@pytest.mark.parametrize("width", [1, 4])
def test_jobs_do_not_grow_with_columns(spark, width: int) -> None:
    numbers = [f"d{place}" for place in range(13 * width)]
    keys = [f"c{place}" for place in range(26 * width)]
    rows = spark.range(400).selectExpr(
        *(
            f"if(id % 7 = 0, null, double(id * {place + 1} % 101)) as {name}"
            for place, name in enumerate(numbers)
        ),
        *(f"concat('k', id % {place + 3}) as {name}" for place, name in enumerate(keys)),
    )
    recipe = pk.Recipe(
        dense=pk.stack(
            *(col(name).fill("median").log1p().standardize() for name in numbers), dtype="float32"
        ),
        cat=pk.stack(*(col(name).index(min_count=2, max_size=50) for name in keys), dtype="int32"),
    )
    before = executions(spark)
    fitted = recipe.fit(rows)
    assert executions(spark) - before <= 2
    assert fitted.outputs["cat"].ids == tuple(2 + min(place + 3, 50) for place in range(len(keys)))


def test_the_plan_of_a_transform_has_no_python_in_it(df) -> None:
    plan = everything().fit(df).transform(df)._jdf.queryExecution().toString()
    assert "Project" in plan
    assert "Python" not in plan
    assert "ArrowEval" not in plan


def test_a_type_that_expressions_do_not_know(spark) -> None:
    from penstock.errors import UnsupportedType

    recipe = pk.Recipe(x=col("price").standardize())
    with pytest.raises(UnsupportedType, match=r"column 'price' is of type decimal.*Cast it to double"):
        recipe.fit(spark.sql("select 1.5BD as price"))
    with pytest.raises(UnsupportedType, match="column 'price'"):
        recipe.fit(pa.table({"price": pa.array([b"1"])}))


def batches(table: pa.Table) -> list[pa.RecordBatch]:
    return table.to_batches(max_chunksize=250)


@pytest.mark.parametrize("kind", ["batch", "batches", "generator", "reader", "dataset", "files", "duckdb"])
def test_arrow_data_of_every_kind(table, kind: str, tmp_path) -> None:
    if kind == "files":
        pa.parquet.write_table(table, tmp_path / "rows.parquet")
    given = {
        "batch": lambda: table.combine_chunks().to_batches()[0],
        "batches": lambda: batches(table),
        "generator": lambda: iter(batches(table)),
        "reader": lambda: pa.RecordBatchReader.from_batches(table.schema, batches(table)),
        "dataset": lambda: pa.dataset.dataset(table),
        "files": lambda: pa.dataset.dataset(tmp_path / "rows.parquet"),
        "duckdb": lambda: duckdb.from_arrow(table),
    }[kind]()
    assert facts(everything().fit(given)) == facts(everything().fit(table))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_of_other_libraries(kind: str) -> None:
    columns = {"price": [1.0, None, 3.0], "city": ["Rome", "Oslo", None]}
    given = pd.DataFrame(columns) if kind == "pandas" else pl.DataFrame(columns)
    recipe = pk.Recipe(x=col("price").fill("mean").standardize(), city=col("city").index())
    assert facts(recipe.fit(given)) == facts(recipe.fit(pa.table(columns)))


@pytest.mark.parametrize("given", ["rows.parquet", {"a": [1]}, 7, [], [pa.table({"price": [1.0]})]])
def test_what_nothing_can_be_learned_from(given) -> None:
    with pytest.raises(FitError):
        pk.Recipe(x=col("price").standardize()).fit(given)
