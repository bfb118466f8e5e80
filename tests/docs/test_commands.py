"""Every `penstock ...` line of the documentation is one that the command line takes, and every command is explained."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from pages import all_pages

from penstock import cli

PAGES = all_pages()
REFUSED = typer.BadParameter.__mro__[1]
"""Typer's own UsageError, which has no public name."""


def lines() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for block in page.blocks:
            if block.language != "sh":
                continue
            for line in block.code.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["penstock"]:
                    yield f"{page.name}: {line}", words[1:]


def parse(words: list[str]) -> None:
    """Raises where the command line would refuse them; runs nothing."""
    command = typer.main.get_command(cli.app)
    context = command.make_context("penstock", list(words))
    while hasattr(command, "commands"):
        _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(command.name, rest, parent=context)


LINES = dict(lines())


@pytest.mark.parametrize("line", list(LINES))
def test_a_command_is_taken(line: str) -> None:
    parse(LINES[line])


@pytest.mark.parametrize("words", ["wirte a b", "write a", "write a b --wokers 2", "size --workers none"])
def test_a_wrong_command_is_refused(words: str) -> None:
    with pytest.raises(REFUSED):
        parse(words.split())


def leaves(command: Any, path: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from leaves(each, f"{path} {name}")
    else:
        yield path


def test_every_command_is_explained() -> None:
    page = next(page for page in PAGES if page.name == "reference/commands.md")
    shown = "\n".join(block.code for block in page.blocks if block.language == "sh")
    missing = [
        path for path in leaves(typer.main.get_command(cli.app), "penstock") if f"{path} " not in shown
    ]
    assert missing == []
