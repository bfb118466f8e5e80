"""What the demo prints, on a terminal and elsewhere."""

from __future__ import annotations

import io
import re
import sys

import pytest

from penstock.tools.demo import acts, screen
from penstock.tools.demo.screen import Screen, source


def outer(n: int) -> tuple[int, int]:
    """Not shown,
    on two lines."""
    twice = 2 * n  # shown

    if n > 1:
        return twice, n
    return n, twice


def test_source_is_the_body_or_the_whole() -> None:
    assert source(outer) == "twice = 2 * n  # shown\n\nif n > 1:\n    return twice, n"
    assert source(outer, whole=True).splitlines()[:2] == [
        "def outer(n: int) -> tuple[int, int]:",
        "    twice = 2 * n  # shown",
    ]
    assert source(acts.joined, whole=True).splitlines()[-1] == "    )", (
        "an expression is no mere handing over"
    )


def test_elsewhere_lines_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Screen()
    shown.title("A title", "and what it says.")
    with shown.stage("First", "It begins."):
        shown.code("x = 1\nif x:\n    y = [2]")
        with shown.busy("working"):
            shown.say("A sentence of [brackets] that is no markup.")
    shown.timeline(0.25)
    shown.pairs("In the end", {"one": "1", "three": "3"})
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert (
        "1. First\n   It begins.\n\n      x = 1\n      if x:\n          y = [2]\n\n   A sentence of [brackets]"
        in text
    )
    assert "\nIn the end\n   one    1\n   three  3\n" in text
    assert re.search(r"   starting, stopping  █+ +0\.2 s\n   together ", text), "what no stage counts"
    assert [stage.name for stage in shown.stages] == ["First"]


def test_what_ranks_print_is_shown_and_progress_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Screen()
    with shown.ranks("training"):
        for step in (1, 2, 9):
            print(f"[rank 0] step {step} of 9, loss 0.5")
        print("[rank 1] something else", end="")
        print()
    out, err = capsys.readouterr()
    assert out == "   [rank 1] something else\n"
    assert err == "   [rank 0] step 1 of 9, loss 0.5\n   [rank 0] step 9 of 9, loss 0.5\n", "first and last"


class Terminal(io.StringIO):
    """Takes what is written, as a terminal does."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_progress_is_a_bar_beside_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    shown = Screen()
    with shown.busy("starting"):
        pass
    with shown.ranks("starting the ranks"):
        print("[rank 0] step 3 of 9, loss 0.4321")
    told = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "starting" in told
    assert re.search(r"step 3 of 9 [━╸╺ ]+ loss 0\.4321", told)
    assert terminal.getvalue().rstrip().endswith("\x1b[2K"), "and nothing of it stays"
    assert capsys.readouterr().out == ""


def test_bars_of_nothing() -> None:
    assert screen.bars([("one", 0.0)])[0].split() == ["one", "0.0", "s"]
