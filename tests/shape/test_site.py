"""The documentation builds as a site without a warning, every page is in its navigation, and it needs no network."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest


class Fetched(HTMLParser):
    """What a browser fetches by itself when it opens a page: scripts, styles, images, frames."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.found.append(given.get("src") or "")
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(given.get("href") or "")


def fetched(html: str) -> list[str]:
    parser = Fetched()
    parser.feed(html)
    return [address for address in parser.found if re.match(r"(?:\w+:)?//", address)]


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_built(site: Path, root: Path) -> None:
    pages = {path.relative_to(root / "docs").with_suffix(".html") for path in (root / "docs").rglob("*.md")}
    assert {path.relative_to(site) for path in site.rglob("*.html")} - {Path("404.html")} == pages


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    found = {str(path.relative_to(site)): fetched(path.read_text("utf-8")) for path in site.rglob("*.html")}
    assert {page: addresses for page, addresses in found.items() if addresses} == {}
    styles = [
        path for path in site.rglob("*.css") if re.search(r"url\(\"?https?:|@import", path.read_text("utf-8"))
    ]
    assert styles == []


def test_examples_of_docstrings_are_code(site: Path) -> None:
    page = (site / "reference" / "datasets.html").read_text("utf-8")
    assert 'class="language-pycon' in page
    assert "<blockquote>" not in page


def test_figures_are_part_of_their_page(site: Path) -> None:
    page = (site / "boundaries.html").read_text("utf-8")
    assert page.count('<span class="figure"') >= 3
    assert "currentColor" in page


def test_an_example_gets_a_fence(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("doctests", root / "docs" / "hooks" / "doctests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = "Adds.\n\n    >>> 1 + 1\n    2\n\nMore."
    assert module.fenced(text) == "Adds.\n\n    ```pycon\n    >>> 1 + 1\n    2\n    ```\n\nMore."
    assert module.fenced("a >>> b") == "a >>> b"


def test_what_is_fetched_is_found() -> None:
    html = '<script src="https://x/y.js"></script><link rel="stylesheet" href="//x/z.css"><img src="a.svg"><a href="https://x">'
    assert fetched(html) == ["https://x/y.js", "//x/z.css"]
