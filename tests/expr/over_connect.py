"""Run by test_programs.py in a process of its own: every operation once, and a recipe, over Spark Connect."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "recipe"))

from expr_cases import CASES, TABLES
from expr_compare import by_arrow, by_spark, differences
from recipe_data import everything, made

import penstock as pk
from penstock.expr.ops import TABLE


def check_recipe(spark) -> None:
    """Fitted here and without Spark it has learned the same keys, and computes the same."""
    table = made(500)
    df = spark.createDataFrame(table).coalesce(1)
    fitted, plain = everything().fit(df), everything().fit(table)
    assert repr(fitted.tensors["tokens"]) == repr(plain.tensors["tokens"])
    assert fitted.outputs == plain.outputs
    assert repr(fitted.transform(df).toArrow()["cat"].to_pylist()) == repr(
        fitted.arrow(table)["cat"].to_pylist()
    )


def main() -> None:
    spark = pk.session(remote="local[2]", memory="1g")
    seen: set[str] = set()
    for table in (name for name in TABLES if name != "ragged"):
        cases = []
        for case in (case for case in CASES if case.table == table):
            if case.ops - seen:
                cases.append(case)
                seen |= case.ops
        expected, got = by_arrow(cases, table), by_spark(spark, cases, table)
        for i, case in enumerate(cases):
            wrong = differences(case, expected[f"c{i}"].to_pylist(), got[f"c{i}"])
            assert wrong == [], wrong[:5]
    assert sorted(set(TABLE) - seen) == []
    check_recipe(spark)
    spark.stop()
    print("all well")


if __name__ == "__main__":
    main()
