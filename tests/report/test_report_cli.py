"""`penstock report` as it is called: the console script, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from training_run import ROWS, Trained

import penstock as pk


def penstock(*arguments: object) -> subprocess.CompletedProcess[str]:
    script = Path(sys.executable).with_name("penstock")
    return subprocess.run(
        [script, *map(str, arguments)], capture_output=True, text=True, timeout=200, check=False
    )


def test_a_page_is_written(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = penstock("report", trained.path, "--out", out, "--log", trained.log, "--title", "The <flights>")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{out}: The training waited ")
    page = out.read_text("utf-8")
    assert "<title>The &lt;flights&gt;: Penstock report</title>" in page
    assert "<h2>The feed</h2>" in page


def test_facts_are_printed(trained: Trained) -> None:
    ranks = [trained.log.with_name(f"log-rank{rank}.jsonl") for rank in range(2)]
    done = penstock("report", trained.path, "--json", "--log", ranks[0], "--log", ranks[1])
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["dataset"]["rows"], len(found["feed"]["ranks"])) == (ROWS, 2)


def test_another_version(tmp_path: Path) -> None:
    pk.write(pa.table({"a": [1]}), tmp_path / "ds")
    pk.write(pa.table({"a": [1, 2]}), tmp_path / "ds", mode="overwrite")
    done = penstock("report", tmp_path / "ds", "--version", 1, "--out", tmp_path / "facts.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "facts.json").read_text())
    assert (found["dataset"]["version"], found["dataset"]["versions"], found["dataset"]["rows"]) == (
        1,
        [1, 2],
        1,
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere", "--json"], "neither a Penstock dataset"),
        (["PATH"], "Pass --out report.html, or --json"),
        (["PATH", "--json", "--log", "nowhere"], "nowhere is not there"),
        (["PATH", "--json", "--explain", "nowhere"], "nowhere cannot be read"),
        (["PATH", "--out", "/"], "is a folder"),
    ],
)
def test_mistakes_are_one_paragraph(trained: Trained, arguments: list[str], told: str) -> None:
    done = penstock("report", *(str(trained.path) if each == "PATH" else each for each in arguments))
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr
