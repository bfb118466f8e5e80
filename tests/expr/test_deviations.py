"""The conformance suite must fail if an engine deviates: engines are broken here, one operation at a time.

Kernels of torch are shifted by the least a tier does not forgive. Spark's guards are replaced by what one would write
without them, and every one of these has to be noticed.
"""

from __future__ import annotations

import pytest
import torch
from expr_cases import CASES, SCHEMAS
from expr_compare import by_arrow, by_spark, differences, from_tensor, numbered, torch_columns

from penstock.backends import engine
from penstock.backends.spark.columns import double, spelled
from penstock.backends.spark.functions import F
from penstock.backends.torch.values import Value
from penstock.expr.ops import TABLE

BROKEN = [
    (op, table)
    for op in TABLE
    for table in ("numbers", "times", "fixed")
    if any(op in case.ops and case.table == table and case.tier == TABLE[op].tier for case in CASES)
]


def shifted(kernel, tier: str):
    def broken(site, *args):
        value = kernel(site, *args)
        values = value.values
        if values.dtype == torch.bool:
            return Value(~values, value.valid, value.items)
        if not values.dtype.is_floating_point:
            return Value(values + 1, value.valid, value.items)
        steps = {"EXACT": 1, "ULP": 8, "SUM": 200}[tier]
        bits = values.contiguous().view(torch.int64) + steps
        return Value(bits.view(torch.float64), value.valid, value.items)

    return broken


@pytest.mark.parametrize(("op", "table"), BROKEN)
def test_a_shifted_kernel_is_noticed(op: str, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = TABLE[op].tier
    cases = [case for case in CASES if case.table == table and op in case.ops and case.tier == tier][:3]
    expected = by_arrow(cases, table)
    monkeypatch.setitem(engine("torch").TABLE, op, shifted(engine("torch").TABLE[op], tier))
    program = engine("torch").prepare(numbered(cases), SCHEMAS[table])
    got = program(torch_columns(table))
    found = [
        line
        for i, case in enumerate(cases)
        for line in differences(
            case, expected[f"c{i}"].to_pylist(), from_tensor(*got[f"c{i}"], program.types[f"c{i}"])
        )
    ]
    assert found


def plainly(function):
    return lambda site, *args: function(*(double(x, of) for x, of in zip(args, site.types, strict=True)))


NAIVE = {
    "eq": plainly(lambda a, b: a == b),
    "ne": plainly(lambda a, b: a != b),
    "lt": plainly(lambda a, b: a < b),
    "le": plainly(lambda a, b: a <= b),
    "gt": plainly(lambda a, b: a > b),
    "ge": plainly(lambda a, b: a >= b),
    "divide": plainly(F.try_divide),
    "log": plainly(F.log),
    "log1p": plainly(F.log1p),
    "log10": plainly(F.log10),
    "pow": plainly(F.pow),
    "minimum": plainly(lambda *x: F.least(*x) if len(x) > 1 else x[0]),
    "maximum": plainly(lambda *x: F.greatest(*x) if len(x) > 1 else x[0]),
    "floor": plainly(lambda x: F.when(F.abs(x) < 1e15, F.floor(x).cast("double")).otherwise(x)),
    "ceil": plainly(lambda x: F.when(F.abs(x) < 1e15, F.ceil(x).cast("double")).otherwise(x)),
    "round": plainly(lambda x: F.round(x)),
    "clip": lambda site, x: F.least(F.greatest(x, F.lit(site.params["low"])), F.lit(site.params["high"])),
    "cast": lambda site, x: x.try_cast(spelled(site.type)),
}


def test_spark_without_its_guards_is_noticed(spark, monkeypatch: pytest.MonkeyPatch) -> None:
    for op, kernel in NAIVE.items():
        monkeypatch.setitem(engine("spark").TABLE, op, kernel)
    a, b = "col('a')", "col('b')"
    chosen = {
        op: next(
            case
            for case in CASES
            if case.table == "numbers"
            and case.ops == {op}
            and a in repr(case.expression)
            and "lit" not in case.name
            and (op in UNARY or b in repr(case.expression))
            and (op != "cast" or "int64" in case.name)
        )
        for op in NAIVE
    }
    cases = list(chosen.values())
    expected = by_arrow(cases, "numbers")
    got = by_spark(spark, cases, "numbers")
    unnoticed = [
        op
        for i, (op, case) in enumerate(chosen.items())
        if not differences(case, expected[f"c{i}"].to_pylist(), got[f"c{i}"])
    ]
    assert unnoticed == []


UNARY = {"log", "log1p", "log10", "floor", "ceil", "round", "clip", "cast"}
