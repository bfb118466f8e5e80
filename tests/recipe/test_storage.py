"""Recipes on disk and with datasets: read back exactly, and refused where they are not whole."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from recipe_data import everything

import penstock as pk
from penstock.errors import DatasetError, NullReached, RecipeError, SelectionError

col = pk.col


@pytest.fixture(scope="module")
def fitted(table) -> pk.FittedRecipe:
    return everything().fit(table)


def large() -> pk.FittedRecipe:
    keys = pa.table({"k": [f"key {number}" for number in range(1500)], "n": range(1500)})
    return pk.Recipe(a=col("k").index(), b=col("n").count_encode()).fit(keys)


def test_everything_comes_back(fitted, table, tmp_path: Path) -> None:
    fitted.save(tmp_path / "r.json")
    found = pk.load_recipe(tmp_path / "r.json")
    assert repr(found) == repr(fitted)
    assert found.inputs == fitted.inputs
    assert str(found.report()) == str(fitted.report())
    assert found.explain() == fitted.explain()
    assert repr(found.arrow(table).to_pydict()) == repr(fitted.arrow(table).to_pydict())


def test_pieces_that_tensors_share_are_written_once(tmp_path: Path) -> None:
    piece = col("a").log1p()
    for _ in range(60):  # written out, more nodes than there are atoms in anything
        piece = piece * piece + 1.0
    fitted = pk.Recipe(x=piece, y=piece - 1.0).fit(pa.table({"a": [0.0, 1.0]}))
    fitted.save(tmp_path / "r.json")
    found = pk.load_recipe(tmp_path / "r.json")
    assert found.tensors["x"].key() == fitted.tensors["x"].key()
    assert found.tensors["y"].args[0] is found.tensors["x"]


def test_pieces_that_are_used_twice_come_back(tmp_path: Path) -> None:
    """A cyclic value is the sine and the cosine of one angle, which is written once."""
    hours = pa.table({"h": [0, 5, 23], "k": ["a", "b", "a"]})
    recipe = pk.Recipe(at=col("h").cyclic(24), x=pk.stack(col("h").cyclic(12), col("k").index()), h=col("h"))
    fitted = recipe.fit(hours)
    fitted.save(tmp_path / "r.json")
    written = json.loads((tmp_path / "r.json").read_text())
    assert len(written["shared"]) == 2
    found = pk.load_recipe(tmp_path / "r.json")
    assert found.arrow(hours).equals(fitted.arrow(hours))
    ds = pk.write(hours, tmp_path / "ds", recipe=fitted)
    assert repr(ds.recipe) == repr(fitted)
    for wrong in ([], {"at": 3}, [{"shared": 0}]):
        (tmp_path / "r.json").write_text(json.dumps(written | {"shared": wrong}))
        with pytest.raises(RecipeError):
            pk.load_recipe(tmp_path / "r.json")


def test_large_vocabularies_stand_beside_it(tmp_path: Path) -> None:
    fitted, path = large(), tmp_path / "r.json"
    fitted.save(path)
    beside = sorted(each.name for each in tmp_path.iterdir() if each != path)
    assert len(beside) == 2
    assert path.stat().st_size < 5000
    assert repr(pk.load_recipe(path)) == repr(fitted)
    damaged = tmp_path / beside[0]
    content = damaged.read_bytes()
    damaged.write_bytes(content.replace(b"key 77", b"kez 77") if b"key 77" in content else content[:-8])
    with pytest.raises(RecipeError, match=r"has changed since it was written|cannot be read"):
        pk.load_recipe(path)
    damaged.unlink()
    with pytest.raises(RecipeError, match="is not there"):
        pk.load_recipe(path)


CHANGES = {
    "newer": (lambda found: found | {"penstock_recipe": 2}, "version 2, and this Penstock reads up to 1"),
    "no version": (lambda found: found | {"penstock_recipe": "1"}, "version is '1'"),
    "another thing": (lambda found: {"a": 1}, "not a recipe"),
    "no tensors": (lambda found: found | {"tensors": {}}, "no tensors"),
    "unknown op": (
        lambda found: found | {"tensors": {"x": {"op": "sing", "args": []}}},
        "no operation 'sing'",
    ),
    "wrong inputs": (lambda found: found | {"inputs": {"price": "float64"}}, "no column|its tensors read"),
    "more inputs": (lambda found: {**found, "inputs": {**found["inputs"], "z": "int8"}}, "its tensors read"),
    "bad type": (lambda found: {**found, "inputs": {**found["inputs"], "price": "number"}}, "not a type"),
    "text for a list": (lambda found: found | {"tensors": [1]}, "not as it should be"),
    "missing part": (lambda found: {"penstock_recipe": 1}, "not as it should be"),
    "learning left": (
        lambda found: (
            found
            | {"inputs": {"a": "float64"}, "tensors": {"x": {"op": "minmax", "args": [{"column": "a"}]}}}
        ),
        "has to learn",
    ),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_edited_by_hand(fitted, tmp_path: Path, change: str) -> None:
    path = tmp_path / "r.json"
    fitted.save(path)
    edit, said = CHANGES[change]
    path.write_text(json.dumps(edit(json.loads(path.read_text()))))
    with pytest.raises(RecipeError, match=said):
        pk.load_recipe(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(b"\xff{")
    for path, said in ((tmp_path / "r.json", "no JSON"), (tmp_path / "lost.json", "cannot be read")):
        with pytest.raises(RecipeError, match=said):
            pk.load_recipe(path)


def test_a_dataset_keeps_its_recipe(spark, df, table, tmp_path: Path) -> None:
    fitted = everything().fit(df)
    ds = pk.write(df, tmp_path / "ds", recipe=fitted, workers=2)
    assert ds.rows == table.num_rows
    assert list(ds.tensors) == list(fitted.tensors)
    assert str(ds.tensors["dense"]) == "dense: float32[9]"
    assert ds.tensors["tokens"].ragged
    kept = pk.open(tmp_path / "ds").recipe
    assert kept is not None
    assert repr(kept) == repr(fitted)
    assert pk.write(table, tmp_path / "plain", ["small"]).recipe is None


def test_rows_without_spark(table, tmp_path: Path) -> None:
    fitted = everything().fit(table)
    ds = pk.write(table, tmp_path / "ds", recipe=fitted, shuffle=False)
    wanted = fitted.arrow(table)
    assert ds.read()["cat"].tolist() == wanted["cat"].to_pylist()
    more = pk.write(table, tmp_path / "ds", recipe=fitted, mode="append")
    assert more.rows == 2 * table.num_rows
    assert more.recipe is not None
    with pytest.raises(DatasetError, match="recipe: there"):
        pk.write(table, tmp_path / "ds", recipe=everything().fit(table.slice(0, 500)), mode="append")


def test_large_vocabularies_in_a_dataset(tmp_path: Path) -> None:
    fitted = large()
    rows = pa.table({"k": ["key 3", "no"], "n": [1, 2]})
    pk.write(rows, tmp_path / "ds", recipe=fitted)
    ds = pk.write(rows, tmp_path / "ds", recipe=fitted, mode="overwrite")
    ds.vacuum(keep=1, older_than=0)
    again = pk.open(tmp_path / "ds")
    assert again.version == 2
    assert again.recipe is not None
    assert repr(again.recipe) == repr(fitted)
    kept = [path.name for path in (tmp_path / "ds" / "_penstock").iterdir()]
    assert len(kept) == 5


def test_a_null_names_the_column_in_a_write(df, table, tmp_path: Path) -> None:
    fitted = pk.Recipe(x=pk.stack(col("same"), col("price"))).fit(table)
    for rows in (df, table):
        with pytest.raises(NullReached, match="a null reached tensor 'x', from column 'price'"):
            pk.write(rows, tmp_path / "ds", recipe=fitted)
    assert not (tmp_path / "ds" / "shards").exists() or not list((tmp_path / "ds" / "shards").iterdir())


def test_what_write_refuses(fitted, table, tmp_path: Path) -> None:
    for options, said in (
        ({"recipe": everything()}, "has not learned anything yet"),
        ({"recipe": fitted, "tensors": ["price"]}, "says itself what its tensors are"),
        ({"recipe": fitted, "nulls": "nan"}, "says itself"),
    ):
        with pytest.raises(SelectionError, match=said):
            pk.write(table, tmp_path / "ds", **options)
