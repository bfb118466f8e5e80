"""The page in a browser, from disk: it asks for nothing, fits any width, and can be read in both themes."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from training_run import Trained

import penstock as pk

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
WIDTHS, THEMES = (400, 1400), ("light", "dark")
LEAST_CONTRAST = 4.5
SHOTS = os.environ.get("PENSTOCK_SCREENSHOTS")
"""A folder that keeps the pictures, to look at."""
HOSTILE = "<script>window.evil=1</script><img src=x onerror=window.evil=2>\"'</style>"

TEXTS = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * (top[3] ?? 1) + under[i] * (1 - (top[3] ?? 1)));
  const light = c => c.map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = node => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || !node.checkVisibility() || ["SCRIPT", "STYLE", "title"].includes(node.tagName)) continue;
    const back = behind(node), ink = over(parse(getComputedStyle(node).color), back);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const size = parseFloat(getComputedStyle(node).fontSize);
    found.push({text: text.slice(0, 40), contrast: (a + .05) / (b + .05), size});
  }
  return found;
}"""


LABELS = """() => [...document.querySelectorAll(".marks, .axis, .plot")].map(chart =>
  [...chart.querySelectorAll(":scope > span")].filter(label => label.checkVisibility()).map(label => {
    const box = label.getBoundingClientRect();
    return {text: label.innerText, left: box.left, right: box.right, top: box.top, bottom: box.bottom};
  }))"""
BROKEN_WORDS = """() => {
  const found = [], range = document.createRange();
  for (const cell of document.querySelectorAll("td, th")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (!node.parentElement.checkVisibility() || node.parentElement.closest("code, svg")) continue;
      for (const word of node.textContent.matchAll(/[\\w]+/g)) {
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) found.push(word[0]);
      }
    }
  }
  return found;
}"""
"""Words of tables that stand in two lines."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: chromium, chromium-browser or google-chrome is looked for")
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(trained: Trained, spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages about all there is: a recipe, a log, an explanation; about hostile names; and about nothing."""
    from pyspark.sql.functions import udf

    folder = tmp_path_factory.mktemp("pages")
    half = udf(lambda n: n / 2, "double", useArrow=False)
    explanation = pk.explain(spark.range(1000).select(half("id").alias("half")), analyze=True)
    pk.report(
        trained.path,
        folder / "rich.html",
        log=trained.log,
        explanation=explanation,
        title="Flights out of New York",
    )
    crowded(pk.report(trained.path, log=trained.log), folder)
    rows = 500
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            HOSTILE: rng.integers(0, 3, rows),
            "text": rng.choice([HOSTILE, "{{ 7 * 7 }}", "&amp;"], rows),
            "a name that is so long that it has to be broken somewhere " * 3: np.arange(rows),
            "many": pa.FixedSizeListArray.from_arrays(rng.random(rows * 12), 12),
        }
    )
    hostile = pk.write(table, folder / "<script>window.evil=3<" / "script>", shards=60)
    loader = hostile.numpy(batch_size=100, log=folder / "hostile.jsonl")
    for _ in loader:
        loader.note({HOSTILE: 1.0, "\ud800": 2.0})
    pk.report(hostile, folder / "hostile.html", log=folder / "hostile.jsonl")
    pk.report(pk.write(pa.table({"a": pa.array([], pa.int64())}), folder / "none"), folder / "empty.html")
    return {name: folder / f"{name}.html" for name in ("rich", "hostile", "empty", *CROWDED)}


CROWDED = {"second": 1.0, "minutes": 5400.0, "milliseconds": 0.63, "day": 86400.0}
"""Pages about trainings of so many seconds and many epochs, one of them resumed; some begin close to each other."""


def crowded(report: pk.Report, folder: Path) -> None:
    """The same training with other times: what is drawn comes from the facts alone."""
    for name, seconds in CROWDED.items():
        facts = json.loads(report.to_json())
        feed = facts["feed"]
        line, longer = feed["timeline"], seconds / feed["timeline"]["seconds"]
        line["seconds"], line["edges"] = seconds, [edge * longer for edge in line["edges"]]
        begun = [0.0, 0.02, 0.3, 0.38, 0.5, 0.62, 0.64, 0.93, 0.99]
        feed["epochs"] = [
            {**feed["epochs"][0], "epoch": place, "at": at * seconds, "resumed": place in (3, 7), "step": 5}
            for place, at in enumerate(begun)
        ]
        pk.Report(facts).save(folder / f"{name}.html")


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Any]:
    """Opens a file from disk; at the end, nothing may have been asked for, said, or gone wrong."""
    troubles: list[str] = []
    contexts = []

    def opened(file: Path, width: int = 1400, theme: str = "light", scripts: bool = True) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=scripts
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        address = file.resolve().as_uri()
        page.on("request", lambda r: None if r.url == address else troubles.append(f"request: {r.url}"))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["rich", "hostile", "empty"])
def test_it_can_be_read(
    open_page, pages: dict[str, Path], tmp_path: Path, name: str, width: int, theme: str
) -> None:
    page = open_page(pages[name], width, theme)
    wide = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    assert wide == [width, width], "nothing has to be scrolled sideways"
    texts = page.evaluate(TEXTS)
    assert len(texts) > 20
    assert [each for each in texts if each["contrast"] < LEAST_CONTRAST] == []
    assert [each for each in texts if each["size"] < 12] == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (theme == "dark")
    picture = page.screenshot(path=Path(SHOTS or tmp_path) / f"{name}-{width}-{theme}.png", full_page=True)
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("width", [320, *WIDTHS])
@pytest.mark.parametrize("name", ["rich", "hostile", *CROWDED])
def test_labels_of_charts_keep_apart(open_page, pages: dict[str, Path], name: str, width: int) -> None:
    page = open_page(pages[name], width)
    charts = page.evaluate(LABELS)
    assert sum(map(len, charts)) >= 5, "there are labels to look at"
    for labels in charts:
        for one, other in combinations(labels, 2):
            beside = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert beside or one["bottom"] <= other["top"] or other["bottom"] <= one["top"], (one, other)
        assert [each for each in labels if each["right"] > width or each["left"] < 0] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_words_of_tables_stay_whole(open_page, pages: dict[str, Path], width: int) -> None:
    assert open_page(pages["rich"], width).evaluate(BROKEN_WORDS) == []


def test_it_holds_what_the_facts_say(open_page, pages: dict[str, Path]) -> None:
    page = open_page(pages["rich"])
    text = page.inner_text("body")
    assert page.inner_text("h1") == "Flights out of New York"
    assert "because reading bounds" in page.inner_text(".lead").replace("\xa0", " ")
    titles = ["The feed", "Sizing", "Tensors", "The recipe", "Shards and blocks", "Boundaries", "Provenance"]
    assert page.locator("h2").all_inner_texts() == titles
    for said in (
        "6,000",
        "rank 1",
        "epoch 1",
        "loss",
        "4 not finite",
        "carrier",
        "BatchEvalPython",
        "pickled rows",
    ):
        assert said in text
    assert page.locator(".ranks svg").count() == 2
    assert page.locator(".notes figure").count() == 3
    assert page.locator(".shards svg").count() == 3
    point = page.locator(".plot.tall rect.point title").first
    assert re.fullmatch(r"\S+ m?s: .*B/s, [\d,]+ rows/s", point.text_content())


@pytest.mark.parametrize("name", ["rich", "hostile", "empty"])
def test_it_is_accessible(open_page, pages: dict[str, Path], name: str) -> None:
    page = open_page(pages[name])
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    unnamed = page.evaluate(
        "[...document.querySelectorAll('svg')].filter(s => s.getAttribute('role') !== 'img' || !s.ariaLabel).length"
    )
    assert unnamed == 0
    assert page.evaluate("document.documentElement.lang") == "en"


def test_names_from_data_stay_text(open_page, pages: dict[str, Path]) -> None:
    page = open_page(pages["hostile"])
    assert page.evaluate("window.evil") is None
    assert page.locator("img, iframe, object, link").count() == 0
    assert page.locator("script").count() == 1
    text = page.inner_text("body")
    assert HOSTILE in text
    assert "{{ 7 * 7 }}" in text
    assert "&amp;" in text
    assert "\\ud800" in text


def test_the_theme_can_be_changed_without_storage(open_page, pages: dict[str, Path]) -> None:
    page = open_page(pages["rich"], theme="dark")
    button, colour = page.locator("#theme"), "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    assert button.inner_text() == "Light"
    button.click()
    assert page.evaluate(colour) != before
    assert button.inner_text() == "Dark"
    assert [each for each in page.evaluate(TEXTS) if each["contrast"] < LEAST_CONTRAST] == []
    button.click()
    assert page.evaluate(colour) == before
    assert not re.search("localStorage|sessionStorage|cookie", pages["rich"].read_text("utf-8"))


def test_it_needs_no_script_and_can_be_printed(open_page, pages: dict[str, Path], tmp_path: Path) -> None:
    page = open_page(pages["rich"], theme="dark", scripts=False)
    assert not page.locator("#theme").is_visible()
    assert page.locator(".plot.tall svg").is_visible()
    printed = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert printed.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.locator("header .lead").is_visible()


def test_a_script_that_got_in_would_not_run(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    """The page's own policy: a second line behind the escaping."""
    text = pages["rich"].read_text("utf-8")
    broken = tmp_path / "broken.html"
    inside = '<script>window.evil = 1</script><img src="http://127.0.0.1:9/x">'
    broken.write_text(text.replace("<main>", f"<main>{inside}"), "utf-8")
    with browser.new_context() as context:
        page = context.new_page()
        sent = []
        page.on("response", lambda response: sent.append(response.url))
        page.on("requestfailed", lambda request: sent.append(f"{request.failure} {request.url}"))
        page.goto(broken.as_uri())
        assert page.evaluate("window.evil") is None
        assert page.locator("#theme").inner_text() == "Dark", "its own script runs"
        assert [each for each in sent if "127.0.0.1" in each and not each.startswith("csp")] == []
