"""The sixty ways in which Python and Spark SQL part: each is handled, on Arrow and on Spark, or refused, by number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lift_compare import on_spark

from penstock.backends import engine
from penstock.backends.verify import agree, compared, lifted_outcomes
from penstock.errors import ExpressionError, OutOfReach
from penstock.expr.build import col
from penstock.lifted import lift

NAN, INF = float("nan"), math.inf
LEAST, MOST = -(2**63), 2**63 - 1
DECLINED = "declined"


@dataclass(frozen=True)
class Trap:
    """A function, and rows with what Python gives for each: a value, a class of errors, or that it is declined."""

    number: int
    function: Callable[..., Any]
    rows: dict[tuple[Any, ...], Any]


def equal(x: float, y: float) -> bool:
    return x == y


def order(x: float, y: float) -> int:
    return (x > y) + 2 * (x < y) + 4 * (x >= y)


def unequal(x: float, y: float) -> bool:
    return x != y


def larger(x: float, y: float) -> float:
    return max(x, y)


def smaller(x: float, y: float) -> float:
    return min(x, y)


def larger_or_none(x: float | None, y: float | None) -> float:
    return max(x, y)


def negated(x: float) -> float:
    return -x if x == 0.0 else 1.0


def plus_one(x: int) -> int:
    return x + 1


def absolute(x: int) -> int:
    return abs(x)


def minus(x: int) -> int:
    return -x


def by_minus_one(x: int) -> int:
    return x // -1


def floors(x: int, y: int) -> int:
    return x // y


def modulo(x: int, y: int) -> int:
    return x % y


def float_modulo(x: float, y: float) -> float:
    return x % y


def float_floors(x: float, y: float) -> float:
    return x // y


def true_division(x: float, y: float) -> float:
    return x / y


def int_division(x: int, y: int) -> float:
    return x / y


def power(x: int, y: int) -> float:
    return x**y


def float_power(x: float, y: float) -> float:
    return x**y


def logarithm(x: float) -> float:
    return math.log(x)


def log_1p(x: float) -> float:
    return math.log1p(x)


def root(x: float) -> float:
    return math.sqrt(x)


def arc(x: float) -> float:
    return math.acos(x)


def exponential(x: float) -> float:
    return math.exp(x)


def to_nearest(x: float) -> int:
    return round(x)


def to_cents(x: float) -> float:
    return round(x, 2)


def floor(x: float) -> int:
    return math.floor(x)


def whole(x: float) -> int:
    return int(x)


def parsed_int(s: str) -> int:
    return int(s)


def parsed_float(s: str) -> float:
    return float(s)


def text_truth(s: str) -> bool:
    return bool(s)


def truths(x: float | None, n: int) -> int:
    return (1 if x else 0) + (2 if n else 0)


def operands(x: int | None, y: int | None) -> int | None:
    return x and y


def either(x: int | None, y: int | None) -> int | None:
    return x or y


def negation(x: bool | None) -> bool:
    return not x


def chained(x: int, y: int, z: int) -> bool:
    return x < 10 // y < z


def guarded(x: float, y: float) -> bool:
    return y != 0 and x / y > 1 and x / y < 5


def among(x: int | None) -> int:
    return (x in (2, None)) + 2 * (x in (1, 2))


def nan_among(x: float) -> bool:
    return x in (1.0, math.nan)


def none_plus(x: int | None) -> int:
    return x + 1


def none_below(x: int | None) -> bool:
    return x < 1


def none_equal(x: int | None, y: int | None) -> int:
    return (x == y) + 2 * (x != 1)


def text_below_number(s: str) -> bool:
    return s < 9


def text_is_number(s: str) -> bool:
    return s == 1


def text_plus_number(s: str) -> str:
    return s + 1


def truth_plus(b: bool) -> int:
    return b + 1


def mixed(x: int, y: float) -> int:
    return (x == y) + 2 * (x < y) + 4 * (x >= y)


def left(x: int, n: int) -> int:
    return x << n


def right(x: int, n: int) -> int:
    return x >> n


def length(s: str) -> int:
    return len(s)


def ends(s: str) -> str:
    return s[0] + s[-3:-1] + s[-10:7]


def item(xs: list[int]) -> int:
    return xs[-1] + xs[1]


def looked_up(s: str) -> int:
    return {"a": 1, "b": 2}[s]


def stripped(s: str) -> str:
    return s.strip()


def upper(s: str) -> str:
    return s.upper() + s.lower()


def titled(s: str) -> str:
    return s.title()


def words(s: str) -> str:
    return "|".join(s.split())


def commas(s: str) -> int:
    return len(s.split(",")) * 10 + len(s.split("."))


def replaced_nothing(s: str) -> str:
    return s.replace("", "x")


def float_text(x: float) -> str:
    return str(x)


def int_text(x: int) -> str:
    return str(x)


def percent(x: float) -> str:
    return "%.2f" % x  # noqa: UP031


def formatted(x: float) -> str:
    return f"{x:.2f}"


def character(n: int) -> str:
    return chr(n)


def code_point(s: str) -> int:
    return ord(s)


def decimals(x: Decimal) -> Decimal:
    return x / 3


def weekdays(d: date) -> int:
    return d.weekday() * 10 + d.isoweekday()


def hashed(s: str) -> int:
    return hash(s)


def text_order(s: str, t: str) -> bool:
    return s < t


class Unbelievable(Exception):
    pass


def raising(x: int) -> int:
    if x < 0:
        raise ValueError(f"{x} is negative")
    if x > 150:
        raise Unbelievable("too old")
    return x


def lazy(x: int, y: int) -> int:
    return 0 if y == 0 else x // y + x // y


def large_constant(x: int) -> bool:
    return x < 9223372036854775808


def large_known(x: int) -> int:
    return x + 2**64 // 2**60


HANDLED = [
    Trap(1, equal, {(NAN, NAN): False, (1.0, 1.0): True}),
    Trap(2, order, {(NAN, INF): 0, (NAN, 1.0): 0, (1.0, NAN): 0, (INF, 1.0): 5}),
    Trap(3, unequal, {(NAN, NAN): True, (0.0, -0.0): False}),
    Trap(4, larger, {(1.0, NAN): 1.0, (NAN, 1.0): NAN}),
    Trap(4, smaller, {(NAN, 1.0): NAN, (1.0, NAN): 1.0}),
    Trap(5, larger_or_none, {(1.0, None): TypeError, (None, None): TypeError, (1.0, 2.0): 2.0}),
    Trap(6, negated, {(0.0,): -0.0, (3.0,): 1.0}),
    Trap(6, negated, {(-0.0,): 0.0}),
    Trap(7, plus_one, {(MOST,): DECLINED, (MOST - 1,): MOST}),
    Trap(9, absolute, {(LEAST,): DECLINED, (LEAST + 1,): MOST, (-3,): 3}),
    Trap(9, minus, {(LEAST,): DECLINED, (MOST,): -MOST}),
    Trap(9, by_minus_one, {(LEAST,): DECLINED, (7,): -7}),
    Trap(10, floors, {(-7, 2): -4, (7, -2): -4, (7, 2): 3, (1, 0): ZeroDivisionError}),
    Trap(11, modulo, {(-7, 3): 2, (7, -3): -2, (LEAST, -1): 0, (1, 0): ZeroDivisionError}),
    Trap(12, float_modulo, {(-7.5, 2.0): 0.5, (7.5, -2.0): -0.5, (-0.0, 3.0): 0.0, (5.0, INF): 5.0}),
    Trap(12, float_floors, {(-7.5, 2.0): -4.0, (1.0, 0.1): 9.0, (-1.0, INF): -1.0, (0.0, -3.0): -0.0}),
    Trap(
        13, true_division, {(1.0, 0.0): ZeroDivisionError, (2.0, -0.0): ZeroDivisionError, (1.0, 4.0): 0.25}
    ),
    Trap(13, float_modulo, {(1.0, 0.0): ZeroDivisionError}),
    Trap(14, int_division, {(2**53 + 1, 3): DECLINED, (2**53, 3): 2**53 / 3, (1, 0): ZeroDivisionError}),
    Trap(
        15, power, {(2, 3): 8.0, (2, -1): 0.5, (0, -1): ZeroDivisionError, (2, 64): DECLINED, (-1, 65): -1.0}
    ),
    Trap(
        15,
        float_power,
        {(-8.0, 1 / 3): DECLINED, (0.0, -1.0): ZeroDivisionError, (10.0, 400.0): OverflowError},
    ),
    Trap(16, logarithm, {(0.0,): ValueError, (-1.0,): ValueError, (1.0,): 0.0, (INF,): INF}),
    Trap(16, log_1p, {(-1.0,): ValueError, (0.0,): 0.0}),
    Trap(17, root, {(-1.0,): ValueError, (4.0,): 2.0, (NAN,): NAN}),
    Trap(17, arc, {(2.0,): ValueError, (1.0,): 0.0}),
    Trap(18, exponential, {(1000.0,): OverflowError, (-1000.0,): 0.0, (INF,): INF}),
    Trap(
        19,
        to_nearest,
        {(2.5,): 2, (0.5,): 0, (1.5,): 2, (-2.5,): -2, (NAN,): ValueError, (INF,): OverflowError},
    ),
    Trap(20, to_cents, {(2.675,): 2.67, (0.125,): 0.12, (1.005,): 1.0, (-0.001,): -0.0, (1e300,): 1e300}),
    Trap(21, floor, {(1e20,): DECLINED, (-1.5,): -2}),
    Trap(22, whole, {(2.9,): 2, (-2.9,): -2, (NAN,): ValueError, (-INF,): OverflowError}),
    Trap(23, parsed_int, {("12 ",): 12, (" 12",): 12, ("+5",): 5}),
    Trap(24, parsed_int, {("1_000",): 1000, ("\u0661\u0662",): 12, ("\xa012",): 12, ("1__0",): ValueError}),
    Trap(25, parsed_int, {("12.7",): ValueError, ("",): ValueError, ("9223372036854775808",): DECLINED}),
    Trap(26, parsed_float, {("1d",): ValueError, ("1f",): ValueError, ("0x1p3",): ValueError}),
    Trap(27, parsed_float, {("nan",): NAN, ("-Infinity",): -INF, ("1_0.5",): 10.5, (" 2e3\n",): 2000.0}),
    Trap(28, text_truth, {("",): False, ("hello",): True, ("0",): True, (" ",): True}),
    Trap(29, truths, {(0.0, 0): 0, (NAN, 1): 3, (None, 0): 0, (-0.0, 5): 2}),
    Trap(30, operands, {(0, 5): 0, (3, 5): 5, (None, 5): None, (3, None): None}),
    Trap(30, either, {(0, 5): 5, (3, 5): 3, (None, 0): 0, (0, None): None}),
    Trap(31, negation, {(None,): True, (True,): False, (False,): True}),
    Trap(32, chained, {(1, 2, 9): True, (5, 2, 9): False, (1, 0, 9): ZeroDivisionError, (6, 2, 0): False}),
    Trap(33, guarded, {(1.0, 0.0): False, (6.0, 2.0): True, (60.0, 2.0): False}),
    Trap(34, among, {(2,): 3, (None,): 1, (1,): 2, (7,): 0}),
    Trap(34, nan_among, {(NAN,): False, (1.0,): True}),
    Trap(35, none_plus, {(None,): TypeError, (1,): 2}),
    Trap(35, none_below, {(None,): TypeError, (1,): False}),
    Trap(36, none_equal, {(None, None): 3, (1, None): 0, (2, 2): 3}),
    Trap(37, text_below_number, {("10",): TypeError}),
    Trap(37, text_is_number, {("1",): False}),
    Trap(37, text_plus_number, {("1",): TypeError}),
    Trap(38, truth_plus, {(True,): 2, (False,): 1}),
    Trap(
        39,
        mixed,
        {(2**53 + 1, 2.0**53): 4, (2**53, 2.0**53): 5, (MOST, 2.0**63): 2, (1, NAN): 0, (0, -0.5): 4},
    ),
    Trap(41, left, {(1, 33): 8589934592, (1, 63): DECLINED, (1, -1): ValueError, (0, 99): 0}),
    Trap(41, right, {(-8, 65): -1, (8, 1): 4, (8, -1): ValueError}),
    Trap(42, length, {("a\U0001f600b",): 3, ("e\u0301",): 2}),
    Trap(
        43,
        ends,
        {("hello",): "hllhello", ("",): IndexError, ("\U0001f600ab",): "\U0001f600\U0001f600a\U0001f600ab"},
    ),
    Trap(45, stripped, {("\t a\n",): "a", ("\xa0b\u2003",): "b", ("\u200bc",): "\u200bc"}),
    Trap(46, upper, {("ß",): "SSß", ("ΑΣ",): "ΑΣας", ("İ",): "İi̇"}),
    Trap(48, words, {(" a  b\tc ",): "a|b|c", ("",): "", ("\u2003x",): "x"}),
    Trap(48, commas, {("",): 11, ("a.b",): 12, (",,",): 31}),
    Trap(50, int_text, {(LEAST,): "-9223372036854775808", (0,): "0"}),
    Trap(
        51,
        formatted,
        {(2.675,): "2.67", (-0.001,): "-0.00", (NAN,): "nan", (-INF,): "-inf", (1234.5,): "1234.50"},
    ),
    Trap(
        51,
        percent,
        {(2.675,): "2.67", (-0.001,): "-0.00", (NAN,): "nan", (-INF,): "-inf", (1234.5,): "1234.50"},
    ),
    Trap(55, weekdays, {(date(2024, 1, 1),): 1, (date(2024, 1, 7),): 67}),
    Trap(57, text_order, {("a", "B"): False, ("\uffff", "\U00010000"): True, ("", "a"): True}),
    Trap(58, raising, {(-1,): ValueError, (151,): Unbelievable, (30,): 30}),
    Trap(59, lazy, {(1, 0): 0, (7, 2): 6}),
    Trap(60, large_known, {(1,): 17}),
]
LISTS = Trap(44, item, {})
REFUSED = [
    (47, titled, r"str\.title\(\)"),
    (49, replaced_nothing, r"str\.replace\(''"),
    (50, float_text, "a float as a text"),
    (52, character, r"chr\(\)"),
    (52, code_point, r"ord\(\)"),
    (53, decimals, "declared Decimal"),
    (56, hashed, r"hash\(\)"),
    (60, large_constant, "9223372036854775808 does not fit 64 bits"),
]


def told(trap: Trap) -> str:
    return f"{trap.number:02d}-{trap.function.__name__}"


def expected(outcome: Any) -> tuple[str, Any]:
    if outcome is DECLINED:
        return "raises", OutOfReach.__name__
    return ("raises", outcome.__name__) if isinstance(outcome, type) else ("returns", outcome)


@pytest.mark.parametrize("trap", HANDLED, ids=told)
def test_handled(trap: Trap) -> None:
    lifted = lift(trap.function)
    assert lifted.plan.tier == "native", lifted.plan
    assert lifted.body is not None
    rows = list(trap.rows)
    for row, want, have in zip(rows, trap.rows.values(), lifted_outcomes(lifted.body, rows), strict=True):
        assert expected(want)[0] == have[0], row
        assert agree(expected(want), have), row
        assert (want is DECLINED) == (have == expected(DECLINED)), row
    verdict = compared(lifted.body, trap.function, rows, seconds=5)
    assert verdict.differences == (), "the table says something else than Python does"


@pytest.mark.parametrize(("number", "function", "reason"), REFUSED)
def test_refused(number: int, function: Callable[..., Any], reason: str) -> None:
    refusal = lift(function).plan.refusal
    assert refusal is not None
    assert refusal.function == function.__name__
    with pytest.raises(ExpressionError, match=reason):
        lift(function).expression  # noqa: B018


def test_every_number_has_its_test() -> None:
    separately = {8, 40, 44, 54}
    numbers = {trap.number for trap in HANDLED} | {number for number, _, _ in REFUSED} | separately
    assert numbers == set(range(1, 61))


def test_handled_on_spark(spark, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each on its own rows, as many functions in a job as Java likes to compile."""
    import lift_compare

    wrong = []
    for start in range(0, len(HANDLED), 6):
        traps = HANDLED[start : start + 6]
        rows = {f"t{place}": list(trap.rows) for place, trap in enumerate(traps)}
        bodies = {name: lift(trap.function).body for name, trap in zip(rows, traps, strict=True)}
        by_body = {id(bodies[name]): given for name, given in rows.items()}
        monkeypatch.setattr(lift_compare, "rows_for", lambda body, count, by_body=by_body: by_body[id(body)])
        found = on_spark(spark, bodies, max(map(len, rows.values())))
        for name, trap in zip(rows, traps, strict=True):
            near = trap.function in (float_power, power, logarithm, log_1p, exponential, arc, root)
            for row, want, have in zip(trap.rows, trap.rows.values(), found[name], strict=False):
                wanted = expected(want)
                fine = wanted[0] == have[0] and (
                    agree(wanted, have) or (near and math.isclose(want, have[1]))
                )
                wrong += [] if fine else [f"{told(trap)}{row}: {wanted}, Spark {have}"]
    assert wrong == []


def on_column(function: Callable[..., Any], column: pa.Array) -> list[Any]:
    table = pa.table({"c": column})
    arrow = engine("arrow")
    return arrow.prepare({"y": lift(function)(col("c"))}, arrow.schema_of(table.schema))(table)[
        "y"
    ].to_pylist()


def test_08_narrow_whole_numbers_are_widened_first() -> None:
    assert on_column(plus_one, pa.array([2147483647, -1], pa.int32())) == [2147483648, 0]
    assert on_column(plus_one, pa.array([127], pa.int8())) == [128]


def double(x: float) -> float:
    return x * 2 + 0.1


def test_40_a_float32_is_computed_as_the_double_it_is() -> None:
    number = float(np.float32(0.1))
    assert on_column(double, pa.array([0.1], pa.float32())) == [number * 2 + 0.1]


def test_44_elements_of_lists_and_dicts() -> None:
    lists = lift(item)
    assert lists.plan.tier == "native", lists.plan
    assert lifted_outcomes(lists.body, [([5, 6, 7],), ([5],), ([],)]) == [
        ("returns", 13),
        ("raises", "IndexError"),
        ("raises", "IndexError"),
    ]
    keys = lift(looked_up)
    assert lifted_outcomes(keys.body, [("b",), ("c",)]) == [("returns", 2), ("raises", "KeyError")]


def hour(at: datetime) -> int:
    return at.hour


def test_54_instants_are_not_taken_for_what_a_clock_shows() -> None:
    wall = pa.array([datetime(2024, 5, 6, 7)], pa.timestamp("us"))
    assert on_column(hour, wall) == [7]
    instant = pa.array([datetime(2024, 5, 6, 7, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    with pytest.raises(ExpressionError, match="argument 'at' is declared timestamp_ntz, and gets timestamp"):
        on_column(hour, instant)


def test_58_the_users_error_is_raised_with_its_text() -> None:
    with pytest.raises(ValueError, match=r"^-3 is negative"):
        on_column(raising, pa.array([1, -3]))
    with pytest.raises(Exception, match=r"Unbelievable: too old.*row 1"):
        on_column(raising, pa.array([1, 151]))


def test_58_spark_fails_with_the_users_error(spark) -> None:
    df = spark.createDataFrame(pa.table({"c": [1, -3]}))
    spark_engine = engine("spark")
    program = spark_engine.prepare({"y": lift(raising)(col("c"))}, spark_engine.schema_of(df.schema))
    with pytest.raises(Exception, match="ValueError: -3 is negative"):
        program(df).collect()
