"""The public face: the names written here, and no others, each explained and announced."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]

PUBLIC = [
    "Baseline",
    "Dataset",
    "Explanation",
    "FittedRecipe",
    "PenstockError",
    "Recipe",
    "Report",
    "Sizing",
    "TensorSpec",
    "Vocabulary",
    "baseline",
    "batch",
    "checkpoint",
    "classify",
    "coalesce",
    "col",
    "convert",
    "cross",
    "explain",
    "from_mllib",
    "launch",
    "lift",
    "lit",
    "load_recipe",
    "maximum",
    "minimum",
    "open",
    "predict",
    "ragged",
    "report",
    "restore",
    "session",
    "size",
    "split",
    "stack",
    "to_jax",
    "to_numpy",
    "to_tensorflow",
    "to_torch",
    "udf",
    "when",
    "with_columns",
    "write",
]


def test_the_public_names_are_these() -> None:
    assert list(penstock.__all__) == sorted(penstock.__all__)
    assert list(penstock.__all__) == PUBLIC


def test_dir_lists_them_and_each_can_be_had() -> None:
    assert set(PUBLIC) <= set(dir(penstock))
    missing = [name for name in PUBLIC if not hasattr(penstock, name)]
    assert missing == []


@pytest.mark.parametrize("name", PUBLIC)
def test_the_changelog_mentions_it(name: str) -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"`(?:penstock|pk)\.{re.escape(name)}\b", changelog), (
        f"CHANGELOG.md does not mention `penstock.{name}`"
    )


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_has_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(penstock, name)) or ""
    assert text, f"penstock.{name} has no docstring"
    assert ">>>" in text or "```" in text or "::\n" in text, f"penstock.{name}'s docstring shows no example"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = penstock.no_such_name
