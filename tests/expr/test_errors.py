"""What is not legal is refused, with what was seen and what to do: in words, types, columns, JSON and patterns."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest
import torch

from penstock.backends import engine
from penstock.errors import ExpressionError, MissingDependency, UnsupportedOperation, UnsupportedType
from penstock.expr.build import col, cross, lit, stack, when
from penstock.expr.check import columns_of, type_of
from penstock.expr.patterns import parse_pattern
from penstock.expr.show import from_json, to_json
from penstock.expr.types import parse_type

SCHEMA = {
    name: parse_type(kind)
    for name, kind in {
        "price": "float64",
        "age": "int32",
        "city": "string",
        "at": "timestamp",
        "wall": "timestamp_ntz",
        "day": "date",
        "ok": "bool",
        "tags": "list<string>",
        "xs": "list<float32>",
        "v": "vector",
    }.items()
}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (col("prize") + 1, "there is no column 'prize'. Close to it: 'price'"),
        (col("AGE") + 1, "there is no column 'AGE'. Close to it: 'age'"),
        (
            col("city") + 1,
            "in col('city') + 1: add(): its left is string, and must be a number. Cast it first",
        ),
        (col("ok") * 2, "multiply(): its left is bool, and must be a number"),
        (col("city") < 3, "lt(): its right is int64, and must be string, as the left side is"),
        (col("age") == "x", "eq(): its right is string, and must be a number"),
        (col("tags") == col("tags"), "eq(): its left is list<string>"),
        (col("age") & col("ok"), "and(): its left is int32, and must be bool"),
        (when(col("age"), 1).otherwise(2), "its condition is int32, and must be bool"),
        (when(col("ok"), 1).otherwise("x"), "is string, and must be int64 or a type that goes with it"),
        (col("price").lower(), "lower(): its argument is float64, and must be string"),
        (
            col("at").hour(),
            'hour(): its argument is a timestamp, an instant; say in which zone: .hour("UTC")',
        ),
        (col("wall").hour("UTC"), "must be a timestamp to be seen in a zone. Leave the zone out."),
        (col("day").hour(), "hour(): its argument is date"),
        (col("at").seconds_since(col("wall")), "must be timestamp, as the left side is"),
        (col("price").cast("string"), "Engines write floating-point numbers differently"),
        (col("at").cast("int64"), "cast(): its argument is timestamp"),
        (col("age").fill(0.5), "fill(): its argument is int32, and must be a type that 0.5 belongs to"),
        (col("city").fill(0), "a type that 0 belongs to"),
        (col("tags").list_sum(), "list_sum(): its argument is list<string>, and must be a list of numbers"),
        (col("price").one_hot(3), "must be a whole number or a list of them"),
        (stack(col("xs")), "Give it a length: .pad(length, value)."),
        (stack(col("ok")), "stack(): its argument 1 is bool"),
        (col("v") + 1, "add(): its left is vector"),
        (col("v").is_null(), "vector_to_array"),
        (cross(col("tags"), col("age")).hash(3), "hash(): its argument 1 is list<string>"),
        (col("city").regex_extract(r"(\d+)", 2), "group is 2, and the pattern '(\\\\d+)' has 1"),
    ],
    ids=repr,
)
def test_a_tree_that_does_not_fit(expression, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        type_of(expression, SCHEMA)
    assert message in str(caught.value)
    for name in ("arrow", "spark", "torch"):
        with pytest.raises(ExpressionError):
            engine(name).prepare({"x": expression}, SCHEMA)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: col(""), "a column is named by a text"),
        (lambda: col(3), "a column is named by a text"),
        (lambda: lit(None), 'a null needs a type: lit(None, "float64")'),
        (lambda: lit(2**63), "does not fit 64 bits"),
        (lambda: lit([1]), "is not a constant expressions know"),
        (lambda: lit(1, "float64"), "is of type int64, and float64 was asked for"),
        (lambda: lit(None, "decimal"), "'decimal' is not a type"),
        (lambda: col("a").clip(float("nan"), 1), "clip(): low is nan, and must be a number"),
        (lambda: col("a").clip(None, 1), "clip(): low is None"),
        (lambda: type_of(col("price").clip(3, 1), SCHEMA), "low is 3 and must not be above high, 1"),
        (lambda: col("a").bucketize([]), "one or more finite numbers, each above the one before"),
        (lambda: col("a").bucketize([1, 1]), "each above the one before"),
        (lambda: col("a").bucketize([2**53, 2**53 + 1]), "each above the one before"),
        (lambda: col("a").hash(0), "buckets is 0, and must be a whole number from 1"),
        (lambda: col("a").hash(2.0), "buckets is 2.0"),
        (lambda: col("a").cast("decimal"), "to is 'decimal', and must be one of bool, int8"),
        (lambda: col("a").hour("Berlin"), "must be the name of a time zone"),
        (lambda: col("a").hour("posix/Europe/Berlin"), "must be the name of a time zone"),
        (lambda: col("a").replace("", "x"), "a text that is not empty"),
        (lambda: col("a").split(""), "a text that is not empty"),
        (lambda: col("a").contains("\ud800"), "must be a text"),
        (lambda: col("a").substring(-1, 2), "a whole number from 0"),
        (lambda: col("a").pad(0, 1), "a whole number from 1"),
        (lambda: col("a").cyclic(0), "must be a number above zero"),
        (lambda: cross(col("a")), "two or more"),
        (lambda: bool(col("a") > 1), "has no truth value by itself"),
        (lambda: 1 < col("a") < 2, "has no truth value by itself"),
        (lambda: list(col("a")), "cannot be iterated"),
        (lambda: stack(), "takes at least 1 arguments, and got 0"),
        (lambda: engine("numba"), "there is no engine 'numba'"),
        (lambda: engine("arrow").prepare({"x": 3}, {}), "which is no expression"),
    ],
)
def test_words_that_make_no_sense(build, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        build()
    assert message in str(caught.value)


GOOD = to_json(when(col("a") > 1.5, col("a").clip(0, 1)).otherwise(lit(None, "float64")))


def test_the_good_document_is_good() -> None:
    assert to_json(from_json(GOOD)) == GOOD


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("x", "this is not an expression of Penstock"),
        ({}, "this is not an expression of Penstock"),
        (
            {"penstock_expression": 2, "expression": {}},
            "written in version 2, and this Penstock reads up to 1",
        ),
        ({"penstock_expression": "1", "expression": {}}, "a whole number from 1 on"),
        ({"penstock_expression": 1}, "a node should have"),
        ({"penstock_expression": 1, "expression": {}, "code": "x"}, "a node should have"),
        ({"column": "a", "more": 1}, "a node should have ['column']"),
        ({"column": 3}, "a column is named by a text"),
        ([1], "a node of an expression is an object"),
        ({"op": "system", "args": []}, "there is no operation 'system'. A newer Penstock may have it"),
        ({"op": ["add"], "args": []}, "there is no operation"),
        ({"op": "add", "args": [{"column": "a"}]}, "add() takes 2 arguments, and got 1"),
        ({"op": "add", "args": {"column": "a"}}, "the arguments of add are a list"),
        (
            {"op": "clip", "args": [{"column": "a"}], "params": {"low": 0}},
            "clip() needs its parameter 'high'",
        ),
        ({"op": "clip", "args": [{"column": "a"}], "params": {"low": "0", "high": 1}}, "low is '0'"),
        ({"op": "abs", "args": [{"column": "a"}], "params": {"x": 1}}, "abs() has no parameter 'x'"),
        ({"op": "abs", "args": [{"column": "a"}], "params": {"x": {"float": "x"}}}, "not a value"),
        ({"literal": "1", "type": "int64"}, "'1' is no constant of type int64"),
        ({"literal": 1, "type": "float64"}, "1 is no constant of type float64"),
        ({"literal": 2**63, "type": "int64"}, "is no constant of type int64"),
        ({"literal": 1, "type": "int8"}, "is no constant of type int8"),
        ({"literal": True, "type": "int64"}, "is no constant of type int64"),
        ({"literal": "2024-13-01", "type": "date"}, "is no date"),
        ({"literal": "2024-01-01T00:00:00", "type": "timestamp"}, "is no constant of type timestamp"),
        ({"literal": 1, "type": "money"}, "a constant's type is one of"),
    ],
)
def test_json_that_makes_no_sense(document, message: str) -> None:
    if (isinstance(document, dict) and document and "penstock_expression" not in document) or document == [1]:
        document = {"penstock_expression": 1, "expression": document}
    with pytest.raises(ExpressionError) as caught:
        from_json(document)
    assert message in str(caught.value)


def test_trees_that_are_too_deep() -> None:
    found = col("a")
    for _ in range(200):
        found = found + 1
    assert repr(found).count("+") == 200
    assert from_json(to_json(found)).same(found)
    with pytest.raises(ExpressionError, match=r"For a long sum write stack\(...\).list_sum"):
        found + 1


def test_json_that_is_too_deep() -> None:
    node: dict = {"column": "a"}
    for _ in range(300):
        node = {"op": "abs", "args": [node]}
    with pytest.raises(ExpressionError, match="deep"):
        from_json({"penstock_expression": 1, "expression": node})


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"\bword",
            r"(?i)a",
            r"(?P<n>a)",
            r"(?=a)",
            r"(?<!a)b",
            r"(a)\1",
            r"\p{L}",
            r"[[:alpha:]]",
            r"a++",
            r"a{1,2}{3}",
        ),
        *(
            r"(a*)*",
            r"(?:a|)+",
            r"((a)|b)+",
            r"(?:(a)|b)*",
            r"[a&&[b]]",
            r"a{2000}",
            r"a{3,1}",
            r"*a",
            r"(a",
            r"a)",
            r"[z-a]",
        ),
        *(r"\Qa\E", r"\x41", r"{2}", r"^*", "[a", "\\", r"\Z", r"\G"),
    ],
)
def test_patterns_that_engines_read_differently(pattern: str) -> None:
    with pytest.raises(ExpressionError, match="the pattern"):
        col("a").regex_extract(pattern, 0)


@pytest.mark.parametrize(
    "pattern", [r"a.c", r"^\w+@(\w+)\.com$", r"[a-z&\]]+", r"(a|b)?c{2,3}?", r"(\d+)?x", r"é+"]
)
def test_patterns_mean_what_python_says(pattern: str) -> None:
    common = parse_pattern(pattern).text.replace(r"\z", r"\Z")
    for text in ("abc", "a\nc", "me@site.com", "x&]y", "acc", "bccc", "12x", "x", "ééé", "a\rc"):
        wanted, got = re.search(pattern, text), re.search(common, text)
        assert (wanted and wanted.group()) == (got and got.group()), text


def test_columns_engines_do_not_know() -> None:
    arrow = engine("arrow")
    for kind in (
        pa.decimal128(9, 2),
        pa.list_(pa.list_(pa.int8())),
        pa.uint64(),
        pa.time64("us"),
        pa.binary(),
    ):
        with pytest.raises(UnsupportedType, match="column 'a'"):
            arrow.type_of("a", kind)
    assert str(arrow.type_of("a", pa.dictionary(pa.int8(), pa.string()))) == "string"
    assert str(arrow.type_of("a", pa.uint32())) == "int64"
    assert arrow.schema_of(pa.schema([("a", pa.binary()), ("b", pa.bool_())])) == {"b": parse_type("bool")}


def test_tensors_that_do_not_fit() -> None:
    program = engine("torch").prepare({"x": col("price") + col("age")}, SCHEMA)
    ok, age = torch.ones(2), torch.ones(2, dtype=torch.int32)
    for columns, message in (
        ({"price": ok}, "there is no tensor for column 'age'"),
        ({"price": ok, "age": ok}, "column 'age' is of type int32, and its tensor of torch.float32"),
        ({"price": ok, "age": age[:1]}, "another number of rows"),
        ({"price": ok[:, None], "age": age}, "its tensor has the shape"),
        ({"price": (ok, ok), "age": age}, "It has to be bool"),
        ({"price": [1.0, 2.0], "age": age}, "Give a tensor"),
    ):
        with pytest.raises(ExpressionError) as caught:
            program(columns)
        assert message in str(caught.value)
    with pytest.raises(UnsupportedOperation, match="tensors hold no texts"):
        engine("torch").prepare({"x": col("city")}, SCHEMA)


def test_an_engine_whose_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("penstock.backends.importlib.import_module", missing)
    with pytest.raises(MissingDependency, match=r"penstock\[torch\]"):
        engine("torch")


def test_numbers_of_numpy_are_numbers() -> None:
    one = np.float64(1.5)
    assert (col("a") * one).clip(np.int64(0), one).same((col("a") * 1.5).clip(0, 1.5))
    assert col("a").bucketize(np.array([1, 2])).same(col("a").bucketize([1, 2]))
    assert col("a").hash(np.int32(7)).same(col("a").hash(7))


def test_columns_are_found_and_json_is_json() -> None:
    expression = stack(col("b"), col("a").log1p(), col("b"))
    assert columns_of(expression) == ["b", "a"]
    assert json.loads(json.dumps(to_json(expression))) == to_json(expression)
