"""The layer table in docs/architecture.md, held against every import in src/penstock.

The checks are functions over {module name: source text}, so that the tests at the end can plant violations
and see them found.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FACE = "penstock"
HEADER = "| layer | modules | third-party allowed |"


@dataclass(frozen=True)
class Row:
    """One row of the table: these modules, at this height, with these libraries."""

    layer: int
    modules: tuple[str, ...]
    eager: frozenset[str]
    lazy: frozenset[str]


@dataclass(frozen=True)
class Import:
    """One import statement's target: an absolute module name, or `module.name` of a from-import."""

    target: str
    line: int
    lazy: bool
    typing_only: bool


def parse_table(markdown: str) -> list[Row]:
    lines = iter(markdown.splitlines())
    if HEADER not in (line.strip() for line in lines):
        raise ValueError(f"docs/architecture.md has no table headed {HEADER!r}")
    next(lines)
    rows = []
    for line in lines:
        if not line.strip().startswith("|"):
            break
        layer, modules, libraries = (
            cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")
        )
        allowed = [item.strip() for item in re.split("[,;]", libraries) if item.strip() not in ("", "none")]
        lazy = {item.removesuffix(" lazily") for item in allowed if item.endswith(" lazily")}
        eager = {item for item in allowed if not item.endswith(" lazily")}
        unreadable = [name for name in lazy | eager if not name.isidentifier()]
        if unreadable:
            raise ValueError(f"layer {layer}: cannot read {unreadable} as names of libraries")
        rows.append(
            Row(
                int(layer),
                tuple(f"{FACE}.{name.strip()}" for name in modules.split(",")),
                frozenset(eager),
                frozenset(lazy),
            )
        )
    return rows


def read_sources(package: Path) -> dict[str, str]:
    """Module names with their text; a package's name stands for its __init__.py."""
    sources = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        sources[name] = path.read_text(encoding="utf-8")
    return sources


def imports_of(module: str, source: str, is_package: bool) -> Iterator[Import]:
    """Every import in a module, and every use of the public face (`pk.name`), which is an import in disguise."""
    package = module if is_package else module.rpartition(".")[0]
    tree = ast.parse(source, filename=module)
    faces = _names_of_the_face(tree)

    def visit(node: ast.AST, lazy: bool, typing_only: bool) -> Iterator[Import]:
        for target in _targets(node, package):
            yield Import(target, node.lineno, lazy, typing_only)
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            # What is done with a name, as in pk.col("a").fill(0), is looked at further inside.
            if root in faces and all(part.isidentifier() for part in rest.split(".")):
                yield Import(f"{FACE}.{rest}", node.lineno, lazy, typing_only)
                return
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            for child in node.body:
                yield from visit(child, lazy, True)
            for child in node.orelse:
                yield from visit(child, lazy, typing_only)
            return
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside, typing_only)

    yield from visit(tree, False, False)


def _names_of_the_face(tree: ast.AST) -> set[str]:
    """What `import penstock` and `import penstock as pk` are called here."""
    aliases = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return {alias.asname or FACE for alias in aliases if alias.name == FACE} | {
        FACE for alias in aliases if alias.name.startswith(f"{FACE}.") and alias.asname is None
    }


def _targets(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = package.split(".")
            above = parents[: len(parents) - node.level + 1]
            base = ".".join([*above, *([base] if base else [])])
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function in ("import_module", "__import__") and isinstance(node.args[0].value, str):
            return [node.args[0].value]
    return []


def _is_type_checking(test: ast.expr) -> bool:
    return getattr(test, "id", None) == "TYPE_CHECKING" or getattr(test, "attr", None) == "TYPE_CHECKING"


def resolve(target: str, sources: Mapping[str, str]) -> str | None:
    """The module of ours that a target names, or that the imported name stands in. None for others.

    A public name stands where the face imports it from.
    """
    if target.partition(".")[0] != FACE:
        return None
    parts = target.split(".")
    for length in range(len(parts), 1, -1):
        if ".".join(parts[:length]) in sources:
            return ".".join(parts[:length])
    if len(parts) > 1:
        for found in imports_of(FACE, sources.get(FACE, ""), is_package=True):
            if found.target.endswith(f".{parts[1]}"):
                return resolve(found.target.rpartition(".")[0], sources)
    return FACE


def entry_of(module: str, rows: list[Row]) -> tuple[str, Row] | None:
    """The table's entry for a module: the longest one that is the module or a package around it."""
    found = [
        (name, row) for row in rows for name in row.modules if module == name or module.startswith(f"{name}.")
    ]
    return max(found, key=lambda pair: len(pair[0]), default=None)


def check(rows: list[Row], sources: Mapping[str, str]) -> list[str]:
    """Everything that breaks the table, one line each."""
    problems = [
        f"the table names {name}, which does not exist"
        for row in rows
        for name in row.modules
        if name not in sources
    ]
    names = [name for row in rows for name in row.modules]
    problems += [f"the table names {name} twice" for name in sorted({n for n in names if names.count(n) > 1})]
    packages = {module.rpartition(".")[0] for module in sources}
    runtime_edges: dict[str, set[str]] = {}
    for module, source in sources.items():
        if module == FACE:
            continue
        entry = entry_of(module, rows)
        if entry is None:
            problems.append(f"{module} is not in the table")
            continue
        for found in imports_of(module, source, module in packages):
            place = f"{module}, line {found.line}"
            target = resolve(found.target, sources)
            if target is None:
                problems += _third_party(place, found, entry[1])
            elif target == FACE:
                name = found.target.removeprefix(f"{FACE}.")
                if name != FACE and not name.startswith("__"):
                    problems.append(f"{place}: the public face imports no {name}")
            elif target != module:
                problems += _edge(place, target, entry, entry_of(target, rows))
                if not found.typing_only:
                    runtime_edges.setdefault(module, set()).add(target)
    return problems + _cycle(runtime_edges)


def _third_party(place: str, found: Import, row: Row) -> list[str]:
    library = found.target.partition(".")[0]
    if library in sys.stdlib_module_names or library == "__future__" or found.typing_only:
        return []
    if library in row.eager or (found.lazy and library in row.lazy):
        return []
    if library in row.lazy:
        return [f"{place}: {library} may be imported inside functions only in layer {row.layer}"]
    return [f"{place}: {library} is not allowed in layer {row.layer}"]


def _edge(place: str, target: str, entry: tuple[str, Row], other: tuple[str, Row] | None) -> list[str]:
    if other is None or other[0] == entry[0] or other[1].layer < entry[1].layer:
        return []  # a target outside the table is reported by itself
    way = "sideways" if other[1].layer == entry[1].layer else "upward"
    return [f"{place}: {way} import of {target} (layer {entry[1].layer} to {other[1].layer})"]


def _cycle(edges: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return ["import cycle: " + " -> ".join(reversed(error.args[1]))]
    return []


def test_imports_follow_the_table() -> None:
    rows = parse_table((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    sources = read_sources(ROOT / "src" / "penstock")
    assert len(sources) > 3, "no sources found: the check would prove nothing"
    assert check(rows, sources) == []


TABLE = f"""Some text.

{HEADER}
| --- | --- | --- |
| 0 | errors, `progress` | numpy; rich lazily |
| 1 | wire | numpy |
| 2 | cli | typer |

| other | table |
"""
CLEAN = {
    "penstock": "from penstock.cli import main",
    "penstock.errors": "import numpy as np\nimport os.path",
    "penstock.progress": "def show():\n    from rich.console import Console",
    "penstock.wire": "import penstock\nship(penstock)\nfrom penstock.wire.frames import Frame",
    "penstock.wire.frames": "from .bytes import pack\nfrom .. import errors",
    "penstock.wire.bytes": "import typing\nif typing.TYPE_CHECKING:\n    from penstock.wire import frames",
    "penstock.cli": "import typer\nfrom penstock import __version__\nimport penstock.wire.frames\n"
    "print(penstock.wire.frames.Frame)",
}


def test_the_table_is_read() -> None:
    rows = parse_table(TABLE)
    assert [row.layer for row in rows] == [0, 1, 2]
    assert rows[0] == Row(
        0, ("penstock.errors", "penstock.progress"), frozenset({"numpy"}), frozenset({"rich"})
    )


@pytest.mark.parametrize("markdown", ["no table", TABLE.replace("numpy; rich lazily", "numpy, and others")])
def test_an_unreadable_table_is_refused(markdown: str) -> None:
    with pytest.raises(ValueError, match=r"no table|cannot read"):
        parse_table(markdown)


def test_clean_sources_pass() -> None:
    assert check(parse_table(TABLE), CLEAN) == []


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        (
            "penstock.progress",
            "from penstock.wire import frames",
            "line 1: upward import of penstock.wire.frames",
        ),
        ("penstock.progress", "def f():\n    from .wire import frames", "line 2: upward import"),
        ("penstock.progress", "import penstock.cli", "upward import of penstock.cli"),
        ("penstock.progress", "from . import cli", "upward import of penstock.cli"),
        ("penstock.progress", "import importlib\nimportlib.import_module('penstock.cli')", "upward import"),
        ("penstock.progress", "from penstock import errors", "sideways import of penstock.errors"),
        (
            "penstock.progress",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from penstock.cli import main",
            "line 3: upward import of penstock.cli",
        ),
        ("penstock.progress", "import penstock as pk\npk.main()", "line 2: upward import of penstock.cli"),
        (
            "penstock.progress",
            "import penstock as pk\npk.main(1).then(2)",
            "line 2: upward import of penstock.cli",
        ),
        ("penstock.progress", "import penstock\nx = penstock.wire.frames.Frame", "penstock.wire.frames"),
        ("penstock.progress", "from penstock import main", "upward import of penstock.cli"),
        ("penstock.progress", "from penstock import nothing", "the public face imports no nothing"),
        ("penstock.wire.bytes", "def f():\n    from . import frames", "import cycle: penstock.wire"),
        ("penstock.wire.bytes", "import torch", "torch is not allowed in layer 1"),
        ("penstock.wire.bytes", "def f():\n    import torch", "torch is not allowed in layer 1"),
        ("penstock.progress", "import rich", "rich may be imported inside functions only"),
        (
            "penstock.progress",
            "try:\n    import rich\nexcept ImportError:\n    rich = None",
            "inside functions only",
        ),
        (
            "penstock.progress",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rich\nelse:\n    import torch",
            "line 5: torch is not allowed",
        ),
        ("penstock.stray", "", "penstock.stray is not in the table"),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str, problem: str) -> None:
    problems = check(parse_table(TABLE), {**CLEAN, module: source})
    assert len(problems) == 1
    assert problem in problems[0]


def test_type_only_imports_of_libraries_pass() -> None:
    source = "import typing\nif typing.TYPE_CHECKING:\n    import torch"
    assert check(parse_table(TABLE), {**CLEAN, "penstock.wire.bytes": source}) == []


def test_a_table_entry_without_a_module_is_found() -> None:
    sources = {name: text for name, text in CLEAN.items() if name != "penstock.progress"}
    assert check(parse_table(TABLE), sources) == ["the table names penstock.progress, which does not exist"]
