"""Run by test_mllib.py in a process of its own: models that were fitted over Spark Connect."""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import (
    PCA,
    Binarizer,
    Bucketizer,
    ElementwiseProduct,
    Imputer,
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
    VectorAssembler,
    VectorSlicer,
)
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import LinearRegression
from test_mllib import check

import penstock as pk


def main() -> None:
    spark = pk.session(remote="local[2]", memory="1g")
    rows = [("ab"[i % 2], math.sin(i), None if i % 5 == 0 else float(i % 7), float(i % 3)) for i in range(40)]
    df = spark.createDataFrame(rows, "s string, a double, b double, y double")
    model = Pipeline(
        stages=[
            StringIndexer(inputCol="s", outputCol="at", handleInvalid="keep"),
            OneHotEncoder(inputCol="at", outputCol="hot"),
            Imputer(inputCol="b", outputCol="full"),
            Bucketizer(inputCol="a", outputCol="bucket", splits=[-math.inf, 0.0, 0.5, math.inf]),
            QuantileDiscretizer(inputCol="a", outputCol="quantile", numBuckets=3),
            Binarizer(inputCol="a", outputCol="above", threshold=0.1),
            VectorAssembler(inputCols=["a", "full", "hot"], outputCol="v"),
            StandardScaler(inputCol="v", outputCol="standard", withMean=True),
            MinMaxScaler(inputCol="v", outputCol="ranged"),
            MaxAbsScaler(inputCol="v", outputCol="abs"),
            RobustScaler(inputCol="v", outputCol="robust"),
            Normalizer(inputCol="v", outputCol="normal"),
            ElementwiseProduct(inputCol="v", outputCol="product", scalingVec=Vectors.dense([1, 2, 3, 4])),
            PolynomialExpansion(inputCol="v", outputCol="poly"),
            Interaction(inputCols=["at", "v"], outputCol="crossed"),
            VectorSlicer(inputCol="v", outputCol="slice", indices=[1]),
            PCA(k=2, inputCol="v", outputCol="two"),
            LinearRegression(featuresCol="v", labelCol="a", predictionCol="line", regParam=0.1),
            LogisticRegression(featuresCol="standard", labelCol="y", maxIter=2),
        ]
    ).fit(df)
    check(model, df, ("normal", "two", "line", "rawPrediction", "probability"))
    spark.stop()
    print("all well")


if __name__ == "__main__":
    main()
