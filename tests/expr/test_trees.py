"""Random trees: Arrow and torch agree bit for bit, and JSON brings back the same tree with the same fingerprint."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import hypothesis.strategies as st
import pyarrow as pa
import pytest
import torch
from expr_compare import from_tensor, same_leaf
from hypothesis import HealthCheck, given, settings

from penstock.backends import engine
from penstock.errors import ExpressionError
from penstock.expr.build import coalesce, col, cross, lit, maximum, minimum, stack, when
from penstock.expr.check import type_of
from penstock.expr.show import fingerprint, from_json, to_json, tree
from penstock.expr.types import FLOAT64, INT64

REALS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 0.5, 2.0**53]),
)
SCHEMA = {"x": FLOAT64, "y": FLOAT64, "i": INT64}


def numeric(children: st.SearchStrategy) -> st.SearchStrategy:
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        pairs.map(lambda p: p[0] / p[1]),
        pairs.map(lambda p: minimum(*p)),
        pairs.map(lambda p: maximum(*p)),
        pairs.map(lambda p: coalesce(*p)),
        children.map(lambda x: -x),
        children.map(lambda x: x.abs()),
        children.map(lambda x: x.sign()),
        children.map(lambda x: x.round()),
        children.map(lambda x: x.floor()),
        children.map(lambda x: x.ceil()),
        children.map(lambda x: x.clip(-2.5, 1e6)),
        children.map(lambda x: x.bucketize([-1.0, 0.0, 3.5])),
        children.map(lambda x: x.cast("float32")),
        children.map(lambda x: x.cast("float16").cast("float64")),
        children.map(lambda x: x.cast("int32")),
        children.map(lambda x: x.hash(1000)),
        pairs.map(lambda p: cross(*p).hash(97)),
        st.tuples(children, children, children).map(lambda p: when(p[0] < p[1], p[2]).otherwise(p[1])),
        st.tuples(children, children, children).map(
            lambda p: when((p[0] >= p[1]) | p[2].is_nan(), p[0]).otherwise(p[2])
        ),
        st.tuples(children, children).map(
            lambda p: when(~(p[0] == p[1]) & p[1].is_null(), 1).otherwise(p[0])
        ),
    )


TREES = st.recursive(
    st.one_of(
        st.sampled_from([col("x"), col("y"), col("i")]),
        REALS.map(lit),
        st.integers(-(2**63), 2**63 - 1).map(lit),
    ),
    numeric,
    max_leaves=12,
)
ROWS = st.lists(
    st.tuples(st.none() | REALS, st.none() | REALS, st.none() | st.integers(-(2**63), 2**63 - 1)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=70, suppress_health_check=list(HealthCheck))
@given(TREES, ROWS)
def test_arrow_and_torch_agree(expression, rows) -> None:
    x, y, i = (list(column) for column in zip(*rows, strict=True))
    table = pa.table(
        {"x": pa.array(x, pa.float64()), "y": pa.array(y, pa.float64()), "i": pa.array(i, pa.int64())}
    )
    wanted = engine("arrow").prepare({"out": expression}, SCHEMA)(table)["out"].to_pylist()
    columns = {
        name: (
            torch.tensor([0 if v is None else v for v in values], dtype=kind),
            torch.tensor([v is not None for v in values]),
        )
        for name, values, kind in (("x", x, torch.float64), ("y", y, torch.float64), ("i", i, torch.int64))
    }
    program = engine("torch").prepare({"out": expression}, SCHEMA)
    got = from_tensor(*program(columns)["out"], program.types["out"])
    assert all(same_leaf(a, b, "EXACT", 1.0) for a, b in zip(wanted, got, strict=True)), (
        expression,
        rows,
        wanted,
        got,
    )


@settings(max_examples=70, suppress_health_check=list(HealthCheck))
@given(TREES)
def test_json_brings_back_the_same_tree(expression) -> None:
    again = from_json(json.loads(json.dumps(to_json(expression), allow_nan=False)))
    assert again.same(expression)
    assert fingerprint(again) == fingerprint(expression)
    assert tree(again) == tree(expression)
    assert type_of(again, SCHEMA) == type_of(expression, SCHEMA)


@settings(max_examples=70, suppress_health_check=list(HealthCheck))
@given(TREES)
def test_the_line_is_the_code_that_builds_the_tree(expression) -> None:
    words = {
        "col": col, "lit": lit, "when": when, "minimum": minimum, "maximum": maximum, "coalesce": coalesce,
        "stack": stack, "cross": cross, "float": float,
    }  # fmt: skip
    assert eval(repr(expression), words).same(expression), repr(expression)


def test_a_fingerprint_stays_the_same_in_another_process() -> None:
    code = (
        "from penstock.expr.build import col, when\n"
        "from penstock.expr.show import fingerprint\n"
        "print(fingerprint(when(col('a') > 1, col('b').log1p()).otherwise(float('nan'))))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {"84e9d81a7e9a9ef61a196eee4ae5d0b6"}


def test_pieces_used_again_and_again_cost_what_they_cost_once() -> None:
    """As lifted functions have them: a tree of 2 ** 101 nodes, and 103 different ones."""
    tree, twin = col("a"), col("a")
    for _ in range(100):
        tree, twin = tree + tree, twin + twin
    assert len(repr(tree)) < 100
    assert tree.same(twin)
    assert not tree.same(tree + 1)
    document = json.loads(json.dumps(to_json(tree)))
    assert from_json(document).same(tree)
    assert len(document["shared"]) == 99
    assert fingerprint(from_json(document)) == fingerprint(tree) != fingerprint(tree + 1)


def test_a_fingerprint_does_not_see_what_is_shared() -> None:
    piece = col("a") + 1
    apart = (col("a") + 1) * (col("a") + 1)
    assert "shared" in to_json(piece * piece)
    assert "shared" not in to_json(apart)
    assert fingerprint(piece * piece) == fingerprint(apart)


@pytest.mark.parametrize("place", [1, -1, True, "0", None])
def test_a_shared_piece_that_is_not_there_is_refused(place: object) -> None:
    document = to_json(col("a") + 1)
    document["shared"] = [{"column": "a"}]
    document["expression"]["args"][0] = {"shared": place}
    with pytest.raises(ExpressionError, match="no shared piece"):
        from_json(document)
