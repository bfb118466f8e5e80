"""House rules a machine can check: short files, docstrings, Spark by its public API, no path of one machine."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LONGEST = 450
LONGER = {"src/penstock/errors.py": 600}
"""With a reason: one file draws the whole tree of errors."""

CLASSIC_ONLY = {"_jdf", "_jvm", "_jsc", "_jsparkSession", "_sc", "rdd", "sparkContext"}
"""Names that exist in classic Spark and not over Spark Connect."""

ALLOWED: dict[str, str] = {
    "src/penstock/jobs/plan_classic.py": "metrics of an executed plan; executionInfo is the Connect path beside it",
    "src/penstock/jobs/running.py": "cancelling one job across threads; Connect's tags do it on the other path",
    "src/penstock/tools/explain_sinks.py": "what a script does with its own DataFrames is watched; Connect has none",
}
"""Where such a name may stand all the same: path -> the reason, and the Connect path beside it."""

MACHINE = re.compile(
    r"(?<![\w.:/])/(?:home|root|work|Users)/\w"  # a path of somebody's machine
    r"|pypi\.org|pythonhosted\.org"  # a package index
    r"|https?://[^\s/]+/(?:[^\s/]+/)*simple\b"  # a mirror of one
    r"|--(?:extra-)?index-url|--find-links"
)


def sources(root: Path) -> list[Path]:
    return sorted((root / "src").rglob("*.py"))


def test_there_are_sources(root: Path) -> None:
    assert sources(root), "no sources found: the checks would prove nothing"


def test_no_source_file_is_too_long(root: Path) -> None:
    lengths = {
        str(path.relative_to(root)): len(path.read_text("utf-8").splitlines()) for path in sources(root)
    }
    assert {path: lines for path, lines in lengths.items() if lines > LONGER.get(path, LONGEST)} == {}


def test_every_module_says_what_it_is_for(root: Path) -> None:
    silent = [
        str(path.relative_to(root))
        for path in sources(root)
        if not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert silent == []


def machine_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if MACHINE.search(line)]


def test_no_file_knows_one_machine(root: Path, files: list[PurePosixPath]) -> None:
    found = {}
    for path in files:
        if path == PurePosixPath("tests/shape/test_house_rules.py"):
            continue  # it spells the patterns
        try:
            text = (root / path).read_text("utf-8")
        except UnicodeDecodeError:
            continue  # binary
        if lines := machine_lines(text):
            found[str(path)] = lines
    assert found == {}


@pytest.mark.parametrize(
    ("line", "hit"),
    [
        ('open("/home/ann/data")', True),
        ("cd /home/alice/penstock", True),
        ("see https://pypi.org/project/x", True),
        ("pip install --extra-index-url x", True),
        ("https://mirror.example/a/" + "simple/", True),
        ("https://example.org/home-page/items", False),
        ("src/penstock/home/x", False),
        ("a simple thing", False),
        ("$HOME/data, ~/data, /tmp/data", False),
    ],
)
def test_a_machine_path_is_told_from_others(line: str, hit: bool) -> None:
    assert bool(machine_lines(line)) is hit


def classic_names(source: str) -> Iterator[tuple[int, str]]:
    """Uses of a classic-only name as an attribute, or as the whole of a string (getattr)."""
    for node in ast.walk(ast.parse(source)):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)
        if isinstance(name, str) and name in CLASSIC_ONLY:
            yield node.lineno, name


def test_spark_is_reached_by_the_dataframe_api_alone(root: Path) -> None:
    found, needed = [], set()
    for path in sources(root):
        relative = path.relative_to(root).as_posix()
        uses = [f"{relative}:{line}: {name}" for line, name in classic_names(path.read_text("utf-8"))]
        if relative in ALLOWED:
            needed |= {relative} if uses else set()
        else:
            found += uses
    assert found == [], "these do not exist over Spark Connect"
    assert sorted(set(ALLOWED) - needed) == [], "these no longer need their exception"


def test_a_classic_name_is_found() -> None:
    source = "'''About sparkContext.'''\nx = df.rdd\ny = getattr(df, '_jdf')\nrdd = 1\n"
    assert sorted(classic_names(source)) == [(2, "rdd"), (3, "_jdf")]


def requirements(root: Path) -> list[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]


def test_every_dependency_gives_its_reason(root: Path) -> None:
    lines = (root / "pyproject.toml").read_text("utf-8").splitlines()
    silent = [
        r for r in requirements(root) if not any(re.search(rf'"{re.escape(r)}",\s+# \w', ln) for ln in lines)
    ]
    assert silent == []


def test_constraints_are_exact_and_complete(root: Path) -> None:
    lines = (root / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin)] == []
    assert pins == sorted(pins, key=lambda pin: pin.partition("==")[0])
    pinned = dict(pin.split("==") for pin in pins)
    for text in requirements(root):
        wanted = Requirement(text)
        name = canonicalize_name(wanted.name)
        if name != "penstock":
            assert wanted.specifier.contains(pinned[name]), f"constraints.txt pins {name} outside {text!r}"
