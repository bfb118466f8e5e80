"""What the demo prints: stages with their code and their seconds, colours on a terminal and plain lines elsewhere.

`Screen.stage` announces a stage and times it; `source` is a function's own text, so that what is shown is what ran.
What happened goes to standard output. What is under way goes to standard error: a spinner and progress bars on a
terminal, a line of progress now and then elsewhere (`ranks`).
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.syntax import Syntax
from rich.text import Text

WIDTH = 110
BAR_WIDTH = 40
INDENT = 3
PROGRESS = re.compile(r"\bstep (\d+) of (\d+)(?:, (.*))?")
PROGRESS_SECONDS = 2.0
"""Between two lines of progress where they cannot take each other's place."""
BESIDE = "starting, stopping"
"""What no stage counts: Python's imports, and the end of Spark."""

Step = Callable[[str, int, int, str], None]
"""Takes a line of progress, and what it says: the step, of how many, and what beside."""


@dataclass(frozen=True)
class Stage:
    """One stage that is over, and the seconds it took."""

    name: str
    seconds: float


class Screen:
    """The output, and what it has told so far."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        # The stream of now: while ranks run, what they print is caught on its way there.
        self._console = Console(file=sys.stdout, highlight=False, width=None if terminal else WIDTH)
        self._beside = Console(stderr=True, highlight=False)
        self.stages: list[Stage] = []
        self._apart = False
        """Whether the last line is an empty one."""

    def title(self, text: str, says: str) -> None:
        """The first lines."""
        self._console.print(Text(text, style="bold"))
        self._console.print(Text(says))

    @contextmanager
    def stage(self, name: str, says: str) -> Iterator[None]:
        """Announce a stage, and tell how long it took when it is over."""
        self._console.print()
        self._console.print(Text(f"{len(self.stages) + 1}. {name}", style="bold cyan"))
        self.say(says)
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        self.stages.append(Stage(name, seconds))
        self.say(f"{seconds:.1f} s", style="dim")

    def say(self, text: str, style: str = "") -> None:
        """A paragraph."""
        self._console.print(Padding(Text(text, style=style), (0, 0, 0, INDENT), expand=False))
        self._apart = False

    def _gap(self) -> None:
        """An empty line, where there is none yet."""
        if not self._apart:
            self._console.print()
        self._apart = True

    def code(self, text: str) -> None:
        """Code between two empty lines, coloured on a terminal."""
        self._gap()
        if self._console.is_terminal:
            shown = Syntax(text, "python", theme="ansi_dark", background_color="default", word_wrap=True)
            self._console.print(Padding(shown, (0, 0, 0, 2 * INDENT)))
        else:
            self._console.print(Text(textwrap.indent(text, " " * 2 * INDENT)), soft_wrap=True)
        self._apart = False
        self._gap()

    def busy(self, text: str) -> Status:
        """A line that moves while something runs; nothing where there is no terminal."""
        return self._beside.status(Text(f" {text}", style="dim"), spinner="dots")

    @contextmanager
    def ranks(self, text: str) -> Iterator[None]:
        """What ranks print: their steps as progress, and all else as it comes."""
        with self._bar(text) if self._beside.is_terminal else self._steps() as lines, redirect_stdout(lines):
            yield

    @contextmanager
    def _bar(self, text: str) -> Iterator[Lines]:
        """Steps as a bar that is gone when they are done, other lines above it."""
        with Progress(
            *(TextColumn(" " * (INDENT - 1)), SpinnerColumn("dots"), TextColumn("{task.description}")),
            *(BarColumn(BAR_WIDTH), TextColumn("{task.fields[note]}"), TimeElapsedColumn()),
            console=self._beside,
            transient=True,
            redirect_stdout=False,
        ) as shown:
            task = shown.add_task(text, total=None, note="")

            def step(line: str, done: int, steps: int, note: str) -> None:
                told = f"step {done} of {steps}"
                shown.update(task, description=told, completed=done, total=steps, note=note)

            yield Lines(step, lambda line: shown.console.print(Text(" " * INDENT + line)))

    @contextmanager
    def _steps(self) -> Iterator[Lines]:
        """Steps as plain lines, not too many of them."""
        shown = float("-inf")

        def step(line: str, done: int, steps: int, note: str) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= PROGRESS_SECONDS or done == steps:
                shown = now
                self._beside.print(Text(" " * INDENT + line), soft_wrap=True)

        yield Lines(step, self.say)

    def timeline(self, rest: float) -> None:
        """The seconds of all stages as bars, and those before, between and after them."""
        self._console.print()
        self._console.print(Text("Where the time went", style="bold cyan"))
        told = [(stage.name, stage.seconds) for stage in self.stages]
        for line in bars([*told, (BESIDE, rest)]):
            self._console.print(Text(" " * INDENT + line), soft_wrap=True)

    def pairs(self, title: str, told: Mapping[str, str]) -> None:
        """Names below a title, and what is to be said of each."""
        self._console.print()
        self._console.print(Text(title, style="bold cyan"))
        wide = max(map(len, told))
        for name, text in told.items():
            line = Text.assemble(" " * INDENT, (f"{name:<{wide}}  ", "bold"), text)
            self._console.print(line, soft_wrap=True)


class Lines(io.TextIOBase):
    """A stream that hands over whole lines: those that tell a step apart from all others."""

    def __init__(self, step: Step, other: Callable[[str], None]) -> None:
        self._step, self._other, self._rest = step, other, ""

    def write(self, text: str) -> int:
        """Take some text; a line is handed over when it is whole."""
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            found = PROGRESS.search(line)
            if found is None:
                self._other(line)
            else:
                self._step(line, int(found[1]), int(found[2]), found[3] or "")
        return len(text)


def bars(values: Sequence[tuple[str, float]]) -> list[str]:
    """Seconds as bars below each other, and their sum.

    >>> for line in bars([("one", 2.0), ("two more", 1.0)]):
    ...     print(line)
    one       ████████████████████████████████████████    2.0 s
    two more  ████████████████████                        1.0 s
    together                                              3.0 s
    """
    most = max(seconds for _, seconds in values)
    rows = [(name, round(BAR_WIDTH * seconds / most) if most else 0, seconds) for name, seconds in values]
    rows.append(("together", 0, sum(seconds for _, seconds in values)))
    wide = max(len(name) for name, _, _ in rows)
    return [
        f"{name:<{wide}}  {'█' * length:<{BAR_WIDTH}}  {seconds:>5.1f} s" for name, length, seconds in rows
    ]


def source(function: Callable[..., Any], whole: bool = False) -> str:
    """A function's code without its docstring; unless `whole` without its head, and without handing over at the end.

    >>> def double(n):
    ...     '''Twice as much.'''
    ...     twice = 2 * n
    ...     return twice
    >>> print(source(double))
    twice = 2 * n
    """
    text = textwrap.dedent(inspect.getsource(function))
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    body = tree.body
    lines = text.splitlines()
    documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    if whole:
        gone = range(body[0].lineno - 1, body[0].end_lineno or 0) if documented else range(0)
        return "\n".join(line for number, line in enumerate(lines) if number not in gone)
    last = body[-1]
    handed = isinstance(last, ast.Return) and isinstance(last.value, ast.Name | ast.Tuple)
    first = body[0].end_lineno or 0 if documented else body[0].lineno - 1
    shown = lines[first : last.lineno - 1 if handed else None]
    return textwrap.dedent("\n".join(shown)).strip("\n")
