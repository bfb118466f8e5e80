"""Linear models: LinearRegression and LogisticRegression, with the columns they add."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from penstock.expr.build import stack, when
from penstock.expr.nodes import Expression
from penstock.recipe.mllib.columns import Columns, Refused


def _linear_regression(stage: Any, columns: Columns) -> None:
    weights = stage.coefficients.toArray().tolist()
    x, _ = columns.vector(stage.getFeaturesCol(), len(weights))
    _put(columns, stage.getPredictionCol(), x.linear([weights], [float(stage.intercept)]).element(0))


def _logistic_regression(stage: Any, columns: Columns) -> None:
    weights, bias = stage.coefficientMatrix.toArray().tolist(), stage.interceptVector.toArray().tolist()
    x, _ = columns.vector(stage.getFeaturesCol(), len(weights[0]))
    if len(weights) > 1:
        raw = x.linear(weights, bias)
        probability = raw.softmax()
        prediction = _most_likely(stage, raw, probability)
    elif stage.getFamily() == "multinomial":
        raise Refused('its family is "multinomial" and it has seen one class only. Fit it as "binomial"')
    else:
        margin = x.linear(weights, bias).element(0)
        raw = stack(-margin, margin)
        first = 1.0 / (1.0 + margin.exp())
        probability = stack(first, 1.0 - first)
        prediction = _above_threshold(stage, margin, probability)
    _put(columns, stage.getRawPredictionCol(), raw)
    _put(columns, stage.getProbabilityCol(), probability)
    _put(columns, stage.getPredictionCol(), prediction)


def _most_likely(stage: Any, raw: Expression, probability: Expression) -> Expression:
    if not stage.isDefined("thresholds"):
        return raw.list_argmax().cast("float64")
    return probability.each("divide", stage.getThresholds()).list_argmax().cast("float64")


def _above_threshold(stage: Any, margin: Expression, probability: Expression) -> Expression:
    """1 above the threshold; asked of the margin, or of the probability where there is no column of margins."""
    threshold = stage.getThreshold()
    if not stage.getRawPredictionCol():
        second = probability.element(1) if stage.getProbabilityCol() else 1.0 / (1.0 + (-margin).exp())
        return _one_where(second > threshold, margin)
    if threshold in (0.0, 1.0):
        return _one_where(margin > (-math.inf if threshold == 0.0 else math.inf), margin)
    return _one_where(margin > math.log(threshold / (1.0 - threshold)), margin)


def _one_where(condition: Expression, margin: Expression) -> Expression:
    """1 or 0; null where there is no margin, so that a null is not taken for a score."""
    return when(margin.is_null(), margin).when(condition, 1.0).otherwise(0.0)


def _put(columns: Columns, name: str, tree: Expression) -> None:
    if name:
        columns.put(name, tree)


STAGES: dict[str, Callable[[Any, Columns], None]] = {
    "LinearRegressionModel": _linear_regression,
    "LogisticRegressionModel": _logistic_regression,
}
