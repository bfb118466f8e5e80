"""The shapes of functions that Spark's own transpiler lowers, in words of our own; run by `test_transpiler.py`.

As a script it runs them over Spark Connect, where Spark's transpiler does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Plus:
    def __call__(self, n):
        return n + 4


class PlusUnlessNone:
    def __call__(self, n):
        if n is not None:
            return n + 4


def below_zero(n):
    if n is not None:
        return n < 0


def at_most(n):
    if n is not None:
        return n <= 0
    else:
        return None


def same(a, b):
    return a == b


def different(a, b):
    return a != b


def both(a, b):
    return a > 0 and b > 0


def either(a, b):
    return a > 0 or b > 0


def neither(a, b):
    return not (a > 0 or b > 0)


def larger(a, b):
    return a if a > b else b


def sign(n):
    if n > 0:
        return 1
    elif n < 0:
        return -1
    else:
        return 0


def turned(n):
    return -n * 3 - +n


def rest(n):
    return n % 7


def greeting(text):
    return "hello " + text


def again(text):
    return text * 2


def how_long(text):
    return len(text)


def is_word(text):
    return text == "word"


def unless_empty(text):
    if text:
        return "some"
    else:
        return "none"


INTS = [-9, -1, 0, 1, 5, 12]
PAIRS = [(a, b) for a in (-2, 0, 3) for b in (-2, 0, 3)]
TEXTS = ["", "a", "word", "two words", "ä"]
SHAPES: list[tuple[Callable[..., Any], str, str, list[Any]]] = [
    (Plus(), "bigint", "n bigint", INTS),
    (PlusUnlessNone(), "bigint", "n bigint", [*INTS, None]),
    (below_zero, "boolean", "n bigint", [*INTS, None]),
    (at_most, "boolean", "n bigint", [*INTS, None]),
    (same, "boolean", "a bigint, b bigint", [*PAIRS, (None, 1), (None, None)]),
    (different, "boolean", "a bigint, b bigint", [*PAIRS, (1, None), (None, None)]),
    (both, "boolean", "a bigint, b bigint", PAIRS),
    (either, "boolean", "a bigint, b bigint", PAIRS),
    (neither, "boolean", "a bigint, b bigint", PAIRS),
    (larger, "bigint", "a bigint, b bigint", PAIRS),
    (larger, "double", "a double, b double", [(1.5, float("nan")), (float("nan"), 1.5), (-0.5, 2.0)]),
    (sign, "bigint", "n bigint", INTS),
    (turned, "bigint", "n bigint", INTS),
    (rest, "bigint", "n bigint", INTS),
    (greeting, "string", "text string", TEXTS),
    (again, "string", "text string", TEXTS),
    (how_long, "bigint", "text string", TEXTS),
    (is_word, "boolean", "text string", [*TEXTS, None]),
    (unless_empty, "string", "text string", [*TEXTS, None]),
]


def rows_of(values: list[Any]) -> list[tuple[Any, ...]]:
    return [value if isinstance(value, tuple) else (value,) for value in values]


def differences(spark: Any) -> list[str]:
    """Shapes that are not native, and rows on which Spark and Python disagree."""
    import penstock as pk
    from penstock.jobs.with_columns import typed

    wrong = []
    for function, returns, schema, values in SHAPES:
        rows = rows_of(values)
        df = spark.createDataFrame(rows, schema)
        made = typed(df, pk.udf(function, returns), df.columns)
        name = made.name
        if made.plan.tier != "native":
            wrong.append(f"{name}: {made.plan}")
            continue
        found = [row[0] for row in df.select(made(*df.columns)).collect()]
        expected = [function(*row) for row in rows]
        wrong += [
            f"{name}{row}: Python {want!r}, Spark {have!r}"
            for row, want, have in zip(rows, expected, found, strict=True)
            if repr(want) != repr(have)
        ]
    return wrong


if __name__ == "__main__":
    import penstock as pk

    for line in differences(pk.session(remote="local[2]", memory="1g")):
        print(line)
    print("compared")
