"""Data that is at the edge: both fits learn the same from it, and what they cannot learn from is told by name."""

from __future__ import annotations

import math
import os
import tempfile
import warnings

import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import ExpressionError, FitError

col = pk.col
MOST = 2**63 - 1
EDGES = pa.table(
    {
        "big": pa.array([2**53 + 1, MOST, -MOST - 1, None, 5, MOST, MOST, 2**53 + 1], pa.int64()),
        "most": pa.array([MOST, MOST, None, MOST, MOST - 1, MOST, MOST, MOST], pa.int64()),
        "digits": ["10", "9", "2", "10", "9", "2", "-1", None],
        "odd": [math.inf, -math.inf, math.nan, 1.0, -0.0, 3.0, None, 1e300],
        "same": [4.25] * 8,
        "none": pa.nulls(8, pa.float64()),
    }
)
LEARNED = pk.Recipe(
    median=col("big").fill("median"),
    middle=col("most").fill("median"),
    mode=col("big").fill("mode"),
    mean=pk.stack(col("big").fill("mean"), col("big").fill(0).standardize(), col("big").fill(0).minmax()),
    bins=col("big").fill(0).quantile_bins(3),
    ids=pk.stack(col("digits").index(), col("big").index(), dtype="int32"),
    shares=pk.stack(col("digits").target_mean(col("big")), col("digits").count_encode()),
    odd=pk.stack(col("odd").fill("median"), col("odd").fill("mode"), col("odd").fill(0).robust()),
    same=pk.stack(col("same").standardize(), col("same").minmax(), col("same").robust()),
)


def close(one: object, other: object) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[name], other[name]) for name in one)
    if isinstance(one, float) and isinstance(other, float):
        return (
            one == other or (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-12)
        )
    return one == other


@pytest.fixture(scope="module")
def edges(spark):
    return spark.createDataFrame(EDGES).coalesce(1).cache()


def test_spark_and_arrow_learn_the_same_at_the_edges(edges) -> None:
    by_spark, by_arrow = LEARNED.fit(edges), LEARNED.fit(EDGES)
    for one, other in zip(by_spark.facts, by_arrow.facts, strict=True):
        assert close(one, other), (one, other)
    for name in ("median", "middle", "mode", "bins", "ids", "same"):
        assert repr(by_spark.tensors[name]) == repr(by_arrow.tensors[name])
    assert by_arrow.tensors["middle"].same(col("most").fill(MOST))
    served, transformed = by_spark.arrow(EDGES), by_spark.transform(edges).toArrow()
    assert close(transformed.to_pydict(), served.to_pydict())


def test_spark_says_what_nothing_can_be_learned_from(edges) -> None:
    with pytest.raises(FitError, match=r"all 8 rows are null.*column 'none'.*\.fill\(0\)"):
        pk.Recipe(x=pk.stack(col("same").standardize(), col("none").standardize())).fit(edges)
    with pytest.raises(FitError, match=r"there are no rows.*column 'digits'"):
        pk.Recipe(x=col("same").clip(0, 1), ids=col("digits").index()).fit(edges.limit(0))
    plain = pk.Recipe(x=col("same").clip(0, 1)).fit(edges.limit(0))
    assert plain.arrow({"same": [2.0]})["x"].to_pylist() == [1.0]


HUGE = pa.table({"x": [1e308, -1e308, 1e308, None], "c": ["a", "b", "c", "a"]})


def test_moments_that_overflow_are_told_without_a_warning(tmp_path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = pk.Recipe(m=col("x").fill("mean"), q=col("x").fill(0).quantile_bins(2)).fit(HUGE)
        with pytest.raises(FitError, match=r"its spread is nan.*column 'x'"):
            pk.Recipe(x=col("x").standardize()).fit(HUGE)
    told = str(fitted.report())
    assert "deviation nan" in told
    fitted.save(tmp_path / "recipe.json")
    assert str(pk.load_recipe(tmp_path / "recipe.json").report()) == told


def test_a_text_that_looks_like_a_number_stays_a_text_in_the_report(tmp_path) -> None:
    fitted = pk.Recipe(t=col("c").fill("mode")).fit(pa.table({"c": ["nan", "nan", None]}))
    fitted.save(tmp_path / "recipe.json")
    assert str(pk.load_recipe(tmp_path / "recipe.json").report()) == str(fitted.report())


@pytest.mark.parametrize("label", [[1.0, math.nan, 0.0], [1.0, math.inf, 0.0], [1e308, 1e308, -1e308]])
def test_a_label_that_is_not_finite_is_named(label: list[float]) -> None:
    rows = pa.table({"c": ["a", "a", "b"], "y": label})
    with pytest.raises(FitError, match=r"label is .*learn from column 'y'.*clip"):
        pk.Recipe(t=col("c").target_mean(col("y"))).fit(rows)


def test_a_label_of_nulls_is_named() -> None:
    rows = pa.table({"c": ["a"], "y": pa.nulls(1, pa.float64())})
    with pytest.raises(FitError, match=r"its label is null in every row.*learn from column 'y'"):
        pk.Recipe(t=col("c").target_mean(col("y"))).fit(rows)


def test_more_values_than_a_one_hot_list_has_places() -> None:
    rows = pa.table({"c": pa.array(range(1 << 20))})
    with pytest.raises(FitError, match=r"column 'c' has 1,048,576 different values.*max_size=.*index\(\)"):
        pk.Recipe(t=col("c").one_hot()).fit(rows)


def test_two_columns_of_one_name(spark) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    for data in (twice, twice.to_batches(), spark.range(1).selectExpr("id as a", "id as a")):
        with pytest.raises(ExpressionError, match=r"two columns 'a'.*Rename or drop one"):
            pk.Recipe(x=col("a")).fit(data)


def encoded(*values: str | None) -> pa.RecordBatch:
    lists = pa.ListArray.from_arrays(range(len(values) + 1), pa.array(values).dictionary_encode())
    return pa.record_batch({"c": pa.array(values).dictionary_encode(), "l": lists})


def test_every_batch_of_a_stream_may_have_its_own_dictionary() -> None:
    batches = [encoded("a", "b"), encoded("c", None, "b")]
    recipe = pk.Recipe(x=col("c").index(), y=col("l").index())
    wanted = recipe.fit(
        pa.table({"c": ["a", "b", "c", None, "b"], "l": [["a"], ["b"], ["c"], [None], ["b"]]})
    )
    for data in (batches, iter(batches), pa.RecordBatchReader.from_batches(batches[0].schema, batches)):
        assert repr(recipe.fit(data)) == repr(wanted)


def test_batches_of_different_schemas() -> None:
    first, recipe = pa.record_batch({"c": ["a"], "d": [1]}), pk.Recipe(x=col("c").index())
    fine = pa.record_batch({"d": ["other"], "c": ["b"]})
    none = pa.record_batch({"c": pa.nulls(2)})
    assert recipe.fit([first, fine, none]).facts[0]["nulls"] == 2
    with pytest.raises(FitError, match=r"batch 1 of the stream has int64 for column 'c'.*string.*one schema"):
        recipe.fit([first, pa.record_batch({"c": [1]})])
    with pytest.raises(FitError, match="batch 2 of the stream has nothing for column 'c'"):
        recipe.fit([first, fine, pa.record_batch({"d": [1]})])


def test_a_stream_that_fails_leaves_no_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path))

    def breaks():
        yield pa.record_batch({"c": ["a"]})
        raise OSError("the disk is gone")

    recipe = pk.Recipe(x=col("c").index())
    with pytest.raises(OSError, match="the disk is gone"):
        recipe.fit(breaks())
    with pytest.raises(FitError, match="one schema"):
        recipe.fit([pa.record_batch({"c": ["a"]}), pa.record_batch({"c": [1]})])
    assert list(tmp_path.iterdir()) == []
