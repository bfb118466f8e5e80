"""List columns: what Python's builtins, operators and methods make of them, on Arrow and on Spark, or why not."""

from __future__ import annotations

import math
import re
import sys
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lift_compare import spark_differences

import penstock as pk
from penstock.backends import engine
from penstock.backends.arrow.python_lists import added
from penstock.backends.spark.columns import spelled
from penstock.backends.verify import compared, lifted_outcomes, rows_for, same
from penstock.errors import NotLifted
from penstock.expr.lift import lift_function
from penstock.expr.nodes import Call, Expression
from penstock.lifted import lift

NAN, INF = math.nan, math.inf


def ends(xs: list[float], i: int) -> float:
    return xs[0] - xs[-1] + xs[i]


def either_end(xs: list[int] | None, n: int | None) -> int:
    if not xs:
        return -1
    return xs[-1] if n is None else xs[n]


def cut(xs: list[int]) -> list[int]:
    return xs[1:-1]


def cut_anywhere(xs: list[str], i: int, j: int | None) -> list[str]:
    return xs[i:j][::-1]


def whole_sum(xs: list[int], n: int) -> int:
    return sum(xs) + sum(xs[:2], n)


def real_sum(xs: list[float], x: float) -> float:
    return sum(xs) - sum(xs, x)


def mean(xs: list[float] | None) -> float | None:
    return sum(xs) / len(xs) if xs else None


def sum_without_guard(xs: list[float]) -> float:
    return sum(xs) / len(xs)


def kind_of_sum(xs: list[float]) -> bool:
    return isinstance(sum(xs), int)


def sum_of_truths(xs: list[bool]) -> float:
    return sum(xs) / max(len(xs), 1)


def sum_of_texts(xs: list[str]) -> int:
    return sum(xs)


def spread(xs: list[float]) -> float:
    return max(xs) - min(xs)


def greatest_real(xs: list[float]) -> float:
    return max(xs)


def least_real(xs: list[float]) -> float:
    return min(xs, default=-1.5)


def spread_of_ints(xs: list[int]) -> int:
    return max(xs, default=0) - min(xs, default=0)


def last_word(xs: list[str]) -> str:
    return max(xs) + min(xs)


def last_day(xs: list[date]) -> date:
    return max(xs) if xs[0].year > 1900 else xs[-1]


def last_time(xs: list[datetime]) -> datetime | None:
    return max(xs, default=None)


def any_number(xs: list[float], ns: list[int]) -> int:
    return any(xs) + 2 * all(xs) + 4 * any(ns) + 8 * all(ns)


def any_other(xs: list[str], bs: list[bool], ds: list[date]) -> int:
    return any(xs) + 2 * all(xs) + 4 * any(bs) + 8 * all(bs) + 16 * any(ds) + 32 * all(ds)


def among_ints(ns: list[int], n: int, x: float, b: bool) -> int:
    return (
        (n in ns) + 2 * (x in ns) + 4 * (b in ns) + 8 * ("a" in ns) + 16 * (None not in ns) + 32 * (7 in ns)
    )


def among_reals(xs: list[float], n: int, x: float, b: bool) -> int:
    return (n in xs) + 2 * (x in xs) + 4 * (b in xs) + 8 * (math.nan in xs) + 16 * (x / 2 not in xs)


def among_texts(words: list[str], s: str, t: str | None) -> bool:
    return s in words or t not in words


def among_truths(bs: list[bool], n: int, x: float, b: bool) -> int:
    return (n in bs) + 2 * (x in bs) + 4 * (b in bs) + 8 * (True in bs)


def among_parts(s: str) -> bool:
    return "a" in s.split(",") and len(s.split()[1:]) < 2


def counted(ns: list[int], xs: list[float], n: int, x: float) -> int:
    return ns.count(n) + 10 * xs.count(x) + 100 * ns.count(x) + 1000 * xs.count(0) + ns.count("a")


def placed(ns: list[int], words: list[str], n: int) -> int:
    return ns.index(n) if n in ns else words.index("a")


def joined(words: list[str], ns: list[int]) -> str:
    return ",".join(words[:3]) if ns else "-".join(words)


def tried(xs: list[float], n: int) -> float:
    try:
        return xs[n] / xs[0]
    except (IndexError, ZeroDivisionError):
        return sum(xs[1:])


LIFTED = [
    *(ends, either_end, cut, cut_anywhere, whole_sum, real_sum, mean, sum_without_guard, kind_of_sum),
    *(sum_of_truths, sum_of_texts, spread, greatest_real, least_real, spread_of_ints, last_word, last_day),
    *(last_time, any_number, any_other, among_ints, among_reals, among_texts, among_truths, among_parts),
    *(counted, placed, joined, tried),
]


@pytest.mark.parametrize("function", LIFTED, ids=lambda one: one.__name__)
def test_it_is_lifted(function: Any) -> None:
    lifted = lift(function)
    assert lifted.body is not None, lifted.plan
    assert lifted.near == ()
    verdict = compared(lifted.body, lifted.body.function, rows_for(lifted.body, 600), seconds=20)
    assert verdict.differences == ()
    assert verdict.declined < verdict.rows / 2


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spark_gives_the_same(spark: Any, ansi: str) -> None:
    bodies = {function.__name__: lift(function).body for function in LIFTED}
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    wrong = []
    try:
        for name, body in bodies.items():
            assert body is not None
            wrong += spark_differences(spark, {name: body}, 150)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert wrong == []


@pytest.mark.parametrize("function", LIFTED, ids=lambda one: one.__name__)
def test_as_a_udf_it_stays_in_the_jvm(spark: Any, function: Any) -> None:
    """The same through SQL functions, which take no lambda in what they are called with."""
    body, made = lift(function).body, pk.udf(function)
    assert body is not None
    assert made.plan.tier == "native", made.plan
    ran = [(row, lifted_outcomes(body, [row])[0]) for row in rows_for(body, 60)]
    rows = [(row, value) for row, (way, value) in ran if way == "returns"]
    arrow = engine("arrow")
    table = pa.table(
        {
            name: pa.array([row[place] for row, _ in rows], arrow.arrow_type(form.type))
            for place, (name, form) in enumerate(body.arguments.items())
        }
    )
    declared = ", ".join(f"{name} {spelled(form.type)}" for name, form in body.arguments.items())
    df = spark.createDataFrame(table, declared).coalesce(1)
    found = df.select(made(*body.arguments).alias("y")).toArrow()["y"].to_pylist()
    assert rows
    assert [pair for pair in zip(rows, found, strict=True) if not same(pair[0][1], pair[1])] == []
    assert df.where(made(*body.arguments).isNotNull()).count() == sum(one is not None for one in found)


def powers(n: int, m: int) -> int:
    power = (n % 100) ** (m % 5)
    return power // 3 + power % 7 + (power if power > 10 else -power)


def test_a_lambda_of_two_names_is_no_argument_of_a_function_either(spark: Any) -> None:
    rows = [(number, other) for number in (-7, 0, 3, 12) for other in range(6)]
    df = spark.createDataFrame(rows, "n bigint, m bigint").coalesce(1)
    made = pk.udf(powers)
    assert made.plan.tier == "native", made.plan
    assert [row.y for row in df.select(made("n", "m").alias("y")).collect()] == [powers(*row) for row in rows]


RATES = {f"a{number}": number % 3 for number in range(30)}


def looked_up_near_a_lambda(xs: list[int], s: str) -> int:
    return sum(xs[: RATES.get(s, 1)], RATES.get(s, 2))


def test_what_is_looked_up_stands_apart_from_lambdas(spark: Any) -> None:
    body = lift(looked_up_near_a_lambda).body
    assert body is not None
    assert spark_differences(spark, {"looked_up": body}, 80) == []


def outcomes(function: Any, *rows: tuple[Any, ...]) -> list[Any]:
    lifted = lift(function)
    assert lifted.body is not None, lifted.plan
    return [value for _, value in lifted_outcomes(lifted.body, rows)]


def test_the_order_of_elements_counts_as_in_python() -> None:
    lists = ([NAN, 1.0], [1.0, NAN], [0.0, -0.0], [-0.0, 0.0], [1.0, NAN, 2.0], [NAN, NAN])
    for function in (greatest_real, least_real):
        assert list(map(repr, outcomes(function, *((xs,) for xs in lists)))) == [
            repr(function(xs)) for xs in lists
        ]
    terms = ([0.1] * 10, [1e16, 1.0, -1e16, 1.0], [-0.0], [INF, -INF], [1e308, 1e308, -1e308])
    assert list(map(repr, outcomes(real_sum, *((xs, 0.5) for xs in terms)))) == [
        repr(real_sum(xs, 0.5)) for xs in terms
    ]


def test_a_sum_that_leaves_64_bits_is_declined_and_never_wraps() -> None:
    assert outcomes(whole_sum, ([2**62, 2**62 - 1], 0), ([2**63 - 1, 1], 0)) == ["OutOfReach", "OutOfReach"]
    assert outcomes(whole_sum, ([2**62 - 1, 2**61], -(2**62))) == [2**62 - 1 + 2**61 + 2**61 - 1]


def test_an_empty_list_has_no_element_and_an_int_for_a_sum() -> None:
    assert outcomes(ends, ([], 0)) == ["IndexError"]
    assert outcomes(spread, ([],)) == ["ValueError"]
    assert outcomes(sum_without_guard, ([],)) == ["ZeroDivisionError"]
    assert outcomes(kind_of_sum, ([],), ([1.0],)) == [True, False]
    assert outcomes(sum_of_texts, ([],), (["a"],)) == [0, "TypeError"]


def test_a_null_in_a_list_is_no_element() -> None:
    lifted = lift(greatest_real)
    arrow = engine("arrow")
    table = pa.table({"xs": pa.array([[1.0, None]])})
    program = arrow.prepare({"y": lifted.expression}, arrow.schema_of(table.schema))
    with pytest.raises(TypeError, match=r"argument 'xs' does not become list\[float\] without loss"):
        program(table)


def compensated(numbers: list[float], start: float) -> float:
    """What CPython has done since 3.12, written out."""
    total, lost = start, 0.0
    for number in numbers:
        after = total + number
        lost += (total - after) + number if abs(total) >= abs(number) else (number - after) + total
        total = after
    return total + lost if lost and math.isfinite(lost) else total


ROUNDED = ([0.1] * 10, [1e100, 1.0, -1e100, 1.0], [1e308, 1e308, -1e308], [INF, 1.0], [-0.0], [NAN, 1.0], [])


@pytest.mark.parametrize("numbers", ROUNDED)
def test_sums_are_those_of_this_python(numbers: list[float]) -> None:
    new = sys.version_info >= (3, 12)
    assert repr(added(numbers, 0.0, compensated=new)) == repr(float(sum(numbers)))
    assert repr(added(numbers, 0.5, compensated=True)) == repr(compensated(numbers, 0.5))


def sum_from_whole(xs: list[float], n: int) -> float:
    return sum(xs, n)


def sum_from_zero(xs: list[float]) -> float:
    return sum(xs, 0)


def sum_from_truth(xs: list[float], b: bool) -> float:
    return sum(xs, b)


def test_a_sum_that_begins_with_a_whole_number_is_not_compensated_from_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CPython 3.12 leaves its loop of ints by a plain addition; from a bool it adds plainly all the way."""
    monkeypatch.setattr("penstock.expr.lift.lists.COMPENSATED", True)
    with pytest.raises(NotLifted, match="begins with a whole number, to which this Python adds the first"):
        lift_function(sum_from_whole)
    assert "compensated=True" in totals(lift_function(sum_from_zero).value)
    assert "compensated=False" in totals(lift_function(sum_from_truth).value)
    monkeypatch.setattr("penstock.expr.lift.lists.COMPENSATED", False)
    lift_function(sum_from_whole)


def totals(expression: Expression) -> str:
    waiting, found = [expression], ""
    while waiting:
        node = waiting.pop()
        waiting.extend(node.args)
        if isinstance(node, Call) and node.op == "list_total":
            found += f"compensated={dict(node.params)['compensated']}"
    return found


def sum_from_text(xs: list[float]) -> float:
    return sum(xs, "")


def sum_from_a_column(xs: list[float], s: str | None) -> float:
    return sum(xs, s) if s is not None else 0.0


def sum_of_written(s: str) -> str:
    return sum(("a", s), "")


def test_texts_are_not_summed_even_where_there_are_none() -> None:
    assert outcomes(sum_from_text, ([],), ([1.0],)) == ["TypeError", "TypeError"]
    assert outcomes(sum_from_a_column, ([], "a"), ([1.0], ""), ([], None)) == ["TypeError", "TypeError", 0.0]
    assert outcomes(sum_of_written, ("b",)) == ["TypeError"]


def sum_from_numpy(xs: list[float], x: float) -> float:
    return sum(xs, np.abs(x))


def numpy_among_whole(xs: list[int], x: float) -> bool:
    return np.abs(x) in xs


def nan_found_again(xs: list[float]) -> bool:
    return xs[0] in xs


def greatest_found_again(xs: list[float], x: float) -> int:
    return xs.count(max(xs, default=x))


def squares(xs: list[float]) -> float:
    return sum(x * x for x in xs)


def in_steps(xs: list[int]) -> list[int]:
    return xs[::2]


def from_a_float(xs: list[int]) -> float:
    return sum(xs, 0.5)


def mixed(xs: list[int], ys: list[float], b: bool) -> float:
    return max(xs if b else ys)


def characters(s: str) -> str:
    return max(s)


def sorted_list(xs: list[int]) -> list[int]:
    return sorted(xs)


def grown(xs: list[int]) -> int:
    xs.append(1)
    return len(xs)


REFUSED = [
    (
        nan_found_again,
        r"`in` looks for an element that was taken from a list, where Python finds the same nan",
    ),
    (greatest_found_again, r"list\.count\(\) looks for an element that was taken from a list"),
    (squares, r"a comprehension goes through a value that differs from row to row"),
    (in_steps, r"a list is sliced in steps of 2"),
    (from_a_float, r"sum\(\) of whole numbers that begins with a float"),
    (sum_from_numpy, r"sum\(\) that begins with a numpy\.float64"),
    (numpy_among_whole, r"a NumPy number among whole numbers"),
    (mixed, r"a list of one type here and of another there"),
    (characters, r"max\(\) goes through the characters of a text"),
    (sorted_list, r"sorted\(\) has no exact expression"),
    (grown, r"list\.append\(\) has no exact expression"),
]


@pytest.mark.parametrize(("function", "reason"), REFUSED)
def test_it_is_refused_with_its_reason(function: Any, reason: str) -> None:
    refusal = lift(function).plan.refusal
    assert refusal is not None
    assert re.search(reason, refusal.reason), refusal
    assert refusal.line == function.__code__.co_firstlineno + 1
