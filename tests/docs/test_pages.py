"""Every code block of the documentation runs, prints what the page says, and names what exists."""

from __future__ import annotations

import ast
import doctest
import functools
import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pages import Page, all_pages, read_page
from pyarrow import fs

import penstock as pk

HERE = Path(__file__).parent
PAGES = {page.name: page for page in all_pages()}
OVER_CONNECT = ["how-to/connect.md"]
"""One process has one session, so these have a process of their own."""
RUNNING = [name for name, page in PAGES.items() if page.runs and name not in OVER_CONNECT]
WIDEST = 92
SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
Found = dict[str, list[dict[str, object]]]


def run(names: list[str], folder: Path, environment: dict[str, str], memory: str) -> Found:
    results = folder / "results.jsonl"
    done = subprocess.run(
        [sys.executable, str(HERE / "run_pages.py"), str(results), memory, *names],
        env={**os.environ, **environment, "OMP_NUM_THREADS": "2", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: Found = {name: [] for name in names}
    for line in results.read_text(encoding="utf-8").splitlines():
        block = json.loads(line)
        found[block["page"]].append(block)
    return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, s3_server: str) -> Found:
    """All pages that run, in one process; "s3://bucket" is a bucket of a server on this machine."""
    host = s3_server.removeprefix("http://")
    fs.S3FileSystem(
        endpoint_override=host, scheme="http", region="eu-west-1", allow_bucket_creation=True,
        access_key="test", secret_key="test",
    ).create_dir("bucket")  # fmt: skip
    environment = {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    return run(RUNNING, tmp_path_factory.mktemp("docs"), environment, memory="2g")


def check(page: Page, blocks: list[dict[str, object]]) -> None:
    expected = [place for place, block in enumerate(page.blocks) if block.runs]
    for found in blocks:
        block = page.blocks[int(str(found["place"]))]
        assert found["error"] is None, f"docs/{page.name}, line {block.line}:\n{found['error']}"
        shown = page.expected(int(str(found["place"])))
        if shown is not None:
            checker, printed = doctest.OutputChecker(), str(found["output"])
            assert checker.check_output(shown, printed, SHOWN), (
                f"docs/{page.name}, line {block.line} shows\n{shown}\nand printed\n{printed}"
            )
    assert [found["place"] for found in blocks] == expected


@pytest.mark.parametrize("name", RUNNING)
def test_a_page_runs(ran: Found, name: str) -> None:
    check(PAGES[name], ran[name])


@pytest.mark.parametrize("name", OVER_CONNECT)
def test_a_page_runs_over_connect(name: str, tmp_path: Path) -> None:
    check(PAGES[name], run([name], tmp_path, {}, memory="none")[name])


@functools.cache
def holders() -> dict[str, object]:
    """What variables of these names are, in all pages."""
    table = pa.table({"a": [1.0, 2.0]})
    recipe = pk.Recipe(x=pk.col("a"))
    fitted = recipe.fit(table)
    ds = pk.write(table, "memory://docs/holders", recipe=fitted, mode="overwrite")
    return {"ds": ds, "loader": ds.numpy(batch_size=1), "recipe": recipe, "fitted": fitted}


def calls(code: str) -> Iterator[tuple[int, str, object, ast.Call | None]]:
    """Every use of Penstock's names: line, name, what it is (None if there is no such thing), and its call."""
    tree = ast.parse(code)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        if node.value.id == "pk":
            found = getattr(pk, node.attr) if node.attr in (*pk.__all__, "__version__") else None
        elif node.value.id in holders():
            found = getattr(holders()[node.value.id], node.attr, None)
        else:
            continue
        yield node.lineno, f"{node.value.id}.{node.attr}", found, called.get(id(node))


def problem(name: str, found: object, call: ast.Call | None) -> str | None:
    """Why a use of a name is wrong; None where it is right."""
    if found is None:
        return f"there is no {name}"
    if call is None or any(isinstance(each, ast.Starred) for each in call.args) or not callable(found):
        return None
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    keywords = {str(keyword.arg): None for keyword in call.keywords}
    try:
        inspect.signature(found).bind(*call.args, **keywords)
    except TypeError as error:
        return f"{name}: {error}"
    return None


@pytest.mark.parametrize("name", list(PAGES))
def test_a_page_names_what_exists(name: str) -> None:
    """Also in blocks that do not run: they have to be Python, and calls have to fit the functions."""
    wrong = []
    for block in PAGES[name].blocks:
        if block.language == "python":
            compile(block.code, f"docs/{name}, line {block.line}", "exec")
            for line, used, found, call in calls(block.code):
                if said := problem(used, found, call):
                    wrong.append(f"line {block.line + line - 1}: {said}")
    assert wrong == []


@pytest.mark.parametrize("name", list(PAGES))
def test_code_fits_the_page(name: str) -> None:
    """Wider lines would have to be scrolled on the site."""
    wide = [
        f"line {block.line + place}: {len(line)}"
        for block in PAGES[name].blocks
        if block.language in ("python", "sh")
        for place, line in enumerate(block.code.splitlines())
        if len(line) > WIDEST
    ]
    assert wide == []


@pytest.mark.parametrize("name", list(PAGES))
def test_a_page_says_why_it_does_not_run_something(name: str) -> None:
    for block in PAGES[name].blocks:
        if block.info.startswith("no-run"):
            assert len(block.info.split()) > 2, f"docs/{name}, line {block.line}: say why"
        assert block.language != "python" or block.runs or block.info.startswith("no-run ")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("pk.wirte(df, path)", "there is no pk.wirte"),
        ("pk.write(df, path, wokers=2)", "unexpected keyword argument 'wokers'"),
        ("pk.write(df)", "missing a required argument: 'path'"),
        ("ds.torch(batch=3)", "unexpected keyword argument 'batch'"),
        ("for b in ds.toch(8): pass", "there is no ds.toch"),
        ("loader.load_state_dict()", "missing a required argument"),
        ("pk.write(df, path, workers=2); ds.torch(8); pk.Recipe(x=1); pk.session; pk.stack(*a)", None),
    ],
)
def test_a_wrong_name_is_found(code: str, said: str | None) -> None:
    wrong = [found for _, *used in calls(code) if (found := problem(*used))]
    assert (said is None) == (wrong == [])
    assert said is None or said in wrong[0]


def test_blocks_are_read() -> None:
    page = read_page(
        "p.md",
        textwrap.dedent(
            """\
            Text.

            ```python
            a = 1
            ```

            ```text
            one
            ```

            ```python no-run two machines
            b
            ```

            Words between.

            ```text
            two
            ```

            ```sh
            penstock inspect x
            ```
            """
        ),
    )
    assert [block.language for block in page.blocks] == ["python", "text", "python", "text", "sh"]
    assert [block.runs for block in page.blocks] == [True, False, False, False, True]
    assert [page.expected(place) for place in range(5)] == ["one\n", None, None, None, None]
    assert page.script == "\n\n\na = 1\n"
    assert page.blocks[0].line == 4
    with pytest.raises(ValueError, match="never closed"):
        read_page("p.md", "```python\na\n")
