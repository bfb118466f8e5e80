"""Fitted recipes: the same values on every engine, nulls that are told, columns that changed."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from recipe_data import everything

import penstock as pk
from penstock.errors import ExpressionError, NullReached, UnsupportedOperation

col = pk.col


def rows_of(found: pa.Table) -> list[dict]:
    return sorted(found.to_pylist(), key=repr)


def same(one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return (
            one == other
            or math.isnan(one) == math.isnan(other) is True
            or math.isclose(one, other, rel_tol=1e-14)
        )
    return one == other


@pytest.fixture(scope="module")
def fitted(table) -> pk.FittedRecipe:
    return everything().fit(table)


def test_spark_gives_what_serving_gives(spark, table, fitted) -> None:
    df = spark.createDataFrame(table).coalesce(1)
    by_spark, by_arrow = fitted.transform(df).toArrow(), fitted.arrow(table)
    assert by_spark.column_names == list(fitted.tensors) == by_arrow.column_names
    for name in fitted.tensors:
        pairs = zip(by_spark[name].to_pylist(), by_arrow[name].to_pylist(), strict=True)
        assert [pair for pair in pairs if not same(*pair)] == []


def test_large_vocabularies_are_joined(spark, monkeypatch) -> None:
    monkeypatch.setattr("penstock.backends.spark.lookups.BY_TABLE", 4000)
    keys = pa.table({"k": [f"key {number}" for number in range(9000)] + [None, "key 1"]})
    fitted = pk.Recipe(
        a=col("k").index(),
        b=col("k").lower().count_encode(),
        c=(col("k").index() / 2).floor().cast("int64").fill(0).index_in(list(range(5000))),
    ).fit(keys)
    df = spark.createDataFrame(keys).coalesce(1)
    transformed = fitted.transform(df, keep=["k"])
    plan = transformed._jdf.queryExecution().toString()
    assert "BroadcastHashJoin" in plan
    assert "Python" not in plan
    assert transformed.drop("k").toArrow().to_pydict() == fitted.arrow(keys).to_pydict()


def test_keep_adds_columns(spark, table, fitted) -> None:
    df = spark.createDataFrame(table.slice(0, 20))
    found = fitted.transform(df, keep=["city", "at"])
    assert found.columns == ["city", "at", *fitted.tensors]
    with pytest.raises(ExpressionError, match=r"no column 'ctiy'\. Close to it: 'city'"):
        fitted.transform(df, keep=["ctiy"])
    with pytest.raises(ExpressionError, match="'label' cannot be kept beside a tensor"):
        fitted.transform(df.withColumnRenamed("at", "label"), keep=["label"])


def test_vectors_go_into_mllib(spark, table) -> None:
    from pyspark.ml.classification import LogisticRegression

    df = spark.createDataFrame(table)
    fitted = pk.Recipe(
        features=pk.stack(col("age").fill("median").standardize(), col("small").standardize()),
        label=col("clicked").cast("float64"),
    ).fit(df)
    model = LogisticRegression(maxIter=3).fit(fitted.transform(df, vector=True))
    assert model.coefficients.size == 2


def numeric() -> pk.Recipe:
    return pk.Recipe(
        x=pk.stack(
            col("price").fill("median").log1p().standardize().clip(-3, 3),
            col("age").fill("mean"),
            dtype="float32",
        ),
        ids=pk.stack(col("shop").index(max_size=50, oov=4), col("age").fill(0).hash(100), dtype="int32"),
        hot=col("age").fill("mode").one_hot(max_size=4),
    )


def torch_columns(table: pa.Table) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    found = {}
    for name in ("price", "age", "shop"):
        column = table[name].combine_chunks()
        values = torch.tensor(column.fill_null(0).to_numpy(zero_copy_only=False))
        found[name] = (values, torch.tensor(np.asarray(column.is_valid())))
    return found


def test_torch_gives_what_serving_gives(table) -> None:
    fitted = numeric().fit(table)
    by_torch, by_arrow = fitted.torch(torch_columns(table)), fitted.arrow(table)
    for name, tensor in by_torch.items():
        wanted = np.array(by_arrow[name].to_pylist())
        # log1p may differ in the last place of the double, and then in that of the float32.
        np.testing.assert_allclose(tensor.numpy(), wanted, rtol=1e-6 if name == "x" else 0, equal_nan=True)
        assert str(fitted.outputs[name].type.item) == str(tensor.dtype).removeprefix("torch.")


def test_a_module_can_be_exported(table) -> None:
    fitted = numeric().fit(table)
    columns = torch_columns(table.slice(0, 64))
    values, masks = fitted.module()(columns)
    assert all(bool(mask.all()) for mask in masks.values())
    exported = torch.export.export(fitted.module(), (columns,)).module()
    again, _ = exported(columns)
    for name, tensor in values.items():
        assert torch.equal(tensor, again[name])


def test_a_module_has_masks_instead_of_errors(table) -> None:
    fitted = pk.Recipe(x=pk.stack(col("price"), col("age"))).fit(table)
    columns = torch_columns(table)
    _, masks = fitted.module()(columns)
    assert torch.equal(masks["x"][:, 0], columns["price"][1])
    with pytest.raises(NullReached, match="a null reached tensor 'x', from columns 'price', 'age'"):
        fitted.torch(columns)


def test_texts_have_no_tensors(fitted) -> None:
    with pytest.raises(
        UnsupportedOperation, match=r"tensors hold no texts.*leave that out: \.only\('dense', 'label'\)"
    ):
        fitted.module()
    assert fitted.only("dense", "label").module().columns
    rows = pa.table({"city": ["Rome"]})
    with pytest.raises(
        UnsupportedOperation, match=r"not compute col\('city'\): tensors hold.*needed for 'c'\.$"
    ):
        pk.Recipe(c=col("city")).fit(rows).module()


NULLS = {
    "alone": (lambda: pk.Recipe(x=col("price").log1p()), "tensor 'x', from column 'price'"),
    "stacked": (lambda: pk.Recipe(x=pk.stack(col("same"), col("price"))), "tensor 'x', from column 'price'"),
    "in a list": (
        lambda: pk.Recipe(x=pk.stack(pk.stack(col("same"), col("price")))),
        "from columns 'same', 'price'",
    ),
    "does not fit": (
        lambda: pk.Recipe(x=pk.stack(col("shop"), dtype="int8")),
        "from column 'shop'.*does not fit",
    ),
    "of two": (lambda: pk.Recipe(x=col("price") + col("age")), "from columns 'price', 'age'"),
}


@pytest.mark.parametrize("case", list(NULLS))
def test_a_null_that_reaches_a_tensor(spark, df, table, case: str) -> None:
    recipe, said = NULLS[case]
    fitted = recipe().fit(table)
    with pytest.raises(NullReached, match=f"{said}.*[Ff]ill"):
        fitted.arrow(table)
    with pytest.raises(Exception, match=said):
        fitted.transform(df).toArrow()


def test_columns_that_changed(spark, table) -> None:
    fitted = pk.Recipe(x=col("age").fill(0).hash(1000), y=col("city").fill("").index()).fit(table)
    plain = fitted.arrow({"age": [3, 70], "city": ["São Paulo", "no"]}).to_pydict()
    wide = pa.table(
        {"age": pa.array([3, 70], pa.int64()), "city": pa.array(["São Paulo", "no"], pa.large_string())}
    )
    assert fitted.arrow(wide).to_pydict() == plain
    assert fitted.arrow({"age": pa.nulls(1), "city": [None]}).num_rows == 1
    for wrong, said in (
        ({"age": pa.array([2**40]), "city": ["a"]}, "column 'age' is int64, and was int32.*do not fit"),
        ({"age": ["3"], "city": ["a"]}, "column 'age'"),
        ({"age": pa.array(["3"]), "city": ["a"]}, "column 'age' is string, and was int32"),
        ({"age": pa.array([1.5]), "city": ["a"]}, "column 'age' is float64, and was int32"),
        ({"age": [1], "city": pa.array([1])}, "column 'city' is int64, and was string"),
        ({"age": [1]}, "no column 'city'"),
        ({"age": [1], "City": ["a"]}, "no column 'city'. Close to it: 'City'"),
    ):
        with pytest.raises(ExpressionError, match=said):
            fitted.arrow(wrong)
    narrow = spark.createDataFrame([(3, "São Paulo")], "age short, city string")
    assert fitted.transform(narrow).toArrow()["x"].to_pylist() == plain["x"][:1]
    for declared in ("age bigint, city string", "age string, city string", "age int, city int"):
        with pytest.raises(ExpressionError, match="when the recipe was fitted"):
            fitted.transform(spark.createDataFrame([], declared))


def test_some_tensors_alone(table, fitted, tmp_path) -> None:
    name = next(name for name, tree in fitted.tensors.items() if len(pk.Recipe(t=tree).columns) == 1)
    alone = fitted.only(name)
    (column,) = alone.inputs
    assert list(alone.tensors) == [name] == list(alone.outputs)
    assert alone.arrow(table.select([column])).to_pydict() == {name: fitted.arrow(table).to_pydict()[name]}
    assert all(fact["columns"] == [column] for fact in alone.facts)
    alone.save(tmp_path / "alone.json")
    assert repr(pk.load_recipe(tmp_path / "alone.json")) == repr(alone)


def test_what_it_says_of_itself(fitted) -> None:
    read = "price odd age small same city shop member words clicked"
    assert set(fitted.inputs) == set(read.split())
    assert str(fitted.outputs["dense"]) == "Output(list<float32>[9])"
    assert fitted.outputs["cat"].ids[5] == 10
    told = str(fitted.report())
    assert "col('city').index(min_count=3)\n  3,000 rows" in told
    assert "nothing leaves the JVM" in fitted.explain()
    assert str(pk.Recipe(x=col("a")).fit(pa.table({"a": [1]})).report()).startswith("nothing was learned")
    assert repr(everything()).startswith("Recipe(\n    dense=stack(")


def test_pieces_that_are_shared_are_walked_once(spark) -> None:
    """A lifted function uses its pieces again and again: as a tree this one would have two to the hundredth nodes."""
    tree = col("same")
    for _ in range(100):
        tree = tree + tree
    schema = {"same": pk.Recipe(x=col("same")).fit(pa.table({"same": [1.0]})).inputs["same"]}
    fitted = pk.FittedRecipe({"x": tree}, schema)
    df = spark.createDataFrame(pa.table({"same": [1.0]}))
    from penstock.backends import engine
    from penstock.expr.check import columns_of
    from penstock.recipe.fitting import learns

    assert columns_of(tree) == ["same"]
    assert not learns(tree)
    found = engine("spark").prepare(fitted.tensors, schema)(df).toArrow()["x"].to_pylist()
    assert found == [2.0**100]


def test_only_some_tensors_need_only_their_columns() -> None:
    recipe = pk.Recipe(x=col("a").standardize(), city=col("city").index(), y=col("sold").cast("float32"))
    fitted = recipe.fit(pa.table({"a": [1.0, 3.0], "city": ["Rome", "Oslo"], "sold": [True, False]}))
    served = fitted.only("city", "x")
    assert dict(served.inputs) == {name: fitted.inputs[name] for name in ("city", "a")}
    assert served.outputs["city"].ids == fitted.outputs["city"].ids
    assert served.declared == {"city": "col('city').index()", "x": "col('a').standardize()"}
    assert {tuple(each["columns"]) for each in served.facts} == {("a",), ("city",)}
    assert served.arrow({"a": [1.0], "city": ["Oslo"]}).to_pylist() == [{"city": 2, "x": -1.0}]
    with pytest.raises(ExpressionError, match="the recipe has no tensor 'z'; there are 'x', 'city', 'y'"):
        fitted.only("x", "z")
    with pytest.raises(ExpressionError, match="names tensors to keep; there are 'x'"):
        fitted.only()
