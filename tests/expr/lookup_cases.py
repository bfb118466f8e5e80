"""Cases of lookups, demands and users' functions, on the tables of `expr_cases`.

Vocabularies of every size that Spark treats in its own way: none, a CASE, constants in the plan, a join.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.expr.batch import batch
from penstock.expr.build import col, stack
from penstock.expr.nodes import Expression
from penstock.expr.vocabulary import Vocabulary


def _grown(some: Sequence[Any], size: int) -> list[Any]:
    """So many keys, the given ones among them."""
    kept = [key for key in dict.fromkeys(some) if key is not None][:size]
    if kept and isinstance(kept[0], str):
        return kept + [f"filler {number}" for number in range(size - len(kept))]
    return (
        kept + [number for number in range(1000, 1000 + 2 * size) if number not in kept][: size - len(kept)]
    )


def _numbered(keys: Sequence[Any]) -> Vocabulary:
    return Vocabulary(keys, [0.1 * place - 3 for place in range(len(keys))])


SIZES = (0, 1, 7, 60, 5000)


def of_numbers(values: Sequence[int | None]) -> list[Expression]:
    found = []
    for place, size in enumerate(SIZES):
        keys = _grown(values[::2], size)
        for bits in (8, 64) if place % 2 else (16, 32):
            found.append(col(f"i{bits}").index_in(keys, oov=place % 3))
        found.append(col("j32").look_up(_numbered(keys), -1, 2.5))
    found += [col("p").cast("int64").index_in([1, 0]), stack(col("i8").index_in([7, 2], 9), dtype="int32")]
    found += [col(name).nan_as_null() for name in ("a", "f", "i64")]
    found += [col("a").fill(0).demand("a is null"), col("i64").fill(1).demand("i64 is null")]
    return found


def of_texts(values: Sequence[str | None]) -> list[Expression]:
    found = []
    for place, size in enumerate(SIZES):
        keys = _grown(values[::2], size)
        found += [
            col("s").index_in(keys),
            col("t").index_in(keys, oov=4 * (place % 2)),
            col("s").lower().look_up(_numbered(keys), 0, -0.5),
        ]
        if size:
            found += [col("parts").index_in(["😀", *_grown(["a", ""], size)[: max(size - 1, 0)]], oov=2)]
    found += [
        col("s").split(",").index_in(["a", "b"]).pad(3, 0),
        col("parts").look_up(_numbered(["a"]), 1, 2),
    ]
    lengths = batch(
        lambda texts: [None if text is None else len(text) for text in texts.to_pylist()], returns="int64"
    )
    doubled = batch(lambda numbers: numbers * 2, returns="float64", columns="numpy")
    found += [lengths(col("s")), lengths(col("t")) + 1, doubled(col("x").fill(0.0)).clip(-5, 5)]
    found += [col("s").fill("").demand("s is null"), col("parts").fill("")]
    return found


def of_lists() -> list[Expression]:
    whole = col("v").fill(0.0)
    return [
        whole.cast("int64").fill(0).index_in([1, 2, 3], oov=3),
        whole.pad(2, 0.0).fill(0.0).cast("int64").fill(9),
    ]
