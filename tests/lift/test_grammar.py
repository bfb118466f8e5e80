"""Constructs, one by one: what is lifted gives Python's values, and what is not says where and why."""

from __future__ import annotations

import collections
import functools
import math
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.backends import engine
from penstock.backends.verify import compared, rows_for
from penstock.errors import ExpressionError, NotLifted, OutOfReach
from penstock.expr.build import col
from penstock.expr.lift.lists import COMPENSATED
from penstock.expr.show import from_json, to_json
from penstock.expr.types import FLOAT64, INT64, STRING
from penstock.lifted import lift

RATE = 1.19
TABLE = {"a": (1, "one"), "b": (2, "two")}


def augmented(x: float, n: int) -> float:
    total = x
    total += n
    total *= 2
    total -= 0.5
    total /= 4
    return total


def nested(x: float, y: float) -> str:
    if x > 0:
        if y > 0:
            return "both"
        label = "first"
    elif y > 0:
        label = "second"
    else:
        label = "none"
        if x == y:
            return "same"
    return label + "!"


def unassigned(x: int) -> int:
    if x > 3:
        y = x
    return y


def falls_off(x: int) -> int | None:
    if x > 0:
        return x


def helper(x: float, factor: float = 2.0) -> float:
    if x < 0:
        return 0.0
    return x * factor


def calls_others(x: float) -> float:
    return helper(x) + helper(x, factor=3.0) + helper(factor=x, x=1.0)


def constants(x: float) -> float:
    return x * RATE + math.pi


def unpacked(key: str) -> str:
    number, name = TABLE[key]
    return f"{number}:{name}"


def swapped(a: int, b: int) -> int:
    a, b = b, a
    return a - b


def looped(x: int) -> int:
    total = 0
    for i, step in enumerate(range(1, 8, 2)):
        if x == step:
            continue
        if total > 20:
            break
        total += i * step + x % 5
    else_ = total
    return else_


def comprehended(x: float, y: float, z: float) -> float:
    values = [v * v for v in (x, y, z)]
    return sum(values[:2]) + max(v for v in values)


def quantified(x: int, y: int) -> bool:
    return any(v > 3 for v in (x, y)) and not all(v % 2 == 0 for v in (x, y))


POLES = (1.0, 2.0, 3.0)


def stops_at_the_first(x: float) -> bool:
    return any(1 / (x - pole) > 100 for pole in POLES) or all(
        1 / (x - pole) < 0.5 for pole in POLES if pole != x
    )


def conditional(x: float | None) -> float:
    return (0.0 if x is None else x) if x != 1.0 else -1.0


def typed(x: int | None, s: str) -> str:
    if isinstance(x, int) and not isinstance(s, (int, float)):
        return "int"
    return "none"


def mixed_types(x: int) -> float:
    y = x if x % 2 == 0 else x / 2
    return y * 2 if y > 1 else y


def converts(x: float, b: bool) -> int:
    return int(x) + int(b) + bool(x) + round(x / 3)


def texts(s: str, n: int) -> str:
    return (s[1:-1] or s[::-1]).upper().rjust(5, ".") + "-" * n + str(n) + f"{n:03d}|{s!s}|{n}"


def searched(s: str) -> int:
    return s.find("b") * 100 + s.count("a") * 10 + s.startswith("a") + 2 * s.endswith(("c", "x")) + ("b" in s)


def partitioned(s: str) -> str:
    head, mark, tail = s.partition(",")
    return tail + mark + head


def caught(s: str, n: int) -> float:
    value = -1.0
    try:
        value = float(s)
        value = value / n
    except ValueError:
        return -2.0
    except ZeroDivisionError:
        return -3.0
    return value


def asserted(x: int) -> int:
    assert x != 3, "three"
    return x


def bits(x: int, y: int) -> int:
    return (x & 255) | (y ^ 7) & ~x


def divided(x: int, y: int) -> int:
    quotient, rest = divmod(x, y)
    return quotient * 10 + rest


def compared_tuples(x: int, y: int) -> bool:
    return (x, y) < (y, 3) or (x, 1) == (1, y)


def numpy_numbers(x: float) -> float:
    return np.log(x) / 0.0 + np.sqrt(x) * 2


def indexed(i: int) -> str:
    return ("a", "b", "c")[i]


def date_parts(d: date, e: date) -> int:
    return d.year * 10000 + d.month * 100 + d.day + (d - e).days if d != e else 0


def annotated_locals(x: float) -> float:
    y: float = x * 2
    z: int
    z = 3
    return y + z


def with_docstring(x: float) -> float:
    """Says what it does."""
    pass
    return x


RATES = {("DE", 1): 0.19, ("DE", 2): 0.07, ("FR", 1): 0.2}


def by_pair(country: str, level: int) -> float:
    return RATES.get((country, level), 0.0) + RATES[country.upper(), 1]


def appended(x: float, y: float) -> str:
    parts = ["x"]
    for value in (x, y):
        parts.append("up" if value > 0 else "down")
    return ",".join(parts)


def templated(s: str, n: int, x: float) -> str:
    return f"{s}-{n:03d} {s}" + f"{n}/{s}/{x:.1f}"


def sets(x: int, s: str) -> int:
    found = 0
    for step in {30, 10, 20}:
        found = found * 2 + step
    return found + (x in {1, 2, 300}) + 2 * (s in {"a", "b"}) + len({1, 2})


def boolean_values(x: int, s: str) -> str:
    return (x > 3 and s) or (s and "short") or "empty"


def lambda_like(x: float) -> float:
    return SQUARE(x) + 1


SQUARE = lambda v: v * v  # noqa: E731


def closure() -> Callable[[float], float]:
    offset, names = 3.5, {"a": 1}

    def inner(x: float) -> float:
        return x + offset + names["a"]

    return inner


LIFTED = [
    *(
        augmented,
        nested,
        unassigned,
        falls_off,
        calls_others,
        constants,
        unpacked,
        swapped,
        looped,
    ),
    *(
        quantified,
        stops_at_the_first,
        conditional,
        typed,
        mixed_types,
        converts,
        texts,
        searched,
        partitioned,
        caught,
        bits,
        divided,
    ),
    *(compared_tuples, numpy_numbers, indexed, date_parts, annotated_locals, with_docstring, boolean_values),
    *(lambda_like, sets, by_pair, appended, templated, closure()),
    *(() if COMPENSATED else (comprehended,)),
]


@pytest.mark.parametrize("function", LIFTED, ids=lambda function: function.__name__)
def test_it_is_lifted(function: Any) -> None:
    lifted = lift(function)
    assert lifted.plan.tier == "native", lifted.plan
    verdict = compared(lifted.body, function, rows_for(lifted.body, 500), seconds=20)
    assert verdict.differences == ()
    assert verdict.rows == 500
    assert verdict.declined < 250
    again = from_json(to_json(lifted.expression))
    assert again.same(lifted.expression)


def test_a_sum_of_floats_that_python_compensates_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.expr.lift.builtin.COMPENSATED", True)
    plan = lift(comprehended).plan
    assert plan.tier == "python"
    assert "sum() of floats, which this Python adds with compensation" in str(plan.refusal)


def endless(x: int) -> int:
    while x > 1:
        x //= 2
    return x


def prints(x: int) -> int:
    print(x)
    return x


def grows(x: int) -> int:
    parts = []
    parts.extend((x, 2))
    return parts[0]


def aliased(x: int) -> int:
    parts = []
    others = parts
    parts.append(x)
    return others[0]


def over_text(s: str) -> int:
    return sum(1 for c in s if c == "a")


def rebinds(x: int) -> int:
    global RATE
    RATE = x
    return x


def set_of_values(x: int, y: int) -> int:
    return len({x, y})


COUNTS: dict[str, int] = collections.defaultdict(int, a=1)


def grows_when_read(s: str) -> int:
    return COUNTS[s]


def clock(x: float) -> float:
    return x + time.time()


def recursive(n: int) -> int:
    return 1 if n < 2 else n * recursive(n - 1)


def long_loop(x: int) -> int:
    y = 0
    for i in range(5000):
        y = x + i
    return y


def deep_loop(x: int) -> int:
    for i in range(300):
        x += i
    return x


def is_object(x: float) -> bool:
    return x is RATE


def float_key(x: float) -> str:
    return "v" + str(x)


def no_annotation(x):
    return x


def odd_annotation(x: dict) -> int:
    return 1


def several(*x: int) -> int:
    return 1


def lost_error(s: str) -> str:
    try:
        return s[5]
    except IndexError as error:
        return str(error)


REFUSED = [
    (endless, 1, "while loops have no expression"),
    (prints, 1, r"print\(\) has no exact expression"),
    (grows, 2, r"list\.extend\(\)"),
    (aliased, 3, r"list\.append\(\) changes 'parts' in its place"),
    (over_text, 1, "goes through a value that differs from row to row"),
    (set_of_values, 1, "a set of values that differ"),
    (grows_when_read, 1, "a value of type defaultdict"),
    (clock, 1, r"time\.time\(\) has no exact expression"),
    (rebinds, 1, "a global variable is assigned"),
    (recursive, 1, "calls itself"),
    (long_loop, 2, "loops of more than 1000 rounds"),
    (deep_loop, 2, "an expression of 201 operations in each other is too deep"),
    (is_object, 1, "`is` compares objects"),
    (float_key, 1, "a float as a text"),
    (no_annotation, 0, "'x' has no annotation"),
    (odd_annotation, 0, "'x' is declared dict"),
    (several, 0, "any number of arguments"),
    (lost_error, 3, "a caught error is looked at"),
]


@pytest.mark.parametrize(("function", "after", "reason"), REFUSED)
def test_it_is_refused_with_its_place(function: Any, after: int, reason: str) -> None:
    lifted = lift(function)
    assert lifted.plan.tier == "python"
    refusal = lifted.plan.refusal
    assert refusal is not None
    assert refusal.function == function.__name__
    assert refusal.line == function.__code__.co_firstlineno + after
    assert refusal.advice
    with pytest.raises(NotLifted, match=reason):
        lifted(col("a"))


def test_a_wrapper_is_read_as_what_it_is() -> None:
    @functools.wraps(helper)
    def wrapper(*args: float) -> float:
        return helper(*args) + 1

    assert "takes any number of arguments" in str(lift(wrapper).plan)


def optional_by_default(x: float = None) -> float:  # type: ignore[assignment]  # noqa: RUF013
    return 0.0 if x is None else x


def test_a_default_of_none_makes_an_argument_optional() -> None:
    assert run(lift(optional_by_default)(col("c")), [1.5, None]) == [1.5, 0.0]
    assert run(lift(optional_by_default)(), [1]) == [0.0]


def doubling(x: float) -> float:
    for _ in range(30):
        x = x * 0.5 if x > 1 else x + x
    return x


def test_what_is_huge_as_a_tree_is_small_as_what_it_is() -> None:
    """2 ** 60 nodes and more, written out; some hundred different ones."""
    assert lift(doubling).expression.written > 2**60
    assert run(lift(doubling)(col("c")), [0.75, 3.0]) == [doubling(0.75), doubling(3.0)]


def deep(x: float) -> float:
    for n in range(2000):
        x = x * 0.5 if x > n else x + n
    return x


def wide(x: float) -> float:
    if x == 0.5:
        return 1.0
    return max([x * n for n in range(1500)])


def test_what_is_too_large_is_refused() -> None:
    assert "is too deep" in str(lift(deep).plan)
    assert "is not lifted" in str(lift(wide).plan)


def test_a_builtin_is_no_function() -> None:
    assert "no plain Python function" in str(lift(len).plan)
    assert "no plain Python function" in str(lift(math.sqrt).plan)


def test_lambdas_on_one_line_are_told_apart() -> None:
    first, second = (lambda x: x + 1), (lambda x: x + 2)
    types = {"x": INT64}
    assert lift(first, types).expression.same(lift(lambda y: y + 1, {"y": INT64}).expression) is False
    found = [run(lift(one, types)(col("c")), [5]) for one in (first, second)]
    assert found == [[6], [7]]


def test_a_changed_file_is_not_trusted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "changing_module.py"
    path.write_text("def f(x: int) -> int:\n    return x + 1\n")
    import linecache

    import changing_module

    assert lift(changing_module.f).plan.tier == "native"
    path.write_text("def f(x: int) -> int:\n    return x + 2\n")
    linecache.checkcache()
    assert "not what is running" in str(lift(changing_module.f).plan)
    path.write_text("\n\n\ndef f(x: int) -> int:\n    return x + 1\n")
    linecache.checkcache()
    assert lift(changing_module.f).plan.tier == "native", "the same function further down is still the same"


def test_a_function_without_source() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x: int) -> int:\n    return x + 1\n", scope)
    assert "source cannot be read" in str(lift(scope["f"]).plan)


def run(expression: Any, values: list[Any], kind: Any = None) -> list[Any]:
    table = pa.table({"c": pa.array(values, kind)})
    arrow = engine("arrow")
    return arrow.prepare({"y": expression}, arrow.schema_of(table.schema))(table)["y"].to_pylist()


def untyped(x, bonus=1):
    return (x or 0) + bonus


def unlike(x):
    return x if x else 1


def test_types_can_be_given() -> None:
    lifted = lift(untyped, {"x": "int64"})
    assert str(lifted.arguments["x"]) == "int | None"
    assert str(lifted.returns) == "int | None"
    assert run(lifted(col("c")), [1, None]) == [2, 1]
    assert lift(untyped, {"x": FLOAT64}, returns="float64").returns.type == FLOAT64
    assert lift(untyped, {"x": STRING}).plan.tier == "native", (
        "which raises TypeError for most texts, as Python does"
    )
    assert "it returns int, str, which makes no column" in str(lift(unlike, {"x": STRING}).plan)


def test_arguments_are_converted_without_loss() -> None:
    speed = lift(augmented)
    assert run(speed(col("c"), 1), [3], pa.int32()) == [augmented(3.0, 1)]
    with pytest.raises(TypeError, match="argument 'n' does not become int without loss"):
        run(speed(1.0, col("c")), [1.0, 1.5])
    with pytest.raises(TypeError, match="argument 'x' is None, and is declared float"):
        run(speed(col("c"), 1), [None], pa.float64())
    with pytest.raises(TypeError, match="argument 'x' does not become float without loss"):
        run(speed(col("c"), 1), [2**53 + 1])
    with pytest.raises(ExpressionError, match="argument 'x' is declared float64, and gets string"):
        run(speed(col("c"), 1), ["a"])


def test_results_are_converted_without_loss() -> None:
    def half(x: int) -> int:
        return x / 2

    def word(x: int) -> int:
        return "a" if x == 1 else x

    assert run(lift(half)(col("c")), [4]) == [2]
    with pytest.raises(ValueError, match="returned a float that no int is equal to"):
        run(lift(half)(col("c")), [4, 5])
    with pytest.raises(TypeError, match="returned str, and is declared to return int"):
        run(lift(word)(col("c")), [1])


def test_a_plan_says_what_is_out_of_reach() -> None:
    assert lift(swapped).limits == ("a whole number leaves 64 bits (-)",)
    assert "it declines (OutOfReach)" in str(lift(swapped).plan)
    assert lift(constants).limits == ()
    assert str(lift(constants).plan).endswith("rows")


def test_numbers_that_leave_64_bits_raise() -> None:
    with pytest.raises(OutOfReach, match="a whole number leaves 64 bits"):
        run(lift(swapped)(col("c"), -5), [2**63 - 1])


def test_defaults_and_counts_of_arguments() -> None:
    assert run(lift(helper)(col("c")), [1.5]) == [3.0]
    assert run(lift(helper)(col("c"), 10.0), [1.5]) == [15.0]
    with pytest.raises(ExpressionError, match=r"helper\(\) takes x, factor, and got 3"):
        lift(helper)(1.0, 2.0, 3.0)
    with pytest.raises(ExpressionError, match="needs its argument 'x'"):
        lift(helper)()


def test_it_runs_on_tensors() -> None:
    torch = pytest.importorskip("torch")
    program = engine("torch").prepare({"y": lift(augmented)(col("x"), col("n"))}, {"x": FLOAT64, "n": INT64})
    values, valid = program({"x": torch.tensor([1.0, 2.5]), "n": torch.tensor([3, 4])})["y"]
    assert values.tolist() == [augmented(1.0, 3), augmented(2.5, 4)]
    divides = engine("torch").prepare({"y": lift(divided)(col("x"), col("n"))}, {"x": INT64, "n": INT64})
    values, valid = divides({"x": torch.tensor([7, 7]), "n": torch.tensor([2, 0])})["y"]
    assert valid.tolist() == [True, False], "a device cannot raise: the row has no value"
    assert values[0].item() == divided(7, 2)
