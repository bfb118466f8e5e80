"""Fitted MLlib stages as recipes, held against MLlib's own transform: by Arrow without Spark, and by Spark.

Many stages share a pipeline, so that few jobs answer for all of them. EXACT columns are equal bit for bit, but for the
sign of a zero, which sparse vectors do not have; the others, sums, within 1e-12 of their size.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.clustering import KMeans
from pyspark.ml.feature import (
    PCA,
    Binarizer,
    Bucketizer,
    ElementwiseProduct,
    FeatureHasher,
    Imputer,
    IndexToString,
    Interaction,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialExpansion,
    QuantileDiscretizer,
    RobustScaler,
    StandardScaler,
    StringIndexer,
    Tokenizer,
    VectorAssembler,
    VectorSlicer,
)
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import LinearRegression
from pyspark.ml.tuning import TrainValidationSplitModel
from pyspark.sql import functions as F

from penstock.errors import ExpressionError, NullReached
from penstock.recipe.fitted import FittedRecipe
from penstock.recipe.loading import load_recipe
from penstock.recipe.mllib import from_mllib

NAN, INF = math.nan, math.inf
EDGES = [None, NAN, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.5, INF, -INF, 1e300, -1e300, 5e-324, 0.1, -7.25]
WORDS = ["a", "b", "a", "é", "", "b", "a", "😀", None, "unseen", "A", "longer text", "c", "c", "a", "b"]


@pytest.fixture(scope="module", autouse=True)
def _few_tasks(spark) -> Iterator[None]:
    """MLlib fits by shuffles, and a task for a handful of rows costs more than the rows."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture(scope="module")
def edges(spark) -> Any:
    """Values of every kind beside each other; the last column is what is learned from."""
    rows = [
        (
            WORDS[i % len(WORDS)],
            EDGES[i % len(EDGES)],
            None if EDGES[(3 * i + 1) % 16] is None else float(EDGES[(3 * i + 1) % 16]),
            [None, 1, 2, -3, 2, 7][i % 6],
            [None, 0.1, 2.5, -1.0, NAN][i % 5],
            [None, True, False][i % 3],
            i % 4 != 3 and WORDS[i % len(WORDS)] not in (None, "unseen", ""),
        )
        for i in range(48)
    ]
    kinds = "s string, x double, y double, k int, f float, p boolean, learned boolean"
    return spark.createDataFrame(rows, kinds).coalesce(1).cache()


@pytest.fixture(scope="module")
def plain(spark) -> Any:
    """Ordinary numbers, on which sums agree; the seventh column never changes."""
    rows = [
        (
            ["red", "green", "blue"][(i * i) % 3],
            math.sin(i) * 10.0,
            float((7 * i) % 11) - 5.0,
            i / 7.0,
            float(i % 3),
            float(i % 2),
            4.0,
        )
        for i in range(60)
    ]
    kinds = "s string, a double, b double, c double, y3 double, y2 double, same double"
    return spark.createDataFrame(rows, kinds).coalesce(1).cache()


def flat(df: Any, names: list[str]) -> dict[str, list[Any]]:
    """Columns of a DataFrame as Python lists, vectors as lists."""
    vectors = {field.name for field in df.schema.fields if field.dataType.typeName() == "vectorudt"}
    chosen = [vector_to_array(name).alias(name) if name in vectors else F.col(name) for name in names]
    return df.select(*chosen).toArrow().to_pydict()


def close(expected: Any, got: Any, tolerance: float) -> bool:
    if isinstance(expected, list):
        return len(expected) == len(got) and all(
            close(one, other, tolerance) for one, other in zip(expected, got, strict=True)
        )
    if expected is None or got is None:
        return expected is got
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    return expected == got or abs(expected - got) <= tolerance * max(1.0, abs(expected))


def check(model: Any, df: Any, sums: tuple[str, ...] = (), **options: Any) -> FittedRecipe:
    """A model's own output against the recipe's, by both engines; `sums` are the columns that add numbers up."""
    fitted = from_mllib(model, **options)
    names = list(fitted.tensors)
    expected = flat(model.transform(df), names)
    inputs = df.select(*fitted.inputs)
    for how, got in {
        "arrow": fitted.arrow(inputs.toArrow()).to_pydict(),
        "spark": fitted.transform(df).toArrow().to_pydict(),
    }.items():
        for name in names:
            tolerance = 1e-12 if name in sums else 0.0
            wrong = [
                (row, one, other)
                for row, (one, other) in enumerate(zip(expected[name], got[name], strict=True))
                if not close(one, other, tolerance)
            ]
            assert wrong == [], f"{name} by {how}: {wrong[:3]}"
    return fitted


def fit(df: Any, *stages: Any) -> PipelineModel:
    return Pipeline(stages=list(stages)).fit(df)


SPLITS = [-INF, -1.0, 0.0, 0.5, 2.0, INF]


def test_single_values_of_every_kind(edges) -> None:
    edges = edges.withColumn("s2", F.upper("s"))
    model = fit(
        edges.filter("learned"),
        StringIndexer(inputCols=["s", "s2"], outputCols=["s_at", "p_at"], handleInvalid="keep"),
        StringIndexer(inputCol="k", outputCol="k_at", handleInvalid="keep", stringOrderType="alphabetAsc"),
        StringIndexer(inputCols=["x", "f"], outputCols=["x_at", "f_at"], handleInvalid="keep"),
        OneHotEncoder(inputCols=["s_at", "k_at"], outputCols=["s_hot", "k_hot"], handleInvalid="keep"),
        OneHotEncoder(inputCol="s_at", outputCol="s_all", dropLast=False, handleInvalid="keep"),
        OneHotEncoder(inputCol="p_at", outputCol="p_hot"),
        Imputer(inputCols=["k", "f"], outputCols=["k_mean", "f_mean"]),
        Imputer(
            inputCols=["k", "f"], outputCols=["k_median", "f_median"], strategy="median", missingValue=2.0
        ),
        Imputer(inputCols=["k", "f"], outputCols=["k_mode", "f_mode"], strategy="mode"),
        Binarizer(inputCol="x", outputCol="x_above", threshold=0.1),
        Binarizer(inputCols=["x", "y"], outputCols=["x_over", "y_over"], thresholds=[-1.0, 0.0]),
        Bucketizer(inputCol="x", outputCol="x_bucket", splits=SPLITS, handleInvalid="keep"),
        Bucketizer(
            inputCols=["y", "k"],
            outputCols=["y_bucket", "k_bucket"],
            splitsArray=[SPLITS, SPLITS],
            handleInvalid="keep",
        ),
        VectorAssembler(
            inputCols=["x", "p", "s_hot", "x_bucket", "y_bucket", "k_bucket", "f"],
            outputCol="all",
            handleInvalid="keep",
        ),
    )
    added = model.transform(edges.limit(1)).columns[len(edges.columns) :]
    # These hand a null on, which no tensor takes; in the vector it is nan.
    chosen = [name for name in added if not name.endswith("_bucket")]
    fitted = check(model, edges, schema=edges, outputs=chosen)
    assert fitted.outputs["k_mean"].type.bits == 32
    assert fitted.outputs["s_hot"].type.length == len(model.stages[0].labelsArray[0]) + 1


def test_vectors_of_every_kind(edges) -> None:
    assembler = VectorAssembler(inputCols=["x", "y", "k"], outputCol="v", handleInvalid="keep")
    learned = edges.filter("abs(x) < 10 and abs(y) < 10 and k is not null")
    assert learned.count() > 5
    model = fit(
        learned,
        assembler,
        Normalizer(inputCol="v", outputCol="n1", p=1.0),
        Normalizer(inputCol="v", outputCol="n2"),
        Normalizer(inputCol="v", outputCol="n3", p=3.0),
        Normalizer(inputCol="v", outputCol="n_max", p=INF),
        StandardScaler(inputCol="v", outputCol="standard", withMean=True),
        StandardScaler(inputCol="v", outputCol="only_std"),
        StandardScaler(inputCol="v", outputCol="only_mean", withMean=True, withStd=False),
        StandardScaler(inputCol="v", outputCol="untouched", withStd=False),
        MinMaxScaler(inputCol="v", outputCol="ranged", min=-1.0, max=3.0),
        MaxAbsScaler(inputCol="v", outputCol="abs"),
        RobustScaler(inputCol="v", outputCol="robust", withCentering=True),
        RobustScaler(inputCol="v", outputCol="middle", withCentering=True, withScaling=False),
        RobustScaler(inputCol="v", outputCol="spread"),
        ElementwiseProduct(inputCol="v", outputCol="product", scalingVec=Vectors.dense([2.0, 0.0, -0.5])),
        PolynomialExpansion(inputCol="v", outputCol="poly", degree=3),
        VectorSlicer(inputCol="v", outputCol="slice", indices=[2, 0]),
        Binarizer(inputCol="v", outputCol="above", threshold=0.5),
        Binarizer(inputCol="v", outputCol="above_negative", threshold=-0.5),
    )
    sums = ("n1", "n2", "n3", "n_max")
    fitted = check(model, edges, sums, schema=edges)
    assert fitted.inputs.keys() == {"x", "y", "k"}


def test_columns_that_never_change(plain) -> None:
    assembler = VectorAssembler(inputCols=["same", "a"], outputCol="v", handleInvalid="keep")
    model = fit(
        plain,
        assembler,
        StandardScaler(inputCol="v", outputCol="standard", withMean=True),
        MinMaxScaler(inputCol="v", outputCol="ranged"),
        RobustScaler(inputCol="v", outputCol="robust"),
        MaxAbsScaler(inputCol="v", outputCol="abs"),
    )
    other = plain.withColumn(
        "same", F.expr("element_at(array(4D, 5D, 'nan', 'inf', '-inf', 0D), int(c * 7) % 6 + 1)")
    )
    check(model, other)


def test_products_and_projections(plain) -> None:
    model = fit(
        plain,
        StringIndexer(inputCol="s", outputCol="s_at", handleInvalid="keep"),
        Bucketizer(inputCol="c", outputCol="bucket", splits=[0.0, 2.0, 4.0, 100.0]),
        OneHotEncoder(inputCol="s_at", outputCol="hot"),
        VectorAssembler(inputCols=["a", "b", "c"], outputCol="v"),
        Interaction(inputCols=["s_at", "v"], outputCol="i1"),
        Interaction(inputCols=["v", "a", "hot"], outputCol="i2"),
        Interaction(inputCols=["a", "bucket", "s_at"], outputCol="i3"),
        Interaction(inputCols=["a", "b"], outputCol="i4"),
        PCA(k=2, inputCol="v", outputCol="two"),
        PCA(k=1, inputCol="i1", outputCol="one"),
        PolynomialExpansion(inputCol="v", outputCol="poly"),
    )
    check(model, plain, ("two", "one"))


def test_interaction_with_what_is_not_finite(plain) -> None:
    odd = plain.withColumn("a", F.expr("element_at(array(1D, 'nan', 'inf', 0D), int(c * 7) % 4 + 1)"))
    model = fit(
        plain,
        StringIndexer(inputCol="s", outputCol="s_at"),
        OneHotEncoder(inputCol="s_at", outputCol="hot"),
        Interaction(inputCols=["s_at", "a"], outputCol="i1"),
        Interaction(inputCols=["a", "hot"], outputCol="i2"),
    )
    check(model, odd)


def test_quantile_discretizer(plain) -> None:
    model = fit(
        plain,
        QuantileDiscretizer(inputCol="a", outputCol="a_bin", numBuckets=4),
        QuantileDiscretizer(
            inputCols=["b", "c"], outputCols=["b_bin", "c_bin"], numBuckets=3, handleInvalid="keep"
        ),
    )
    check(model, plain)


def variant(model: Any, name: str, settings: dict[str, Any]) -> Any:
    """A fitted classifier with other settings, and columns of its own."""
    names = {f"{part}Col": f"{name}_{part}" for part in ("rawPrediction", "probability", "prediction")}
    return model.copy({model.getParam(key): value for key, value in (names | settings).items()})


def test_linear_models(plain) -> None:
    assembler = VectorAssembler(inputCols=["a", "b", "c"], outputCol="v", handleInvalid="keep")
    rows = assembler.transform(plain).cache()
    estimator = LogisticRegression(featuresCol="v", labelCol="y2", maxIter=3)
    two, three = estimator.fit(rows), estimator.copy({estimator.labelCol: "y3"}).fit(rows)
    both = estimator.copy({estimator.family: "multinomial"}).fit(rows)
    assert both.coefficientMatrix.numRows == 2
    logistic = {
        "auto": (two, {}),
        "high": (two, {"threshold": 0.7}),
        "always": (two, {"threshold": 0.0}),
        "never": (two, {"threshold": 1.0}),
        "pair": (two.copy({two.thresholds: [0.4, 0.6]}), {}),
        "by_probability": (two, {"threshold": 0.55, "rawPredictionCol": ""}),
        "alone": (two, {"rawPredictionCol": "", "probabilityCol": ""}),
        "many": (three, {}),
        "weighted": (three, {"thresholds": [0.2, 0.5, 0.0]}),
        "unprobable": (three, {"rawPredictionCol": "", "probabilityCol": "", "thresholds": [0.1, 0.5, 0.4]}),
        "multinomial": (both, {}),
    }
    line = LinearRegression(featuresCol="v", labelCol="c", predictionCol="line", regParam=0.1).fit(rows)
    model = PipelineModel(
        [assembler, line, *(variant(one, name, more) for name, (one, more) in logistic.items())]
    )
    parts = ("rawPrediction", "probability")
    sums = ("line", *(f"{name}_{part}" for name in logistic for part in parts))
    fitted = check(model, plain, sums)
    assert fitted.outputs["many_probability"].type.length == 3
    assert "" not in fitted.outputs
    # What overflows, and nan: one class takes all, or nothing is known.
    wild = plain.limit(8).withColumn(
        "a", F.expr("element_at(array('nan', 1e300D, -1e300D, 1e6D), int(c * 7) % 4 + 1)")
    )
    check(model, wild, sums)


def test_a_whole_pipeline_serves_from_its_file(edges, tmp_path) -> None:
    rows = edges.withColumn("label", F.expr("double(coalesce(abs(k), 0) > 1)")).filter("learned")
    model = fit(
        rows,
        StringIndexer(inputCol="s", outputCol="at", handleInvalid="keep"),
        OneHotEncoder(inputCol="at", outputCol="hot"),
        Imputer(inputCol="f", outputCol="full", strategy="median"),
        VectorAssembler(inputCols=["hot", "full"], outputCol="raw_features"),
        StandardScaler(inputCol="raw_features", outputCol="features", withMean=True),
        LogisticRegression(maxIter=5),
    )
    outputs = ["probability", "prediction"]
    fitted = check(model, edges, ("probability",), outputs=outputs, schema={"f": "float32"})
    assert {name: str(of) for name, of in fitted.inputs.items()} == {"s": "string", "f": "float32"}
    fitted.save(tmp_path / "model.json")
    again = load_recipe(tmp_path / "model.json")
    request = {"s": ["a", None, "unseen"], "f": [None, NAN, 2.5]}
    assert again.arrow(request).to_pydict() == fitted.arrow(request).to_pydict()
    assert again.arrow({"s": ["a"], "f": [0.5]})["prediction"].to_pylist() in ([0.0], [1.0])


def test_numbers_serve_on_tensors(plain) -> None:
    import torch

    model = fit(
        plain,
        VectorAssembler(inputCols=["a", "b"], outputCol="v"),
        MinMaxScaler(inputCol="v", outputCol="ranged"),
        LogisticRegression(featuresCol="ranged", labelCol="y3", maxIter=3),
    )
    fitted = from_mllib(model)
    table = plain.select("a", "b").toArrow()
    expected = fitted.arrow(table).to_pydict()
    columns = {name: torch.tensor(table[name].to_pylist(), dtype=torch.float64) for name in ("a", "b")}
    # Exported before anything is computed: what is made while it is traced must not stay.
    exported = torch.export.export(fitted.module(), (columns,)).module()
    assert close(expected["probability"], exported(columns)[0]["probability"].tolist(), 1e-12)
    got = fitted.torch(columns)
    assert all(
        close(expected[name], got[name].tolist(), 1e-12)
        for name in ("ranged", "rawPrediction", "probability", "prediction")
    )


def test_vectors_come_as_arrays_or_as_they_are(spark, plain) -> None:
    vectors = VectorAssembler(inputCols=["a", "b", "c"], outputCol="v").transform(plain)
    model = StandardScaler(inputCol="v", outputCol="scaled").fit(vectors)
    fitted = from_mllib(model)
    assert {name: str(of) for name, of in fitted.inputs.items()} == {"v": "list<float64>[3]"}
    expected = flat(model.transform(vectors), ["scaled"])
    arrays = vectors.select(vector_to_array("v").alias("v"))
    assert fitted.arrow(arrays.toArrow()).to_pydict() == expected
    assert fitted.transform(arrays).toArrow().to_pydict() == expected
    assert from_mllib(model, schema=arrays).arrow(arrays.toArrow()).to_pydict() == expected
    assert from_mllib(model, schema=vectors).transform(vectors).toArrow().to_pydict() == expected
    embedded = VectorAssembler(inputCols=["a", "v"], outputCol="w")
    both = from_mllib(embedded, schema={"v": "list<float64>[3]"})
    rows = plain.select("a").join(spark.createDataFrame([([1.0, 2.0, 3.0],)], "v array<double>"))
    served = both.transform(rows).toArrow().to_pydict()
    assert served == flat(embedded.transform(rows.withColumn("v", array_to_vector("v"))), ["w"])
    with pytest.raises(ExpressionError, match=r"length of the vectors in column 'v' is not known"):
        from_mllib(Normalizer(inputCol="v", outputCol="o"), schema=vectors)
    with pytest.raises(ExpressionError, match="fitted on vectors of 3 elements, and column 'w' has 2"):
        from_mllib(
            PipelineModel(
                [VectorAssembler(inputCols=["a", "b"], outputCol="w"), model.copy({model.inputCol: "w"})]
            )
        )


def test_output_goes_into_estimators_of_mllib(plain) -> None:
    fitted = from_mllib(
        fit(
            plain,
            VectorAssembler(inputCols=["a", "b", "c"], outputCol="v"),
            StandardScaler(inputCol="v", outputCol="features", withMean=True),
        ),
        outputs=["features"],
    )
    ready = fitted.transform(plain, keep=["y2"], vector=True)
    model = LogisticRegression(labelCol="y2", maxIter=3).fit(ready)
    assert model.numFeatures == 3
    again = from_mllib(model)
    scores = again.arrow(fitted.arrow(plain.select("a", "b", "c").toArrow())).to_pydict()
    assert close(flat(model.transform(ready), ["probability"])["probability"], scores["probability"], 1e-12)


STRICT = {
    "an unseen label": ("s", "unseen", r"column 's' holds a null, or a label .* handleInvalid is \"error\""),
    "a null label": ("s", None, r"column 's' holds a null, or a label"),
    "nan in a bucket": ("x", NAN, r"column 'x' holds nan, or a value outside of 0.0 to 10.0"),
    "out of bounds": ("x", 10.5, r"column 'x' holds nan, or a value outside of 0.0 to 10.0"),
    "the other zero": ("x", -0.0, r"column 'x' holds nan, or a value outside of 0.0 to 10.0"),
    "no category": ("k", 3.0, r"column 'k' holds a value that is none of the 3 categories .* \"error\""),
    "nan as a category": ("k", NAN, r"column 'k' holds a value that is none of the 3 categories"),
    "null in a vector": ("z", None, r"column 'z' holds a null or nan, and the VectorAssembler of 'v'"),
    "nan in a vector": ("z", NAN, r"column 'z' holds a null or nan, and the VectorAssembler of 'v'"),
    "null to interact": ("i", None, r"column 'i' holds a null, and the Interaction"),
    "null in a tensor": ("x", None, r"a null reached tensor 'bucket'"),
}


def test_what_mllib_raises_for_raises_here(spark) -> None:
    kinds = "s string, x double, k double, z double, i double"
    rows = [("a", 1.0, 0.0, 1.0, 1.0), ("b", 10.0, 2.0, -5.0, 2.0)]
    good = spark.createDataFrame(rows, kinds)
    model = fit(
        good,
        StringIndexer(inputCol="s", outputCol="at"),
        Bucketizer(inputCol="x", outputCol="bucket", splits=[0.0, 1.0, 10.0]),
        OneHotEncoder(inputCol="k", outputCol="hot"),
        VectorAssembler(inputCols=["z", "at"], outputCol="v"),
        Interaction(inputCols=["i", "z"], outputCol="crossed"),
    )
    fitted = check(model, good)
    for place, (name, value, message) in enumerate(STRICT.values()):
        request = {column: [row[at] for row in rows] for at, column in enumerate(fitted_names(kinds))}
        request[name] = [value, request[name][1]]
        with pytest.raises(NullReached, match=message):
            fitted.arrow(request)
        if place in (0, 8):  # jobs of their own
            bad = good.withColumn(name, F.lit(value).cast("string" if name == "s" else "double"))
            with pytest.raises(Exception, match=message):
                fitted.transform(bad).collect()
            with pytest.raises(Exception, match=r"Unseen|NaN"):
                model.transform(bad).collect()


def fitted_names(kinds: str) -> list[str]:
    return re.findall(r"(\w+) \w+", kinds)


def test_refusals_name_every_stage(plain) -> None:
    model = fit(
        plain,
        StringIndexer(inputCol="s", outputCol="at", handleInvalid="skip"),
        IndexToString(inputCol="at", outputCol="back", labels=["x", "y", "z"]),
        OneHotEncoder(inputCol="at", outputCol="hot"),
        Tokenizer(inputCol="s", outputCol="words"),
        FeatureHasher(inputCols=["s", "a"], outputCol="hashed", numFeatures=8),
        VectorAssembler(inputCols=["a", "b"], outputCol="v", handleInvalid="skip"),
        KMeans(featuresCol="v", predictionCol="cluster", k=2, maxIter=1),
    )
    with pytest.raises(ExpressionError) as caught:
        from_mllib(model)
    lines = str(caught.value).splitlines()
    assert lines[0] == "6 of the 7 stages cannot become expressions:"
    assert [re.match(r"  stage (\d), (\w+): ", line).groups() for line in lines[1:]] == [
        ("0", "StringIndexerModel"),
        ("1", "IndexToString"),
        ("3", "Tokenizer"),
        ("4", "FeatureHasher"),
        ("5", "VectorAssembler"),
        ("6", "KMeansModel"),
    ]
    assert 'handleInvalid="skip" drops rows' in lines[1]
    assert "murmur3" in lines[4]
    assert "none of those that are known: Binarizer, Bucketizer, " in lines[6]


def test_requests_that_cannot_be_met(plain) -> None:
    binarizer = Binarizer(inputCol="a", outputCol="above")
    searched = TrainValidationSplitModel(PipelineModel([PipelineModel([binarizer])]))
    assert list(from_mllib(searched).tensors) == ["above"]
    with pytest.raises(ExpressionError, match=r"no column 'abov'. Close to it: 'above'"):
        from_mllib(binarizer, outputs=["abov"])
    with pytest.raises(ExpressionError, match="no output is left"):
        from_mllib(binarizer, outputs=[])
    with pytest.raises(ExpressionError, match="not fitted yet"):
        from_mllib(StringIndexer(inputCol="s", outputCol="at"))
    with pytest.raises(ExpressionError, match=r"takes a fitted model of pyspark.ml, and this is dict"):
        from_mllib({})
    with pytest.raises(ExpressionError, match="schema is int"):
        from_mllib(binarizer, schema=3)
    indexer = StringIndexer(inputCol="a", outputCol="at").fit(plain)
    with pytest.raises(ExpressionError, match=r"column 'a' is string, and must be a number.*schema=\{'a'"):
        from_mllib(PipelineModel([indexer, binarizer]))
    check(PipelineModel([indexer, binarizer]), plain, schema=plain)
    with pytest.raises(ExpressionError, match="by name"):
        from_mllib(VectorSlicer(inputCol="v", outputCol="o", names=["a"]), schema={"v": "list<float64>[3]"})
    with pytest.raises(ExpressionError, match="without elements"):
        from_mllib(
            OneHotEncoder(inputCol="same0", outputCol="o").fit(
                plain.select((F.col("same") * 0).alias("same0"))
            )
        )
    with pytest.raises(ExpressionError, match="terms"):
        from_mllib(
            PolynomialExpansion(inputCol="v", outputCol="o", degree=4), schema={"v": "list<float64>[100]"}
        )


@pytest.mark.long
def test_models_fitted_over_connect() -> None:
    script = Path(__file__).with_name("mllib_over_connect.py")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stdout.strip().endswith("all well"), done.stdout[-2000:] + done.stderr[-4000:]
