"""`penstock demo` as a newcomer runs it: the whole story in a process of its own, and what it says in the end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock as pk
from penstock.tools.demo import keras_model, torch_model
from penstock.tools.demo.folder import WRITTEN
from penstock.tools.demo.ranking import auc
from penstock.tools.demo.training import Task

ROWS = 20_000
PENSTOCK = str(Path(sys.executable).parent / "penstock")
PROGRESS = re.compile(r" +\[rank 0\] step \d+ of \d+, loss \d\.\d+")


@dataclass(frozen=True)
class Run:
    folder: Path
    text: str
    facts: dict[str, Any]
    seconds: float


def run(folder: Path, *options: str) -> Run:
    asked = [PENSTOCK, "demo", "--rows", str(ROWS), "--keep", str(folder), *options]
    began = time.perf_counter()
    done = subprocess.run(asked, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    seconds = time.perf_counter() - began
    assert done.returncode == 0, (done.stderr, done.stdout[-3000:])
    progress = done.stderr.splitlines()
    assert progress, "on standard error it says how far it is"
    assert [line for line in progress if not PROGRESS.fullmatch(line)] == [], "and nothing else"
    return Run(folder, done.stdout, json.loads((folder / "demo.json").read_text()), seconds)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("demo") / "kept")


def check(found: Run, ranks: int) -> None:
    """What holds whichever framework trained."""
    facts = found.facts
    train, evaluate = facts["split"]["train"], facts["split"]["evaluate"]
    assert train["last"] < "2013-11-01" <= evaluate["first"]
    assert train["rows"] + evaluate["rows"] == facts["flights"]["arrived"] < facts["flights"]["read"] == ROWS
    assert (
        set(facts["inputs"]) & {"late", "arr_delay", "dep_delay", "dep_time", "arr_time", "air_time"} == set()
    )
    assert facts["boundaries"] == {"udf": 1, "pk.udf": 0, "written": 0}
    assert 0.6 < facts["auc"]["baseline"] < 0.8
    assert 0.6 < facts["auc"]["model"] < 0.8
    assert facts["auc"]["baseline"] == pytest.approx(facts["auc"]["baseline_by_mllib"], abs=0.002)
    training = facts["training"]
    assert training["ranks"] == ranks
    assert 0 < training["resumed_at"] < training["killed_at"] < training["steps"]
    scoring = facts["scoring"]
    assert scoring["rows"] == evaluate["rows"]
    assert scoring["spark_in_serving"] is False
    assert scoring["equal_rows"] == scoring["rows"], "the same batches, so the same bits"
    assert scoring["auc"] == pytest.approx(facts["auc"]["model"], abs=1e-4)
    better = facts["auc"]["model"] > facts["auc"]["baseline"]
    assert ("The network is better by" in found.text) is better
    assert ("The network is not better" in found.text) is not better
    assert pk.open(found.folder / "train").rows == train["rows"]
    assert len(pk.open(found.folder / "evaluate").shards) % 2 == 0
    page = (found.folder / "report.html").read_text()
    assert "<html" in page[:200]
    assert "No row crosses between the JVM and Python" in page, "it is about the rows that were written"
    assert "Rows cross between" not in page, "and not about the function as Spark's udf"
    assert 0 <= training["waited"] < training["seconds"]
    assert set(WRITTEN) <= set(facts), "by which the next run knows its own folder"
    stages = [stage["seconds"] for stage in facts["stages"]]
    assert min(stages) >= 0
    assert facts["seconds"] == pytest.approx(sum(stages)), "nothing is left out"
    assert facts["seconds"] <= found.seconds


def check_ending(found: Run) -> None:
    """Timeline, both AUCs and the paths stand together, after everything else."""
    *_, end = found.text.partition("\nWhere the time went\n")
    assert re.search(rf"^   together +{found.facts['seconds']:.1f} s$", end, re.MULTILINE)
    for stage in found.facts["stages"]:
        assert f"   {stage['name']} " in end
    _, _, last = end.partition("\nWhat came out\n")
    for name in ("baseline", "model"):
        assert f"AUC {found.facts['auc'][name]:.4f} on" in last
    assert f"report               {found.folder / 'report.html'}\n" in last
    assert f"facts                {found.folder / 'demo.json'}\n" in last


def test_the_story_holds(story: Run) -> None:
    check(story, ranks=2)
    assert "\x1b" not in story.text
    assert "As planned, rank 1 failed: it was killed by SIGKILL." in story.text
    assert f"went on at step {story.facts['training']['resumed_at']}, and ended at step" in story.text
    for name in ("baseline", "model"):
        assert f"AUC {story.facts['auc'][name]:.4f}" in story.text
    for stage in story.facts["stages"][:-1]:
        assert story.text.count(stage["name"]) >= 2, "announced, and in the timeline"
    check_ending(story)


def test_killed_and_resumed_it_learned_what_it_would_have_learned(story: Run, tmp_path: Path) -> None:
    """The weights of the run that was killed are those of one that is not, to the last bit."""
    for part in ("train", "evaluate"):
        (tmp_path / part).symlink_to(story.folder / part)
    whole = pk.launch(torch_model.train, Task(str(tmp_path)), workers=2)
    assert whole.resumed_at == 0
    assert auc(whole.labels, whole.scores) == story.facts["auc"]["model"]
    killed = torch_model.DelayModel(pk.open(story.folder / "train").recipe)
    assert pk.restore(story.folder / "run", model=killed).step == whole.steps
    again = torch_model.DelayModel(pk.open(story.folder / "train").recipe)
    assert pk.restore(tmp_path / "run", model=again).step == whole.steps
    for name, values in again.state_dict().items():
        assert torch.equal(values, killed.state_dict()[name]), name


def test_keras_learns_from_the_same_shards(story: Run, tmp_path: Path) -> None:
    for part in ("train", "evaluate"):
        (tmp_path / part).symlink_to(story.folder / part)
    found = pk.launch(keras_model.train, Task(str(tmp_path)), workers=1)
    assert 0.6 < auc(found.labels, found.scores) < 0.8
    assert found.model == str(tmp_path / keras_model.MODEL_FILE)


@pytest.mark.long
def test_the_story_with_tensorflow(tmp_path: Path) -> None:
    check(run(tmp_path / "kept", "--framework", "tensorflow"), ranks=1)


@pytest.mark.long
def test_each_flight_many_times(tmp_path: Path) -> None:
    found = run(tmp_path / "kept", "--scale", "3", "--workers", "3").facts
    assert found["split"]["train"]["rows"] > 3 * 15_000
    assert found["split"]["evaluate"]["rows"] < 5_000
    assert found["training"]["ranks"] == 3
    assert found["scoring"]["equal_rows"] == found["scoring"]["rows"]


@pytest.mark.parametrize(
    ("option", "choices"), [("--framework", "'torch', 'tensorflow'"), ("--device", "'cpu', 'cuda'")]
)
def test_a_choice_that_there_is_not_is_a_command_line_not_understood(option: str, choices: str) -> None:
    done = subprocess.run([PENSTOCK, "demo", option, "banana"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    for said in (option, "banana", *choices.split(", ")):
        assert said in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--device", "cuda"], "DeviceError: device='cuda': torch sees no GPU here."),
        (
            ["--device", "cuda", "--framework", "tensorflow"],
            "DeviceError: device='cuda': tensorflow sees no GPU here.",
        ),
        (["--keep", "."], "it holds files that are not the demo's"),
    ],
)
def test_a_mistake_is_told_before_anything_begins(options: list[str], said: str) -> None:
    if "cuda" in options and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    asked = [PENSTOCK, "demo", *options]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
