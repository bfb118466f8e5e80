"""What a request means: kinds, dtypes and what stands for nulls, decided from the schema alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock.dtypes import Fate
from penstock.errors import SelectionError
from penstock.wire.plan import Piece, Plan, TensorPlan
from penstock.wire.selection import RaggedColumn, Request, Wanted, make_plan, ragged, read_request

FATES = {
    "n": Fate("int32", "int32"),
    "x": Fate("float32", "float"),
    "tokens": Fate("int32", "int32", depth=1),
    "frames": Fate("float32", "float", depth=2),
    "city": Fate("uint8", "string", kind="string"),
    "blob": Fate("uint8", "binary", kind="binary"),
}


def plan_of(tensors: Any, dtype: Any = None, nulls: Any = "error") -> Plan:
    request = read_request(tensors, list(FATES))
    fates = {name: FATES[name] for name in request.columns}
    return make_plan(request, fates, dtype, nulls, lambda fate, target: target.name)


def test_the_users_words() -> None:
    assert read_request(None, ["a", "b"]) == Request((Wanted("a", ("a",)), Wanted("b", ("b",))), False)
    assert read_request("a", []) == Request((Wanted("tensor", ("a",)),), True)
    assert read_request(ragged("a"), []) == Request((Wanted("tensor", ("a",), ragged=True),), True)
    assert read_request(["a"], []) == Request((Wanted("tensor", ("a",), matrix=True),), True)
    words = read_request({"t": ragged("a"), "y": "b", "m": ("a", "b")}, [])
    assert [(wanted.matrix, wanted.ragged) for wanted in words.tensors] == [
        (False, True),
        (False, False),
        (True, False),
    ]
    assert words.columns == ["a", "b"]


@pytest.mark.parametrize("given", [3, [], [1], {"t": []}, {"t": None}, {"t": {"a": "b"}}], ids=str)
def test_words_that_are_not_understood(given: Any) -> None:
    with pytest.raises(SelectionError, match="it takes a column's name or a list of names"):
        read_request(given, ["a"])


def test_nothing_asked_for() -> None:
    for tensors, columns in ((None, []), ({}, ["a"])):
        with pytest.raises(SelectionError, match="no tensors were asked for"):
            read_request(tensors, columns)


def test_ragged_takes_one_column() -> None:
    assert ragged("a") == RaggedColumn("a")
    with pytest.raises(SelectionError, match=r"pk\.ragged takes the name of one column"):
        ragged(["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(SelectionError, match="cannot stand beside others"):
        read_request({"t": [ragged("a"), "b"]}, [])


def test_kinds() -> None:
    plan = plan_of(
        {"t": ragged("tokens"), "f": ragged("frames"), "w": "tokens", "c": "city", "b": ragged("blob")}
    )
    assert plan.tensors == (
        TensorPlan("t", "int32", (Piece(("tokens",), (None,), 1),), False, "ragged"),
        TensorPlan("f", "float32", (Piece(("frames",), (None,), 2),), False, "ragged"),
        TensorPlan("w", "int32", (Piece(("tokens",), (None,), 1),), False, "fixed"),
        TensorPlan("c", "uint8", (Piece(("city",), (None,)),), False, "string"),
        TensorPlan("b", "uint8", (Piece(("blob",), (None,)),), False, "binary"),
    )
    assert plan.row_bytes is None
    assert [tensor.fixed_shape for tensor in plan.tensors] == [None] * 5
    assert plan_of({"c": "city", "n": "n"}).row_bytes is None
    assert plan_of({"m": ["n", "x"], "n": "n"}, "float32").row_bytes == 24


def test_ragged_wants_lists() -> None:
    with pytest.raises(SelectionError, match=r"pk\.ragged\('n'\) and holds no lists"):
        plan_of({"t": ragged("n")})


@pytest.mark.parametrize("columns", [["n", "city"], ["city"], ["blob", "n"]])
def test_texts_stand_in_no_matrix(columns: list[str]) -> None:
    with pytest.raises(SelectionError, match="hold strings or bytes and cannot stand in a 2-D tensor"):
        plan_of({"m": columns})


def test_a_dtype_for_all_is_for_numbers() -> None:
    plan = plan_of({"t": ragged("tokens"), "c": "city", "m": ["n", "x"]}, "float16")
    assert [tensor.dtype for tensor in plan.tensors] == ["float16", "uint8", "float16"]
    plan = plan_of({"t": ragged("tokens"), "c": "city"}, {"c": "uint8", "t": "int64"})
    assert [tensor.dtype for tensor in plan.tensors] == ["int64", "uint8"]
    with pytest.raises(SelectionError, match="tensor 'c' holds a string per row, as bytes"):
        plan_of({"c": "city"}, {"c": "float32"})


def fills_of(tensors: Any, nulls: Any) -> list[Any]:
    return [tensor.pieces[0].fills[0] for tensor in plan_of(tensors, nulls=nulls).tensors]


def test_what_stands_for_nulls() -> None:
    tensors = {"n": "n", "t": ragged("tokens"), "c": "city", "b": "blob"}
    assert fills_of(tensors, "error") == [None, None, None, None]
    assert fills_of(tensors, 0) == [0, 0, None, None]
    assert fills_of(tensors, {"city": "naïve", "tokens": 3}) == [None, 3, "naïve".encode(), None]
    assert fills_of(tensors, {"blob": b"\0"}) == [None, None, None, b"\0"]
    nan, text = fills_of({"x": "x", "c": "city"}, "nan")
    assert math.isnan(nan)
    assert text is None


@pytest.mark.parametrize(
    ("nulls", "said"),
    [
        (
            {"city": 0},
            "'city' cannot become 0, because it holds a string per row. Give a str: nulls={'city': ''}",
        ),
        ({"city": b"x"}, "'city' cannot become b'x'"),
        ({"blob": "x"}, "'blob' cannot become 'x', because it holds a binary per row. Give a bytes"),
        ({"n": "x"}, "'n' cannot become 'x' in a tensor of int32"),
        ({"n": 0.5}, "'n' cannot become 0.5 in a tensor of int32"),
        ({"z": 0}, "nulls names columns 'z' that no tensor uses"),
        ("zero", "nulls='zero' is not understood"),
    ],
    ids=str,
)
def test_what_cannot_stand_for_a_null(nulls: Any, said: str) -> None:
    with pytest.raises(SelectionError) as caught:
        plan_of({"n": "n", "c": "city", "b": "blob"}, nulls=nulls)
    assert said in str(caught.value)
