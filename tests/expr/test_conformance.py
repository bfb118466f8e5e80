"""Every operation, on edge values, by every engine: Arrow says what it means, Spark and torch have to agree.

EXACT operations agree bit for bit, the sign of a zero included; ULP ones within 4 units in the last place; SUM ones
relative to the sum of absolute values. `expr_cases` is the table of cases.
"""

from __future__ import annotations

from random import Random

import pytest
import torch
from expr_cases import CASES, SCHEMAS, TABLES, Case
from expr_compare import by_arrow, by_spark, by_torch, differences

from penstock.backends import engine
from penstock.errors import UnsupportedOperation
from penstock.expr.build import coalesce, col, lit, maximum, minimum, when
from penstock.expr.nodes import Expression
from penstock.expr.ops import TABLE
from penstock.expr.ops import texts as text_ops


def on(table: str) -> list[Case]:
    return [case for case in CASES if case.table == table]


def test_every_operation_has_a_case() -> None:
    assert sorted(set(TABLE) - {op for case in CASES for op in case.ops}) == []


def test_every_engine_answers_for_every_operation() -> None:
    for name in ("arrow", "spark", "torch"):
        assert sorted(set(TABLE) ^ set(engine(name).TABLE)) == [], name


@pytest.mark.parametrize("table", list(TABLES))
def test_spark_agrees(spark, table: str) -> None:
    cases = on(table)
    expected, got = by_arrow(cases, table), by_spark(spark, cases, table)
    wrong = [
        line
        for i, case in enumerate(cases)
        for line in differences(case, expected[f"c{i}"].to_pylist(), got[f"c{i}"])
    ]
    assert wrong == []


ROUNDINGS = ["abs", "sign", "round", "floor", "ceil"]


def grown(random: Random, depth: int) -> Expression:
    """A random tree of exact operations on the numbers."""
    if depth == 0:
        return random.choice(
            [col("a"), col("b"), col("f"), col("i64"), col("i8"), lit(2), lit(-0.0), lit(0.1)]
        )
    x, y, z = (grown(random, depth - 1 - random.randrange(depth)) for _ in range(3))
    return random.choice(
        [
            lambda: x + y,
            lambda: x - y,
            lambda: x * y,
            lambda: x / y,
            lambda: -x,
            lambda: getattr(x, random.choice(ROUNDINGS))(),
            lambda: minimum(x, y, z),
            lambda: maximum(x, y),
            lambda: coalesce(x, y),
            lambda: x.clip(-3, 1e9),
            lambda: x.bucketize([-1, 0, 2.5]),
            lambda: x.cast(random.choice(["float32", "int16", "int64", "float16"])),
            lambda: x.fill(7).cast("float64").hash(1000),
            lambda: when(
                random.choice([x < y, x == y, x >= z, (x != y) & (y > z), x.is_nan() | y.is_null()]), x
            ).otherwise(z),
        ]
    )()


def test_spark_agrees_on_random_trees(spark) -> None:
    random = Random(5)
    cases = [Case("numbers", grown(random, 5) + 0) for _ in range(60)]
    assert {case.tier for case in cases} == {"EXACT"}
    expected, got = by_arrow(cases, "numbers"), by_spark(spark, cases, "numbers")
    wrong = [
        line
        for i, case in enumerate(cases)
        for line in differences(case, expected[f"c{i}"].to_pylist(), got[f"c{i}"])
    ]
    assert wrong == []


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("table", ["numbers", "times", "fixed"])
def test_torch_agrees(table: str, device: str) -> None:
    cases = on(table)
    results = by_torch(cases, table, device)
    wrong = [line for case, pair in zip(cases, results, strict=True) for line in differences(case, *pair)]
    assert wrong == []


@pytest.mark.parametrize("op", [op.name for op in text_ops.OPS if op.name != "hash"])
def test_torch_says_why_it_has_no_texts(op: str) -> None:
    case = next(case for case in on("texts") if op in case.ops)
    with pytest.raises(UnsupportedOperation, match="tensors hold no texts"):
        engine("torch").prepare({"x": case.expression}, SCHEMAS["texts"])
