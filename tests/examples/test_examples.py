"""Every example runs as its users run it, at a small size, and says what it should."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONGEST = 100
SAID = {
    "01_dataframe_to_gpu": (20_000, ["(20000, 40) torch.float32 on", "the same matrix: True"]),
    "02_tensorflow": (5_000, ["from memory: loss", "9 batches of (512, 2)", "from shards: loss"]),
    "03_features": (20_000, ["No row crosses between the JVM and Python", "ids are equal: True", "one row:"]),
    "04_lifting_a_udf": (20_000, ["native | what it declines: nothing", "in 10000 of 10000 rows", "times as fast"]),
    "05_the_hand_off": (20_000, ["every byte is as written", "version 2 has 20,000", "pyarrow reads 20,000 rows"]),
    "06_ddp_with_resume": (
        6_000,
        ["step 9: rank 1 failed: RuntimeError: a machine went away", "went on at step 8", "an epoch: True"],
    ),
    "07_scoring": (150, ["id 75: null in tensor 'x'", "150 rows in", "as computed here, to"]),
    "08_overlap": (12_000, ["with all 12,000 rows: True", "47 batches; 12000 rows"]),
    "09_starved_gpu": (
        20_000,
        ["as_it_was: Rows cross between the JVM and Python 2 times (pace, features)",
         "as_it_should_be: No row crosses", "the same rows: True; numbers differ by"],
    ),
}  # fmt: skip
"""Rows, and what has to be printed."""
SAME = 1e-6
"""How far apart the numbers of examples/09 may be: two roundings of float32, of numbers up to 3."""


def test_all_are_tested() -> None:
    assert [path.stem for path in EXAMPLES] == list(SAID)


def in_a_process(arguments: list[str], folder: Path, seconds: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "2", "TF_CPP_MIN_LOG_LEVEL": "3"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """All of them in one process: it is starting Spark that takes long."""
    folder = tmp_path_factory.mktemp("examples")
    wanted = [f"{path}={SAID[path.stem][0]}" for path in EXAMPLES]
    results = folder / "results.jsonl"
    done = in_a_process([str(HERE / "run_examples.py"), str(results), *wanted], folder, 280)
    assert done.returncode == 0, done.stderr[-4000:]
    found = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    return {each["example"]: each for each in found}


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs(ran: dict[str, dict], name: str) -> None:
    assert ran[name]["error"] is None, ran[name]["error"]
    printed = ran[name]["printed"]
    assert [text for text in SAID[name][1] if text not in printed] == [], printed
    assert ran[name]["left"] == [], "it left files"


def test_the_starved_gpu_gets_the_same_numbers_and_says_how_much_sooner(ran: dict[str, dict]) -> None:
    """How much depends on rows and machine, so that only the form is checked."""
    printed = ran["09_starved_gpu"]["printed"]
    apart = re.search(r"numbers differ by (\S+) at most$", printed, re.MULTILINE)
    assert apart is not None, printed
    assert 0 <= float(apart[1]) <= SAME
    assert re.search(r"^preparing is \d+(\.\d)? times as fast$", printed, re.MULTILINE), printed
    waits = re.findall(r"^  the trainer waits ([\d.]+) s for its rows$", printed, re.M)
    assert len(waits) == 2, printed
    total = re.search(
        r"^preparing and (\d+) epochs of ([\d.]+) s: ([\d.]+) s before, ([\d.]+) s after$", printed, re.M
    )
    assert total is not None, printed
    epochs, epoch, *both = map(float, total.groups())
    # One epoch's time for both, so that who waits less is never told to be worse off; to the digits printed.
    for waited, together in zip(map(float, waits), both, strict=True):
        assert together == pytest.approx(waited + epochs * epoch, abs=0.1 + epochs * 0.005)
    assert "%" not in printed, "shares of different wholes cannot be compared"


@pytest.mark.long
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_by_itself(path: Path, tmp_path: Path) -> None:
    rows, said = SAID[path.stem]
    done = in_a_process([str(path), "--rows", str(rows)], tmp_path, 200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [text for text in said if text not in done.stdout] == [], done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_shows(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(source)) or ""
    assert len(source.splitlines()) <= LONGEST
    assert "Expect " in said
    assert f"python examples/{path.name} --rows " in said


def test_the_page_shows_every_example() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES if f'"examples/{path.name}"' not in page] == []
