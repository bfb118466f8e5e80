"""The AUC: held against every pair counted, and against MLlib's evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DataError
from penstock.tools.demo.ranking import auc

ROW = st.tuples(st.booleans(), st.sampled_from([0.0, 0.25, 0.25 + 1e-9, 0.5, 1.0, -3.0]))


@given(st.lists(ROW, min_size=2, max_size=60).filter(lambda rows: len({label for label, _ in rows}) == 2))
def test_it_is_the_share_of_pairs_in_order(rows: list[tuple[bool, float]]) -> None:
    late = [score for label, score in rows if label]
    others = [score for label, score in rows if not label]
    won = sum((one > other) + 0.5 * (one == other) for one in late for other in others)
    labels, scores = (np.array(each) for each in zip(*rows, strict=True))
    assert auc(labels, scores) == pytest.approx(won / (len(late) * len(others)), abs=1e-12)


def test_it_is_what_mllib_says_without_bins(spark) -> None:
    from pyspark.ml.evaluation import BinaryClassificationEvaluator

    chance = np.random.default_rng(0)
    scores = (
        chance.normal(size=3000).round(2) + 0.0
    )  # with ties; Spark tells -0.0 from 0.0, and 0.0 is added for that
    labels = (scores + chance.normal(size=3000) > 0.5).astype(float)
    df = spark.createDataFrame(
        list(zip(labels.tolist(), scores.tolist(), strict=True)), "label double, score double"
    )
    exact = BinaryClassificationEvaluator(rawPredictionCol="score", numBins=0).evaluate(df)
    assert auc(labels, scores) == pytest.approx(exact, abs=1e-12)


def test_what_has_no_auc_says_why() -> None:
    with pytest.raises(DataError, match="of both classes, and of 3 rows 0 are of the first"):
        auc(np.zeros(3), np.arange(3.0))
    with pytest.raises(DataError, match="not a finite number"):
        auc(np.array([0, 1]), np.array([0.5, np.nan]))
