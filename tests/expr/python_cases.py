"""Cases of the operations that lifted Python functions are made of, on the tables of `expr_cases`."""

from __future__ import annotations

import math
from typing import Any

from penstock.expr.build import col, lit
from penstock.expr.nodes import Expression, call
from penstock.expr.ops.python import BITWISE, ONE_REAL, TWO_REALS

WHOLE_PAIRS = (
    "int_add",
    "int_subtract",
    "int_multiply",
    "int_floordiv",
    "int_modulo",
    "int_divide",
    "int_power",
)
REAL_PAIRS = ("float_floordiv", "float_modulo", "float_power")
DIVISORS = (1, -1, 2, -2, 3, -7, 0, 1000, 2**53, 2**63 - 1, -(2**63))


def made(op: str, *args: object, **params: Any) -> Expression:
    return call(op, *args, params=params)


def of_numbers() -> list[Expression]:
    a, b, i, j = col("a"), col("b"), col("i64"), col("j64")
    found = [made(op, i, j) for op in WHOLE_PAIRS]
    found += [made(op, col("i8"), col("j32")) for op in WHOLE_PAIRS]
    found += [
        made(op, i, divisor) for op in ("int_floordiv", "int_modulo", "int_divide") for divisor in DIVISORS
    ]
    found += [made("int_power", col("i8"), lit(power)) for power in (-1, 0, 1, 2, 3, 4, 5, 9, 64, 65)]
    found += [
        made("int_power", col("j8"), col("i8")),
        made("int_power", lit(2), i),
        made("int_power", lit(-1), i),
    ]
    found += [made("int_bits", i, j, operation=operation) for operation in BITWISE]
    found += [made("int_bits", j, col("i8"), operation=operation) for operation in BITWISE]
    found += [made("int_bits", lit(1), lit(shift), operation="lshift") for shift in (0, 33, 62, 63, 64, -1)]
    found += [made(op, a, b) for op in REAL_PAIRS]
    found += [made("float_modulo", a, lit(x)) for x in (2.0, -2.0, 0.0, 0.1)]
    found += [made("float_power", a, lit(x)) for x in (2.0, 0.5, -1.0, 3.0)]
    found += [
        made("float_round", a * lit(scale), digits=n)
        for n, scale in ((0, 1.0), (1, 1e5), (2, 0.0267), (8, 1.0), (15, 1.0))
    ]
    found += [made("float_round", a + lit(shift), digits=2) for shift in (2.675, 0.125, 1e13)]
    found += [made("math", a, function=name) for name in ONE_REAL]
    found += [made("math", a, b, function=name) for name in TWO_REALS]
    for name in ("a", "f", "i8", "i32", "i64", "p"):
        for to in ("float64", "int64"):
            found += [
                made(op, col(name), argument=name, to=to) for op in ("convert_argument", "argument_fits")
            ]
    found += [made(op, col("p"), argument="p", to="bool") for op in ("convert_argument", "argument_fits")]
    nothing = lit(None, "int64")
    found += [made("raise_faults", one, nothing, faults=("ValueError: never",)) for one in (a, i, col("p"))]
    return found


def of_texts() -> list[Expression]:
    s, t, n, k = (col(name) for name in ("s", "t", "n", "k"))
    found = [made("text_concat", s, t), made("text_concat", s, "-", t, s), made("text_find", s, t)]
    found += [made("text_find", s, part) for part in ("", "a", "b", "😀", "ς")]
    found += [made("text_repeat", s, times) for times in (-1, 0, 1, 3, k, 10_000_001)]
    found += [made("text_at", s, index) for index in (0, 1, -1, -3, 5, k)]
    spans = (
        (0, 2),
        (1, 2**63 - 1),
        (-3, -1),
        (-10, 7),
        (2, 1),
        (0, -1),
        (-(2**63), 2**63 - 1),
        (k, 3),
        (0, k),
    )
    found += [made("text_slice", s, start, stop) for start, stop in spans]
    found += [made("text_reverse", s)]
    for side in ("left", "right", "both"):
        found += [made("text_strip", s, side=side)]
        found += [made("text_strip", s, side=side, characters=some) for some in (" a", "", "x😀", "])[$")]
        if side != "both":
            found += [made("text_pad", s, width=width, character="😀", side=side) for width in (0, 3, 40)]
    found += [made("text_count", s, part=part) for part in ("a", "aa", ",", "😀", "ς")]
    found += [made("text_zfill", n, width=width) for width in (0, 1, 5, 9)]
    found += [
        made("text_is", one, test=test)
        for one in (s, n)
        for test in ("isdigit", "isalpha", "isalnum", "isspace")
    ]
    found += [made("text_is", n, test=test) for test in ("isdecimal", "isnumeric")]
    found += [made("text_words", s), made("text_join", made("text_words", s), separator="--")]
    found += [made("text_join", s.split(","), separator=""), made("list_at", s.split(","), k)]
    found += [made("list_at", made("text_words", s), index) for index in (0, 1, -1, -2)]
    for words in (s.split(","), col("parts")):
        found += [made("list_slice", words, 1, k), made("list_reverse", words)]
        found += [made("list_best", words, which=which) for which in ("max", "min")]
        found += [made(op, words, one) for op in ("list_find", "list_count") for one in ("a", "", t)]
    for op in ("is_int_text", "int_of_text", "is_float_text", "float_of_text"):
        found += [
            made(op, n),
            made(op, made("text_concat", " ", n, "\u2003")),
            made(op, made("text_concat", n, "_1")),
        ]
    found += [made(op, s, argument="s", to="string") for op in ("convert_argument", "argument_fits")]
    found += [made("raise_faults", s, lit(None, "int64"), t, faults=("ValueError: {0}",))]
    return found


def of_times() -> list[Expression]:
    return [
        made("days_between", col("d"), col("d2")),
        *(made(op, col("wall")) for op in ("date_of", "microsecond")),
    ]


def of_lists() -> list[Expression]:
    found = [made("list_at", col(name), index) for name in "vwhm" for index in (0, -1, 2, col("i"))]
    for name in "vwhm":
        for to in ("list<float64>", "list<int64>"):
            found += [
                made(op, col(name), argument=name, to=to) for op in ("convert_argument", "argument_fits")
            ]
    spans = ((0, 2), (1, 2**63 - 1), (-2, -1), (2, 1), (-(2**63), 2**63 - 1), (col("i"), 3), (0, col("i")))
    found += [made("list_slice", col(name), *span) for name in "vm" for span in spans]
    return found


def of_any_lists() -> list[Expression]:
    """On lists of one length too, which is what tensors hold."""
    v, w, h, m, x, i = (col(name) for name in ("v", "w", "h", "m", "x", "i"))
    found = [made("list_reverse", one) for one in (v, m)]
    for flag in (False, True):
        found += [made("list_total", one, start, compensated=flag) for one in (v, w) for start in (0.0, x)]
        found += [made("list_total", one, start, compensated=flag) for one in (h, m) for start in (0, i)]
    found += [made("list_total", h, 2**63 - 8, compensated=False)]
    found += [made("list_best", one, which=which) for one in (v, w, h, m) for which in ("max", "min")]
    for op in ("list_find", "list_count"):
        found += [made(op, one, value) for one in (v, w) for value in (0.0, 1.5, 0.1, math.nan, x)]
        found += [made(op, one, value) for one in (h, m) for value in (0, 1, 3, i)]
    return found
