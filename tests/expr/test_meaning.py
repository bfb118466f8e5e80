"""What Arrow computes, against plain Python: an independent reading of each core operation, value by value."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import pytest
import xxhash
from expr_cases import INTS, NUMERALS, REALS, SCHEMAS, SINGLES, TABLES, WORDS
from expr_compare import same_leaf

from penstock.backends import engine
from penstock.expr.build import coalesce, col, cross, maximum, minimum, when
from penstock.expr.ops import TABLE

NAN, INF = math.nan, math.inf


def guarded(function):
    """As C does it: what Python raises for is nan or an infinity."""

    def call(*args):
        try:
            return function(*args)
        except ValueError:
            return NAN
        except OverflowError:
            return INF

    return call


def divide(x: float, y: float) -> float:
    if y != 0 or math.isnan(x) or x == 0:
        return NAN if y == 0 else x / y
    return math.copysign(INF, x) * math.copysign(1, y)


def log(function, pole: float):
    return lambda x: -INF if x == pole else guarded(function)(x)


def half_even(x: float) -> float:
    return math.copysign(float(round(x)), x) if math.isfinite(x) else x


def power(x: float, y: float) -> float:
    if x == 0 and y < 0:
        odd = y == int(y) and int(y) % 2 == 1 if math.isfinite(y) else False
        return math.copysign(INF, x) if odd else INF
    try:
        return math.pow(x, y)
    except OverflowError:
        odd = math.isfinite(y) and y == int(y) and int(y) % 2 == 1
        return -INF if x < 0 and odd else INF
    except ValueError:
        return NAN


def best(better, *values: float) -> float:
    if any(math.isnan(v) for v in values):
        return NAN
    found = values[0]
    for v in values[1:]:
        found = v if better(v, found) else found
    return found


a, b = col("a"), col("b")
REFERENCES = {
    "add": (a + b, lambda x, y: x + y),
    "subtract": (a - b, lambda x, y: x - y),
    "multiply": (a * b, lambda x, y: x * y),
    "divide": (a / b, divide),
    "pow": (a**b, power),
    "eq": (a == b, lambda x, y: x == y),
    "ne": (a != b, lambda x, y: x != y),
    "lt": (a < b, lambda x, y: x < y),
    "le": (a <= b, lambda x, y: x <= y),
    "gt": (a > b, lambda x, y: x > y),
    "ge": (a >= b, lambda x, y: x >= y),
    "minimum": (minimum(a, b), lambda x, y: best(lambda v, w: v < w, x, y)),
    "maximum": (maximum(a, b), lambda x, y: best(lambda v, w: v > w, x, y)),
    "negate": (-a, lambda x: -x),
    "abs": (a.abs(), abs),
    "sign": (a.sign(), lambda x: x if x == 0 or math.isnan(x) else math.copysign(1, x)),
    "round": (a.round(), half_even),
    "floor": (
        a.floor(),
        lambda x: (math.copysign(float(math.floor(x)), x) if x else x) if math.isfinite(x) else x,
    ),
    "ceil": (a.ceil(), lambda x: math.copysign(float(math.ceil(x)), x) if math.isfinite(x) else x),
    "sqrt": (a.sqrt(), guarded(math.sqrt)),
    "log": (a.log(), log(math.log, 0)),
    "log1p": (a.log1p(), log(math.log1p, -1)),
    "log10": (a.log10(), log(math.log10, 0)),
    "exp": (a.exp(), guarded(math.exp)),
    "expm1": (a.expm1(), guarded(math.expm1)),
    "sin": (a.sin(), guarded(math.sin)),
    "cos": (a.cos(), guarded(math.cos)),
    "tanh": (a.tanh(), math.tanh),
    "clip": (a.clip(-1, 2.5), lambda x: -1.0 if x < -1 else 2.5 if x > 2.5 else x),
    "bucketize": (
        a.bucketize([-1, 0, 0.7]),
        lambda x: None if math.isnan(x) else sum(e <= x for e in (-1, 0, 0.7)),
    ),
}


def arrow(expression, table: str = "numbers") -> list:
    return engine("arrow").prepare({"x": expression}, SCHEMAS[table])(TABLES[table])["x"].to_pylist()


@pytest.mark.parametrize("op", REFERENCES)
def test_arithmetic_is_what_python_says(op: str) -> None:
    expression, function = REFERENCES[op]
    names = [name for name in "ab" if f"col('{name}')" in repr(expression)]
    rows = zip(*(TABLES["numbers"][name].to_pylist() for name in names), strict=True)
    wrong = []
    for row, got in zip(rows, arrow(expression), strict=True):
        wanted = None if None in row else function(*row)
        if not same_leaf(wanted, got, TABLE[op].tier, 1.0):
            wrong.append((row, wanted, got))
    assert wrong == []


def test_logic_is_three_valued() -> None:
    rows = list(zip(TABLES["numbers"]["p"].to_pylist(), TABLES["numbers"]["q"].to_pylist(), strict=True))
    both = [False if False in (x, y) else None if None in (x, y) else True for x, y in rows]
    either = [True if True in (x, y) else None if None in (x, y) else False for x, y in rows]
    assert arrow(col("p") & col("q")) == both
    assert arrow(col("p") | col("q")) == either
    assert arrow(~col("p")) == [None if x is None else not x for x, _ in rows]


def test_choice() -> None:
    rows = list(zip(*(TABLES["numbers"][name].to_pylist() for name in "pab"), strict=True))
    same = [str(x if p else y) for p, x, y in rows]
    assert [str(x) for x in arrow(when(col("p"), a).otherwise(b))] == same
    assert [str(x) for x in arrow(coalesce(a, b))] == [str(y if x is None else x) for _, x, y in rows]


def nearest(x: float, digits: int, least: int, most: int) -> float:
    """x rounded to a binary float of so many digits, by exact arithmetic."""
    if not math.isfinite(x) or x == 0:
        return x
    exponent = max(math.frexp(x)[1] - digits, least)
    step = Fraction(2) ** exponent
    found = round(Fraction(x) / step) * step
    if abs(found) >= Fraction(2) ** most:
        return math.copysign(INF, x)
    return math.copysign(float(found), x)


@pytest.mark.parametrize(("dtype", "shape"), [("float32", (24, -149, 128)), ("float16", (11, -24, 16))])
def test_narrow_floats_are_the_nearest(dtype: str, shape: tuple[int, int, int]) -> None:
    for source, values in (("a", TABLES["numbers"]["a"]), ("i64", TABLES["numbers"]["i64"])):
        for x, got in zip(values.to_pylist(), arrow(col(source).cast(dtype)), strict=True):
            if x is None:
                assert got is None
            elif source == "i64":
                step = Fraction(2) ** max(x.bit_length() - shape[0], 0)
                exact = round(Fraction(x) / step) * step
                assert got == (math.copysign(INF, x) if abs(exact) >= 2 ** shape[2] else float(exact))
            else:
                assert same_leaf(nearest(x, *shape), got, "EXACT", 1.0), x


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_whole_numbers_are_cut(bits: int) -> None:
    for x, got in zip(TABLES["numbers"]["a"].to_pylist(), arrow(a.cast(f"int{bits}")), strict=True):
        wanted = int(x) if x is not None and math.isfinite(x) else None
        fits = wanted is not None and -(1 << (bits - 1)) <= wanted < 1 << (bits - 1)
        assert got == (wanted if fits else None), x


def test_texts_are_numbers_by_one_rule() -> None:
    import re

    plain = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
    words = {"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}
    texts = TABLES["texts"]["n"].to_pylist()
    for text, got, whole in zip(
        texts, arrow(col("n").cast("float64"), "texts"), arrow(col("n").cast("int64"), "texts"), strict=True
    ):
        number = text is not None and (plain.fullmatch(text) or (text.isascii() and text.lower() in words))
        assert same_leaf(float(text) if number else None, got, "EXACT", 1.0), text
        exact = int(text) if text is not None and re.fullmatch("[+-]?[0-9]+", text) else None
        assert whole == (exact if exact is not None and -(2**63) <= exact < 2**63 else None), text
    assert len(set(NUMERALS)) > 50


def test_texts_are_pythons() -> None:
    texts = TABLES["texts"]["s"].to_pylist()
    for expression, function in (
        (col("s").lower(), str.lower),
        (col("s").upper(), str.upper),
        (col("s").strip(), str.strip),
        (col("s").length(), len),
        (col("s").replace("a", "bb"), lambda x: x.replace("a", "bb")),
        (col("s").split(","), lambda x: x.split(",")),
        (col("s").substring(1, 2), lambda x: x[1:3]),
        (col("s").startswith("a"), lambda x: x.startswith("a")),
    ):
        assert arrow(expression, "texts") == [None if x is None else function(x) for x in texts]
    assert len(WORDS) > 50


def signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def bytes_of(value, kind: str) -> bytes:
    if kind == "string":
        return value.encode()
    if kind.startswith("float"):
        value = NAN if math.isnan(value) else 0.0 if value == 0 else value
        return struct.pack("<d" if kind == "float64" else "<f", value)
    return int(value).to_bytes(
        8 if kind in ("int64", "timestamp", "timestamp_ntz") else 4, "little", signed=True
    )


@pytest.mark.parametrize(
    ("table", "columns"),
    [("numbers", [c]) for c in ("a", "f", "p", "i8", "i16", "i32", "i64")]
    + [
        ("texts", ["s"]),
        ("texts", ["k", "s", "t"]),
        ("texts", ["x", "k"]),
        ("numbers", ["a", "i8", "f", "p"]),
    ],
)
def test_hashes_are_xxh64_of_the_bytes(table: str, columns: list[str]) -> None:
    kinds = [str(SCHEMAS[table][name]) for name in columns]
    parts = [col(name) for name in columns]
    big = 2**63 - 1
    got = arrow(cross(*parts).hash(big) if len(parts) > 1 else parts[0].hash(big), table)
    rows = zip(*(TABLES[table][name].to_pylist() for name in columns), strict=True)
    for row, found in zip(rows, got, strict=True):
        seed = 42
        for value, kind in zip(row, kinds, strict=True):
            seed = seed if value is None else xxhash.xxh64_intdigest(bytes_of(value, kind), seed)
        assert found == signed(seed) % big, row


def test_hashes_of_the_research_notes() -> None:
    import pyarrow as pa

    table = pa.table({"s": ["abc", ""], "i": pa.array([1, 1], pa.int32()), "l": [1, 1], "d": [1.0, 1.0]})
    program = engine("arrow").prepare(
        {name: col(name).hash(10**18) for name in "sild"}, engine("arrow").schema_of(table.schema)
    )
    got = program(table).to_pydict()
    assert got["s"] == [1423657621850124518 % 10**18, -7444071767201028348 % 10**18]
    assert [got[name][0] for name in "ild"] == [
        x % 10**18 for x in (-6698625589789238999, -7001672635703045582, -2162451265447482029)
    ]


def test_the_edge_values_are_there() -> None:
    assert {"-0.0", "nan", "inf", "5e-324"} <= {str(x) for x in REALS}
    assert {2**63 - 1, -(2**63), 2**53 + 1} <= set(INTS[64])
    assert 1e-45 in SINGLES
