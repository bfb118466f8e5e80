"""The command line: each command, its help, and how errors come out."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import penstock as pk
from penstock import cli
from penstock.tools.inspect import balance


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    numbers = np.arange(100)
    table = pa.table({"a": numbers, "b": numbers / 2, "t": [[n] * (n % 3) for n in numbers.tolist()]})
    pq.write_table(table, folder / "part-0.parquet")
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `penstock` as the console script does; exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


def test_convert_inspect_verify_vacuum(run, source: Path, tmp_path: Path) -> None:
    path = tmp_path / "ds"
    code, out, err = run(
        "convert", source, path, "-t", "x=a,b", "-t", "y=a", "-t", "tokens=ragged:t", "--dtype", "x=float32",
        "--dtype", "y=int16", "--workers", 4, "--seed", 3, "--no-shuffle", "--compression", "zstd",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert out == repr(pk.open(path)) + "\n"
    ds = pk.open(path)
    assert [str(spec) for spec in ds.tensors.values()] == ["x: float32[2]", "y: int16", "tokens: int64[*]"]
    assert ds.read()["y"].tolist() == list(range(100))
    assert ds.options["compression"] == "zstd"
    assert len(ds.shards) == 4

    code, out, err = run("inspect", path)
    assert (code, err) == (0, "")
    for text in ("x: float32[2]", "tokens: int64[*]", "100", "in 4 shards", ds.fingerprint, "seed 3"):
        assert text in out
    assert out.count("█" * 32 + "  25") == 4

    code, out, _ = run("inspect", path, "--json")
    found = json.loads(out)
    assert (code, found["rows"], found["version"], found["versions"], found["unevenness"]) == (
        0,
        100,
        1,
        [1],
        0.0,
    )
    assert [shard["rows"] for shard in found["shards"]] == [25] * 4
    assert found["tensors"] == ["x: float32[2]", "y: int16", "tokens: int64[*]"]

    code, out, err = run("verify", path)
    assert (code, err) == (0, "")
    assert "version 1: 4 shards" in out
    assert out.endswith("all as written.\n")

    assert run("vacuum", path)[:2] == (0, "Nothing to delete.\n")
    assert run("convert", source, path, "-t", "x=a,", "--mode", "overwrite")[0] == 0
    assert str(pk.open(path).tensors["x"]) == "x: int64[1]"
    code, out, _ = run("inspect", path)
    assert "2 (also there: 1)" in out
    assert run("inspect", path, "--version", 1)[1].count("x: float32[2]") == 1
    assert run("vacuum", path, "--keep", 2, "--older-than", 0)[:2] == (0, "Nothing to delete.\n")
    assert run("vacuum", path, "--older-than", 0)[:2] == (0, "6 files deleted.\n")
    assert pk.open(path).versions() == [2]


def test_reuse_is_told(run, source: Path, tmp_path: Path) -> None:
    assert run("convert", source, tmp_path / "ds", "-t", "a")[0] == 0
    code, out, err = run("convert", source, tmp_path / "ds", "-t", "a", "--mode", "reuse")
    assert code == 0
    assert "version 1, was reused" in err
    assert "version 1: 100 rows" in out


def test_plain_files_are_inspected(run, source: Path) -> None:
    code, out, _ = run("inspect", source)
    assert code == 0
    assert "none: plain files" in out
    assert "a: int64" in out
    assert json.loads(run("inspect", source, "--json")[1])["version"] is None


def test_an_empty_dataset_is_inspected(run, tmp_path: Path) -> None:
    pk.write(pa.table({"a": pa.array([], pa.int64())}), tmp_path)
    code, out, _ = run("inspect", tmp_path)
    assert code == 0
    assert "in 0 shards" in out
    assert json.loads(run("inspect", tmp_path, "--json")[1])["unevenness"] == 0


def test_odd_names_are_shown_as_they_are(run, tmp_path: Path) -> None:
    path = tmp_path / "[bold]ds[/]"
    pk.write(pa.table({"[red]x": [1]}), path)
    code, out, _ = run("inspect", path)
    assert code == 0
    assert str(path) in out
    assert "[red]x: int64" in out


BAD = [
    (["inspect", "{tmp}/nowhere"], "DatasetMissing: ", "holds neither a Penstock dataset"),
    (["inspect", "{ds}", "--version", "9"], "DatasetMissing: ", "has no version 9; it has 1."),
    (["verify", "{tmp}/nowhere"], "DatasetMissing: ", "Check the path"),
    (["verify", "{source}"], "DatasetError: ", "no checksums"),
    (["vacuum", "{source}"], "DatasetError: ", "nothing to sweep"),
    (["convert", "{source}", "{ds}"], "DatasetExists: ", 'Pass mode="overwrite"'),
    (["convert", "{source}", "{tmp}/n", "-t", "x=nope"], "SelectionError: ", "no column 'nope'"),
    (["convert", "{source}", "{tmp}/n", "-t", "=a"], "SelectionError: ", "--tensor '=a': write name=column"),
    (["convert", "{source}", "{tmp}/n", "-t", "x="], "SelectionError: ", "--tensor 'x=': write name=column"),
    (
        ["convert", "{source}", "{tmp}/n", "-t", "x=,"],
        "SelectionError: ",
        "--tensor 'x=,': write name=column",
    ),
    (["convert", "{source}", "{tmp}/n", "-t", "x=a", "-t", "x=b"], "SelectionError: ", "'x' is given twice"),
    (
        ["convert", "{source}", "{tmp}/n", "--dtype", "x=float32", "--dtype", "y"],
        "SelectionError: ",
        "--dtype 'y'",
    ),
    (["convert", "{source}", "{tmp}/n", "--dtype", "float33"], "SelectionError: ", "dtype 'float33'"),
    (
        ["convert", "{source}", "{tmp}/n", "--nulls", "maybe"],
        "SelectionError: ",
        "--nulls 'maybe': pass error",
    ),
    (
        ["convert", "{source}", "{tmp}/n", "--mode", "maybe"],
        "SelectionError: ",
        "mode='maybe': choose one of",
    ),
    (
        ["convert", "{source}", "{tmp}/n", "-t", "t"],
        "RaggedError: ",
        "'t' holds a list of length",
    ),
]


@pytest.mark.parametrize(("arguments", "kind", "said"), BAD, ids=[" ".join(case[0]) for case in BAD])
def test_errors_are_one_paragraph(
    run, source: Path, tmp_path: Path, arguments: list[str], kind: str, said: str
) -> None:
    pk.convert(source, tmp_path / "ds", "a")
    places = {"tmp": tmp_path, "ds": tmp_path / "ds", "source": source}
    code, out, err = run(*(argument.format(**places) for argument in arguments))
    assert (code, out) == (1, "")
    assert err.startswith(kind)
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "n").exists() or not list((tmp_path / "n").rglob("*.json"))


@pytest.mark.parametrize(
    "arguments",
    [["vacuum", "x", "--keep", "0"], ["vacuum", "x", "--older-than", "-1"], ["nonsense"], ["convert"]],
)
def test_misuse_is_told_by_the_parser(run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "Usage: penstock" in err


def test_one_is_not_several_and_no_line_ends_in_blanks(run, tmp_path: Path) -> None:
    pk.write(pa.table({"a": [1]}), tmp_path, shards=1)
    _, shown, _ = run("inspect", tmp_path)
    assert "in 1 shard\n" in shown
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
    assert ": 1 shard, " in run("verify", tmp_path)[1]
    assert pk.report(tmp_path).facts["headline"].startswith("1 row of ")
    _, sized, _ = run("size", "--rows", "1", "-t", "x:int8")
    assert "reads 1 B" in sized
    assert ", 1 row\n" in sized


def test_damage_is_named(run, tmp_path: Path) -> None:
    ds = pk.write(pa.table({"a": np.arange(1000)}), tmp_path, shards=2)
    shard = tmp_path / ds.shards[1].file
    data = bytearray(shard.read_bytes())
    data[2000] ^= 1
    shard.write_bytes(data)
    code, out, err = run("verify", tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith(f"CorruptError: the dataset is damaged at {ds.shards[1].file}, block 0: ")


def test_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "--debug", "inspect", "/nowhere/at/all"])
    with pytest.raises(pk.PenstockError, match="holds neither"):
        cli.main()


STORY = [
    "demo",
    "size",
    "explain",
    "run",
    "bench",
    "write",
    "convert",
    "inspect",
    "verify",
    "vacuum",
    "train",
    "report",
]


def test_help_tells_the_story_in_order() -> None:
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    listed = runner.invoke(cli.app, ["--help"])
    assert listed.exit_code == 0
    places = [listed.output.index(f"│ {command} ") for command in STORY]
    assert places == sorted(places)
    assert listed.output.count("│ ") - listed.output.count("│ -") >= len(STORY)
    assert runner.invoke(cli.app, ["--version"]).output == f"penstock {pk.__version__}\n"


@pytest.mark.parametrize("command", [*(each for each in STORY if each != "bench"), "bench boundary"])
def test_help_of_every_command_has_examples(command: str) -> None:
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    shown = runner.invoke(cli.app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    examples = [line.strip() for line in shown.output.splitlines() if line.startswith(f" penstock {command}")]
    assert len(examples) == 2, shown.output
    options = set(re.findall(r"(--[a-z-]+|-[a-z])\b", shown.output.partition("─ Options")[2]))
    for example in examples:
        ours = example.partition(" -- ")[0].partition(" && ")[0]
        if command == "run":
            ours = ours.partition("features.py")[0]
        used = set(re.findall(r"(?<= )(--[a-z-]+|-[a-z])(?= |$)", ours))
        assert used <= options, f"{example}: it uses {used - options}"


@pytest.mark.parametrize("command", [*(each for each in STORY if each != "bench"), "bench boundary"])
def test_examples_can_be_copied_from_a_terminal_of_80_columns(command: str) -> None:
    def examples(columns: int) -> list[str]:
        runner = CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"})
        lines = runner.invoke(cli.app, [*command.split(), "--help"]).output.splitlines()
        return [line.strip() for line in lines if line.startswith(f" penstock {command}")]

    assert examples(80) == examples(300)
    assert max(map(len, examples(80))) < 78


def test_help_says_where_debug_stands() -> None:
    shown = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(cli.app, ["--help"])
    assert "before the command: penstock --debug write ..." in shown.output


def test_balance() -> None:
    assert balance([0]) == "0    " + " " * 32 + "  0"
    assert balance([4, 2]).splitlines()[1] == "1    " + "█" * 16 + " " * 16 + "  2"
    many = balance([10] * 99 + [20]).splitlines()
    assert len(many) == 16
    assert many[0].startswith("0-5 ")
    assert many[-1].endswith("  10 to 20")
    thousands = balance([1_000_000] * 5000).splitlines()
    assert len({line.index("█") for line in thousands}) == 1, "the bars stand below each other"
    assert thousands[-1].endswith("1,000,000")
