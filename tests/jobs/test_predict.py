"""`pk.predict` through a real local Spark: what models get, batches, kept columns, recipes, models of all kinds."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import importlib
import os

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F
from pyspark.sql import types as T

import penstock as pk
from penstock.errors import SelectionError

COLUMNS = [f"c{place}" for place in range(6)]


@pytest.fixture(scope="module")
def rows(spark):
    """5,000 rows on 4 partitions, one of them empty."""
    made = [
        ((F.xxhash64("id", F.lit(place)) % 1000) / 500).cast("float").alias(name)
        for place, name in enumerate(COLUMNS)
    ]
    ordered = spark.range(0, 5000, 1, 4).select("id", *made, F.concat(F.lit("r"), "id").alias("text"))
    return ordered.where("id < 1250 or id >= 2500").cache()


def mlp(out: int = 1):
    """A function that makes the same small network everywhere; nested, so that it is shipped by value."""

    def load():
        import torch

        torch.manual_seed(3)
        layers = [torch.nn.Linear(6, 16), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(16, out)]
        return torch.nn.Sequential(*layers)

    return load


def by_id(df, column="score"):
    return {row.id: row[column] for row in df.collect()}


@pytest.fixture(scope="module")
def parts(rows):
    """Ids and columns of each partition, as its task sees them."""
    table = rows.select("id", *COLUMNS, F.spark_partition_id().alias("part")).toArrow()
    found = []
    for part in sorted(set(table["part"].to_pylist())):
        mine = table.filter(pc.equal(table["part"], part))
        found.append((mine["id"].to_pylist(), np.stack([mine[name].to_numpy() for name in COLUMNS], 1)))
    return found


def own_outputs(parts, model, size):
    """The model's own output on the batches that tasks see: partitions cut to size."""
    found = {}
    torch.set_num_threads(1)
    for ids, x in parts:
        with torch.inference_mode():
            cut = [model(torch.from_numpy(x[at : at + size])) for at in range(0, len(x), size)]
        found.update(zip(ids, torch.cat(cut).numpy(), strict=True))
    return found


class TestBatches:
    @pytest.mark.parametrize("size", [7, 333, 100_000])
    def test_bit_for_bit_the_models_own_output_on_the_same_batches(self, spark, rows, parts, size):
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        try:
            found = by_id(
                pk.predict(rows, mlp(), tensors=COLUMNS, returns="score float", batch_size=size, keep=["id"])
            )
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        wanted = own_outputs(parts, mlp()().eval(), size)
        assert found.keys() == wanted.keys()
        assert all(np.float32(found[key]) == wanted[key][0] for key in wanted)

    def test_batches_have_exactly_the_size_asked_for_across_arrow_batches(self, spark, rows):
        def load():
            return lambda x: (np.full(len(x), len(x)), x[:, 0])

        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "70")
        try:
            found = pk.predict(
                rows,
                load,
                tensors=COLUMNS,
                returns="size int, first float",
                batch_size=250,
                framework="numpy",
            ).select("id", "size", "first", "c0", F.spark_partition_id().alias("part"))
            seen = found.collect()
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        assert {row.size for row in seen} == {250}  # 1250 rows on each partition that has some
        assert len({row.part for row in seen}) == 3
        assert all(row.first == row.c0 for row in seen), "a result stands beside another row"

    def test_the_last_batch_is_smaller_and_no_rows_give_no_rows(self, spark):
        def load():
            return lambda x: np.full(len(x), len(x))

        df = spark.range(0, 1001, 1, 1)
        found = pk.predict(df, load, tensors="id", returns="n long", batch_size=300, framework="numpy")
        assert [row.n for row in found.collect()] == [300] * 900 + [101] * 101
        empty = pk.predict(df.where("id < 0"), load, tensors="id", returns="n long", framework="numpy")
        assert empty.collect() == []
        assert empty.columns == ["id", "n"]

    def test_it_is_lazy_and_any_order_of_rows_does(self, rows, parts):
        shuffled = pk.predict(
            rows.repartition(3), mlp(), tensors=COLUMNS, returns="score float", batch_size=100, keep=["id"]
        )
        wanted = own_outputs(parts, mlp()().eval(), 4096)
        best = shuffled.where("score > 0").orderBy(F.desc("score")).limit(20).collect()
        assert len(best) == 20
        assert all(abs(row.score - float(wanted[row.id][0])) < 1e-5 for row in best)

    def test_a_model_that_changes_its_input_changes_nothing_else(self, rows):
        def load():
            return lambda x: x.mul_(0).add_(1).sum(1)

        found = pk.predict(rows, load, tensors=COLUMNS, returns="score float")
        assert {row.score for row in found.select("score").collect()} == {6.0}
        assert found.drop("score").exceptAll(rows).count() == 0


class TestWhatTheModelGets:
    def test_several_tensors_by_name(self, spark):
        df = spark.range(0, 100, 1, 2).select(
            "id", (F.col("id") / 2).alias("half"), F.array("id", F.col("id") + 1).alias("pair")
        )

        def load():
            def score(pair, x):
                assert (x.shape[1:], str(x.dtype)) == ((2,), "torch.float32")
                assert (pair.shape[1:], str(pair.dtype)) == ((2,), "torch.int64")
                return x[:, 1] + pair[:, 1]

            return score

        found = pk.predict(
            df,
            load,
            tensors={"x": ["id", "half"], "pair": "pair"},
            dtype={"x": "float32"},
            returns="s double",
        )
        assert by_id(found, "s") == {n: n / 2 + n + 1 for n in range(100)}

    def test_a_mapping_of_one_is_passed_by_itself_and_none_takes_all_columns(self, spark):
        df = spark.range(0, 10).withColumn("b", F.col("id") * 2)

        def one():
            return lambda anything: anything * 3

        def two():
            return lambda b, id: id + b

        assert by_id(pk.predict(df, one, tensors={"x": "id"}, returns="s long"), "s")[3] == 9
        assert by_id(pk.predict(df, two, returns="s long"), "s")[3] == 9

    def test_modules_are_in_eval_mode_without_gradients_and_with_the_tasks_threads(self, spark):
        def load():
            import torch

            class Told(torch.nn.Module):
                def forward(self, x):
                    state = [self.training, torch.is_inference_mode_enabled(), torch.get_num_threads() == 1]
                    return torch.tensor(state).repeat(len(x), 1)

            return Told()

        found = pk.predict(spark.range(3), load, tensors="id", returns="s array<boolean>").collect()
        assert [row.s for row in found] == [[False, True, True]] * 3

    @pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
    def test_half_floats_in_and_out(self, spark, dtype):
        def load():
            return lambda x: x * 2

        df = spark.range(5).withColumn("x", F.col("id") / 4)
        found = pk.predict(df, load, tensors="x", dtype=dtype, returns="s float")
        assert by_id(found, "s") == {n: n / 2 for n in range(5)}

    def test_vectors_of_mllib(self, spark):
        df = spark.createDataFrame(
            [(1, Vectors.dense([1.0, 2.0])), (2, Vectors.sparse(2, [1], [5.0]))], ["id", "v"]
        )

        def load():
            return lambda v: v.sum(1)

        found = pk.predict(df, load, tensors="v", returns="s double")
        assert by_id(found, "s") == {1: 3.0, 2: 5.0}
        assert found.collect()[1].v == Vectors.sparse(2, [1], [5.0])


@pytest.fixture(scope="module")
def sales(spark):
    return spark.range(0, 400, 1, 3).selectExpr(
        "id",
        "if(id % 7 = 0, null, cast(id % 50 as int)) as price",
        "concat('k', id % 5) as kind",
        "id % 3 = 0 as sold",
    )


@pytest.fixture(scope="module")
def fitted(sales):
    return pk.Recipe(
        x=pk.stack(pk.col("price").fill("median").standardize(), pk.col("id"), dtype="float32"),
        ids=pk.stack(pk.col("kind").index(), pk.col("kind").hash(100), dtype="int32"),
        y=pk.col("sold").cast("float32"),
    ).fit(sales)


class TestRecipes:
    def test_its_tensors_are_those_of_serving(self, sales, fitted):
        def load():
            return lambda x, ids: {"x": x, "ids": ids}

        # Without the label, and with a narrower column than it was fitted on; the kept one stays as it is.
        unlabelled = sales.drop("sold").withColumn("price", F.col("price").cast("byte"))
        found = pk.predict(
            unlabelled, load, recipe=fitted, tensors=["x", "ids"], returns="ids array<int>, x array<float>"
        )
        assert found.schema["price"].dataType == T.ByteType()
        assert found.columns == ["id", "price", "kind", "ids", "x"]
        table = sales.orderBy("id").toArrow()
        wanted = fitted.arrow(table)
        seen = found.orderBy("id").collect()
        assert [row.ids for row in seen] == wanted["ids"].to_pylist()
        assert [row.x for row in seen] == wanted["x"].to_pylist()
        assert [row.price for row in seen] == table["price"].to_pylist()

    def test_a_null_that_reaches_a_tensor_is_told_with_its_source_and_row(self, spark, sales):
        fitted = pk.Recipe(x=pk.stack(pk.col("price") / 2, pk.col("id"), dtype="float32")).fit(sales)

        def load():
            return lambda x: x.sum(1)

        kept = pk.predict(
            sales, load, recipe=fitted, returns="s float", on_error="column", keep=["id"]
        ).collect()
        assert {row.id for row in kept if row.error} == set(range(0, 400, 7))
        assert {row.error for row in kept if row.error} == {"null in tensor 'x', from col('price') / 2"}
        said = r"row id=\d+ \(number \d+ of partition \d\) cannot be scored: null in tensor 'x', from col\('price'\)"
        with pytest.raises(Exception, match=said):
            pk.predict(sales, load, recipe=fitted, returns="s float", keep=["id"]).collect()

    def test_what_is_no_recipe_or_names_no_tensor_is_refused(self, sales, fitted):
        def go(**more):
            return pk.predict(sales, lambda: None, returns="s float", **more)

        with pytest.raises(SelectionError, match="has not learned anything yet"):
            go(recipe=pk.Recipe(x=pk.col("price").standardize()))
        with pytest.raises(SelectionError, match="a fitted recipe is wanted"):
            go(recipe="recipe.json")
        with pytest.raises(SelectionError, match="no tensor 'z'; it has 'x', 'ids', 'y'"):
            go(recipe=fitted, tensors=["x", "z"])
        with pytest.raises(SelectionError, match="leave dtype and nulls out"):
            go(recipe=fitted, nulls="nan")
        with pytest.raises(SelectionError, match="it is a list of those of the recipe's tensors"):
            go(recipe=fitted, tensors={"x": ["price"]})


class TestKeptColumns:
    def test_columns_of_every_type_come_back_as_they_were(self, spark):
        types = {
            "flag": "id % 2 = 0",
            "tiny": "cast(id as tinyint)",
            "small": "cast(id as smallint)",
            "whole": "cast(id as int)",
            "whole2": "if(id = 1, null, cast(id * 2 as int))",
            "real": "cast(id as float) / 3",
            "nan": "double('nan')",
            "money": "cast(id as decimal(38, 10))",
            "money2": "cast(id as decimal(5, 2))",
            "money3": "cast(id as decimal(5, 2))",
            "text": "if(id = 2, null, concat('t', id))",
            "bytes": "cast(concat('b', id) as binary)",
            "day": "date_add(date'1582-10-01', cast(id as int) * 10)",
            "at": "timestamp_micros(id * 3600000000)",
            "wall": "cast(timestamp'2024-03-31 02:30:00' as timestamp_ntz)",
            "took": "make_dt_interval(1, 2, 3, id)",
            "list": "array(id, null)",
            "lists": "array(array('a'), null)",
            "map": "map('a', id)",
            "struct": "named_struct('a', id, 'b', array(named_struct('c', 'x')))",
            "variant": "parse_json('{\"a\": 1}')",
            "nothing": "null",
        }
        df = spark.range(0, 4, 1, 2).selectExpr("id", *(f"{text} as {name}" for name, text in types.items()))
        vectors = spark.createDataFrame(
            [(n, Vectors.sparse(3, [1], [float(n)])) for n in range(4)], ["id", "v"]
        )
        df = df.join(vectors, "id").withColumn("odd `name`", F.lit(1.5)).withMetadata("whole", {"k": "v"})

        def load():
            return lambda x: x[:, 0]

        found = pk.predict(df, load, tensors=["id", "whole"], dtype="float64", returns="s double")
        assert [field.dataType for field in found.drop("s").schema] == [field.dataType for field in df.schema]
        assert found.columns == [*df.columns, "s"]
        assert found.schema["whole"].metadata == {"k": "v"}
        seen = {row.id: row for row in found.collect()}
        for row in df.collect():
            assert repr(seen[row.id][:-1]) == repr(tuple(row))
            assert seen[row.id].s == row.id

    def test_keep_names_them_in_order_or_none(self, rows):
        found = pk.predict(
            rows, mlp(), tensors=COLUMNS, returns="score float", keep=["text", "c5", "id", "c1"]
        )
        assert found.columns == ["text", "c5", "id", "c1", "score"]
        source = {row.id: row for row in rows.collect()}
        assert all(
            (row.text, row.c5, row.c1) == (source[row.id].text, source[row.id].c5, source[row.id].c1)
            for row in found.collect()
        )
        assert pk.predict(rows, mlp(), tensors=COLUMNS, returns="score float", keep=[]).columns == ["score"]

    def test_nulls_among_columns_that_cross_together_stay_nulls(self, spark):
        df = spark.createDataFrame([(1, None, 2.0), (2, 1.0, None)], "id int, a double, b double")

        def load():
            return lambda x: x.nansum(1)

        seen = pk.predict(df, load, tensors=["a", "b"], nulls="nan", returns="s double").collect()
        assert [tuple(row) for row in seen] == [(1, None, 2.0, 2.0), (2, 1.0, None, 1.0)]

    def test_a_result_named_like_a_column_is_refused(self, rows):
        with pytest.raises(SelectionError, match="has a column 'TEXT' already, and a result has that name"):
            pk.predict(rows, mlp(), tensors=COLUMNS, returns="TEXT float")
        pk.predict(rows, mlp(), tensors=COLUMNS, returns="text float", keep=["id"])
        with pytest.raises(SelectionError, match="has a column 'error' already, where on_error"):
            pk.predict(
                rows.withColumn("error", F.lit(1)),
                mlp(),
                tensors=COLUMNS,
                returns="s float",
                on_error="column",
            )

    def test_results_may_have_any_other_name(self, spark):
        df = spark.createDataFrame([(1.0, 2.0, "x")], "a double, b double, c string")
        for names in ("p0 p1", "P0 P1"):
            first, second = names.split()
            found = pk.predict(
                df,
                lambda: lambda x: (x[:, 0], x[:, 1]),
                tensors=["a", "b"],
                returns=f"{first} double, {second} double",
            )
            assert found.columns == ["a", "b", "c", first, second]
            assert [tuple(row) for row in found.collect()] == [(1.0, 2.0, "x", 1.0, 2.0)]

    def test_a_result_named_like_the_column_of_errors_is_refused(self, rows):
        for name in ("error", "Error"):
            with pytest.raises(
                SelectionError, match=f"returns has a column '{name}', where on_error="
            ) as refused:
                pk.predict(rows, mlp(), tensors=COLUMNS, returns=f"s float, {name} string", on_error="column")
            assert "another name" in str(refused.value)

    def test_what_cannot_be_kept_is_refused(self, spark, rows):
        def go(df=rows, **more):
            return pk.predict(df, mlp(), tensors=COLUMNS, returns="score float", **more)

        with pytest.raises(SelectionError, match="keep names 'no'; the DataFrame has 'id'"):
            go(keep=["no"])
        with pytest.raises(SelectionError, match=r"keep='id': a list of columns is wanted: keep=\['id'\]"):
            go(keep="id")
        with pytest.raises(SelectionError, match="'id' is there more than once"):
            go(keep=["id", "id"])
        months = rows.withColumn("m", F.expr("interval '1-2' year to month"))
        with pytest.raises(
            SelectionError, match="'m' is of type interval year to month, which Spark does not take back"
        ):
            go(months)
        assert go(months, keep=["id"]).count() == 3750


class TestModels:
    def test_loaded_once_by_each_worker_for_all_its_tasks(self, spark, tmp_path):
        folder = str(tmp_path)

        def load():
            import os
            import uuid

            open(os.path.join(folder, f"{os.getpid()}-{uuid.uuid4()}"), "w").close()
            return lambda x: x * 0 + os.getpid()

        df = spark.range(0, 60, 1, 12)
        scored = pk.predict(df, load, tensors="id", returns="pid long")
        workers = {row.pid for row in scored.collect()} | {row.pid for row in scored.collect()}
        loaded = [int(name.partition("-")[0]) for name in os.listdir(folder)]
        assert sorted(loaded) == sorted(workers), "24 tasks"
        pk.predict(df, load, tensors="id", returns="pid long").collect()
        assert len(os.listdir(folder)) > len(workers), "another call has a model of its own"

    def test_keras_by_function_and_by_file(self, spark, rows, tmp_path):
        keras = pytest.importorskip("keras")
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
        path = tmp_path / "model.keras"
        model.save(path)
        few = rows.where("id < 300").coalesce(1)
        x = pk.to_numpy(few, COLUMNS)
        wanted = np.concatenate([model.predict_on_batch(x[at : at + 128]) for at in range(0, 300, 128)])[:, 0]
        text = str(path)

        def load():
            # Before TensorFlow, as where a file is given: the same worker scores with torch's compiler later.
            with contextlib.suppress(ImportError):
                importlib.import_module("triton")
            import keras

            return keras.models.load_model(text)

        for given in (path, load):
            found = pk.predict(
                few, given, tensors=COLUMNS, returns="score float", batch_size=128, keep=["id"]
            )
            assert np.array_equal(np.array([row.score for row in found.collect()], np.float32), wanted)

    def test_keras_with_several_inputs_gets_a_dictionary(self, spark, tmp_path):
        keras = pytest.importorskip("keras")
        a, b = keras.Input((1,), name="a"), keras.Input((2,), name="b")
        model = keras.Model([a, b], keras.layers.Concatenate()([a, b]))
        model.save(tmp_path / "two.keras")
        df = spark.range(5).selectExpr("id", "cast(id as float) as x", "array(1f, 2f) as y")
        found = pk.predict(
            df, tmp_path / "two.keras", tensors={"a": ["x"], "b": "y"}, returns="s array<float>"
        )
        assert by_id(found, "s") == {n: [n, 1.0, 2.0] for n in range(5)}

    def test_an_exported_program_and_torchscript_by_path(self, rows, parts, tmp_path):
        model = mlp()().eval()
        x = torch.zeros(8, 6)
        batch = torch.export.Dim("batch", max=1 << 20)
        torch.export.save(torch.export.export(model, (x,), dynamic_shapes=({0: batch},)), tmp_path / "m.pt2")
        torch.jit.save(torch.jit.trace(model, x), tmp_path / "m.pt")
        wanted = own_outputs(parts, model, 1000)
        for name in ("m.pt2", "m.pt"):
            found = by_id(
                pk.predict(
                    rows,
                    str(tmp_path / name),
                    tensors=COLUMNS,
                    returns="score float",
                    batch_size=1000,
                    keep=["id"],
                )
            )
            assert all(abs(found[key] - float(wanted[key][0])) < 1e-6 for key in wanted), name

    def test_what_is_no_model_is_refused(self, rows, tmp_path):
        def go(given):
            return pk.predict(rows, given, tensors=COLUMNS, returns="score float")

        (tmp_path / "model.pt").write_bytes(b"nonsense")
        with pytest.raises(SelectionError, match=r"no file '.*none.pt2' on this machine"):
            go(str(tmp_path / "none.pt2"))
        with pytest.raises(
            SelectionError, match=r"load_model is a Sequential itself\. Pass a function that returns it"
        ):
            go(mlp()())
        with pytest.raises(SelectionError, match="load_model=7: a function without arguments, or a path"):
            go(7)
        with pytest.raises(
            Exception, match=r"PredictError: model.pt cannot be loaded as a TorchScript program"
        ):
            go(tmp_path / "model.pt").collect()
        with pytest.raises(
            Exception, match=r"PredictError: load_model\(\) returned int, which cannot be called: 3"
        ):
            go(lambda: 3).collect()


def test_bad_options_are_refused(rows):
    def go(**more):
        return pk.predict(rows, mlp(), tensors=COLUMNS, **{"returns": "score float", **more})

    for more, said in (
        ({"batch_size": 0}, "batch_size=0: a whole number of rows"),
        ({"batch_size": True}, "batch_size=True"),
        ({"on_error": "ignore"}, 'on_error=\'ignore\' is not understood: pass "raise" or "column"'),
        ({"framework": "jax"}, "framework='jax' is not understood"),
        ({"returns": "float"}, "returns='float' is not understood: it has no column's name"),
        ({"returns": "score floot"}, "returns='score floot' is not understood"),
        ({"returns": T.StructType()}, "declares no columns"),
        ({"returns": "a float, A int"}, "names 'a', 'A' more than once"),
        ({"returns": "a date"}, "gives 'a' the type date, which no tensor becomes"),
        ({"returns": "a map<string,int>"}, "gives 'a' the type map<string,int>"),
    ):
        with pytest.raises(SelectionError) as error:
            go(**more)
        assert said in str(error.value)
    with pytest.raises(SelectionError, match="a Spark DataFrame is wanted"):
        pk.predict([1], mlp(), returns="score float")


def test_values_that_python_writes_are_what_spark_reads(spark):
    """Kept columns of types that Python has values for, against those values."""
    row = (
        1,
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 12, 0, 1, 5),
        decimal.Decimal("1.50"),
        bytearray(b"\x00a"),
    )
    df = spark.createDataFrame([row], "id int, day date, at timestamp_ntz, money decimal(4,2), b binary")

    def load():
        return lambda x: x

    assert tuple(pk.predict(df, load, tensors="id", returns="s int").collect()[0]) == (*row, 1)
