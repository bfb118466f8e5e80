"""The reference has every public name, once, and the tuning page every kind of finding."""

from __future__ import annotations

import inspect
import re

import pytest
from pages import DOCS

import penstock as pk
from penstock.expr import words
from penstock.jobs.boundaries_around import Finding

ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
FOUND = [
    name
    for path in sorted((DOCS / "reference").glob("*.md"))
    for name in ENTRY.findall(path.read_text("utf-8"))
]


def named(path: str) -> object:
    """What an entry names: by the public face, or by the module it stands in."""
    parts = path.split(".")
    if parts[0] == "penstock" and len(parts) == 2 and parts[1] in pk.__all__:
        return getattr(pk, parts[1])
    module = __import__(".".join(parts[:-1]), fromlist=[parts[-1]])
    return getattr(module, parts[-1])


@pytest.mark.parametrize("name", pk.__all__)
def test_a_public_name_is_in_the_reference(name: str) -> None:
    if name == "PenstockError":
        assert "penstock.errors" in FOUND
    else:
        assert FOUND.count(f"penstock.{name}") == 1, (
            f"put `::: penstock.{name}` into a page of docs/reference"
        )


@pytest.mark.parametrize("name", FOUND)
def test_an_entry_exists_and_is_explained(name: str) -> None:
    assert inspect.getdoc(named(name))


def test_every_family_of_methods_is_there() -> None:
    families = [name for name in FOUND if name.startswith(words.__name__)]
    files = {path.stem for path in DOCS.parent.glob("src/penstock/expr/words/*.py")} - {"__init__", "base"}
    assert {name.split(".")[-2] for name in families} == files


def test_every_kind_of_finding_is_explained() -> None:
    said = re.search(r"`kind` is one of: (.*?)\. `node`", inspect.getdoc(Finding) or "", re.DOTALL)
    assert said is not None
    kinds = re.findall(r"\b(?!and|where|the|query|ran)\w+", said[1])
    assert len(kinds) > 10
    page = (DOCS / "how-to" / "tuning.md").read_text("utf-8")
    assert [kind for kind in kinds if f"| `{kind}` |" not in page] == []
