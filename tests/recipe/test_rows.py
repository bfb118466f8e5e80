"""Rows for serving: the forms they may come in, and values that do not fit the fitted types."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import penstock as pk
from penstock.errors import ExpressionError, PenstockError

col = pk.col
TABLE = pa.table(
    {
        "n": pa.array([1, 2, 3], pa.int32()),
        "tiny": pa.array([1, 2, 3], pa.int8()),
        "real": pa.array([1.0, 2.0, 3.0], pa.float32()),
        "wide": pa.array([1.0, 2.0, 3.0]),
        "city": ["Rome", "Oslo", "Rome"],
        "at": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
        "clock": pa.array([0, 1, 2], pa.timestamp("us")),
        "three": pa.array([[1, 2, 3]] * 3, pa.list_(pa.float32(), 3)),
        "words": [["a"], ["a", "b"], []],
    }
)


def fitted(*columns: str) -> pk.FittedRecipe:
    """A recipe whose tensors are the columns; of texts the numbers."""
    trees = {name: col(name) for name in columns}
    trees |= {name: col(name).index() for name in columns if name in ("city", "words")}
    trees |= {name: col(name).epoch_seconds() for name in columns if name in ("at", "clock")}
    return pk.Recipe(trees).fit(TABLE)


@pytest.mark.parametrize(
    "rows",
    [
        {"n": [3, 4], "city": ["Rome", None]},
        {"n": (3.0, 4), "city": iter(["Rome", None])},
        [{"n": 3, "city": "Rome"}, {"n": 4, "city": None}],
        {"n": np.array([3, 4]), "city": np.array(["Rome", None], object)},
        {"n": pd.Series([3, 4]), "city": pl.Series(["Rome", None])},
        {"n": pa.array([3, 4]), "city": pa.array(["Rome", None]).dictionary_encode(), "more": "not read"},
        pa.table({"n": [3, 4], "city": ["Rome", None]}),
        pa.record_batch({"n": [3, 4], "city": ["Rome", None]}),
        pd.DataFrame({"n": [3, 4], "city": ["Rome", None]}),
        pl.DataFrame({"n": [3, 4], "city": ["Rome", None]}),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_the_forms_of_rows(rows) -> None:
    assert fitted("n", "city").arrow(rows).to_pydict() == {"n": [3, 4], "city": [2, 0]}


def test_lists_in_rows() -> None:
    recipe = fitted("three", "words")
    found = recipe.arrow({"three": np.ones((2, 3)), "words": [[], [None, "a"]]})
    assert found.to_pydict() == {"three": [[1.0] * 3] * 2, "words": [[], [0, 2]]}
    assert recipe.arrow([{"three": [1, 2, 3], "words": []}])["words"].to_pylist() == [[]]


@pytest.mark.parametrize(
    ("column", "rows", "said"),
    [
        ("n", {"n": [3.7]}, r"column 'n' was int32.*3\.7"),
        ("n", {"n": [1.0, float("nan")]}, r"column 'n' was int32.*nan"),
        ("n", {"n": [2**31]}, "column 'n' is int64, and was int32.*2147483648"),
        ("n", {"n": [2**70]}, "column 'n' was int32"),
        ("n", {"n": [True]}, "column 'n' is bool, and was int32"),
        ("real", {"real": [1.0, 1e300]}, r"column 'real' is float64, and was float32.*1e\+300"),
        ("real", pa.table({"real": [1e300]}), r"1e\+300 would be infinite"),
        ("three", {"three": [[1.0, -1e300, 2.0]]}, r"column 'three'.*-1e\+300 would be infinite"),
        ("three", {"three": [[1, 2]]}, r"column 'three'.*was list<float32>\[3\]"),
        ("wide", {"wide": [2**53 + 1]}, "column 'wide' is int64, and was float64.*9007199254740993"),
        ("at", {"at": [datetime(2020, 1, 1)]}, "column 'at'.*has no zone.*tzinfo"),
        ("at", {"at": [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1)]}, "column 'at'.*has no zone"),
        ("at", {"at": np.array(["2020-01-01"], "datetime64[us]")}, "column 'at' is timestamp_ntz.*no zone"),
        ("at", {"at": [0]}, "column 'at' is int64, and was timestamp"),
        (
            "clock",
            {"clock": [datetime(2020, 1, 1, tzinfo=UTC)]},
            "column 'clock' is timestamp, and was timestamp_ntz",
        ),
        ("city", {"city": "Rome"}, r"column 'city' is given as 'Rome'.*\{'city': \[...\]\}"),
        ("city", {"city": {"Rome": 1}}, "column 'city' is given as"),
        ("city", ["Rome"], "row 0 is 'Rome', and should be a dictionary"),
        (
            "city",
            [{"city": "Rome"}, {"City": "Rome"}],
            "row 1: there is no column 'city'. Close to it: 'City'",
        ),
        ("n", {"n": 3}, r"column 'n' is given as 3.*\[\{'n': ...\}\]"),
        ("n", {"n": torch.tensor([3])}, r"column 'n' is a tensor of torch.*numpy\(\)"),
        ("n", {"n": np.array(3)}, "column 'n' is given as"),
        ("three", {"three": np.ones((2, 3, 1))}, r"column 'three' has the shape \(2, 3, 1\)"),
        ("n", 7, "no rows can be read out of int.*dictionary of lists"),
        ("n", {}, "no column 'n'"),
        ("n", pa.Table.from_arrays([pa.array([1])] * 2, ["n", "n"]), "two columns 'n'.*Rename or drop"),
    ],
)
def test_rows_that_do_not_fit(column: str, rows, said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        fitted(column).arrow(rows)


def test_columns_of_unequal_length() -> None:
    with pytest.raises(ExpressionError, match="column 'city' has 1 rows, and column 'n' has 2"):
        fitted("n", "city").arrow({"n": [1, 2], "city": ["Rome"]})


def test_infinities_and_rounding_stay() -> None:
    found = fitted("real").arrow({"real": [float("inf"), float("nan"), 0.1]})["real"].to_pylist()
    assert found[0] == float("inf")
    assert found[1] != found[1]
    assert found[2] == np.float32(0.1)


@pytest.mark.parametrize("rows", [TABLE, {"n": [1, 2, 3]}, [{}, {}, {}], TABLE.to_batches()[0]])
def test_a_recipe_without_columns_makes_a_row_for_each(rows) -> None:
    assert pk.Recipe(x=pk.lit(1.5) + 1).fit(TABLE).arrow(rows).to_pydict() == {"x": [2.5] * 3}


def test_a_recipe_without_columns_has_to_know_how_many_rows() -> None:
    with pytest.raises(ExpressionError, match="the number of rows is not known"):
        pk.Recipe(x=pk.lit(1.5)).fit(TABLE).arrow({})


@pytest.mark.parametrize(
    ("column", "given", "said"),
    [
        ("tiny", torch.tensor([3, 300]), "column 'tiny' was int8.*torch.int64 has 300"),
        ("tiny", torch.tensor([200], dtype=torch.uint8), "column 'tiny' was int8.*has 200"),
        ("n", torch.tensor([2**31], dtype=torch.uint32), "column 'n' was int32.*has 2147483648"),
        ("n", torch.tensor([2**64 - 1], dtype=torch.uint64), "column 'n' was int32"),
        ("real", torch.tensor([1e300], dtype=torch.float64), r"column 'real' was float32.*1e\+300"),
        ("wide", torch.tensor([2**53 + 1]), "column 'wide' was float64.*9007199254740993"),
        ("three", torch.tensor([[1, 2, 2**25]]), r"column 'three' was list<float32>\[3\].*33554432"),
    ],
)
def test_tensors_that_do_not_fit(column: str, given: torch.Tensor, said: str) -> None:
    recipe = fitted(column)
    with pytest.raises(ExpressionError, match=said):
        recipe.torch({column: given})
    with pytest.raises(PenstockError, match=f"column '{column}'"):
        recipe.arrow({column: given.numpy()})


def test_a_tensor_may_hold_anything_where_it_is_not_valid() -> None:
    recipe = pk.Recipe(x=col("tiny").fill(7)).fit(TABLE)
    given = (torch.tensor([5, 300]), torch.tensor([True, False]))
    assert recipe.torch({"tiny": given})["x"].tolist() == [5, 7]


def test_a_wider_tensor_is_rounded_as_a_wider_column_is() -> None:
    recipe = pk.Recipe(x=col("real") * 3, h=col("real").hash(1000)).fit(TABLE)
    by_torch = recipe.torch({"real": torch.tensor([0.1], dtype=torch.float64)})
    by_arrow = recipe.arrow({"real": [0.1]})
    assert {name: tensor.tolist() for name, tensor in by_torch.items()} == by_arrow.to_pydict()
