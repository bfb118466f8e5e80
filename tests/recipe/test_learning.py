"""What each operation that learns becomes: constants that can be checked by hand."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import ExpressionError, FitError, NullReached

COLUMN = pa.table(
    {
        "x": pa.array([1.0, 2.0, None, 3.0, 4.0, math.nan, math.inf]),
        "n": pa.array([1, 1, 2, None, 5, 5, 9], pa.int16()),
        "c": ["b", "a", "b", None, "c", "a", "d"],
        "p": [True, False, True, None, True, True, True],
        "y": [1.0, 0.0, 1.0, 1.0, None, 0.0, 1.0],
        "same": [7.5] * 7,
        "none": pa.nulls(7, pa.float64()),
        "no_text": pa.nulls(7, pa.string()),
    }
)


def learned(**tensors: pk.FittedRecipe) -> pk.FittedRecipe:
    return pk.Recipe(**tensors).fit(COLUMN)


def line(tree: object) -> str:
    return repr(learned(t=tree).tensors["t"])


x, n, c, p = (pk.col(name) for name in ("x", "n", "c", "p"))


@pytest.mark.parametrize(
    ("tree", "becomes"),
    [
        (x.fill("mean"), "col('x').cast('float64').fill(2.5)"),
        (x.fill("median"), "col('x').fill(2.0)"),
        (x.fill("mode"), "col('x').fill(1.0)"),
        (n.fill("median"), "col('n').fill(2)"),
        (n.fill("mode"), "col('n').fill(1)"),
        (c.fill("mode"), "col('c').fill('a')"),
        (p.fill("mode"), "col('p').fill(True)"),
        (x.standardize(), f"(col('x') - 2.5) / {math.sqrt(1.25)!r}"),
        (x.standardize(ddof=1), f"(col('x') - 2.5) / {math.sqrt(5 / 3)!r}"),
        (x.minmax(), "(col('x') - 1.0) / 3.0"),
        (x.robust(), "(col('x') - 2.0) / 2.0"),
        (x.quantile_bins(4), "col('x').bucketize((1.0, 2.0, 3.0))"),
        (n.quantile_bins(3), "col('n').bucketize((1.0, 5.0))"),
        (x.winsorize(0.0, 0.75), "col('x').cast('float64').clip(1.0, 3.0)"),
        (c.index(), "col('c').index_in(Vocabulary(['a', 'b', 'c', 'd']), 1)"),
        (c.index(min_count=2, oov=3), "col('c').index_in(Vocabulary(['a', 'b']), 3)"),
        (c.index(max_size=3), "col('c').index_in(Vocabulary(['a', 'b', 'c']), 1)"),
        (n.index(max_size=2), "col('n').index_in(Vocabulary([1, 5]), 1)"),
        (p.index(), "col('p').cast('int64').index_in(Vocabulary([1, 0]), 1)"),
        (
            c.count_encode(),
            "col('c').look_up(Vocabulary(['a', 'b', 'c', 'd'], [2.0, 2.0, 1.0, 1.0]), 0.0, 1.0)",
        ),
        (pk.col("same").standardize(), "(col('same') - 7.5) / 1.0"),
        (pk.col("same").minmax(), "(col('same') - 7.5) / 1.0"),
        (pk.col("same").robust(), "(col('same') - 7.5) / 1.0"),
    ],
)
def test_what_is_learned(tree, becomes: str) -> None:
    assert line(tree) == becomes


def test_target_mean_is_drawn_towards_the_mean_of_all() -> None:
    prior = 4 / 6
    found = learned(t=c.target_mean(pk.col("y"), smoothing=2)).arrow(COLUMN)["t"].to_pylist()
    a, b, d = ((total + 2 * prior) / (count + 2) for total, count in ((0, 2), (2, 2), (1, 1)))
    null = (1 + 2 * prior) / 3
    assert found == pytest.approx([b, a, b, null, prior, a, d])
    unseen = learned(t=c.target_mean(pk.col("y"))).arrow({"c": ["never"], "y": [0.0]})
    assert unseen["t"].to_pylist() == [pytest.approx(prior)]


def test_one_hot_learns_its_values() -> None:
    fitted = learned(t=c.one_hot(max_size=2), m=pk.stack(c.one_hot(), n.fill("mode")))
    assert fitted.arrow({"c": ["a", "b", "c", None], "n": [1, 1, 1, None]})["t"].to_pylist() == [
        [1, 0],
        [0, 1],
        [0, 0],
        [0, 0],
    ]
    assert str(fitted.outputs["m"].type) == "list<float64>[5]"


def test_one_hot_of_lists_is_multi_hot() -> None:
    rows = pa.table({"words": ["a b", "b", "b c", None]})
    fitted = pk.Recipe(t=pk.col("words").fill("a").split(" ").one_hot(max_size=2)).fit(rows)
    found = fitted.arrow({"words": ["b a", "a zebra", "zebra", None]})["t"].to_pylist()
    assert found == [[1, 1], [0, 1], [0, 0], [0, 1]]


def test_ids_are_null_then_unseen_then_by_frequency() -> None:
    fitted = learned(t=c.index())
    assert fitted.arrow({"c": [None, "never", "a", "b", "c", "d"]})["t"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert fitted.outputs["t"].ids == (6,)


def test_ids_that_join_by_padding_and_filling_are_counted() -> None:
    ids = pk.col("words").split(" ").index()
    fitted = pk.Recipe(
        inside=ids.pad(3, 0),
        beyond=ids.pad(3, 90),
        below=ids.pad(3, -1),
        filled=pk.stack(pk.col("words").index(oov=0).fill(77), pk.col("words").hash(10), dtype="int32"),
        between=pk.col("words").index().cast("float64").fill(0.5),
    ).fit(pa.table({"words": ["a b", "b"]}))
    assert {name: each.ids for name, each in fitted.outputs.items()} == {
        "inside": (4,),
        "beyond": (91,),
        "below": (None,),
        "filled": (78, 10),
        "between": (None,),
    }
    assert max(fitted.arrow({"words": ["a"]})["beyond"].to_pylist()[0]) < 91


def test_several_unseen_ids_are_spread_by_hash() -> None:
    fitted = learned(t=c.index(oov=3))
    ids = fitted.arrow({"c": [f"new {number}" for number in range(200)]})["t"].to_pylist()
    assert set(ids) == {1, 2, 3}
    assert fitted.arrow({"c": ["a"]})["t"].to_pylist() == [4]


def test_without_unseen_ids_a_new_value_is_an_error() -> None:
    fitted = learned(t=c.index(oov=0))
    assert fitted.arrow({"c": ["a"]})["t"].to_pylist() == [1]
    with pytest.raises(NullReached, match="from column 'c'"):
        fitted.arrow({"c": ["never"]})


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (pk.col("none").standardize(), r"all 7 rows are null.*column 'none'.*\.fill\(0\)"),
        (pk.col("none").fill("median"), "all 7 rows are null"),
        (pk.col("none").fill("mode"), "no value at all"),
        (pk.col("no_text").index(), "all 7 rows are null"),
        (pk.col("no_text").fill("mode"), "no value at all"),
        ((pk.col("same") / 0).minmax(), "0 rows are null and 7 not finite"),
        (c.target_mean(pk.col("none")), "its label is null in every row"),
        (c.one_hot(min_count=100), "no value is frequent enough"),
        ((pk.col("same") * 1e308 - pk.col("y") * 1e308).minmax(), "not finite"),
    ],
)
def test_what_nothing_can_be_learned_from(tree, said: str) -> None:
    with pytest.raises(FitError, match=said):
        learned(t=tree)


def test_a_column_of_nulls_can_be_filled_first() -> None:
    fitted = learned(t=pk.col("none").fill(0).standardize())
    assert fitted.arrow({"none": [None, 3.0]})["t"].to_pylist() == [0.0, 3.0]


def test_no_rows_at_all() -> None:
    with pytest.raises(FitError, match="there are no rows"):
        pk.Recipe(t=x.standardize()).fit(COLUMN.slice(0, 0))
    fitted = pk.Recipe(t=x.clip(0, 1)).fit(COLUMN.slice(0, 0))
    assert fitted.arrow({"x": [2.0]})["t"].to_pylist() == [1.0]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (pk.col("prize").standardize(), "no column 'prize'.*The columns are"),
        (c.standardize(), "standardize.*is string, and must be a number"),
        (x.index(), "index.*is float64.*quantile_bins"),
        (c.fill("mean"), r"string, and must be int or float.*coalesce"),
        (pk.stack(c.index(), c), "stack.*string"),
        (x.winsorize(0.9, 0.1), "low is 0.9 and must be below high"),
    ],
)
def test_mistakes_are_told_before_anything_is_learned(tree, said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        learned(t=tree)


def test_parameters_are_checked_where_they_are_written() -> None:
    for wrong in (
        lambda: c.index(min_count=0),
        lambda: c.index(max_size=-1),
        lambda: x.quantile_bins(1),
        lambda: x.standardize(ddof=2),
        lambda: x.winsorize(-1, 2),
        lambda: c.target_mean(pk.col("y"), smoothing=-1),
        lambda: c.one_hot(5, min_count=2),
        lambda: c.index_in(["a", "a"]),
        lambda: c.index_in(["a", 1]),
        lambda: pk.Vocabulary(["a"], [math.nan]),
        lambda: pk.Recipe(),
        lambda: pk.Recipe(x=3),  # type: ignore[arg-type]
        lambda: pk.Recipe({"x": x}, x=x),
    ):
        with pytest.raises(ExpressionError):
            wrong()


def test_what_learns_cannot_be_computed_before() -> None:
    from penstock.backends import engine
    from penstock.expr.types import FLOAT64

    with pytest.raises(ExpressionError, match=r"standardize\(\) has to learn from data first"):
        engine("arrow").prepare({"t": x.standardize()}, {"x": FLOAT64})
