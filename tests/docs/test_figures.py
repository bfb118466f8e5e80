"""docs/boundaries.md and its drawings say what docs/figures/figures.json says."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pages import DOCS, ROOT

FOUND = json.loads((DOCS / "figures" / "figures.json").read_text(encoding="utf-8"))
PAGE = (DOCS / "boundaries.md").read_text(encoding="utf-8")


def _figures() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "boundaries_figures", ROOT / "benchmarks" / "boundaries_figures.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


figures = _figures()
DRAWN = figures.figures(FOUND)


@pytest.mark.parametrize("name", list(figures.tables(FOUND)))
def test_the_page_has_the_numbers(name: str) -> None:
    begin, end = figures.marks(name)
    shown = PAGE.partition(begin)[2].partition(end)[0]
    assert shown.strip() == figures.tables(FOUND)[name], "run python benchmarks/boundaries_figures.py"


@pytest.mark.parametrize("name", list(DRAWN))
def test_a_drawing_shows_the_numbers(name: str) -> None:
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", (DOCS / "figures" / f"{name}.svg").read_text("utf-8"))
    assert texts == re.findall(r"<text [^>]*>([^<]*)</text>", DRAWN[name]), (
        "run benchmarks/boundaries_figures.py"
    )
    assert len(texts) > 5


@pytest.mark.parametrize("name", list(DRAWN))
def test_a_drawing_follows_the_page(name: str) -> None:
    """No colour but Penstock's, the others' and the page's own; no fonts, scripts or addresses."""
    svg = DRAWN[name]
    colours = set(re.findall(r"#[0-9a-f]{6}\b", svg))
    assert colours <= {figures.OURS, figures.OTHERS, figures.ALONE}
    assert "currentColor" in svg
    assert not re.search(r"<script|@import|@font-face", svg)
    assert f"figures/{name}.svg)" in PAGE


def test_no_drawing_is_left_over() -> None:
    assert {path.stem for path in Path(DOCS / "figures").glob("*.svg")} == set(DRAWN)


def test_a_number_that_changed_is_noticed() -> None:
    changed = json.loads(json.dumps(FOUND))
    changed["tensors"]["ways"][0]["seconds"] = [
        seconds + 1 for seconds in changed["tensors"]["ways"][0]["seconds"]
    ]
    assert figures.tables(changed)["tensors"] not in PAGE
    assert figures.figures(changed)["tensors"] != DRAWN["tensors"]


def test_the_command_repeats_the_page() -> None:
    """`make docs-figures` passes nothing, so its defaults are what the page was made with."""
    script = (Path(__file__).resolve().parents[2] / "benchmarks" / "boundaries_page.py").read_text("utf-8")
    defaults = dict(re.findall(r'"--(rows|gigabytes|rounds)", type=.*?default=([\d._]+)\)', script))
    given = dict(re.findall(r"--(\w+) ([\d.]+)", FOUND["command"]))
    assert {name: float(value) for name, value in defaults.items()} == {
        name: float(value) for name, value in given.items()
    }
