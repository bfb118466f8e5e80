"""Scoring: logistic, risk points, weighted sums, rankings."""

from __future__ import annotations

import math

import numpy as np

WEIGHTS = (0.5, 0.3, 0.2)
INTERCEPT = -1.25


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def stable_sigmoid(x: float) -> float:
    if x >= 0:
        z = math.exp(-x)
        return 1 / (1 + z)
    z = math.exp(x)
    return z / (1 + z)


def weighted(a: float, b: float, c: float) -> float:
    return INTERCEPT + WEIGHTS[0] * a + WEIGHTS[1] * b + WEIGHTS[2] * c


def weighted_loop(a: float, b: float, c: float) -> float:
    total = 0.0
    for w, x in zip(WEIGHTS, (a, b, c)):  # noqa: B905
        total += w * x
    return total


def risk_points(age: int, smoker: bool, bmi: float) -> int:
    points = 0
    if age > 60:
        points += 2
    elif age > 40:
        points += 1
    if smoker:
        points += 3
    if bmi >= 30:
        points += 1
    return points


def z_score(x: float, mean: float, std: float) -> float:
    return (x - mean) / std if std > 0 else 0.0


def log_odds(p: float) -> float:
    eps = 1e-9
    p = min(max(p, eps), 1 - eps)
    return math.log(p / (1 - p))


def f1(precision: float, recall: float) -> float:
    if precision + recall == 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def discount(price: float, quantity: int, member: bool) -> float:
    rate = 0.0
    if quantity >= 100:
        rate = 0.15
    elif quantity >= 10:
        rate = 0.05
    if member:
        rate += 0.02
    return round(price * quantity * (1 - rate), 2)


def huber(error: float) -> float:
    delta = 1.0
    if abs(error) <= delta:
        return 0.5 * error**2
    return delta * (abs(error) - 0.5 * delta)


def np_log_feature(x: float) -> float:
    return float(np.log1p(np.maximum(x, 0.0)))


def rmse_term(y: float, p: float) -> float:
    return np.sqrt((y - p) ** 2)


def elo_expected(a: int, b: int) -> float:
    return 1 / (1 + 10 ** ((b - a) / 400))


def compound(principal: float, rate: float, years: int) -> float:
    return principal * (1 + rate) ** years


def loan_payment(principal: float, annual_rate: float, months: int) -> float:
    r = annual_rate / 12
    if r == 0:
        return principal / months
    return principal * r * (1 + r) ** months / ((1 + r) ** months - 1)


def entropy(p: float) -> float:
    if p in (0, 1):
        return 0
    return -p * math.log2(p) - (1 - p) * math.log2(1 - p)


def rank_score(clicks: int, impressions: int) -> float:
    ctr = clicks / impressions if impressions else 0
    return ctr * math.log(1 + impressions)


def ordinal_quality(q: str) -> int:
    return {"Ex": 5, "Gd": 4, "TA": 3, "Fa": 2, "Po": 1}.get(q, 0)
