"""The corpus: what is lifted agrees with Python on edge and random values, on Arrow and on Spark; the rest says why."""

from __future__ import annotations

import re

import pytest
from corpus import FUNCTIONS
from lift_compare import spark_differences

from penstock.backends.verify import compared, rows_for
from penstock.lifted import Lifted, lift

LEAST_SHARE = 0.75
ROWS = 400
REFUSED = {
    "strip_accents_marker": r"re\.sub\(\) has no exact expression",
    "tidy_name": r"str\.title\(\) has no exact expression",
    "hash_bucket": r"hash\(\) has no exact expression",
    "json_field": r"json\.loads\(\) has no exact expression",
    "roman_to_int": r"reversed\(\) goes through a value that differs from row to row",
    "hex_to_int": r"int\(\) with 2 arguments",
    "iso_label": r"datetime\.date\.strftime\(\) has no exact expression",
    "parse_day": r"strptime\(\)",
    "capital_share": r"a comprehension goes through a value that differs from row to row",
    "caesar": r"a comprehension goes through a value that differs from row to row",
    "collatz_steps": r"while loops have no expression",
    "gcd": r"while loops have no expression",
    "poisson_pmf": r"math\.factorial\(\) has no exact expression",
}
"""The functions that are not lifted, and the reason each of them has to be given."""


@pytest.fixture(scope="module")
def lifted() -> dict[str, Lifted]:
    return {name: lift(function) for name, function in FUNCTIONS.items()}


def test_the_share_that_is_lifted(lifted: dict[str, Lifted]) -> None:
    native = [name for name, one in lifted.items() if one.plan.tier == "native"]
    share = len(native) / len(lifted)
    print(f"{len(native)} of {len(lifted)} functions are lifted: {share:.0%}")
    assert len(lifted) >= 120
    assert share >= LEAST_SHARE
    assert sorted(set(lifted) - set(native)) == sorted(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_gives_the_right_reason(name: str, lifted: dict[str, Lifted]) -> None:
    refusal = lifted[name].plan.refusal
    assert refusal is not None
    assert re.search(REFUSED[name], refusal.reason)
    assert refusal.line > 1
    assert refusal.advice


def test_arrow_agrees_with_python(lifted: dict[str, Lifted]) -> None:
    wrong, declined, rows = [], 0, 0
    for name, one in lifted.items():
        if one.body is not None:
            verdict = compared(one.body, one.body.function, rows_for(one.body, ROWS), seconds=30)
            wrong += [f"{name}: {difference}" for difference in verdict.differences]
            declined, rows = declined + verdict.declined, rows + verdict.rows
    assert wrong == []
    assert declined < rows / 20, "most rows have to be computed, not declined"


def test_spark_agrees_with_arrow(spark, lifted: dict[str, Lifted]) -> None:
    """One job a function: together they take longer, because Java compiles long methods slowly or not at all."""
    wrong = []
    for name, one in lifted.items():
        if one.body is not None:
            wrong += spark_differences(spark, {name: one.body}, 60)
    assert wrong == []
