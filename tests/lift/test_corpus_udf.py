"""The corpus through `pk.udf` on Spark, three ways: plain Python, the tier chosen, and plain Python over Arrow."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator
from typing import Any

import corpus
import pyarrow as pa
import pytest
from corpus import FUNCTIONS
from lift_compare import close, ops_of

import penstock as pk
from penstock.backends import engine
from penstock.backends.edge_values import inputs
from penstock.backends.verify import _is_modest, _original, same
from penstock.expr.lift.forms import Form, signature_of
from penstock.expr.ops import TABLE
from penstock.jobs.udf import Udf
from penstock.jobs.udf_plan import ARROW, UdfPlan

ROWS = 40
LEAST_NATIVE = 0.75
OWN = {"hash_bucket"}
"""hash() of a text is another in every process, in Python too."""
SHORT = [name for name in FUNCTIONS if name not in OWN][::4]
"""What runs every time: a job takes a second, and all of them are run by `make test-long`."""


@pytest.fixture(scope="module", autouse=True)
def workers_know_the_corpus() -> Iterator[None]:
    """As if it were part of a notebook: workers cannot import it, so it is sent along."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(corpus)
    yield
    cloudpickle.unregister_pickle_by_value(corpus)


def forced(made: Udf) -> Udf:
    """The same function, as if no other tier would take it."""
    found = Udf(made.func)
    found.__dict__["plan"] = UdfPlan(made.name, ARROW, (), (), made.plan.arguments, made.plan.returns)
    return found


def rows_and_outcomes(function: types.FunctionType, arguments: dict[str, Form], returns: Form) -> Any:
    """Rows of edge and random values, and what Python makes of each."""
    rows = itertools.islice((row for row in inputs(arguments, function) if all(map(_is_modest, row))), ROWS)
    return [(row, _original(function, dict(zip(arguments, row, strict=True)), returns)) for row in rows]


def differences(spark: Any, name: str) -> list[str]:
    function = FUNCTIONS[name]
    made = pk.udf(function)
    plan = made.plan
    arguments, returns = plan.arguments, plan.returns
    assert arguments == signature_of(function, None, None).arguments
    assert returns is not None
    done = [each for each in rows_and_outcomes(function, arguments, returns) if each[1][0] == "returns"]
    arrow = engine("arrow")
    columns = {
        argument: pa.array([row[place] for row, _ in done], arrow.arrow_type(form.type))
        for place, (argument, form) in enumerate(arguments.items())
    }
    df = spark.createDataFrame(pa.table(columns)).coalesce(1)
    found = (
        df.select(made(*columns).alias("chosen"), forced(made)(*columns).alias("arrow")).toArrow().to_pydict()
    )
    near = plan.expression is not None and any(TABLE[op].tier != "EXACT" for op in ops_of(plan.expression))
    wrong = []
    for place, (row, (_, want)) in enumerate(done):
        for way in ("chosen", "arrow"):
            have = found[way][place]
            if not same(want, have) and not (near and way == "chosen" and close(want, have)):
                wrong.append(f"{name}{row} ({plan.tier}): Python {want!r}, {way} {have!r}")
    return wrong


@pytest.mark.parametrize("name", SHORT)
def test_three_ways_agree(spark, name: str) -> None:
    assert differences(spark, name) == []


@pytest.mark.long
def test_three_ways_agree_on_all(spark) -> None:
    wrong = [line for name in FUNCTIONS if name not in [*SHORT, *OWN] for line in differences(spark, name)]
    assert wrong == []


TOGETHER = 34
"""Functions in one job: plain Python needs no code of Java's, so many of them take as long as one."""


@pytest.mark.parametrize("first", range(0, len(FUNCTIONS), TOGETHER))
def test_plain_python_over_arrow_agrees_on_all(spark, first: int) -> None:
    arrow = engine("arrow")
    columns, selected, expected = dict[str, Any](), [], dict[str, Any]()
    for name in [one for one in FUNCTIONS if one not in OWN][first : first + TOGETHER]:
        made = pk.udf(FUNCTIONS[name])
        arguments, returns = made.plan.arguments, made.plan.returns
        assert arguments is not None
        assert returns is not None
        done = [
            each for each in rows_and_outcomes(FUNCTIONS[name], arguments, returns) if each[1][0] == "returns"
        ]
        if not done:
            continue  # it raises for all of them
        done = [done[place % len(done)] for place in range(ROWS)]
        given = {
            f"{name}__{argument}": pa.array([row[place] for row, _ in done], arrow.arrow_type(form.type))
            for place, (argument, form) in enumerate(arguments.items())
        }
        columns |= given
        selected.append(forced(made)(*given).alias(name))
        expected[name] = [want for _, (_, want) in done]
    df = spark.createDataFrame(pa.table(columns)).coalesce(1)
    found = df.select(*selected).toArrow().to_pydict()
    wrong = [
        f"{name} row {place}: Python {want!r}, Spark {have!r}"
        for name, wanted in expected.items()
        for place, (want, have) in enumerate(zip(wanted, found[name], strict=True))
        if not same(want, have)
    ]
    assert wrong == []


def test_the_share_of_each_tier() -> None:
    tiers = [pk.udf(function).plan.tier for function in FUNCTIONS.values()]
    counts = {tier: tiers.count(tier) for tier in ("native", "compiled", "arrow")}
    print(counts)
    assert counts["native"] >= LEAST_NATIVE * len(FUNCTIONS)
    assert counts["compiled"] > 0


def test_rows_that_raise_fail_with_pythons_class(spark) -> None:
    """Of every function in the short list, the first row that raises."""
    arrow = engine("arrow")
    missed = []
    for name in SHORT[:12]:
        function = FUNCTIONS[name]
        made = pk.udf(function)
        assert made.plan.arguments is not None
        assert made.plan.returns is not None
        raising = [
            (row, what)
            for row, (way, what) in rows_and_outcomes(function, made.plan.arguments, made.plan.returns)
            if way == "raises" and what != "OutOfReach" and None not in row
        ]
        if raising:
            row, what = raising[0]
            columns = {
                argument: pa.array([value], arrow.arrow_type(form.type))
                for value, (argument, form) in zip(row, made.plan.arguments.items(), strict=True)
            }
            try:
                spark.createDataFrame(pa.table(columns)).select(made(*columns)).collect()
                missed.append(f"{name}{row} raises {what} in Python, and nothing on Spark")
            except Exception as error:
                if what not in str(error) and "OutOfReach" not in str(error):
                    missed.append(f"{name}{row} raises {what} in Python, and on Spark {str(error)[:200]}")
    assert missed == []
