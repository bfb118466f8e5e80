"""The one table of cases: edge values by family, and expressions on them. Every engine computes all of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime

import lookup_cases
import numpy as np
import pyarrow as pa
import python_cases
import vector_cases

from penstock.backends.arrow import schema_of
from penstock.expr.build import coalesce, col, cross, lit, maximum, minimum, stack, when
from penstock.expr.nodes import Expression
from penstock.expr.ops import TABLE
from penstock.expr.types import Type

NAN, INF = math.nan, math.inf
REALS = [
    *(
        None,
        NAN,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.7,
        -0.7,
        INF,
        -INF,
        1e300,
        -1e300,
        5e-324,
    ),
    *(1e-310, -1e-45, 1e-10, 2.0**53 + 2, 2.0**53 - 1, 2.0**63, -(2.0**63), -1.0000001, 3.7, 30.0, 65519.99),
    *(
        65520.0,
        -65504.0,
        1e5,
        127.9,
        -128.5,
        2147483647.5,
        709.9,
        2049.0,
        1 + 2.0**-11 + 2.0**-40,
        3e38,
        3.5e38,
    ),
    *(16777217.0, 6.1e-5, 3e-8, 2.0**-25, 0.1),
]
PAIRED = [
    *(
        None,
        NAN,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.5,
        -2.5,
        INF,
        -INF,
        1e300,
        -1e300,
        5e-324,
        2.0**53 + 2,
        3.0,
        -3.0,
    ),
    *(1e-310, 0.1),
]
"""Each of the above meets each of these."""
INTS = {
    bits: [None, 0, 1, -1, 2, 7, 100, -(1 << (bits - 1)), (1 << (bits - 1)) - 1] for bits in (8, 16, 32, 64)
}
INTS[64] += [
    2**53 - 1,
    2**53,
    2**53 + 1,
    2**62 + 1,
    128,
    -129,
    40000,
    2**31,
    (1 << 60) + (1 << 36) + 1,
    65519,
    65520,
]
INTS[32] += [16777217, 65519]
SINGLES = [None, NAN, 0.0, -0.0, 1.5, INF, -INF, 1e-45, -1e-40, 3.4028235e38, 0.1, 16777216.0, -2.5]
BOOLS = [None, True, False]


def _cycled(values: list, rows: int, stride: int, kind: pa.DataType) -> pa.Array:
    return pa.array([values[(i // stride) % len(values)] for i in range(rows)], kind)


def _numbers() -> pa.Table:
    n = len(PAIRED)
    rows = len(REALS) * n
    columns = {
        "a": _cycled(REALS, rows, n, pa.float64()),
        "b": _cycled(PAIRED, rows, 1, pa.float64()),
        "f": _cycled(SINGLES, rows, 1, pa.float32()),
        "g": _cycled(SINGLES, rows, len(SINGLES), pa.float32()),
        "p": _cycled(BOOLS, rows, 1, pa.bool_()),
        "q": _cycled(BOOLS, rows, 3, pa.bool_()),
    }
    for bits, values in INTS.items():
        columns[f"i{bits}"] = _cycled(values, rows, 1, getattr(pa, f"int{bits}")())
        columns[f"j{bits}"] = _cycled(values, rows, len(values), getattr(pa, f"int{bits}")())
    return pa.table(columns)


WORDS = [
    *(
        None,
        "",
        " ",
        "a",
        "abc",
        "ABC",
        "Straße",
        "İstanbul",
        "ΑΣ",
        "ΑΣ ΟΔΟΣ",
        "σς",
        "ŉ",
        "ǰ",
        "ﬃ",
        "é",
        "e\u0301",
    ),
    *(
        "😀",
        "a😀b",
        "👨\u200d👩\u200d👧",
        "\u0130",
        "x" * 40,
        "x" * 31,
        "x" * 32,
        "日本語テキスト" * 7,
        "١٢",
        "\u2028x",
    ),
    *(" a ", "\ta\n", "\u00a0a\u2003", "\u3000", "\u200ba", "\x1fa", "\x0ba\x0c", "\u0085a", "\ufeffa"),
    *(
        "a,b",
        ",",
        ",,",
        "a,,b,",
        "a.b",
        "a|b",
        "aaa",
        "aXbXc",
        "\\E,\\Q",
        "line\nbreak",
        "id-17 id-18",
        "id-",
    ),
    *("key=val;x=1", "2024-02-29", "a\r\nb", "$5.00", "(x)", "[y]", "tab\there"),
]
NUMERALS = [
    *(
        "0",
        "-0",
        "+5",
        "007",
        "12",
        "-1.5",
        "1.",
        ".5",
        "-.5e3",
        "1e5",
        "1E-5",
        "1e400",
        "-1e400",
        "1e-400",
        "",
        ".",
    ),
    *(
        " 1",
        "1 ",
        "1\n",
        "1_000",
        "١٢",
        "1d",
        "1f",
        "0x10",
        "0x1p3",
        "nan",
        "NaN",
        "inf",
        "-Inf",
        "+infinity",
        "-nan",
    ),
    *(
        "Infinity",
        "e5",
        "1e",
        "--1",
        "1,5",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
    ),
    *(
        "-9223372036854775809",
        "127",
        "128",
        "-128",
        "-129",
        "0000000000000000000000000012",
        "true",
        "FALSE",
        "t",
    ),
    *(
        "yes",
        "1.7976931348623157e308",
        "2.2250738585072011e-308",
        "0.1",
        "123456789012345678901234567890",
        "+",
        "-",
    ),
    *(
        "65504.5",
        "16777217",
        "3.4028236e38",
        None,
        "True",
        "tRUE",
        "\u017fe",
        "\u0131nf",
        "0.30000000000000004",
        "1.0",
    ),
]


def _texts() -> pa.Table:
    rows = max(len(WORDS), len(NUMERALS)) + 6
    return pa.table(
        {
            "s": _cycled(WORDS, rows, 1, pa.string()),
            "t": pa.array([WORDS[(7 * i + 3) % len(WORDS)] for i in range(rows)], pa.string()),
            "n": _cycled(NUMERALS, rows, 1, pa.string()),
            "k": _cycled(INTS[32], rows, 1, pa.int32()),
            "x": _cycled(REALS, rows, 1, pa.float64()),
            "parts": pa.array(
                [[["a", None, "é"], [], None, ["", "😀"]][i % 4] for i in range(rows)], pa.list_(pa.string())
            ),
        }
    )


def _micros(*instants: datetime) -> list[int]:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [int((at - epoch).total_seconds()) * 1_000_000 + at.microsecond for at in instants]


def _instants() -> list[int | None]:
    at = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(1600, 2, 29, 12, 34, 56, 789, tzinfo=UTC),
        datetime(1582, 10, 10, tzinfo=UTC),
        datetime(1900, 2, 28, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2000, 2, 29, tzinfo=UTC),
        datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC),
        datetime(2023, 12, 31, 23, 30, tzinfo=UTC),
        datetime(2100, 2, 28, tzinfo=UTC),
        datetime(2499, 7, 1, tzinfo=UTC),
        datetime(2600, 7, 1, tzinfo=UTC),
        datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(9998, 7, 4, 1, 2, 3, tzinfo=UTC),
    ]
    # Around the hours that summer time skips and repeats, in Berlin, New York and Lord Howe.
    for day in (
        datetime(2024, 3, 31, 1, tzinfo=UTC),
        datetime(2024, 10, 27, 1, tzinfo=UTC),
        datetime(2024, 3, 10, 7, tzinfo=UTC),
        datetime(2024, 11, 3, 6, tzinfo=UTC),
        datetime(2024, 4, 6, 15, tzinfo=UTC),
        datetime(1945, 5, 24, tzinfo=UTC),
    ):
        at += [
            day.replace(minute=30),
            day,
            day.replace(hour=day.hour - 1 if day.hour else 0, minute=59, second=59),
        ]
    random = np.random.default_rng(7).integers(_micros(at[0])[0], _micros(at[13])[0], 60)
    recent = np.random.default_rng(8).integers(-(2**31), 2**32, 60) * 1_000_000
    return [None, *_micros(*at), *random.tolist(), *recent.tolist()]


def _times() -> pa.Table:
    instants = _instants()
    other = instants[11:] + instants[:11]
    dates = [None if at is None else at // 86_400_000_000 for at in instants]
    return pa.table(
        {
            "at": pa.array(instants, pa.timestamp("us", "UTC")),
            "at2": pa.array(other, pa.timestamp("us", "UTC")),
            "wall": pa.array(instants, pa.timestamp("us")),
            "wall2": pa.array(other, pa.timestamp("us")),
            "d": pa.array(dates, pa.date32()),
            "d2": pa.array(dates[5:] + dates[:5], pa.date32()),
        }
    )


RAGGED = [
    *(
        None,
        [],
        [1.0],
        [NAN],
        [None],
        [-0.0],
        [-0.0, 0.0],
        [0.0, -0.0],
        [1.0, 2.0, 3.0, 4.0],
        [1.0, None],
        [3.0, NAN],
    ),
    *(
        [None, NAN],
        [0.0, 0.0],
        [INF, 1.0],
        [INF, -INF],
        [0.1] * 10,
        [3.0, 4.0],
        [1e-3, 7.5, -2.25],
        [5e-324, 1.0],
    ),
    *([1e16, 1.0, -1e16, 1.0], [-1.0, -2.0]),
]
PLACES = [None, [], [0], [4], [5], [-1], [0, 0, 3], [None], [1, None], [2, 4, 1], [9, 1], [2**40]]


def _lists(fixed: bool) -> pa.Table:
    if fixed:
        reals = [r if r is None else ([*r, 2.0, 0.5, -1.0])[:3] for r in RAGGED]
        places = [p if p is None else ([*p, 1, 3])[:2] for p in PLACES]
    else:
        reals, places = RAGGED, PLACES
    rows = 2 * len(RAGGED)
    kinds = {
        "v": pa.list_(pa.float64(), 3) if fixed else pa.list_(pa.float64()),
        "w": pa.list_(pa.float32(), 3) if fixed else pa.list_(pa.float32()),
        "h": pa.list_(pa.int64(), 2) if fixed else pa.list_(pa.int64()),
        "m": pa.list_(pa.int16(), 2) if fixed else pa.list_(pa.int16()),
    }
    small = [p if p is None else [x if x is None or x < 1000 else 9 for x in p] for p in places]
    sources = {"v": reals, "w": reals, "h": places, "m": small}
    columns = {
        name: pa.array([sources[name][i % len(sources[name])] for i in range(rows)], kind)
        for name, kind in kinds.items()
    }
    columns["x"] = _cycled(REALS, rows, 1, pa.float64())
    columns["i"] = _cycled([None, 0, 1, 4, 5, -1, 3], rows, 1, pa.int32())
    columns["p"] = _cycled(BOOLS, rows, 1, pa.bool_())
    return pa.table(columns)


TABLES = {
    "numbers": _numbers(),
    "texts": _texts(),
    "times": _times(),
    "ragged": _lists(fixed=False),
    "fixed": _lists(fixed=True),
}
SCHEMAS: dict[str, dict[str, Type]] = {name: schema_of(table.schema) for name, table in TABLES.items()}


@dataclass(frozen=True)
class Case:
    """One expression on one table."""

    table: str
    expression: Expression

    @property
    def name(self) -> str:
        return f"{self.table}: {self.expression!r}"

    @property
    def ops(self) -> set[str]:
        return ops_of(self.expression)

    @property
    def tier(self) -> str:
        """The loosest tier of its operations."""
        return max((TABLE[op].tier for op in self.ops), key=["EXACT", "ULP", "SUM"].index, default="EXACT")


def ops_of(node: Expression) -> set[str]:
    found = {node.op} if hasattr(node, "op") else set()
    return found.union(*(ops_of(arg) for arg in node.args))


a, b, f, g, p, q = (col(name) for name in "abfgpq")
ALL_TARGETS = ("bool", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
UNARY = [
    "abs",
    "sign",
    "round",
    "floor",
    "ceil",
    "sqrt",
    "log",
    "log1p",
    "log10",
    "exp",
    "expm1",
    "sin",
    "cos",
    "tanh",
    "is_null",
    "is_nan",
]


def _number_cases() -> list[Expression]:
    found: list[Expression] = [a, f, col("i8"), p, lit(1.5) + 1, lit(None, "float64") + a]
    found += [getattr(x, name)() for name in UNARY for x in (a, f, col("i64"))]
    found += [
        -a,
        -f,
        ~p,
        p.is_null(),
        a + b,
        a - b,
        a * b,
        a / b,
        a**b,
        f + g,
        f * g,
        f / g,
        col("i64") + col("j64"),
    ]
    found += [
        col("i8") + col("j8"),
        col("i64") * col("j64"),
        col("i64") / col("j64"),
        col("i32") / 0,
        a / -0.0,
        a / 0.0,
    ]
    found += [
        a / 3,
        1 / a,
        2**a,
        a**2,
        a**0.5,
        a**-1,
        1.0**a,
        (-1.0) ** a,
        a ** float("inf"),
        a ** float("nan"),
    ]
    for left, right in (
        (a, b),
        (f, g),
        (a, f),
        (col("i64"), col("j64")),
        (col("i8"), col("j32")),
        (col("i64"), b),
    ):
        found += [left == right, left != right, left < right, left <= right, left > right, left >= right]
    found += [a == 1.5, a != 1.5, a < 1.5, a <= 1.5, a > 1.5, a >= 1.5, a < float("nan"), a == float("nan")]
    found += [p == q, p < q, p & q, p | q, p & True, p | False, (a > b) & (b > 0), (a > b) | p]
    found += [
        minimum(a, b),
        maximum(a, b),
        minimum(a, b, f),
        maximum(f, g, 0.0),
        minimum(col("i8"), col("j8")),
    ]
    found += [maximum(col("i64"), col("j64"), 5), minimum(a, col("i64")), maximum(a), minimum(f, g)]
    found += [a.clip(-1, 1), a.clip(0.0, 0.0), a.clip(-INF, 2), f.clip(-1.5, INF), col("i64").clip(-5, 2**53)]
    found += [col("i8").clip(-300, 300), col("i8").clip(0, 50), col("i8").clip(0, 1.5)]
    found += [
        a.bucketize([0]),
        a.bucketize([-1.0, 0.0, 0.7, 2.5, 1e300]),
        col("i64").bucketize([0, 2**53 + 1]),
        f.bucketize([0.1]),
    ]
    found += [
        when(a > 1, a).when(p, b).otherwise(0.0),
        when(p, col("i8")).otherwise(col("j64")),
        when(p, 1).otherwise(a),
    ]
    found += [when(p, q).otherwise(p), when(b != 0, a / b).otherwise(-1), when(p, f).otherwise(g)]
    found += [when(p, lit(None, "float64")).otherwise(a)]
    found += [
        coalesce(a, b),
        coalesce(a, col("i64")),
        coalesce(f, a, 1),
        coalesce(col("i8"), col("j16")),
        coalesce(p, q),
    ]
    found += [
        a.fill(0),
        a.fill(0.1),
        a.fill(NAN),
        f.fill(0.5),
        f.fill(0.1),
        col("i8").fill(7),
        col("i8").fill(300),
        p.fill(True),
    ]
    for source in (a, f, p, *(col(f"i{bits}") for bits in (8, 32, 64))):
        found += [source.cast(target) for target in ALL_TARGETS]
    found += [x.hash(1000) for x in (a, f, p, *(col(f"i{bits}") for bits in (8, 16, 32, 64)))]
    found += [a.hash(1), a.hash(2**63 - 1), col("i64").hash(2**40 + 7), (a + b).hash(97), lit(7).hash(97)]
    found += [cross(a, col("i8"), f, p).hash(10_007), cross(col("i64"), col("j16")).hash(10_007)]
    found += [
        a.cyclic(24),
        stack(a, f, col("i64")),
        stack(a, col("i64"), dtype="float32"),
        stack(a, b, dtype="int32"),
    ]
    found += [stack(a, 1, dtype="float16"), stack(stack(a, b), f, stack(p.cast("int8")), dtype="int64")]
    found += [((a - 1.5) / 2.25).clip(-3, 3).cast("float32"), (a * 2 + b / 3 - f).floor()]
    found += [((a.log1p().fill(0).sqrt() / 3).log().log1p() + b).sign().floor() for _ in range(1)]
    return found


s, t, n = col("s"), col("t"), col("n")


def _text_cases() -> list[Expression]:
    found: list[Expression] = [
        s,
        s.lower(),
        s.upper(),
        s.strip(),
        s.length(),
        s.is_null(),
        s.fill("none"),
        s.strip().lower(),
    ]
    found += [s.contains(x) for x in ("a", "", "ß", ",", "😀")] + [s.startswith(x) for x in ("a", "", "İ")]
    found += [s.endswith(x) for x in ("b", "", "😀", "é")]
    found += [
        s.replace(*x)
        for x in (("a", "bb"), (",", ""), ("aa", "a"), ("😀", "$1"), (".", "\\"), ("e\u0301", "é"))
    ]
    found += [s.split(x) for x in (",", ".", "|", "\\E", "X", ", ", "😀", "\n", "a")]
    found += [s.substring(*x) for x in ((0, 1), (1, 2), (0, 0), (3, 100), (50, 2), (2, 2**31 - 10))]
    found += [
        s == t,
        s != t,
        s < t,
        s <= t,
        s > t,
        s >= t,
        s == "abc",
        coalesce(s, t, "z"),
        when(s < t, s).otherwise(t),
    ]
    found += [s.regex_extract(*x) for x in PATTERNS]
    found += [n.cast(target) for target in (*ALL_TARGETS, "string")] + [
        col("k").cast("string"),
        (s == t).cast("string"),
    ]
    found += [
        s.hash(1000),
        s.lower().hash(2**62),
        cross(s, col("k")).hash(1000),
        cross(col("k"), s, t).hash(10**9),
    ]
    found += [
        cross(col("x"), s).hash(77),
        n.strip().cast("float64") + 1,
        s.split(",").hash(50),
        col("parts").hash(100),
    ]
    found += [
        s.split(",").list_length(),
        s.split(",").element(1),
        col("parts").element(0),
        col("parts").pad(2, "-"),
    ]
    found += [col("parts").fill("?"), coalesce(col("parts"), s.split(",")), s.split(",").pad(3, "")]
    return found


PATTERNS = [
    (r"(\d+)", 1),
    (r"id-(\d*)", 1),
    (r"^(\w+)=(\w+)", 2),
    (r"([^,]*),(.*)$", 2),
    (r"a.b", 0),
    (r"(\d{4})-(\d{2})-(\d{2})", 3),
    (r"(x+?)x*$", 1),
    (r"\s+(\S)", 1),
    (r"(a|ab)(c|bcd)?", 2),
    (r"[\[(](\w)[\])]", 1),
    (r"(é|😀)", 1),
    (r"^$", 0),
    (r"(?:a|b)+", 0),
    (r".*", 0),
    (r"[^\w\s]", 0),
]

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
]
FIELDS = ["year", "month", "day", "weekday", "day_of_year", "hour", "minute", "second"]


def _time_cases() -> list[Expression]:
    at, at2, wall, wall2, d, d2 = (col(name) for name in ("at", "at2", "wall", "wall2", "d", "d2"))
    found = [getattr(at, field)(zone) for field in FIELDS for zone in ZONES]
    found += [getattr(wall, field)() for field in FIELDS] + [getattr(d, field)() for field in FIELDS[:5]]
    found += [x.epoch_seconds() for x in (at, wall, d)] + [x.hash(10_007) for x in (at, wall, d)]
    found += [
        at.seconds_since(at2),
        wall.seconds_since(wall2),
        d.seconds_since(d2),
        at < at2,
        wall == wall2,
        d >= d2,
    ]
    found += [
        at > datetime(2000, 2, 29, tzinfo=UTC),
        wall <= datetime(2024, 2, 29, 23, 59, 59),
        d == date(2000, 2, 29),
    ]
    found += [
        at.seconds_since(datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        coalesce(d, d2),
        at.is_null(),
        d,
        wall,
    ]
    found += [
        cross(at.hour("Europe/Berlin"), d).hash(100),
        at.hour("UTC").cyclic(24),
        at.weekday("UTC").one_hot(7),
    ]
    return found


def _list_cases() -> list[Expression]:
    v, w, h, m, x, i = (col(name) for name in ("v", "w", "h", "m", "x", "i"))
    found: list[Expression] = [v, h]
    for one in (v, w, h, m):
        found += [
            one.element(0),
            one.element(1),
            one.element(7),
            one.list_length(),
            one.list_sum(),
            one.list_mean(),
        ]
        found += [
            one.list_max(),
            one.list_min(),
            one.pad(2, 0),
            one.pad(5, 9),
            one.pad(1, 0),
            one.normalize(),
            one.hash(1000),
        ]
        found += [one.cast("float32"), one.cast("int8"), one.fill(1), one.is_null(), one.cast("float16")]
    found += [
        h.one_hot(5),
        m.one_hot(5),
        i.one_hot(5),
        i.one_hot(1),
        w.pad(4, 0.1),
        m.pad(4, 70000),
        w.fill(0.1),
    ]
    found += [
        stack(v.pad(2, 0), x, h.pad(1, 0)),
        stack(x, w.pad(2, 0.5), dtype="float32"),
        stack(i, i.one_hot(3)),
    ]
    found += [
        coalesce(v, w),
        when(col("p"), v).otherwise(w),
        when(x > 0, h).otherwise(m),
        v.normalize().list_sum(),
    ]
    return found


CASES = [
    *(Case("numbers", one) for one in _number_cases()),
    *(Case("texts", one) for one in _text_cases()),
    *(Case("times", one) for one in _time_cases()),
    *(Case(table, one) for table in ("ragged", "fixed") for one in _list_cases()),
    *(Case("numbers", one) for one in lookup_cases.of_numbers(INTS[64])),
    *(Case("texts", one) for one in lookup_cases.of_texts(WORDS)),
    *(Case(table, one) for table in ("ragged", "fixed") for one in lookup_cases.of_lists()),
    *(Case(table, one) for table in ("ragged", "fixed") for one in vector_cases.of_lists()),
    *(Case("numbers", one) for one in python_cases.of_numbers()),
    *(Case("texts", one) for one in python_cases.of_texts()),
    *(Case("times", one) for one in python_cases.of_times()),
    *(Case("ragged", one) for one in python_cases.of_lists()),
    *(Case(table, one) for table in ("ragged", "fixed") for one in python_cases.of_any_lists()),
]
