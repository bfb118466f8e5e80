"""Every command through the real entry point, in a process of its own: exit codes and streams as a shell sees them.

The demo has tests of its own (tests/demo).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk

PENSTOCK = str(Path(sys.executable).parent / "penstock")


def shell(*arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PENSTOCK, *map(str, arguments)], capture_output=True, text=True, timeout=250, check=False, **more
    )


def good(*arguments: object, **more: object) -> str:
    done = shell(*arguments, **more)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr, "colours are for terminals"
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    numbers = np.arange(1000)
    pq.write_table(pa.table({"a": numbers, "b": numbers / 2}), folder / "part-0.parquet")
    return folder


@pytest.fixture(scope="module")
def ds(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "ds"
    pk.convert(source, path, {"x": ["a", "b"], "y": "a"}, dtype={"x": "float32"}, shards=2)
    return path


def test_convert_and_what_is_there_already(source: Path, tmp_path: Path) -> None:
    found = json.loads(good("convert", source, tmp_path / "ds", "-t", "a", "--json"))
    assert (found["rows"], found["version"]) == (1000, 1)
    again = shell("convert", source, tmp_path / "ds", "-t", "a")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith("DatasetExists: ")
    assert again.stderr.count("\n") == 1, "one paragraph, not broken into lines"


def test_inspect_verify_vacuum(ds: Path) -> None:
    assert "x: float32[2]" in good("inspect", ds)
    assert json.loads(good("inspect", ds, "--json"))["rows"] == 1000
    assert good("verify", ds).endswith("all as written.\n")
    assert json.loads(good("verify", ds, "--json"))["shards"] == 2
    assert good("vacuum", ds) == "Nothing to delete.\n"
    assert json.loads(good("vacuum", ds, "--json")) == {"deleted": []}


def test_write(source: Path, tmp_path: Path) -> None:
    out = good("write", source, tmp_path / "ds", "-t", "x=a,b", "--dtype", "float32", "--shards", "2")
    assert out == repr(pk.open(tmp_path / "ds")) + "\n"
    missing = shell("write", tmp_path / "nowhere", tmp_path / "other")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("AnalysisException: [PATH_NOT_FOUND]")
    assert "penstock --debug" in missing.stderr
    assert "Traceback" not in missing.stderr


SCRIPT = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
doubled = F.udf(lambda x: x * 2, "long")
df = spark.range(5).select(doubled("id").alias("twice"))
if __name__ == "__main__":
    print(df.agg(F.sum("twice")).first()[0], sys.argv[1:])
"""


def test_explain(tmp_path: Path) -> None:
    script = tmp_path / "features.py"
    script.write_text(SCRIPT)
    told = json.loads(good("explain", script, "--name", "df", "--json"))
    assert "ArrowEvalPython" in json.dumps(told)


def test_a_script_of_the_users_own_shows_its_traceback(tmp_path: Path) -> None:
    """`run` and `train` stand for python: what the script raises is told as python tells it."""
    script = tmp_path / "bad.py"
    script.write_text("def broken():\n    raise ValueError('of the script')\n\nbroken()\n")
    for done in (shell("run", script), shell("train", script, "--workers", "1")):
        assert done.returncode == 1
        assert "Traceback (most recent call last)" in done.stderr
        assert "ValueError: of the script" in done.stderr
        assert "in broken" in done.stderr
    missing = shell("train", tmp_path / "none.py")
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1), (
        "and what is no script's, in one paragraph"
    )


def test_run(tmp_path: Path) -> None:
    script, report = tmp_path / "features.py", tmp_path / "lifted.json"
    script.write_text(SCRIPT)
    done = shell("run", "--report", report, script, "--debug", "x")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("20 ['--debug', 'x']\n")
    assert json.loads(report.read_text())
    script.write_text("raise SystemExit(7)")
    assert shell("run", script).returncode == 7


def test_bench_boundary_without_spark(tmp_path: Path) -> None:
    out = good("bench", "boundary", "--no-spark", "--rows", "20000", "--rounds", "1", "--json")
    assert json.loads(out)


def test_size() -> None:
    asked = ["size", "--rows", "2e9", "--tensor", "x:float32:256", "--workers", "16", "--compute"]
    assert "2.048 TB" in good(*asked, "3 min", "--bandwidth", "2 GB/s")
    assert json.loads(good(*asked, "3 min", "--bandwidth", "2 GB/s", "--json"))
    wrong = shell(*asked, "3 fortnights")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("SizeError: ")


def test_size_takes_the_step_from_a_log(ds: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    for _ in pk.open(ds).numpy(100, log=log):
        time.sleep(0.01)
    found = json.loads(good("size", "--dataset", ds, "--log", log, "--json"))
    assert found["batch_size"] == 100
    assert found["step_seconds"] > 0.009
    assert found["compute_seconds"] == pytest.approx(10 * found["step_seconds"])
    for rank in range(2):
        for _ in pk.open(ds).numpy(100, rank=rank, world=2, log=tmp_path / "two.jsonl"):
            time.sleep(0.01)
    asked = ("size", "--dataset", ds, "--log", tmp_path / "two.jsonl", "--json")
    found = json.loads(good(*asked))
    assert (found["workers"], found["batch_size"]) == (2, 100)
    assert found["compute_seconds"] == pytest.approx(5 * found["step_seconds"])
    found = json.loads(good(*asked, "--workers", "4", "--batch-size", "100"))
    assert (found["workers"], found["batch_size"]) == (4, 100)
    other = shell(*asked, "--batch-size", "50")
    assert (other.returncode, other.stdout) == (1, "")
    assert "--batch-size 50: the log's steps are of 100 rows" in other.stderr
    both = shell("size", "--dataset", ds, "--log", log, "--step", "1 s")
    assert (both.returncode, both.stdout) == (1, "")
    assert "Pass one of --log, --step and --compute" in both.stderr


def test_train(tmp_path: Path) -> None:
    script = tmp_path / "training.py"
    script.write_text(
        "import os, sys\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'], sys.argv[1:], flush=True)\n"
        "if '--fail' in sys.argv and os.environ['RANK'] == '1':\n    sys.exit(5)\n"
    )
    out = good("train", script, "--workers", "2", "--", "--epochs", "3")
    for rank in "01":
        assert f"{rank} 2 ['--epochs', '3']" in out
    assert shell("train", script, "--workers", "2", "--", "--fail").returncode == 5


def test_report(ds: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    for batch in pk.open(ds).numpy(100, log=log):
        assert len(batch["y"]) == 100
    good("report", ds, "--log", log, "--out", tmp_path / "report.html")
    assert "<html" in (tmp_path / "report.html").read_text()[:500]
    assert json.loads(good("report", ds, "--json"))["headline"]
    assert shell("report", ds).returncode == 1


def test_misuse_and_debug(ds: Path) -> None:
    assert shell("nonsense").returncode == 2
    assert shell("vacuum", ds, "--keep", "0").returncode == 2
    assert shell().returncode == 2
    assert "Usage: penstock" in shell("-h").stdout
    failed = shell("verify", ds.parent / "nowhere")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Traceback" not in failed.stderr
    assert "Traceback" in shell("--debug", "verify", ds.parent / "nowhere").stderr


@pytest.mark.parametrize(("shell_name", "startup"), [("bash", ".bashrc"), ("zsh", ".zshrc")])
def test_completion_is_installed(tmp_path: Path, shell_name: str, startup: str) -> None:
    """In a home of its own: what is put there, and that a real shell then completes."""
    home = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    out = good("--install-completion", shell_name, env=home)
    assert f"{shell_name} completion installed in {tmp_path}" in out
    assert (tmp_path / startup).read_text().strip(), "the shell's own file names it"
    if shell_name == "bash":
        asked = (
            f'source "{tmp_path / startup}"; COMP_WORDS=(penstock ins); COMP_CWORD=1; COMP_LINE="penstock ins"; '
            'COMP_POINT=12; _penstock_completion penstock; echo "${COMPREPLY[@]}"'
        )
        path = os.pathsep.join((str(Path(PENSTOCK).parent), os.environ["PATH"]))
        done = subprocess.run(
            ["bash", "-c", asked],
            env={**home, "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.split() == ["inspect"], done.stderr


def test_completion() -> None:
    def completed(**words: str) -> str:
        return good(env={**os.environ, **words})

    assert "complete" in completed(_PENSTOCK_COMPLETE="source_bash")
    words = completed(_PENSTOCK_COMPLETE="complete_bash", COMP_WORDS="penstock ve", COMP_CWORD="1")
    assert words.split() == ["verify"]


def test_interrupted(ds: Path, tmp_path: Path) -> None:
    script = tmp_path / "training.py"
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(100)\n")
    process = subprocess.Popen(
        [PENSTOCK, "train", str(script), "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # As a shell starts a program in the foreground, however these tests themselves were started.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert "up" in process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.rstrip().endswith("Interrupted.")


def test_nobody_reads_on(ds: Path) -> None:
    done = subprocess.run(
        f"{PENSTOCK} inspect {ds} --json | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stderr == ""
